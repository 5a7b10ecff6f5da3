"""Reading blocks of columns out of features of any kind, and moving rows between arrays with threads.

A reader is `read(start, first, scale, out)`: rows start.. and columns first.. of X, row u times scale[u], into the
float32 block `out`. It never holds more than a few rows of X beside the block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet._memory import forget_pages
from tuplet._threads import over
from tuplet.graph import Features, check_size, checked_features

Block: TypeAlias = NDArray[np.float32]
Reader: TypeAlias = Callable[[int, int, Block, Block], None]

_CHUNK = 2**24  # bytes of a memory map that are looked at together
_PIECE = 2**21  # bytes of a block that one thread moves at a time, and
_PIECES = 4  # so many for each thread, until pages are given back


def make_reader(x: Features, projection: Any = None) -> Reader:
    """The reader of X, or of X times `projection` (f, k) where one is given."""
    if projection is not None:
        return _projected_reader(x, projection)
    if sp.issparse(x):
        return _csr_reader(x)

    def read(start: int, first: int, scale: Block, out: Block) -> None:
        rows, columns = out.shape
        part = x[start : start + rows, first : first + columns]
        np.multiply(part, scale[start : start + rows, None], out=out, casting="same_kind")

    return read


def _csr_reader(x: Any) -> Reader:
    from tuplet.kernels.csr import cut_columns

    def read(start: int, first: int, scale: Block, out: Block) -> None:
        cut_columns(x.indptr, x.indices, x.data, start, first, scale, out)

    return read


def _projected_reader(x: Features, projection: Any) -> Reader:
    cached: dict[tuple[int, int], Block] = {}

    def read(start: int, first: int, scale: Block, out: Block) -> None:
        rows, columns = out.shape
        if (first, columns) not in cached:
            part = projection[:, first : first + columns]
            dense = part.toarray() if sp.issparse(part) else part
            cached.clear()
            cached[first, columns] = np.ascontiguousarray(dense, dtype=np.float32)
        chunk = x[start : start + rows]
        if chunk.dtype != np.float32:
            chunk = chunk.astype(np.float32)
        np.multiply(chunk @ cached[first, columns], scale[start : start + rows, None], out=out)

    return read


def checked_map(x: Any, n: int) -> Features:
    """The memory map `x` (n, f) after a look at every value, by chunks whose pages are given back at once."""
    checked_features(x[:1], min(1, n))
    if x.ndim != 2 or len(x) != n:
        checked_features(x, n)  # raises
    step = max(1, _CHUNK // max(1, x[:1].nbytes))
    largest = 0.0
    for start in range(0, n, step):
        block = x[start : start + step]
        bad = ~np.isfinite(block).all(1)
        if bad.any():
            row = start + int(bad.argmax())
            raise InputError(f"x holds NaN or infinity, first in row {row}. Remove or replace these values first.")
        largest = max(largest, abs(float(block.max())), abs(float(block.min())))
        forget_pages(x)
    check_size(np.array([largest]))
    return x if x.dtype.kind == "f" else x.astype(np.float32)  # type: ignore[no-any-return]


def fill_block(read: Reader, x: Features, first: int, scale: Block, out: Block) -> None:
    """Read all rows of one block of columns, by threads; pages of a memory-mapped X are given back on the way."""

    def chunk(start: int, stop: int) -> None:
        read(start, first, scale, out[start:stop])

    over_rows(chunk, len(out), x_row_bytes(x, out.shape[1]), after=lambda: forget_pages(x))


def x_row_bytes(x: Features, columns: int) -> int:
    """Bytes of memory that reading one row of `columns` columns of X touches."""
    return int(columns * 4 if sp.issparse(x) else max(columns * 4, min(x.shape[1] * x.dtype.itemsize, 4096)))


def over_rows(
    work: Callable[[int, int], None], n: int, row_bytes: int, *, after: Callable[[], None] | None = None
) -> None:
    """Call `work(start, stop)` for chunks of the n rows, from several threads; `after()` once in a while."""
    from tuplet.kernels.spmm import thread_count

    step, threads = max(1, _PIECE // max(1, row_bytes)), thread_count()
    chunks = [(start, min(n, start + step)) for start in range(0, n, step)]
    for group in range(0, len(chunks), _PIECES * threads):
        over(lambda pair: work(*pair), chunks[group : group + _PIECES * threads], threads=threads, hold=False)
        if after is not None:
            after()


def put_rows(target: NDArray[Any], rows: Block) -> None:
    """Copy `rows` into `target`, which may be float16; a value too large for it is an error."""
    with np.errstate(over="ignore"):
        target[...] = rows
    if target.dtype != rows.dtype and not np.isfinite(target).all():
        refuse_large(float(np.abs(rows).max()))


def refuse_large(value: float) -> NoReturn:
    """The error for rows with an entry of that size, which float16 cannot hold."""
    raise InputError(
        f"The filtered rows hold values up to {value:.3g}, too large for float16 (at most 65504). "
        'Scale the features, or keep dtype="float32".'
    )
