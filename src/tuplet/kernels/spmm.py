"""One hop of the filter: neighbour means of dense rows, blocked by columns.

    out[u] = scale * (sum over v of w_uv z[v] + loop * z[u]) / d_u + shift * x[u] + keep * out[u]

Rows are cut into pieces of equal work (edges, not rows: hubs), one piece a thread, one parallel region a hop. Each
row is summed by one thread in the order of its edges, so the result does not depend on the number of threads. Index
arrays come in as unsigned views: numba checks signed ones for negative indices, at over twice the time. Four rows
are added at a time, which halves the time again against one: the sum is then loaded and stored a quarter as often.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import get_num_threads, prange
from numpy.typing import NDArray

from tuplet._jit import jit
from tuplet.kernels.prefetch import prefetch

COLUMNS = 128  # a block's row is 512 bytes: 8 cache lines for each gather, still small enough for hubs to stay cached
SMALL = (
    2**22
)  # multiply-adds, some milliseconds; below this, waking threads takes longer than the work on a busy machine


def hop(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    weights: NDArray[np.float32] | None,
    inverse: NDArray[np.float32],
    z: NDArray[np.float32],
    x: NDArray[np.float32],
    out: NDArray[np.float32],
    *,
    loop: float = 1.0,
    scale: float = 1.0,
    shift: float = 0.0,
    keep: float = 0.0,
    threads: int | None = None,
) -> None:
    """Write one hop into `out` (n, c), float32 and C-contiguous like `z` and `x`. `inverse` (n,) holds 1 / d_u.

    What has the factor 0 is not read: `out` may start uninitialised with `keep` = 0, `x` may be anything with
    `shift` = 0, and with `loop` = 0 `z` may have any number of rows (a general product CSR times dense).
    """
    unsigned = np.uint32 if indices.dtype.itemsize == 4 else np.uint64
    arrays = (indptr.view(np.uint64), indices.view(unsigned), weights, inverse, z, x, out)
    factors = (np.float32(loop), np.float32(scale), np.float32(shift), np.float32(keep))
    if threads is None and (int(indptr[-1]) + len(out)) * out.shape[1] < SMALL:
        _hop_rows(np.uint64(0), np.uint64(len(out)), *arrays, *factors)
    else:
        _hop(balanced_pieces(indptr, threads or get_num_threads()), *arrays, *factors)


def balanced_pieces(indptr: NDArray[Any], pieces: int) -> NDArray[np.uint64]:
    """Row bounds uint64 (pieces + 1,) of runs of rows with about the same work, where a row costs its edges + 1.

    >>> balanced_pieces(np.array([0, 9, 10, 11, 12]), 2)
    array([0, 1, 4], dtype=uint64)
    """
    n = len(indptr) - 1
    total = int(indptr[-1]) + n
    bounds = np.zeros(pieces + 1, np.uint64)
    bounds[-1] = n
    for i in range(1, pieces):
        bounds[i] = _first_row_past(indptr, total * i // pieces)
    return bounds


def _first_row_past(indptr: NDArray[Any], work: int) -> int:
    low, high = 0, len(indptr) - 1  # bisection: touches few pages of a memory map
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if int(indptr[middle]) + middle < work else (low, middle)
    return low


@jit(parallel=True)  # type: ignore[untyped-decorator]
def _hop(
    pieces: Any,
    indptr: Any,
    indices: Any,
    weights: Any,
    inverse: Any,
    z: Any,
    x: Any,
    out: Any,
    loop: Any,
    scale: Any,
    shift: Any,
    keep: Any,
) -> None:
    for i in prange(len(pieces) - 1):
        start, stop = pieces[i], pieces[i + 1]
        _hop_rows(start, stop, indptr, indices, weights, inverse, z, x, out, loop, scale, shift, keep)


@jit  # type: ignore[untyped-decorator]
def _hop_rows(
    start: Any,
    stop: Any,
    indptr: Any,
    indices: Any,
    weights: Any,
    inverse: Any,
    z: Any,
    x: Any,
    out: Any,
    loop: Any,
    scale: Any,
    shift: Any,
    keep: Any,
) -> None:
    total = np.empty(128, np.float32)
    part = np.empty(128, np.float32)
    columns = np.uint64(out.shape[1])
    for first in range(np.uint64(0), columns, np.uint64(128)):
        width = min(np.uint64(128), columns - first)
        for u in range(start, stop):
            total[:] = np.float32(0)
            if loop != np.float32(0):
                for c in range(width):
                    total[c] = loop * z[u, first + c]
            _add_neighbours(indptr[u], indptr[u + np.uint64(1)], indices, weights, z, first, width, total, part)
            _finish_row(u, first, width, scale * inverse[u], total, x, shift, out, keep)


@jit  # type: ignore[untyped-decorator]
def _finish_row(
    u: Any, first: Any, width: Any, factor: Any, total: Any, x: Any, shift: Any, out: Any, keep: Any
) -> None:
    for c in range(width):
        total[c] *= factor
    if shift != np.float32(0):
        for c in range(width):
            total[c] += shift * x[u, first + c]
    if keep != np.float32(0):
        for c in range(width):
            total[c] += keep * out[u, first + c]
    for c in range(width):
        out[u, first + c] = total[c]


@jit  # type: ignore[untyped-decorator]
def _add_neighbours(
    start: Any, end: Any, indices: Any, weights: Any, z: Any, first: Any, width: Any, total: Any, part: Any
) -> None:
    """Add the rows of the edges [start, end) to `total`, by partial sums of 512 edges: hubs keep their precision."""
    for run in range(start, end, np.uint64(512)):
        stop = min(end, run + np.uint64(512))
        part[:] = np.float32(0)
        fours = run + (stop - run) // np.uint64(4) * np.uint64(4)
        for e in range(run, fours, np.uint64(4)):
            _ask_ahead(e, np.uint64(4), indices, z, first, width)
            a, b = np.uint64(indices[e]), np.uint64(indices[e + np.uint64(1)])
            c, d = np.uint64(indices[e + np.uint64(2)]), np.uint64(indices[e + np.uint64(3)])
            if weights is None:
                for i in range(width):
                    part[i] += (z[a, first + i] + z[b, first + i]) + (z[c, first + i] + z[d, first + i])
            else:
                wa, wb = weights[e], weights[e + np.uint64(1)]
                wc, wd = weights[e + np.uint64(2)], weights[e + np.uint64(3)]
                for i in range(width):
                    left = wa * z[a, first + i] + wb * z[b, first + i]
                    part[i] += left + (wc * z[c, first + i] + wd * z[d, first + i])
        for e in range(fours, stop):
            _ask_ahead(e, np.uint64(1), indices, z, first, width)
            v = np.uint64(indices[e])
            w = np.float32(1) if weights is None else weights[e]
            for i in range(width):
                part[i] += w * z[v, first + i]
        for i in range(width):
            total[i] += part[i]


@jit  # type: ignore[untyped-decorator]
def _ask_ahead(edge: Any, count: Any, indices: Any, z: Any, first: Any, width: Any) -> None:
    """Prefetch the rows that come 8 edges later, past the end of the row too: most rows are short."""
    edge += np.uint64(8)
    if edge + count <= np.uint64(len(indices)):
        for e in range(edge, edge + count):
            for c in range(np.uint64(0), width, np.uint64(16)):
                prefetch(z, np.uint64(indices[e]), first + c)
