"""An undirected graph with some rows replaced: edges set or removed and nodes added without copying the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet.graph._graph import Graph

AdjacencyRow = tuple[NDArray[np.int64], NDArray[np.float32]]


class Overlay:
    """`graph` and the rows that differ from it. `loop` is the weight of the self loops, which are not stored."""

    def __init__(self, graph: Graph, loop: float) -> None:
        if graph.directed:
            raise InputError("Rows of a directed graph cannot be updated locally. Filter the whole graph again.")
        self.graph, self.loop, self.n = graph, loop, graph.n_nodes
        self.changed: dict[int, AdjacencyRow] = {}
        self.base_degrees = None if graph.weights is None else _positive(graph.degrees + loop)

    def row(self, u: int) -> AdjacencyRow:
        """Neighbours (ascending) and weights of node u."""
        found = self.changed.get(u)
        if found is not None:
            return found
        g = self.graph
        first, last = int(g.indptr[u]), int(g.indptr[u + 1])
        weights = np.ones(last - first, np.float32) if g.weights is None else np.asarray(g.weights[first:last])
        return np.asarray(g.indices[first:last], dtype=np.int64), weights

    def add_nodes(self, count: int) -> NDArray[np.int64]:
        """Append nodes without edges; their numbers."""
        new = np.arange(self.n, self.n + count)
        empty: AdjacencyRow = (np.zeros(0, np.int64), np.zeros(0, np.float32))
        self.changed |= dict.fromkeys(new.tolist(), empty)
        self.n += count
        return new

    def set_edges(self, pairs: NDArray[np.int64], weights: NDArray[Any]) -> tuple[NDArray[np.int64], Any]:
        """Give each pair of nodes a weight, 0 to remove the edge.

        Returns the nodes whose rows changed, ascending, and what was added to A between them as (rows, columns,
        differences), rows and columns being places among those nodes.
        """
        ends = np.concatenate([pairs, pairs[:, ::-1]])
        values = np.concatenate([weights, weights]).astype(np.float32)
        order = np.lexsort((ends[:, 1], ends[:, 0]))
        ends, values = ends[order], values[order]
        nodes, starts = np.unique(ends[:, 0], return_index=True)
        differences = np.empty(len(values))
        for u, first, last in zip(nodes.tolist(), starts, [*starts[1:], len(values)]):
            self.changed[u], differences[first:last] = _merged(self.row(u), ends[first:last, 1], values[first:last])
        kept = differences != 0
        rows = np.repeat(np.arange(len(nodes)), np.diff([*starts, len(values)]))
        return nodes, (rows[kept], np.searchsorted(nodes, ends[kept, 1]), differences[kept])

    def degrees(self, nodes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Row sums with the self loop; 1 where there is nothing at all."""
        out = self.degrees_in_graph(nodes)
        for i, u in enumerate(nodes.tolist()):
            if u in self.changed:
                out[i] = float(self.changed[u][1].sum(dtype=np.float64)) + self.loop
        return _positive(out)

    def degrees_in_graph(self, nodes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Degrees before any change; 1 for nodes that were added."""
        g, out = self.graph, np.ones(len(nodes))
        old = nodes < g.n_nodes
        if self.base_degrees is not None:
            out[old] = self.base_degrees[nodes[old]]
        else:
            out[old] = np.asarray(g.indptr[nodes[old] + 1]) - np.asarray(g.indptr[nodes[old]]) + self.loop
        return _positive(out)

    def gather(self, nodes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """The rows of `nodes` as CSR arrays: row pointers, columns, weights."""
        g, own = self.graph, [i for i, u in enumerate(nodes.tolist()) if u in self.changed]
        base = np.where(nodes < g.n_nodes, nodes, 0)
        starts = np.asarray(g.indptr[base])
        lengths = np.asarray(g.indptr[base + 1]) - starts
        for i in own:
            starts[i], lengths[i] = 0, len(self.changed[int(nodes[i])][0])
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        if g.n_stored:
            place = np.minimum(np.repeat(starts - indptr[:-1], lengths) + np.arange(indptr[-1]), g.n_stored - 1)
            columns = np.asarray(g.indices[place], dtype=np.int64)
            weights = np.ones(len(place), np.float32) if g.weights is None else np.asarray(g.weights[place])
        else:
            columns, weights = np.zeros(indptr[-1], np.int64), np.ones(indptr[-1], np.float32)
        for i in own:
            part = slice(indptr[i], indptr[i + 1])
            columns[part], weights[part] = self.changed[int(nodes[i])]
        return indptr, columns, weights

    def merged(self, **changes: Any) -> Graph:
        """The whole graph with all changes as plain arrays; `changes` are further fields of the Graph."""
        g = self.graph
        lengths = np.zeros(self.n, np.int64)
        lengths[: g.n_nodes] = np.diff(g.indptr)
        for u, (columns, _) in self.changed.items():
            lengths[u] = len(columns)
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        indices = np.empty(indptr[-1], g.indices.dtype)
        weights = np.ones(indptr[-1], np.float32)
        places = np.array(sorted(self.changed), dtype=np.int64)
        start = 0
        for stop in [*places.tolist(), self.n]:  # unchanged runs are copied whole
            old = min(stop, g.n_nodes)
            if start < old:
                part, source = slice(indptr[start], indptr[old]), slice(int(g.indptr[start]), int(g.indptr[old]))
                indices[part] = g.indices[source]
                weights[part] = 1 if g.weights is None else g.weights[source]
            if stop < self.n:
                part = slice(indptr[stop], indptr[stop + 1])
                indices[part], weights[part] = self.changed[stop]
            start = stop + 1
        plain = bool((weights == 1).all())
        return g.with_(indptr=indptr, indices=indices, weights=None if plain else weights, **changes)


def _positive(degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    degrees[degrees <= 0] = 1.0
    return degrees


def _merged(
    row: AdjacencyRow, columns: NDArray[np.int64], values: NDArray[np.float32]
) -> tuple[AdjacencyRow, NDArray[np.float64]]:
    """The row with weights set (0: removed), and the difference that each made."""
    old_columns, old_values = row
    place = np.searchsorted(old_columns, columns)
    inside = place < len(old_columns)
    known = inside.copy()
    known[inside] = old_columns[place[inside]] == columns[inside]
    before = np.zeros(len(columns))
    before[known] = old_values[place[known]]
    keep = np.ones(len(old_columns), dtype=bool)
    keep[place[known]] = False
    added = values > 0
    merged = np.concatenate([old_columns[keep], columns[added]])
    order = np.argsort(merged, kind="stable")
    weights = np.concatenate([old_values[keep], values[added]])[order]
    return (merged[order], weights), values - before
