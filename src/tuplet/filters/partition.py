"""Which rows each group has: runs of the given order, or the parts that METIS, or a file, gives.

Rows are numbered anew so that those of a group are a run; without a partition the numbers are the nodes' own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError, need_extra
from tuplet.graph import Graph


@dataclass(frozen=True, eq=False)
class Groups:
    """Group i has the numbers `bounds[i]` to `bounds[i + 1]`.

    `order` (n,): the node of each number, `place` (n,): the number of each node; None where they are the same.
    """

    bounds: NDArray[np.int64]
    order: NDArray[np.int64] | None = None
    place: NDArray[np.int64] | None = None

    def owners(self, nodes: NDArray[Any]) -> NDArray[np.int64]:
        """The group of each node."""
        return np.searchsorted(self.bounds, self.numbers(nodes), side="right") - 1

    def numbers(self, nodes: NDArray[Any]) -> NDArray[Any]:
        """The number of each node."""
        return nodes if self.place is None else self.place[nodes]


def runs(graph: Graph, groups: int) -> Groups:
    """Runs of the given order, with about as many edges each."""
    from tuplet.kernels.spmm import balanced_pieces

    bounds = balanced_pieces(graph.indptr, groups).astype(np.int64)
    bounds = np.maximum(bounds, np.arange(groups + 1))  # a hub may be a part's worth: everybody has a row
    bounds = np.minimum(bounds, graph.n_nodes - np.arange(groups, -1, -1))
    if (np.diff(bounds) < 1).any():
        raise InputError("The row pointers of the graph are damaged. Convert the graph again.")
    return Groups(bounds)


def partitioned(member: NDArray[Any], n: int, groups: int) -> Groups:
    """The groups that `member` (n,), a group's number for each node, names.

    >>> partitioned(np.array([1, 0, 1]), 3, 2).order.tolist()
    [1, 0, 2]
    """
    if member.shape != (n,) or member.dtype.kind not in "iu":
        raise InputError(
            f"The partition holds {member.dtype} of shape {member.shape}. Give {n} whole numbers, the group of each "
            "node."
        )
    if int(member.min()) < 0 or int(member.max()) >= groups:
        raise InputError(
            f"The partition names groups from {member.min()} to {member.max()}. With {groups} groups write 0 to "
            f"{groups - 1}."
        )
    counts = np.bincount(member, minlength=groups)
    if not counts.all():
        raise InputError(f"Group {int(counts.argmin())} of the partition has no node. Give fewer groups.")
    order = np.argsort(member, kind="stable")
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    return Groups(np.r_[0, np.cumsum(counts)], order, place)


def metis(graph: Graph, groups: int) -> NDArray[np.int32]:
    """(n,): the group of each node by METIS, with about as many edges each; it holds the whole graph in memory."""
    pymetis = need_extra("pymetis", "cluster", "A partition by METIS")
    kind = pymetis.zero_copy_dtype()
    indptr, indices = graph.indptr, graph.indices
    if graph.directed:
        both = sp.csr_array((np.ones(len(indices), bool), indices, indptr), shape=(graph.n_nodes, graph.n_nodes))
        both = (both + both.T).tocsr()
        indptr, indices = both.indptr, both.indices
    adjacency = pymetis.CSRAdjacency(indptr.astype(kind), indices.astype(kind))
    _, member = pymetis.part_graph(groups, adjacency, vweights=(np.diff(indptr) + 1).astype(kind))
    found = np.asarray(member, np.int32)
    return found if np.bincount(found, minlength=groups).all() else _no_empty(found, groups)


def _no_empty(member: NDArray[np.int32], groups: int) -> NDArray[np.int32]:
    """METIS may leave groups of tiny graphs empty: each gets a node of the largest."""
    for i in np.flatnonzero(np.bincount(member, minlength=groups) == 0):
        member[np.flatnonzero(member == np.bincount(member).argmax())[0]] = i
    return member
