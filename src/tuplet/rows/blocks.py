"""Tall arrays by blocks of rows: from memory or memory maps, by the threads of the one pool, to memory or to a file.

The blocks depend on the sizes alone and their results are used in order, so the bits do not depend on the threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._files import write_header
from tuplet._memory import forget_pages
from tuplet._threads import over

R = TypeVar("R")

BLOCK_VALUES = 2**20  # matrix values handled at once, by one thread
_AT_ONCE = 32  # blocks whose results are held together
_TORCH_FROM = 2**16  # numbers


def blocks(n: int, width: int) -> list[slice]:
    """Slices of `n` rows of `width` values, some million values each.

    >>> blocks(3, 2**19)
    [slice(0, 2, None), slice(2, 3, None)]
    """
    step = max(1, BLOCK_VALUES // max(1, width))
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def over_blocks(
    function: Callable[[slice], R], n: int, width: int, *, maps: Sequence[Any] = (), at_once: int = _AT_ONCE
) -> Iterator[tuple[slice, R]]:
    """(block, function(block)) for the blocks of `n` rows, in order; pages of `maps` are given back on the way."""
    todo = blocks(n, width)
    for first in range(0, len(todo), at_once):
        some = todo[first : first + at_once]
        yield from zip(some, over(function, some))
        for array in maps:
            forget_pages(array)


def gathered(
    function: Callable[[slice], Any], shape: tuple[int, int], width: int, *, maps: Sequence[Any] = ()
) -> NDArray[np.float32]:
    """function(block) of all blocks, one below the other: float32 of `shape`. `width` values a row are read."""
    out = np.empty(shape, np.float32)

    def fill(block: slice) -> None:
        out[block] = function(block)

    for _ in over_blocks(fill, shape[0], max(width, shape[1]), maps=maps):
        pass
    return out


def written(
    path: Path,
    function: Callable[[slice], Any],
    shape: tuple[int, int],
    width: int,
    *,
    maps: Sequence[Any] = (),
    tick: Callable[[float], None] | None = None,
) -> None:
    """The same as an .npy file, written from front to back and renamed when it is whole."""
    unfinished = path.with_suffix(".tmp")
    with unfinished.open("wb") as file:
        write_header(file, shape, np.dtype(np.float32))
        for block, rows in over_blocks(function, shape[0], max(width, shape[1]), maps=maps):
            file.write(np.ascontiguousarray(rows, np.float32).data)
            if tick is not None:
                tick(block.stop / shape[0])
    unfinished.replace(path)


def summed(
    function: Callable[[slice], Any], n: int, width: int, shape: tuple[int, ...], *, maps: Sequence[Any] = ()
) -> NDArray[np.float64]:
    """The sum of function(block) over all blocks, float64, added in their order."""
    total = np.zeros(shape)
    for _, part in over_blocks(function, n, width, maps=maps, at_once=16):
        total += part
    return total


def float_rows(x: Any, block: slice) -> Any:
    """Rows of `x`, dense or CSR, as float32. Torch turns float16 ten times as fast as NumPy, to the same bits."""
    rows = x[block]
    if sp.issparse(rows):
        return rows.astype(np.float32)
    if rows.dtype != np.float16:
        return np.asarray(rows, np.float32)
    if rows.size < _TORCH_FROM:
        return rows.astype(np.float32)  # torch need not be loaded for them
    import torch

    return torch.from_numpy(np.array(rows)).float().numpy()  # of a copy, which can be written: else torch warns
