"""The rows of an operator that each of a team of processes holds, and the rows that it asks others for.

Groups are runs of the given order of nodes, with about as many edges each, or those of a partition: METIS cuts the
halo of real graphs to a quarter or so (`partition.py`).
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
from tuplet.filters.partition import Groups, runs
from tuplet.graph import Graph

if TYPE_CHECKING:
    from tuplet.engines.workers import Team

_CHUNK = 2**22  # edges renumbered at a time


@dataclass(frozen=True, eq=False)
class Part:
    """Rows `low` to `high` of an operator, own rows numbered first, then the `halo`, others' rows in their order.

    `nodes`: those of own rows, None for `low` to `high` themselves. `asked` (size,): halo rows of each owner;
    `given`: own rows that others ask for, `given_to` (size,) of each.
    """

    low: int
    high: int
    nodes: NDArray[np.int64] | None
    op: Operator
    halo: NDArray[np.int64]
    asked: list[int]
    given: NDArray[np.int64]
    given_to: list[int]

    @property
    def received(self) -> int:
        """Rows that come from others before each hop."""
        return len(self.halo)


def read_part_of(spec: GraphFilter, graph: Graph, groups: Groups, team: Team) -> Part:
    """This member's rows of the operator, and who asks whom for which rows."""
    bounds = groups.bounds
    low, high = int(bounds[team.rank]), int(bounds[team.rank + 1])
    nodes = None if groups.order is None else groups.order[low:high]
    indptr, indices, weights = _own_csr(spec, graph, groups, nodes, team)
    degrees = Graph(indptr, indices, weights=weights).degrees + float(spec.self_loops)
    degrees[degrees == 0] = 1.0
    symmetric = not graph.directed or spec.direction == "symmetric"
    halo = _renumber(indices, groups, low, high)
    op = Operator(indptr, indices, weights, degrees, float(spec.self_loops), symmetric)
    asked = np.diff(np.searchsorted(halo, bounds))
    given_to = team.deal(asked)
    given = np.empty(int(given_to.sum()), np.int64)
    team.exchange(halo, asked.tolist(), given, given_to.tolist())
    return Part(low, high, nodes, op, halo, asked.tolist(), given - low, given_to.tolist())


def halo_rows(graph: Graph, groups: int) -> int:
    """The most rows of others that a group needs, of the first, the middle and the last group; edges as stored."""
    bounds, most = runs(graph, groups).bounds, 0
    for i in {0, groups // 2, groups - 1}:
        low, high = int(bounds[i]), int(bounds[i + 1])
        named = _named(graph.indices[int(graph.indptr[low]) : int(graph.indptr[high])], graph.n_nodes)
        named[low:high] = False
        most = max(most, int(np.count_nonzero(named)))
        forget_pages(graph.indices)
    return most


def _own_csr(spec: GraphFilter, graph: Graph, groups: Groups, nodes: NDArray[np.int64] | None, team: Team) -> Any:
    """Own rows of the adjacency that the filter reads: (indptr from 0, indices, weights), copied from the maps."""
    low, high = int(groups.bounds[team.rank]), int(groups.bounds[team.rank + 1])
    stored = (graph.indptr, graph.indices, graph.weights)
    if nodes is None:
        csr = copied_rows(stored, low, high, graph.n_nodes, "the graph")
    else:
        csr = chosen_rows(stored, nodes, graph.n_nodes, "the graph")
    forget_pages(graph.indices)
    if not graph.directed or spec.direction == "out":
        return csr
    from tuplet.kernels.csr import unite

    own = np.arange(low, high) if nodes is None else nodes
    reverse = _reversed(csr, own, groups, team)
    return reverse if spec.direction == "in" else unite(csr, reverse)


def copied_rows(csr: Any, low: int, high: int, columns: int, what: str) -> tuple[Any, Any, Any]:
    """Rows `low` to `high` of (indptr, indices, values or None), copied and checked; their indptr is from 0."""
    indptr, indices, values = csr
    pointers = np.array(indptr[low : high + 1])
    first, last = int(pointers[0]), int(pointers[-1])
    if not 0 <= first <= last <= len(indices) or bool((np.diff(pointers) < 0).any()):
        raise _damaged(what)
    own = _in_range(np.array(indices[first:last]), columns, what)
    return pointers - first, own, None if values is None else np.array(values[first:last])


def chosen_rows(csr: Any, nodes: NDArray[np.int64], columns: int, what: str) -> tuple[Any, Any, Any]:
    """The rows of some nodes of (indptr, indices, values or None), copied and checked."""
    indptr, indices, values = csr
    starts, counts = np.asarray(indptr[nodes], np.int64), np.asarray(indptr[nodes + 1] - indptr[nodes], np.int64)
    inside = int(starts.min(initial=0)) >= 0 and int((starts + counts).max(initial=0)) <= len(indices)
    if not inside or (counts < 0).any():
        raise _damaged(what)
    pointers = np.r_[0, np.cumsum(counts)]
    found = np.empty(int(pointers[-1]), indices.dtype)
    own = None if values is None else np.empty(len(found), values.dtype)
    step = max(1, _CHUNK // max(1, int(counts.mean())))
    for first in range(0, len(nodes), step):
        last = min(len(nodes), first + step)
        to = slice(int(pointers[first]), int(pointers[last]))
        at = np.repeat(starts[first:last] - pointers[first:last], counts[first:last]) + np.arange(to.start, to.stop)
        found[to] = indices[at]
        if own is not None:
            own[to] = values[at]
    return pointers, _in_range(found, columns, what), own


def _in_range(indices: NDArray[Any], columns: int, what: str) -> NDArray[Any]:
    if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < columns:
        raise _damaged(what)
    return indices


def _damaged(what: str) -> InputError:
    return InputError(f"Rows of {what} are damaged. Convert the graph again.")


def _reversed(csr: Any, own: NDArray[np.int64], groups: Groups, team: Team) -> Any:
    """Own rows of the transpose: each edge goes to the owner of its target, sources in order."""
    indptr, indices, weights = csr
    sources = np.repeat(own, np.diff(indptr))
    owner = groups.owners(indices)
    order = np.argsort(owner, kind="stable")
    counts = np.bincount(owner, minlength=team.size)
    come = team.deal(counts)
    columns = [groups.numbers(indices).astype(np.int64), sources] + ([] if weights is None else [weights])
    found = [np.empty(int(come.sum()), column.dtype) for column in columns]
    for column, target in zip(columns, found):
        team.exchange(column[order], counts.tolist(), target, come.tolist())
    place = np.lexsort((found[1], found[0]))
    pointers = np.zeros(len(own) + 1, np.int64)
    np.cumsum(np.bincount(found[0] - int(groups.bounds[team.rank]), minlength=len(own)), out=pointers[1:])
    return pointers, found[1][place].astype(indices.dtype), None if weights is None else found[2][place]


def _named(indices: NDArray[Any], n: int) -> NDArray[np.bool_]:
    """(n,): the rows that are named."""
    named = np.zeros(n, bool)
    for start in range(0, len(indices), _CHUNK):
        named[indices[start : start + _CHUNK]] = True
    return named


def _renumber(indices: NDArray[Any], groups: Groups, low: int, high: int) -> NDArray[np.int64]:
    """Number own rows from 0 and others behind them, in place; the others' numbers (halo,) in order come back."""
    if groups.place is not None:
        for start in range(0, len(indices), _CHUNK):
            indices[start : start + _CHUNK] = groups.place[indices[start : start + _CHUNK]]
    named = _named(indices, int(groups.bounds[-1]))
    named[low:high] = False
    halo = np.flatnonzero(named)
    for start in range(0, len(indices), _CHUNK):
        some = indices[start : start + _CHUNK]
        own = (some >= low) & (some < high)
        some[...] = np.where(own, some - low, high - low + np.searchsorted(halo, some))
    return halo
