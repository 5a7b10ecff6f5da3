"""Likely missing edges: the pairs of nodes with the most similar vectors that have no edge.

Up to `EXACT_UP_TO` nodes every pair is compared, block by block. Beyond, the nodes are put into some sqrt(n) cells by
K-Means, and pairs are compared within a cell and between a cell and those nearest to it: similar rows are nearly
always there, and the work grows with n^1.5. Nothing of size n x n is held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError, check_int
from tuplet.graph import Graph
from tuplet.rows.kmeans import kmeans
from tuplet.rows.unit import checked_vectors, scale_rows

EXACT_UP_TO = 50_000  # nodes
_SIDE = 2048  # rows of a block of comparisons
_PROBES = 6  # cells that a cell is compared with, itself among them
Progress = Callable[[str, float], None]


@dataclass(frozen=True, eq=False)
class MissingLinks:
    """`pairs` (p, 2), smaller node first, without an edge in either direction; `score` (p,) cosines, largest first.

    `exact` says whether all pairs were compared.
    """

    pairs: NDArray[np.int64]
    score: NDArray[np.float32]
    exact: bool


def missing_links(
    z: Any, graph: Graph, top: int = 100, *, seed: int = 0, progress: Progress | None = None
) -> MissingLinks:
    """The `top` pairs of nodes without an edge whose rows of `z` (n, d) have the largest cosines.

    >>> g = Graph.from_scipy([[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    >>> missing_links(np.array([[1.0, 0.0], [1.0, 0.1], [1.0, 0.3]]), g, top=1).pairs
    array([[1, 2]])
    """
    rows = scale_rows(checked_vectors(z, graph.n_nodes))
    if hasattr(rows, "toarray"):
        raise InputError("The vectors are sparse. Give dense ones, as an estimator makes them.")
    top = check_int("top", top)
    exact = graph.n_nodes <= EXACT_UP_TO
    blocks = _all_blocks(graph.n_nodes) if exact else _cell_blocks(rows, seed)
    best = _Best(top)
    for fraction, left, right in blocks:
        scores = rows[left] @ rows[right].T
        scores[_joined(graph, left, right)] = -np.inf
        scores[left[:, None] >= right[None, :]] = -np.inf  # each pair once, no node with itself
        best.add(left, right, scores)
        if progress is not None:
            progress("links", fraction)
    return MissingLinks(*best.sorted(), exact)


class _Best:
    """The best pairs so far; `floor` is the score that a new one must beat."""

    def __init__(self, top: int) -> None:
        self.top, self.floor = top, -np.inf
        self.pairs, self.score = np.empty((0, 2), np.int64), np.empty(0, np.float32)

    def add(self, left: NDArray[np.int64], right: NDArray[np.int64], scores: NDArray[np.float32]) -> None:
        """Take the pairs of a block that are better than the floor."""
        i, j = np.nonzero(scores > self.floor)
        found = scores[i, j]
        if len(found) > self.top:
            keep = np.argpartition(-found, self.top - 1)
            keep = np.flatnonzero(found >= found[keep[self.top - 1]])  # with ties, so that the order decides later
            i, j, found = i[keep], j[keep], found[keep]
        self.pairs = np.concatenate([self.pairs, np.column_stack([left[i], right[j]])])
        self.score = np.concatenate([self.score, found])
        if len(self.score) > 4 * self.top:
            self._cut()

    def _cut(self) -> None:
        order = np.lexsort((self.pairs[:, 1], self.pairs[:, 0], -self.score))[: self.top]
        self.pairs, self.score = self.pairs[order], self.score[order]
        if len(order) == self.top:
            self.floor = float(np.nextafter(self.score[-1], np.float32(-np.inf)))  # a tie may still come first

    def sorted(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The pairs and their scores, best first; equal scores in node order."""
        self._cut()
        return self.pairs, self.score


def _all_blocks(n: int) -> Iterator[tuple[float, NDArray[np.int64], NDArray[np.int64]]]:
    """Done share and the two sets of nodes of each block on and above the diagonal."""
    starts = range(0, n, _SIDE)
    total, done = len(starts) * (len(starts) + 1) // 2, 0
    for a in starts:
        for b in range(a, n, _SIDE):
            done += 1
            yield done / total, np.arange(a, min(n, a + _SIDE)), np.arange(b, min(n, b + _SIDE))


def _cell_blocks(rows: Any, seed: int) -> Iterator[tuple[float, NDArray[np.int64], NDArray[np.int64]]]:
    found = kmeans(rows, int(np.sqrt(len(rows))), seed=seed, n_init=1, unit_rows=False)
    order = np.argsort(found.labels, kind="stable")
    bounds = np.searchsorted(found.labels[order], np.arange(len(found.centres) + 1))
    squares = np.sum(found.centres**2, axis=1)
    near = np.argsort(squares - 2 * found.centres @ found.centres.T, axis=1)[:, :_PROBES]
    couples = sorted({(min(c, d), max(c, d)) for c in range(len(near)) for d in [c, *near[c].tolist()]})
    for i, (c, d) in enumerate(couples):
        one, two = (np.sort(order[bounds[k] : bounds[k + 1]]) for k in (c, d))
        for a in range(0, len(one), _SIDE):
            for b in range(0, len(two), _SIDE):
                left, right = one[a : a + _SIDE], two[b : b + _SIDE]
                yield (i + 1) / len(couples), left, right
                if c != d:
                    yield (i + 1) / len(couples), right, left  # pairs whose smaller node lies in the other cell


def _joined(graph: Graph, left: NDArray[np.int64], right: NDArray[np.int64]) -> tuple[Any, Any]:
    """The places (i, j) of the block where left[i] and right[j] have an edge, in either direction."""
    i, j = _stored(graph, left, right)
    if not graph.directed:
        return i, j
    back_j, back_i = _stored(graph, right, left)
    return np.concatenate([i, back_i]), np.concatenate([j, back_j])


def _stored(graph: Graph, left: NDArray[np.int64], right: NDArray[np.int64]) -> tuple[Any, Any]:
    first, last = graph.indptr[left], graph.indptr[left + 1]
    counts = last - first
    i = np.repeat(np.arange(len(left)), counts)
    places = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
    target = np.asarray(graph.indices[places], dtype=np.int64)
    j = np.searchsorted(right, target).clip(max=len(right) - 1)
    hit = right[j] == target
    return i[hit], j[hit]
