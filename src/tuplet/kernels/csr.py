"""Loops over CSR arrays that are not products: transposing, uniting two matrices, cutting out columns."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numba import prange
from numpy.typing import NDArray

from tuplet._jit import jit

Csr: TypeAlias = "tuple[NDArray[np.int64], NDArray[Any], NDArray[np.float32] | None]"


@jit  # type: ignore[untyped-decorator]
def transpose(indptr: Any, indices: Any, weights: Any) -> Any:
    """(indptr, indices, weights) of the transpose, rows sorted; `weights` may be None. By counting, O(n + edges)."""
    n = len(indptr) - 1
    new_indptr = np.zeros(n + 1, np.int64)
    for e in range(len(indices)):
        new_indptr[indices[e] + 1] += 1
    for u in range(n):
        new_indptr[u + 1] += new_indptr[u]
    place = new_indptr[:-1].copy()
    new_indices = np.empty_like(indices)
    new_weights: Any = None if weights is None else np.empty_like(weights)
    for u in range(n):
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            new_indices[place[v]] = u
            if weights is not None:
                new_weights[place[v]] = weights[e]
            place[v] += 1
    return new_indptr, new_indices, new_weights


def unite(a: Csr, b: Csr) -> Csr:
    """The entrywise maximum of two CSR matrices with sorted rows: (indptr, indices, weights)."""
    indptr = np.zeros(len(a[0]), np.int64)
    _count_union(a[0], a[1], b[0], b[1], indptr)
    np.cumsum(indptr, out=indptr)
    indices = np.empty(int(indptr[-1]), a[1].dtype)
    weights = None if a[2] is None else np.empty(len(indices), np.float32)
    _fill_union(a[0], a[1], a[2], b[0], b[1], b[2], indptr, indices, weights)
    return indptr, indices, weights


@jit(parallel=True)  # type: ignore[untyped-decorator]
def _count_union(a_indptr: Any, a_indices: Any, b_indptr: Any, b_indices: Any, counts: Any) -> None:
    for u in prange(len(a_indptr) - 1):
        i, j, count = a_indptr[u], b_indptr[u], 0
        while i < a_indptr[u + 1] or j < b_indptr[u + 1]:
            left = i < a_indptr[u + 1] and (j >= b_indptr[u + 1] or a_indices[i] <= b_indices[j])
            right = j < b_indptr[u + 1] and (i >= a_indptr[u + 1] or b_indices[j] <= a_indices[i])
            i += left
            j += right
            count += 1
        counts[u + 1] = count


@jit(parallel=True)  # type: ignore[untyped-decorator]
def _fill_union(
    a_indptr: Any,
    a_indices: Any,
    a_weights: Any,
    b_indptr: Any,
    b_indices: Any,
    b_weights: Any,
    indptr: Any,
    indices: Any,
    weights: Any,
) -> None:
    for u in prange(len(indptr) - 1):
        i, j = a_indptr[u], b_indptr[u]
        for e in range(indptr[u], indptr[u + 1]):
            left = i < a_indptr[u + 1] and (j >= b_indptr[u + 1] or a_indices[i] <= b_indices[j])
            right = j < b_indptr[u + 1] and (i >= a_indptr[u + 1] or b_indices[j] <= a_indices[i])
            indices[e] = a_indices[i] if left else b_indices[j]
            if weights is not None:
                weights[e] = max(a_weights[i] if left else np.float32(0), b_weights[j] if right else np.float32(0))
            i += left
            j += right


@jit  # type: ignore[untyped-decorator]
def cut_columns(indptr: Any, indices: Any, data: Any, start: Any, first: Any, scale: Any, out: Any) -> None:
    """Write rows start.. and columns first.. of a CSR matrix, row u times scale[u], into the dense `out`."""
    out[:] = 0
    for i in range(out.shape[0]):
        for e in range(indptr[start + i], indptr[start + i + 1]):
            column = np.int64(indices[e]) - first
            if 0 <= column < out.shape[1]:
                out[i, column] += data[e] * scale[start + i]


@jit(parallel=True)  # type: ignore[untyped-decorator]
def join_rows(lower: Any, upper: Any, n: Any, bounds: Any, indices: Any, indptr: Any) -> None:
    """Fill a CSR whose row u holds v of the keys u * n + v, first those of `lower`, then those of `upper`.

    Both are sorted, so each thread fills its run of rows, between two of `bounds`, from front to back.
    """
    for part in prange(len(bounds) - 1):
        first, stop = bounds[part], bounds[part + 1]
        low, high = np.searchsorted(lower, first * n), np.searchsorted(upper, first * n)
        place = low + high
        for u in range(first, stop):
            indptr[u] = place
            start, end = u * n, (u + np.uint64(1)) * n
            while low < len(lower) and lower[low] < end:
                indices[place] = lower[low] - start
                low, place = low + 1, place + 1
            while high < len(upper) and upper[high] < end:
                indices[place] = upper[high] - start
                high, place = high + 1, place + 1
