"""Truncated SVD by random projections: of rows that lie in memory or on disk, or of rows that are never formed.

Only products with a few columns are needed, so the matrix may be a CSR matrix, a memory map that is read block by
block, or two functions (`operator_svd`). Orthonormal bases come from the small Gram matrix, in float64: the tall
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

Floats = NDArray[np.float32]
BLOCK_VALUES = 2**22  # matrix values handled at once


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
    sign = np.sign(right[np.abs(right).argmax(axis=0), np.arange(d)])  # the same vectors on every machine
    return SVD(left * sign, values.astype(np.float32), right * sign)


def orthonormal(y: Floats) -> Floats:
    """Columns that span those of `y` (n, c), orthonormal; written into `y`. Columns without content become 0."""
    for _ in range(2):  # once more, for what rounding left
        squares, turn = np.linalg.eigh(_gram(y))
        kept = squares > 1e-10 * max(squares[-1], 1e-30)
        factor = (turn * np.where(kept, 1 / np.sqrt(np.where(kept, squares, 1)), 0)).astype(np.float32)
        for block in _blocks(len(y), y.shape[1]):
            y[block] = y[block] @ factor
    return y


def times(rows: Any, q: Any) -> Floats:
    """`rows` (n, f) @ `q` (f, c), float32; a memory map is read block by block."""
    q = np.asarray(q, np.float32)
    if sp.issparse(rows):
        return np.asarray(rows @ q, np.float32)
    out = np.empty((rows.shape[0], q.shape[1]), np.float32)
    for block in _blocks(*rows.shape):
        out[block] = np.asarray(rows[block], np.float32) @ q
    return out


def transposed_times(rows: Any, y: Floats) -> Floats:
    """`rows`.T (f, n) @ `y` (n, c), float32; a memory map is read block by block."""
    if sp.issparse(rows):
        return np.asarray(rows.T @ y, np.float32)
    out = np.zeros((rows.shape[1], y.shape[1]), np.float64)
    for block in _blocks(*rows.shape):
        out += np.asarray(rows[block], np.float32).T @ y[block]
    return out.astype(np.float32)


def _gram(y: Floats) -> NDArray[np.float64]:
    total = np.zeros((y.shape[1], y.shape[1]))
    for block in _blocks(len(y), y.shape[1]):
        part = np.asarray(y[block], np.float64)
        total += part.T @ part
    return total


def _blocks(n: int, width: int) -> list[slice]:
    step = max(1, BLOCK_VALUES // max(1, width))
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]
