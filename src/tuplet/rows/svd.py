"""Truncated SVD by random projections: of rows that lie in memory or on disk, or of rows that are never formed.

Small matrices are decomposed exactly, by the eigenvectors of their Gram matrix. Of others only products with a few
columns are needed, so the matrix may be a CSR matrix, a memory map that is read block by block, or two functions
(`operator_svd`). Orthonormal bases come from the small Gram matrix, in float64: the tall
array is read in order, changed in place, and never copied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import check_int
from tuplet._seed import stream
from tuplet._threads import over

Floats = NDArray[np.float32]
BLOCK_VALUES = 2**20  # matrix values handled at once, by one thread
EXACT_UP_TO = 1500  # rows or columns; below, the small eigenproblem is as fast as the random projections


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

    Subspace iteration from d + `extra` random columns (Halko, Martinsson and Tropp, 2011). What `forward` returns is
    changed in place. Memory: one array of n and one of f rows.
    """
    d = check_int("d", d, maximum=min(shape))
    width = min(d + extra, *shape)
    q = stream(seed, "svd").standard_normal((shape[1], width), dtype=np.float32)
    for _ in range(iterations):
        q = orthonormal(backward(orthonormal(forward(q))))
    q = orthonormal(q)
    y = forward(q)
    squares, turn = np.linalg.eigh(_gram(y))
    values = np.sqrt(squares.clip(min=0))[::-1][:d]
    turn = turn[:, ::-1][:, :d]
    safe = np.where(values > 1e-6 * values[0], values, np.inf) if values[0] > 0 else np.full(d, np.inf)
    left, right = times(y, turn / safe), times(q, turn)
    return _signed(left, values, right)


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
    other = times(rows, vectors / safe) if tall else transposed_times(rows, (vectors / safe).astype(np.float32))
    return _signed(other, values, vectors) if tall else _signed(vectors, values, other)


def _dense(rows: Any) -> Any:
    return rows.toarray() if sp.issparse(rows) else np.asarray(rows)


def _signed(left: Any, values: Any, right: Any) -> SVD:
    """Signs that rounding does not turn: of the largest entries of a right vector (to 1e-4) the first is positive."""
    size = np.abs(right)
    first = (size >= 0.9999 * size.max(axis=0)).argmax(axis=0)
    sign = np.where(right[first, np.arange(right.shape[1])] < 0, -1, 1).astype(np.float32)
    return SVD(*(np.ascontiguousarray(part, np.float32) for part in (left * sign, values, right * sign)))


def orthonormal(y: Floats) -> Floats:
    """Columns that span those of `y` (n, c), orthonormal; written into `y`. Columns without content become 0."""
    for _ in range(2):  # once more, for what rounding left
        squares, turn = np.linalg.eigh(_gram(y))
        kept = squares > 1e-10 * max(squares[-1], 1e-30)
        factor = (turn * np.where(kept, 1 / np.sqrt(np.where(kept, squares, 1)), 0)).astype(np.float32)
        _turn(y, factor)
    return y


def _turn(y: Floats, factor: Floats) -> None:
    def turned(block: slice) -> None:
        y[block] = y[block] @ factor

    over(turned, _blocks(len(y), y.shape[1]))


def times(rows: Any, q: Any) -> Floats:
    """`rows` (n, f) @ `q` (f, c), float32; a memory map is read block by block."""
    q = np.asarray(q, np.float32)
    if sp.issparse(rows):
        return _sparse_times(rows, q)
    out = np.empty((rows.shape[0], q.shape[1]), np.float32)

    def product(block: slice) -> None:
        out[block] = np.asarray(rows[block], np.float32) @ q

    over(product, _blocks(*rows.shape))
    return out


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
    return _summed(
        lambda block: np.asarray(rows[block], np.float32).T @ y[block],
        _blocks(*rows.shape),
        (rows.shape[1], y.shape[1]),
    ).astype(np.float32)


def _gram(y: Floats) -> NDArray[np.float64]:
    def product(block: slice) -> NDArray[np.float64]:
        part = np.asarray(y[block], np.float64)
        squares: NDArray[np.float64] = part.T @ part
        return squares

    return _summed(product, _blocks(len(y), y.shape[1]), (y.shape[1], y.shape[1]))


def _summed(product: Callable[[slice], Any], blocks: list[slice], shape: tuple[int, int]) -> NDArray[np.float64]:
    """The sum of a product over all blocks, added in their order; a few results are held at once."""
    total = np.zeros(shape)
    for first in range(0, len(blocks), 16):
        for part in over(product, blocks[first : first + 16]):
            total += part
    return total


def _blocks(n: int, width: int) -> list[slice]:
    step = max(1, BLOCK_VALUES // max(1, width))
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]
