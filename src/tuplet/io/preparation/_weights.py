"""How much the columns weigh in the rows' lengths, and which of them deserve a warning."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet.io.preparation._plan import Column
from tuplet.io.preparation._values import missing_of, texts

if TYPE_CHECKING:
    import pyarrow as pa

DOMINANT = 0.9  # share of the rows' squared length that one of several columns should not have


def weighed(columns: tuple[Column, ...], sample: pa.Table, scale: bool) -> tuple[tuple[Column, ...], list[str]]:
    """The columns with factors, so that each block has a mean squared row length of 1; and what dominates.

    Inside a block the columns weigh the same. A block that keeps its values is left alone where it is the only one.
    """
    squares, missing = [], []
    for column in columns:
        values = sample.column(column.encoder.name)
        squares.append(_mean_square(column.encoder.transform(values).values))
        missing.append(float(missing_of(values).mean()))
    columns = tuple(replace(column, missing=gap) for column, gap in zip(columns, missing))
    if not scale:
        return columns, _dominant(columns, squares)
    if len({column.block for column in columns}) == 1 and columns[0].role in ("vector", "plain"):
        return columns, []
    total, filled = defaultdict[str, float](float), Counter[str]()
    for column, square in zip(columns, squares):
        total[column.block] += square
        filled[column.block] += square > 0
    return tuple(_with_factor(c, s, total[c.block], filled[c.block]) for c, s in zip(columns, squares)), []


def _with_factor(column: Column, square: float, total: float, filled: int) -> Column:
    """The column with 1 / sqrt(its mean square times the number of columns in the block)."""
    size = total if column.block == "plain" else square * filled  # like numbers have one factor
    return replace(column, factor=float(1 / np.sqrt(size)) if size > 0 else 1.0)


def _mean_square(values: Any) -> float:
    data: Any = values.data if sp.issparse(values) else values
    return float(np.square(data, dtype=np.float64).sum() / max(1, values.shape[0]))


def _dominant(columns: Sequence[Column], squares: Sequence[float]) -> list[str]:
    """A warning for a column that makes up most of the rows' length."""
    total = sum(squares)
    return [
        f"Column {column.encoder.name!r} makes up {square / total:.0%} of the rows' squared length and hides the "
        "others. Let it be scaled, or leave it out."
        for column, square in zip(columns, squares)
        if len(columns) > 1 and total > 0 and square > DOMINANT * total
    ]


def copies_of_label(sample: pa.Table, columns: Sequence[Column], label: str | None) -> list[str]:
    """A warning for a column whose values and the classes name each other."""
    if label is None or label not in sample.column_names:
        return []
    candidates = [column for column in columns if column.role in ("category", "number", "boolean", "plain")]
    classes = _codes(sample.column(label))
    copies = [c.encoder.name for c in candidates if _name_each_other(_codes(sample.column(c.encoder.name)), classes)]
    return [f"Column {name!r} is a copy of the label {label!r}. Leave it out with exclude=." for name in copies]


def _codes(column: Any) -> NDArray[np.int64]:
    """The values as numbers 0.., -1 where missing."""
    import pyarrow.compute as pc

    codes = pc.dictionary_encode(texts(column)[0]).indices
    return np.asarray(codes.fill_null(-1), dtype=np.int64)


def _name_each_other(a: NDArray[np.int64], b: NDArray[np.int64]) -> bool:
    known = (a >= 0) & (b >= 0)
    pairs = len(np.unique(np.column_stack([a, b])[known], axis=0))
    return 1 < pairs < int(known.sum()) and pairs == len(np.unique(a[known])) == len(np.unique(b[known]))
