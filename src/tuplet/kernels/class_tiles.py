"""Tiles of similarities and classes, in one pass each: torch makes several, and a matrix of who is of one class.

Numbers are float32, and the bits those of torch's passes, which `losses/_log_sums.py` has for GPUs and other types.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tuplet._jit import jit


@jit  # type: ignore[untyped-decorator]
def of_one_class(tile: Any, rows: Any, cols: Any, out: Any) -> None:
    """`tile` (a, b) where the classes of its `rows` (a,) and `cols` (b,) agree, else 0."""
    for i in range(tile.shape[0]):
        for j in range(tile.shape[1]):
            out[i, j] = tile[i, j] if rows[i] == cols[j] else np.float32(0)


@jit  # type: ignore[untyped-decorator]
def pull_of_classes(
    tile: Any, rows: Any, cols: Any, row: Any, col: Any, row_same: Any, col_same: Any, out: Any
) -> None:
    """(row_i + col_j) times the tile, plus (row_same_i + col_same_j) times its part of one class."""
    for i in range(tile.shape[0]):
        for j in range(tile.shape[1]):
            value = tile[i, j]
            same = value if rows[i] == cols[j] else np.float32(0)
            out[i, j] = (row[i] + col[j]) * value + (row_same[i] + col_same[j]) * same
