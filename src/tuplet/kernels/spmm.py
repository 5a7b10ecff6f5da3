"""One hop of the filter: neighbour means of dense rows, blocked by columns.

    out[u] = scale * (sum over v of w_uv z[v] + loop * z[u]) / d_u + shift * x[u] + keep * out[u]

Rows are cut into pieces of equal work (edges, not rows: hubs), one piece a thread, one parallel region a hop. Each
row is summed by one thread in the order of its edges, so the result does not depend on the number of threads. Index
arrays come in as unsigned views: numba checks signed ones for negative indices, at over twice the time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import get_num_threads, prange
from numpy.typing import NDArray

from tuplet._jit import jit
from tuplet.kernels.prefetch import prefetch

COLUMNS = 128  # a block's row is 512 bytes: 8 cache lines for each gather, still small enough for hubs to stay cached
_AHEAD = 8  # edges; how far ahead of the sum the rows of z are asked for
_RUN = 512  # edges; partial sums of this length keep the float32 error of a hub's sum small


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
    """Write one hop into `out` (n, c). `z` and `x` are (n, c) too, float32 and C-contiguous; `x` may be `out`-free.

    `inverse` (n,) holds 1 / d_u, 0 for a node without edges. `keep` = 0 never reads what `out` held before.
    """
    pieces = balanced_pieces(indptr, threads or get_num_threads())
    _hop(
        pieces,
        indptr.view(np.uint64),
        indices.view(np.uint32 if indices.dtype.itemsize == 4 else np.uint64),
        weights,
        inverse,
        z,
        x,
        out,
        np.float32(loop),
        np.float32(scale),
        np.float32(shift),
        np.float32(keep),
    )


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
    for piece in prange(len(pieces) - 1):
        total = np.empty(128, np.float32)
        part = np.empty(128, np.float32)
        for first in range(np.uint64(0), np.uint64(z.shape[1]), np.uint64(128)):
            width = min(np.uint64(128), np.uint64(z.shape[1]) - first)
            for u in range(pieces[piece], pieces[piece + 1]):
                for c in range(width):
                    total[c] = loop * z[u, first + c]
                _add_neighbours(indptr[u], indptr[u + np.uint64(1)], indices, weights, z, first, width, total, part)
                factor = scale * inverse[u]
                if keep == np.float32(0):
                    for c in range(width):
                        out[u, first + c] = factor * total[c] + shift * x[u, first + c]
                else:
                    for c in range(width):
                        out[u, first + c] = factor * total[c] + shift * x[u, first + c] + keep * out[u, first + c]


@jit  # type: ignore[untyped-decorator]
def _add_neighbours(
    start: Any, end: Any, indices: Any, weights: Any, z: Any, first: Any, width: Any, total: Any, part: Any
) -> None:
    for run in range(start, end, np.uint64(512)):
        stop = min(end, run + np.uint64(512))
        for c in range(width):
            part[c] = np.float32(0)
        for e in range(run, stop):
            if e + np.uint64(8) < end:
                ahead = np.uint64(indices[e + np.uint64(8)])
                for c in range(np.uint64(0), width, np.uint64(16)):
                    prefetch(z, ahead, first + c)
            v = np.uint64(indices[e])
            if weights is None:
                for c in range(width):
                    part[c] += z[v, first + c]
            else:
                w = weights[e]
                for c in range(width):
                    part[c] += w * z[v, first + c]
        for c in range(width):
            total[c] += part[c]
