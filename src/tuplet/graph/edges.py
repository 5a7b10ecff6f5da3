"""Stored edges without a second copy of them: block by block, and by lookup. Arrays may be memory maps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.graph._graph import Graph

_BLOCK = 2**22  # stored edges in a block; a longer row is a block of its own


def edge_blocks(graph: Graph, size: int = _BLOCK) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """Slices of the stored edges in order, each of whole rows, with the source node of each edge.

    >>> path = Graph.from_scipy([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> [(path.indices[part].tolist(), source.tolist()) for part, source in edge_blocks(path, size=3)]
    [([1, 0, 2], [0, 1, 1]), ([1], [2])]
    """
    start = 0
    while start < graph.n_nodes:
        stop = int(np.searchsorted(graph.indptr, graph.indptr[start] + size, "right")) - 1
        stop = min(graph.n_nodes, max(start + 1, stop))
        source = np.repeat(np.arange(start, stop), np.diff(graph.indptr[start : stop + 1]))
        yield slice(int(graph.indptr[start]), int(graph.indptr[stop])), source
        start = stop


def has_edges(graph: Graph, pairs: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether u -> v is stored, for each row (u, v) of `pairs` (p, 2): a binary search in row u, all at once.

    >>> path = Graph.from_scipy([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> has_edges(path, np.array([[0, 1], [0, 2], [2, 1]]))
    array([ True, False,  True])
    """
    u, v = pairs[:, 0], pairs[:, 1]
    low, end = np.asarray(graph.indptr[u]), np.asarray(graph.indptr[u + 1])
    high = end.copy()
    if not graph.n_stored:
        return np.zeros(len(u), bool)
    while (open_ := low < high).any():
        middle = (low + high) // 2
        before = open_ & (graph.indices[np.minimum(middle, graph.n_stored - 1)] < v)
        low = np.where(before, middle + 1, low)
        high = np.where(open_ & ~before, middle, high)
    inside = low < end
    found: NDArray[np.bool_] = inside & (graph.indices[np.where(inside, low, 0)] == v)
    return found


def joined(graph: Graph, pairs: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether an edge is stored between u and v in either direction, for each row of `pairs` (p, 2)."""
    found = has_edges(graph, pairs)
    return found | has_edges(graph, pairs[:, ::-1]) if graph.directed else found
