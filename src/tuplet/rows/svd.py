"""Truncated SVD by random projections: of rows that lie in memory or on disk, or of rows that are never formed.

Small matrices are decomposed exactly, by the eigenvectors of their Gram matrix. Of others only products with a few
columns are needed, so the matrix may be a CSR matrix, a memory map that is read block by block, or two functions
(`operator_svd`). Orthonormal bases come from the small Gram matrix, in float64: the tall
array is read in order, changed in place, and never copied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import check_int
from tuplet._seed import stream
from tuplet._threads import over
from tuplet.rows.blocks import blocks, float_rows, gathered, summed

Floats = NDArray[np.float32]
EXACT_UP_TO = 1500  # rows or columns; below, the small eigenproblem is as fast as the random projections
WHOLE_UP_TO = 256  # columns of an operator that are all taken, at once, where that is less work than the iteration


@dataclass(frozen=True, eq=False)
class SVD:
    """`left` (n, d), `values` (d,) falling, `right` (f, d): the matrix is about left * values @ right.T."""

    left: Floats
    values: Floats
    right: Floats


def truncated_svd(rows: Any, d: int, *, seed: int = 0, iterations: int = 4) -> SVD:
    """The d largest singular values of `rows` (n, f), dense, CSR or a memory map, and their vectors.

    >>> found = truncated_svd(np.diag([3.0, 2.0, 1.0]), 2)
    >>> found.values
    array([3., 2.], dtype=float32)
    """
    d = check_int("d", d, maximum=min(rows.shape))
    if min(rows.shape) <= EXACT_UP_TO:
        return _by_gram(rows, d)
    return operator_svd(
        lambda q: times(rows, q), lambda y: transposed_times(rows, y), rows.shape, d, seed=seed, iterations=iterations
    )


def operator_svd(
    forward: Callable[[Floats], Floats],
    backward: Callable[[Floats], Floats],
    shape: tuple[int, int],
    d: int,
    *,
    seed: int = 0,
    iterations: int = 2,
    extra: int = 20,
) -> SVD:
    """The same of an (n, f) matrix H that is known by `forward`, q (f, c) -> H q, and `backward`, y (n, c) -> H' y.

    Subspace iteration from d + `extra` random columns (Halko, Martinsson and Tropp, 2011); exact where f is small.
    What `forward` returns is changed in place, and `backward` may write over what it is given. Memory: one array of n
    and one of f rows.
    """
    d = check_int("d", d, maximum=min(shape))
    q, rounds = first_columns(shape, d + extra, iterations, seed)
    for _ in range(rounds):
        q = orthonormal(backward(orthonormal(forward(q))))
    return _svd_within(forward, orthonormal(q), d)


def symmetric_svd(rows: Any, d: int, *, seed: int = 0, iterations: int = 4) -> SVD:
    """The same of a symmetric CSR matrix, in half the time: it is its own transpose.

    A round is two products and one pass of `orthonormal`; directions whose values are below 1/300 of the largest may
    be lost. Exact where n is small.
    """
    n = rows.shape[0]
    if n <= EXACT_UP_TO:
        return truncated_svd(rows, d, seed=seed)
    q = stream(seed, "svd").standard_normal((n, min(d + 20, n)), dtype=np.float32)
    for _ in range(iterations):
        q = orthonormal(times(rows, times(rows, q)), passes=1)
    return _svd_within(partial(times, rows), orthonormal(q), d)


def _svd_within(forward: Callable[[Floats], Floats], q: Floats, d: int) -> SVD:
    """The singular vectors within the orthonormal columns of `q`."""
    y = forward(q)
    squares, turn = np.linalg.eigh(gram(y))
    values = np.sqrt(squares.clip(min=0))[::-1][:d]
    turn = turn[:, ::-1][:, :d]
    safe = np.where(values > 1e-6 * values[0], values, np.inf) if values[0] > 0 else np.full(d, np.inf)
    right, sign = signed_right(times(q, turn))
    return SVD(times(y, turn / safe * sign), _floats(values), right)  # signs turn no bit of a product but its sign


def first_columns(shape: tuple[int, int], width: int, iterations: int, seed: int) -> tuple[Floats, int]:
    """The columns (f, c) that a subspace iteration on (n, f) starts from, and how many rounds it needs.

    `width` random ones, or, where one product with all f columns is less work than the rounds, all and no round.

    >>> first_columns((1000, 3), 2, 2, seed=0)[1], first_columns((1000, 300), 20, 2, seed=0)[1]
    (0, 2)
    """
    f, width = shape[1], min(width, *shape)
    if f <= min(WHOLE_UP_TO, (2 * iterations + 1) * width):
        return np.eye(f, dtype=np.float32), 0
    return stream(seed, "svd").standard_normal((f, width), dtype=np.float32), iterations


def left_singular_vectors(rows: Any, d: int, *, seed: int = 0) -> Floats:
    """The d leading left singular vectors of `rows` (n, f), float32 (n, d), largest first; fewer if d > min(n, f)."""
    return truncated_svd(rows, min(d, *rows.shape), seed=seed, iterations=8).left


def _by_gram(rows: Any, d: int) -> SVD:
    """All of a small matrix's directions are in its Gram matrix, (f, f) or (n, n), whichever is smaller."""
    from scipy.linalg import eigh

    tall = rows.shape[0] >= rows.shape[1]
    near = transposed_times(rows, times(rows, np.eye(rows.shape[1]))) if tall else times(rows, _dense(rows).T)
    last = len(near) - 1
    squares, vectors = eigh(near.astype(np.float64), subset_by_index=(last - d + 1, last))
    values, vectors = np.sqrt(squares.clip(min=0))[::-1], vectors[:, ::-1]
    safe = np.where(values > 1e-6 * values[0], values, np.inf) if values[0] > 0 else np.full(d, np.inf)
    if not tall:
        right, sign = signed_right(transposed_times(rows, (vectors / safe).astype(np.float32)))
        return SVD(_floats(vectors * sign), _floats(values), right)
    right, sign = signed_right(vectors)
    return SVD(times(rows, vectors / safe * sign), _floats(values), right)


def _dense(rows: Any) -> Any:
    return rows.toarray() if sp.issparse(rows) else np.asarray(rows)


def _floats(array: Any) -> Floats:
    return np.ascontiguousarray(array, np.float32)


def signed_right(right: Any) -> tuple[Floats, Floats]:
    """Right vectors with signs that rounding does not turn, and those signs (d,).

    Of the largest entries of a vector (to 1e-4) the first is positive.
    """
    size = np.abs(right)
    first = (size >= 0.9999 * size.max(axis=0)).argmax(axis=0)
    sign = np.where(right[first, np.arange(right.shape[1])] < 0, -1, 1).astype(np.float32)
    return np.ascontiguousarray(right * sign, np.float32), sign


def orthonormal(y: Floats, *, passes: int = 2) -> Floats:
    """Columns that span those of `y` (n, c), orthonormal; written into `y`. Columns without content become 0."""
    for _ in range(passes):  # the second, for what rounding left
        squares, turn = np.linalg.eigh(gram(y))
        kept = squares > 1e-10 * max(squares[-1], 1e-30)
        factor = (turn * np.where(kept, 1 / np.sqrt(np.where(kept, squares, 1)), 0)).astype(np.float32)
        _turn(y, factor)
    return y


def _turn(y: Floats, factor: Floats) -> None:
    def turned(block: slice) -> None:
        y[block] = y[block] @ factor

    over(turned, blocks(len(y), y.shape[1]))


def times(rows: Any, q: Any) -> Floats:
    """`rows` (n, f) @ `q` (f, c), float32; a memory map is read block by block."""
    q = np.asarray(q, np.float32)
    if sp.issparse(rows):
        return _sparse_times(rows, q)
    n, f = rows.shape
    return gathered(lambda block: float_rows(rows, block) @ q, (n, q.shape[1]), f, maps=[rows])


def _sparse_times(rows: Any, q: Floats) -> Floats:
    from tuplet.kernels.spmm import hop

    rows = rows.tocsr()
    ones, out = np.ones(rows.shape[0], np.float32), np.empty((rows.shape[0], q.shape[1]), np.float32)
    indptr, data = rows.indptr.astype(np.int64, copy=False), rows.data.astype(np.float32, copy=False)
    hop(indptr, rows.indices, data, ones, np.ascontiguousarray(q), out, out, loop=0.0)
    return out


def transposed_times(rows: Any, y: Floats) -> Floats:
    """`rows`.T (f, n) @ `y` (n, c), float32; a memory map is read block by block."""
    if sp.issparse(rows):
        return _sparse_times(rows.T, y)
    n, f = rows.shape

    def product(block: slice) -> Any:
        return float_rows(rows, block).T @ y[block]

    return summed(product, n, f, (f, y.shape[1]), maps=[rows, y]).astype(np.float32)


def gram(y: Floats) -> NDArray[np.float64]:
    def product(block: slice) -> NDArray[np.float64]:
        part = np.asarray(y[block], np.float64)
        squares: NDArray[np.float64] = part.T @ part
        return squares

    return summed(product, len(y), y.shape[1], (y.shape[1], y.shape[1]))
