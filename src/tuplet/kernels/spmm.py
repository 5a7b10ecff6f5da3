"""One hop of the filter: neighbour means of dense rows, blocked by columns.

    out[u] = scale * (sum over v of w_uv z[v] + loop * z[u]) / d_u + shift * x[u] + keep * out[u]

Rows are cut into pieces of equal work (edges, not rows: hubs), one piece a thread of the one pool (`_threads`), whose
threads sleep while they wait. Each row is summed by one thread in the order of its edges, so the result does not
depend on the number of threads. Index arrays come in as unsigned views: numba checks signed ones for negative
indices, at over twice the time. Four rows are added at a time, which halves the time again against one: the sum is
then loaded and stored a quarter as often.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from tuplet._jit import jit
from tuplet._threads import cores, over
from tuplet.kernels.prefetch import prefetch

SMALL = 2**22  # multiply-adds, some ms: for less, waking threads takes longer than the work on a busy machine


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

    With `keep` = 0 `out` is not read and may start uninitialised; with `keep` = `shift` = 0 `x` is not read either;
    with `loop` = 0 `z` may have any number of rows (a general product CSR times dense).
    """
    unsigned = np.uint32 if indices.dtype.itemsize == 4 else np.uint64
    arrays = (indptr.view(np.uint64), indices.view(unsigned), weights, inverse, z, x, out)
    factors = (np.float32(loop), np.float32(scale), np.float32(shift), np.float32(keep))
    if threads is None and (int(indptr[-1]) + len(out)) * out.shape[1] < SMALL:
        _hop_rows(np.uint64(0), np.uint64(len(out)), *arrays, *factors)
        return
    count = threads or thread_count()
    pieces = balanced_pieces(indptr, count)
    over(lambda i: _hop_rows(pieces[i], pieces[i + 1], *arrays, *factors), range(count), threads=count, hold=False)


def thread_count() -> int:
    """Threads that the kernels use: the cores of this process, or less where it or numba was told so."""
    return min(cores(), int(get_num_threads()))


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
    columns = np.uint64(out.shape[1])
    for first in range(np.uint64(0), columns, np.uint64(128)):
        left = columns - first
        if left >= np.uint64(128):
            _block_128(start, stop, first, indptr, indices, weights, inverse, z, x, out, loop, scale, shift, keep)
        elif left == np.uint64(64):
            _block_64(start, stop, first, indptr, indices, weights, inverse, z, x, out, loop, scale, shift, keep)
        else:
            _block_any(start, stop, first, indptr, indices, weights, inverse, z, x, out, loop, scale, shift, keep)


def _make_block(fixed: int) -> Any:
    """The hop for one block of `fixed` columns, so that its loops have no remainder; 0: any number up to 128.

    One long body on purpose: where the sums are arguments of an inner function, the compiler cannot tell that they
    are apart from z, and checks it again for every edge (a quarter of the time).
    """

    @jit  # type: ignore[untyped-decorator]
    def block(
        start: Any,
        stop: Any,
        first: Any,
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
        width = np.uint64(fixed) if fixed else np.uint64(out.shape[1]) - first
        total, part = np.empty(128, np.float32), np.empty(128, np.float32)
        last = np.uint64(len(indices))
        for u in range(start, stop):
            for i in range(width):
                part[i] = np.float32(0)
            if loop != np.float32(0):
                for i in range(width):
                    part[i] = loop * z[u, first + i]
            e, end, runs = indptr[u], indptr[u + np.uint64(1)], 0
            while True:  # runs of 512 edges, each with its own sum: hubs keep their precision
                fence = min(end, e + np.uint64(512))
                while e + np.uint64(4) <= fence:
                    if (
                        e + np.uint64(12) <= last
                    ):  # rows that come 8 edges later, of the next node too: most are short
                        for ahead in range(e + np.uint64(8), e + np.uint64(12)):
                            for i in range(np.uint64(0), width, np.uint64(32)):  # the line beside comes along
                                prefetch(z, np.uint64(indices[ahead]), first + i)
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
                    e += np.uint64(4)
                while e < fence:
                    if e + np.uint64(8) < last:
                        for i in range(np.uint64(0), width, np.uint64(32)):
                            prefetch(z, np.uint64(indices[e + np.uint64(8)]), first + i)
                    v = np.uint64(indices[e])
                    w = np.float32(1) if weights is None else weights[e]
                    for i in range(width):
                        part[i] += w * z[v, first + i]
                    e += np.uint64(1)
                if runs > 0:
                    for i in range(width):
                        part[i] += total[i]
                if e >= end:
                    break
                runs += 1
                for i in range(width):
                    total[i] = part[i]
                    part[i] = np.float32(0)
            factor = scale * inverse[u]
            if keep != np.float32(0):
                for i in range(width):
                    out[u, first + i] = factor * part[i] + shift * x[u, first + i] + keep * out[u, first + i]
            elif shift != np.float32(0):
                for i in range(width):
                    out[u, first + i] = factor * part[i] + shift * x[u, first + i]
            else:
                for i in range(width):
                    out[u, first + i] = factor * part[i]

    return block


_block_128, _block_64, _block_any = _make_block(128), _make_block(64), _make_block(0)
