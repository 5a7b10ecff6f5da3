"""Filtered rows that are never formed, and the columns that describe them best.

H = the unit rows of F X, with F a graph filter and X the unit rows of the features after a weight for each column.
H is dense, n x f; but its SVD needs only products with a few columns, and F (X q) costs as much as filtering q's
columns. So n x (a few hundred) numbers are held, whatever f is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._memory import forget_pages
from tuplet._seed import stream
from tuplet.filters import GraphFilter
from tuplet.filters.in_place import filter_in_place
from tuplet.graph import Graph
from tuplet.models._cost import SIGNS
from tuplet.rows.blocks import float_rows, gathered, over_blocks, summed
from tuplet.rows.svd import Floats, operator_svd, times, transposed_times
from tuplet.rows.unit import scale_rows

_BALANCE = 0.4  # rows are divided by (their similarity to all rows) to this power; 0.5 is the normalised cut
_LEAST_MASS = 0.01  # of the median: smaller similarities count as this
_LEAST_LEVEL = 1e-3  # of the widest column: the others are not lowered further


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
        parts = over_blocks(lambda block: np.count_nonzero(_comparable(x[block]), axis=0), *x.shape, maps=[x])
        count = sum((part for _, part in parts), np.zeros(x.shape[1], np.int64))
    return np.where(count > 0, np.log1p(n / np.maximum(1, count)), 0).astype(np.float32)


def has_negative(x: Any) -> bool:
    """Whether an entry of `x`, dense or CSR, is below 0."""
    values = x.data[:, None] if sp.issparse(x) else x
    below = np.uint16(0x8000) if values.dtype == np.float16 else 0
    over = np.greater if values.dtype == np.float16 else np.less  # the bits of -0 and less
    found = over_blocks(lambda block: over(_bits(values[block]), below).any(), *values.shape, maps=[x])
    return any(part for _, part in found)


def _comparable(rows: Any) -> Any:
    """Numbers that are 0 where those of `rows` are; of float16, which is slow in NumPy, the bits without the sign."""
    return _bits(rows) & np.uint16(0x7FFF) if rows.dtype == np.float16 else rows


def _bits(rows: Any) -> Any:
    return rows.view(np.uint16) if rows.dtype == np.float16 else rows


@dataclass(frozen=True, eq=False)
class FilteredRows:
    """H (n, f) as two products. `before` (n,) scales the rows of X, `after` (n,) those of F X.

    `across` gives a sparse X' as CSR: for all that share it made once, where it is no larger than a tall array.
    """

    graph: Graph
    graph_filter: GraphFilter
    weights: Floats
    before: Floats
    after: Floats
    tick: Callable[[], None] = field(default=lambda: None)
    engine: str = "local"
    across: Callable[[], Any] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.graph.n_nodes, len(self.weights)

    def forward(self, q: Floats) -> Floats:
        """H q for q (f, c): float32 (n, c)."""
        start = times(self.graph.x, self.weights[:, None] * q)
        _scale(start, self.before)
        self.tick()
        return _scale(self._filtered(start), self.after)

    def backward(self, y: Floats) -> Floats:
        """H' y for y (n, c), which is written over: float32 (f, c).

        With r = 1/2 and a symmetric adjacency F is its own transpose.
        """
        self.tick()
        x: Any = self.graph.x
        filtered = _scale(self._filtered(_scale(y, self.after)), self.before)
        if self.across is not None and sp.issparse(x) and 2 * x.nnz <= y.size:
            return times(self.across(), filtered) * self.weights[:, None]
        return transposed_times(x, filtered) * self.weights[:, None]

    def _filtered(self, rows: Floats) -> Floats:
        if self.engine == "local":
            return filter_in_place(self.graph_filter, self.graph, rows)
        return self.graph_filter.transform(self.graph, x=rows, engine=self.engine)


def filtered_rows(
    graph: Graph,
    graph_filter: GraphFilter,
    weights: Floats,
    *,
    seed: int = 0,
    tick: Callable[[], None] | None = None,
    engine: str = "local",
    across: Callable[[], Any] | None = None,
) -> FilteredRows:
    """H of `graph`. The lengths of the rows of F X are estimated from random projections."""
    ones = np.ones(graph.n_nodes, np.float32)
    before = inverse(weighted_lengths(graph.x, weights))
    rows = FilteredRows(graph, graph_filter, weights, before, ones, tick or (lambda: None), engine, across)
    return replace(rows, after=inverse_lengths(rows.forward(random_signs(len(weights), seed))))


def inverse_lengths(rows: Floats) -> Floats:
    """1 / |row| of each row (n,), an array or a memory map; 0 for zero rows."""
    n, c = rows.shape
    found = over_blocks(lambda block: np.linalg.norm(rows[block], axis=1), n, c, maps=[rows])
    return inverse(np.concatenate([part for _, part in found]))


def _scale(rows: Floats, factors: Floats) -> Floats:
    """`rows` (n, c), each times its factor, in place."""

    def scale(block: slice) -> None:
        rows[block] *= factors[block, None]

    for _ in over_blocks(scale, *rows.shape):
        pass
    return rows


def random_signs(f: int, seed: int) -> Floats:
    """Random columns (f, SIGNS) of length 1: |H signs| is about |H|, row by row."""
    signs: Floats = stream(seed, "row lengths").choice(np.array([-1, 1], np.float32) / SIGNS**0.5, (f, SIGNS))
    return signs


@dataclass(frozen=True, eq=False)
class Spectrum:
    """What turns filtered rows into columns, for the graph of `fit_spectrum` or for a new one.

    `right` (f, d): singular vectors; `centre` (d,): the mean row; `mass` (d,): the sum of the rows, and `least` and
    `typical` similarities to it; `turn` (d, d): from balanced rows to their principal directions, the first one
    lowered to the length of the second; `spread` (d,) of the columns, and the `level` that those of the detail are
    lowered to.
    """

    right: Floats
    centre: Floats
    spread: Floats
    level: float
    mass: Floats
    least: float
    typical: float
    turn: Floats

    def project(self, rows: FilteredRows) -> Floats:
        """H right: float32 (n, d)."""
        return rows.forward(self.right)

    def start(self, x: Any, *, weights: Floats, seed: int) -> Floats:
        """What a filter makes H right and the lengths of H of, for feature rows `x` (k, f): (k, d + SIGNS)."""
        columns = np.hstack([self.right, random_signs(len(weights), seed)])
        return times(x, weights[:, None] * columns) * inverse(weighted_lengths(x, weights))[:, None]

    def finish(self, filtered: Floats) -> Floats:
        """H right (k, d) from the filtered rows of `start`: what `project` gives, for some nodes only."""
        d = self.right.shape[1]
        projected: Floats = filtered[:, :d] * inverse(np.linalg.norm(filtered[:, d:], axis=1))[:, None]
        return projected

    def detail(self, projected: Floats) -> Floats:
        """Unit rows (n, d) around their mean, wide columns lowered: what tells neighbours from strangers."""
        (n, d), factors = projected.shape, self.level / np.maximum(self.spread, self.level)
        return gathered(lambda block: scale_rows((projected[block] - self.centre) * factors), (n, d), d)

    def lowered(self, columns: int) -> Spectrum:
        """The same, but so many columns of the detail, half of all at most, are no wider than the next one.

        The widest columns tell the groups apart as the filter left them, unbalanced. Groups and learned part do that
        better; K-Means on the vectors would go by the widest all the same.
        """
        widest = np.sort(self.spread)[::-1]
        level = widest[min(columns, len(widest) // 2)]
        return replace(self, level=max(float(level), _LEAST_LEVEL * float(widest[0])))

    def groups(self, projected: Floats, columns: int) -> Floats:
        """Unit rows (n, columns) in which dense groups stand apart, whatever their size."""
        turn = self.turn[:, :columns]

        def some(block: slice) -> Floats:
            rows = projected[block]
            found: Floats = scale_rows((rows * self.balance(rows)[:, None]) @ turn)
            return found

        return gathered(some, (len(projected), turn.shape[1]), projected.shape[1])

    def balance(self, projected: Floats) -> Floats:
        """A factor for each row, smaller for rows that are similar to all (n,)."""
        if self.typical <= 0:
            return np.ones(len(projected), np.float32)
        similar = np.maximum(projected @ self.mass, self.least) / self.typical
        factors: Floats = (similar**-_BALANCE).astype(np.float32)
        return factors


@dataclass(frozen=True, eq=False)
class GroupRows:
    """`spectrum.groups(projected, columns)` (n, columns), of which only the rows that are asked for are made."""

    spectrum: Spectrum
    projected: Any
    columns: int
    dtype = np.dtype(np.float32)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.projected), min(self.columns, self.spectrum.turn.shape[1])

    @property
    def nbytes(self) -> int:
        return 4 * self.shape[0] * self.shape[1]

    def __getitem__(self, which: Any) -> Floats:
        found = self.spectrum.groups(np.asarray(self.projected[which]), self.columns)
        forget_pages(self.projected)  # whoever reads on and on, in order or not, would hold all of a memory map
        return found


def fit_spectrum(rows: FilteredRows, d: int, *, balance: bool, seed: int = 0) -> tuple[Spectrum, Floats]:
    """The spectrum of H from its d largest singular values, and H's rows projected on it (n, d).

    With `balance` (features that are never negative) each row is divided by a power of its similarity to all rows,
    half-way to the normalised cut: hubs and common words no longer make the first directions.
    """
    found = operator_svd(rows.forward, rows.backward, rows.shape, min(d, *rows.shape), seed=seed)
    projected = found.left

    def stretch(block: slice) -> None:
        projected[block] *= found.values  # H right, without another filtering

    for _ in over_blocks(stretch, *projected.shape):
        pass
    return spectrum_of(found.right, projected, balance=balance), projected


def spectrum_of(right: Floats, projected: Floats, *, balance: bool) -> Spectrum:
    """The spectrum of the rows that `right` (f, d) projects to `projected` (n, d), read block by block."""
    (n, d), maps = projected.shape, [projected]

    def total(function: Callable[[Floats], Any], *shape: int) -> Floats:
        return summed(lambda block: function(projected[block]), n, d, shape, maps=maps).astype(np.float32)

    def moments(rows: Floats) -> Any:
        return np.array([rows.sum(axis=0, dtype=np.float64), np.square(rows).sum(axis=0, dtype=np.float64)])

    mass, squares = total(moments, 2, d)
    centre = mass / np.float32(n)
    mass = mass if balance else np.zeros(d, np.float32)
    similar = gathered(lambda block: (projected[block] @ mass)[:, None], (n, 1), d, maps=maps)[:, 0]
    typical = float(similar.mean(dtype=np.float64))
    balance = balance and typical > 0
    least = _LEAST_MASS * float(np.median(similar)) if balance else 0.0
    least, typical = (max(least, 1e-6 * typical), typical) if balance else (0.0, 0.0)
    spread = np.sqrt((squares / n - np.square(centre)).clip(min=0))
    spread = spread if spread.any() else np.ones_like(spread)
    found = Spectrum(right, centre, spread, float(spread.max()), mass, least, typical, np.eye(d, dtype=np.float32))

    def products(rows: Floats) -> Any:
        balanced = rows * found.balance(rows)[:, None]
        return balanced.T @ balanced

    return replace(found, turn=_principal(total(products, d, d)))


def _principal(gram: Floats) -> Floats:
    """Principal directions, largest first, as columns (d, d); the first one made as short as the second."""
    squares, turn = np.linalg.eigh(gram.astype(np.float64))
    squares, turn = squares[::-1].clip(min=0), turn[:, ::-1]
    turn = turn * np.sign(turn[np.abs(turn).argmax(axis=0), np.arange(len(gram))])
    if len(squares) > 1 and squares[1] > 1e-12 * squares[0]:
        turn[:, 0] *= np.sqrt(squares[1] / squares[0])
    return np.ascontiguousarray(turn, np.float32)


def weighted_lengths(x: Any, weights: Floats) -> NDArray[Any]:
    """Lengths of the rows of `x` after its columns were weighted."""
    if sp.issparse(x):
        squares = sp.csr_array((np.square(x.data, dtype=np.float64), x.indices, x.indptr), shape=x.shape)
        lengths: NDArray[Any] = np.sqrt(squares @ np.square(weights, dtype=np.float64))
        return lengths
    found = over_blocks(lambda block: np.linalg.norm(float_rows(x, block) * weights, axis=1), *x.shape, maps=[x])
    return np.concatenate([part for _, part in found])


def inverse(lengths: NDArray[Any]) -> Floats:
    """1 / lengths, float32; 0 where a length is 0."""
    found: Floats = np.divide(1, lengths, out=np.zeros(len(lengths)), where=lengths > 0).astype(np.float32)
    return found
