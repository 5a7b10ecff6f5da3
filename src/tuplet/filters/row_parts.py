"""The rows of an operator that each of a team of processes holds, and the rows that it asks others for.

Runs of rows follow the given order of nodes, with about as many edges each: METIS would need the whole graph in the
memory of one machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet._memory import forget_pages
from tuplet.filters._graph_filter import GraphFilter
from tuplet.filters._operator import Operator
from tuplet.graph import Graph

if TYPE_CHECKING:
    from tuplet.engines.workers import Team

_CHUNK = 2**22  # edges renumbered at a time


@dataclass(frozen=True, eq=False)
class Part:
    """Rows `low` to `high` of an operator, own rows numbered first, then the `halo`, others' rows in their order.

    `asked` (size,): halo rows of each owner; `given`: own rows that others ask for, `given_to` (size,) of each.
    """

    low: int
    high: int
    op: Operator
    halo: NDArray[np.int64]
    asked: list[int]
    given: NDArray[np.int64]
    given_to: list[int]

    @property
    def received(self) -> int:
        """Rows that come from others before each hop."""
        return len(self.halo)


def read_part_of(spec: GraphFilter, graph: Graph, team: Team) -> Part:
    """This member's rows of the operator, and who asks whom for which rows."""
    bounds = row_bounds(graph, team.size)
    low, high = int(bounds[team.rank]), int(bounds[team.rank + 1])
    indptr, indices, weights = _own_csr(spec, graph, bounds, team)
    degrees = Graph(indptr, indices, weights=weights).degrees + float(spec.self_loops)
    degrees[degrees == 0] = 1.0
    symmetric = not graph.directed or spec.direction == "symmetric"
    halo = _renumber(indices, low, high, graph.n_nodes)
    op = Operator(indptr, indices, weights, degrees, float(spec.self_loops), symmetric)
    asked = np.diff(np.searchsorted(halo, bounds))
    given_to = team.deal(asked)
    given = np.empty(int(given_to.sum()), np.int64)
    team.exchange(halo, asked.tolist(), given, given_to.tolist())
    return Part(low, high, op, halo, asked.tolist(), given - low, given_to.tolist())


def row_bounds(graph: Graph, groups: int) -> NDArray[np.int64]:
    """(groups + 1,): where the rows of each group begin, with about as many edges each."""
    from tuplet.kernels.spmm import balanced_pieces

    bounds = balanced_pieces(graph.indptr, groups).astype(np.int64)
    bounds = np.maximum(bounds, np.arange(groups + 1))  # a hub may be a part's worth: everybody has a row
    return np.minimum(bounds, graph.n_nodes - np.arange(groups, -1, -1))


def halo_rows(graph: Graph, groups: int) -> int:
    """The most rows of others that a group needs, of the first, the middle and the last group; edges as stored."""
    bounds, most = row_bounds(graph, groups), 0
    for i in {0, groups // 2, groups - 1}:
        low, high = int(bounds[i]), int(bounds[i + 1])
        named = _others(graph.indices[int(graph.indptr[low]) : int(graph.indptr[high])], low, high, graph.n_nodes)
        most = max(most, int(np.count_nonzero(named)))
        forget_pages(graph.indices)
    return most


def _own_csr(spec: GraphFilter, graph: Graph, bounds: NDArray[np.int64], team: Team) -> Any:
    """Own rows of the adjacency that the filter reads: (indptr from 0, indices, weights), copied from the maps."""
    low, high = int(bounds[team.rank]), int(bounds[team.rank + 1])
    pointers = np.array(graph.indptr[low : high + 1])
    edges = slice(int(pointers[0]), int(pointers[-1]))
    indices, weights = np.array(graph.indices[edges]), graph.weights
    if (np.diff(pointers) < 0).any() or (
        len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < graph.n_nodes
    ):
        raise InputError(f"Rows {low} to {high} of the graph are damaged. Convert the graph again.")
    csr = (pointers - pointers[0], indices, None if weights is None else np.array(weights[edges]))
    forget_pages(graph.indices)
    if not graph.directed or spec.direction == "out":
        return csr
    from tuplet.kernels.csr import unite

    reverse = _reversed(csr, low, bounds, team)
    return reverse if spec.direction == "in" else unite(csr, reverse)


def _reversed(csr: Any, low: int, bounds: NDArray[np.int64], team: Team) -> Any:
    """Own rows of the transpose: each edge goes to the owner of its target, sources in order."""
    indptr, indices, weights = csr
    sources = np.repeat(np.arange(low, low + len(indptr) - 1, dtype=np.int64), np.diff(indptr))
    owner = np.searchsorted(bounds, indices, side="right") - 1
    order = np.argsort(owner, kind="stable")
    counts = np.bincount(owner, minlength=team.size)
    come = team.deal(counts)
    columns = [indices.astype(np.int64), sources] + ([] if weights is None else [weights])
    found = [np.empty(int(come.sum()), column.dtype) for column in columns]
    for column, target in zip(columns, found):
        team.exchange(column[order], counts.tolist(), target, come.tolist())
    place = np.argsort(found[0], kind="stable")  # they came by rank: sources rise within each target
    own = int(bounds[team.rank + 1] - bounds[team.rank])
    pointers = np.zeros(own + 1, np.int64)
    np.cumsum(np.bincount(found[0] - low, minlength=own), out=pointers[1:])
    return pointers, found[1][place].astype(indices.dtype), None if weights is None else found[2][place]


def _others(indices: NDArray[Any], low: int, high: int, n: int) -> NDArray[np.bool_]:
    """(n,): the rows beyond `low` to `high` that are named."""
    strange = np.zeros(n, bool)
    for start in range(0, len(indices), _CHUNK):
        strange[indices[start : start + _CHUNK]] = True
    strange[low:high] = False
    return strange


def _renumber(indices: NDArray[Any], low: int, high: int, n: int) -> NDArray[np.int64]:
    """Number own rows from 0 and others behind them, in place; the others' numbers (halo,) in order come back."""
    halo = np.flatnonzero(_others(indices, low, high, n))
    for start in range(0, len(indices), _CHUNK):
        some = indices[start : start + _CHUNK]
        own = (some >= low) & (some < high)
        some[...] = np.where(own, some - low, high - low + np.searchsorted(halo, some))
    return halo
