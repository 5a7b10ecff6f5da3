"""Filtered rows that are never formed, and the columns that describe them best.

H = the unit rows of F X, with F a graph filter and X the unit rows of the features after a weight for each column.
H is dense, n x f; but its SVD needs only products with a few columns, and F (X q) costs as much as filtering q's
columns. So n x (a few hundred) numbers are held, whatever f is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._seed import stream
from tuplet.filters import GraphFilter
from tuplet.graph import Graph
from tuplet.rows.kmeans import scale_rows
from tuplet.rows.svd import BLOCK_VALUES, Floats, operator_svd, times, transposed_times

_SIGNS = 256  # random columns that measure the lengths of H's rows, to 1 / sqrt(512) = 4%
_BALANCE = 0.4  # rows are divided by (their similarity to all rows) to this power; 0.5 is the normalised cut
_LEAST_MASS = 0.01  # of the median: smaller similarities count as this


def rarity(x: Any) -> Floats:
    """The weight log(1 + n / df) of each column of `x` (n, f), df its non-zero entries; 0 for an empty column.

    Rare words say more than common ones. Where no entry is 0 (dense features) all weights are equal.

    >>> rarity(np.array([[1.0, 1.0], [1.0, 0.0]]))
    array([0.69, 1.10], dtype=float32)
    """
    n = x.shape[0]
    if sp.issparse(x):
        count = np.bincount(x.indices[x.data != 0], minlength=x.shape[1])
    else:
        count = sum((np.count_nonzero(block, axis=0) for block in _row_blocks(x)), np.zeros(x.shape[1], np.int64))
    return np.where(count > 0, np.log1p(n / np.maximum(1, count)), 0).astype(np.float32)


@dataclass(frozen=True, eq=False)
class FilteredRows:
    """H (n, f) as two products. `before` (n,) scales the rows of X, `after` (n,) those of F X."""

    graph: Graph
    graph_filter: GraphFilter
    weights: Floats
    before: Floats
    after: Floats
    tick: Callable[[], None] = field(default=lambda: None)

    @property
    def shape(self) -> tuple[int, int]:
        return self.graph.n_nodes, len(self.weights)

    def forward(self, q: Floats) -> Floats:
        """H q for q (f, c): float32 (n, c)."""
        start = times(self.graph.x, self.weights[:, None] * q) * self.before[:, None]
        self.tick()
        return self.graph_filter.transform(self.graph, x=start) * self.after[:, None]

    def backward(self, y: Floats) -> Floats:
        """H' y for y (n, c): float32 (f, c). With r = 1/2 and a symmetric adjacency F is its own transpose."""
        self.tick()
        filtered = self.graph_filter.transform(self.graph, x=y * self.after[:, None])
        return transposed_times(self.graph.x, filtered * self.before[:, None]) * self.weights[:, None]


def filtered_rows(
    graph: Graph, graph_filter: GraphFilter, weights: Floats, *, seed: int = 0, tick: Callable[[], None] | None = None
) -> FilteredRows:
    """H of `graph`. The lengths of the rows of F X are estimated from random projections."""
    ones = np.ones(graph.n_nodes, np.float32)
    rows = FilteredRows(
        graph, graph_filter, weights, _inverse(_lengths(graph.x, weights)), ones, tick or (lambda: None)
    )
    after = _inverse(np.linalg.norm(rows.forward(_signs(len(weights), seed)), axis=1))
    return FilteredRows(graph, graph_filter, weights, rows.before, after, rows.tick)


def _signs(f: int, seed: int) -> Floats:
    """Random columns (f, _SIGNS) of length 1: |H signs| is about |H|, row by row."""
    signs: Floats = stream(seed, "row lengths").choice(np.array([-1, 1], np.float32) / _SIGNS**0.5, (f, _SIGNS))
    return signs


@dataclass(frozen=True, eq=False)
class Spectrum:
    """What turns filtered rows into columns, for the graph of `fit_spectrum` or for a new one.

    `right` (f, d): singular vectors; `centre` (d,): the mean row; `mass` (d,): the sum of the rows, and `least` and
    `typical` similarities to it; `turn` (d, d): from balanced rows to their principal directions, the first one
    lowered to the length of the second.
    """

    right: Floats
    centre: Floats
    mass: Floats
    least: float
    typical: float
    turn: Floats

    def project(self, rows: FilteredRows) -> Floats:
        """H right: float32 (n, d)."""
        return rows.forward(self.right)

    def start(self, x: Any, *, weights: Floats, seed: int) -> Floats:
        """What a filter makes H right and the lengths of H of, for feature rows `x` (k, f): (k, d + _SIGNS)."""
        columns = np.hstack([self.right, _signs(len(weights), seed)])
        return times(x, weights[:, None] * columns) * _inverse(_lengths(x, weights))[:, None]

    def finish(self, filtered: Floats) -> Floats:
        """H right (k, d) from the filtered rows of `start`: what `project` gives, for some nodes only."""
        d = self.right.shape[1]
        projected: Floats = filtered[:, :d] * _inverse(np.linalg.norm(filtered[:, d:], axis=1))[:, None]
        return projected

    def detail(self, projected: Floats) -> Floats:
        """Unit rows (n, d) around their mean: what tells neighbours from strangers."""
        centred: Floats = scale_rows(projected - self.centre)
        return centred

    def groups(self, projected: Floats, columns: int) -> Floats:
        """Unit rows (n, columns) in which dense groups stand apart, whatever their size."""
        columns = min(columns, self.turn.shape[1])
        balanced = projected * _balance(projected, self.mass, self.least, self.typical)[:, None]
        found: Floats = scale_rows(balanced @ self.turn[:, :columns])
        return found


def fit_spectrum(rows: FilteredRows, d: int, *, balance: bool, seed: int = 0) -> tuple[Spectrum, Floats]:
    """The spectrum of H from its d largest singular values, and H's rows projected on it (n, d).

    With `balance` (features that are never negative) each row is divided by a power of its similarity to all rows,
    half-way to the normalised cut: hubs and common words no longer make the first directions.
    """
    right = operator_svd(rows.forward, rows.backward, rows.shape, min(d, *rows.shape), seed=seed).right
    projected = rows.forward(right)
    mass = projected.sum(axis=0) if balance else np.zeros(right.shape[1], np.float32)
    similar = projected @ mass
    typical = float(similar.mean())
    balance = balance and typical > 0
    least = _LEAST_MASS * float(np.median(similar)) if balance else 0.0
    least, typical = (max(least, 1e-6 * typical), typical) if balance else (0.0, 0.0)
    balanced = projected * _balance(projected, mass, least, typical)[:, None]
    turn = _principal(balanced.T @ balanced)
    return Spectrum(right, projected.mean(axis=0), mass, least, typical, turn), projected


def _principal(gram: Floats) -> Floats:
    """Principal directions, largest first, as columns (d, d); the first one made as short as the second."""
    squares, turn = np.linalg.eigh(gram.astype(np.float64))
    squares, turn = squares[::-1].clip(min=0), turn[:, ::-1]
    turn = turn * np.sign(turn[np.abs(turn).argmax(axis=0), np.arange(len(gram))])
    if len(squares) > 1 and squares[1] > 1e-12 * squares[0]:
        turn[:, 0] *= np.sqrt(squares[1] / squares[0])
    return np.ascontiguousarray(turn, np.float32)


def _balance(projected: Floats, mass: Floats, least: float, typical: float) -> Floats:
    if typical <= 0:
        return np.ones(len(projected), np.float32)
    similar = np.maximum(projected @ mass, least) / typical
    factors: Floats = (similar**-_BALANCE).astype(np.float32)
    return factors


def _lengths(x: Any, weights: Floats) -> NDArray[Any]:
    """Lengths of the rows of `x` after its columns were weighted."""
    if sp.issparse(x):
        squares = sp.csr_array((np.square(x.data, dtype=np.float64), x.indices, x.indptr), shape=x.shape)
        lengths: NDArray[Any] = np.sqrt(squares @ np.square(weights, dtype=np.float64))
        return lengths
    return np.concatenate([np.linalg.norm(block * weights, axis=1) for block in _row_blocks(x)])


def _inverse(lengths: NDArray[Any]) -> Floats:
    inverse: Floats = np.divide(1, lengths, out=np.zeros(len(lengths)), where=lengths > 0).astype(np.float32)
    return inverse


def _row_blocks(x: Any) -> list[Any]:
    step = max(1, BLOCK_VALUES // x.shape[1])
    return [x[start : start + step] for start in range(0, x.shape[0], step)]
