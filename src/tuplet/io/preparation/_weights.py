"""How much the columns weigh where rows are compared, and which of them deserve a warning."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import option
from tuplet.io.preparation._plan import Column
from tuplet.io.preparation.values import missing_of, texts

if TYPE_CHECKING:
    import pyarrow as pa

PAIRED_ROWS = 2048  # rows of the sample that are compared with each other
DOMINANT = 0.9  # share of the rows' squared length that one of several columns should not have


def weighed(columns: tuple[Column, ...], sample: pa.Table, scale: bool) -> tuple[tuple[Column, ...], list[str]]:
    """The columns with factors, so that all blocks weigh the same where rows are compared; and what dominates.

    The root mean square of the inner products of two rows is the same in each block (as STATIS has it for several
    tables), and the mean squared row length over all blocks is their number. By lengths alone a few numbers, in which
    any two rows are alike or opposite, would drown a text, in which most rows have nothing in common.
    Inside a block the columns weigh the same in the rows where they hold a value: one that is mostly missing is not
    blown up. A block that keeps its values is left alone where it is the only one.
    """
    squares = [_mean_square(c.encoder.transform(sample.column(c.encoder.name)).values) for c in columns]
    missing = [float(missing_of(sample.column(c.encoder.name)).mean()) for c in columns]
    columns = tuple(replace(column, missing=gap) for column, gap in zip(columns, missing))
    if not scale:
        return columns, _dominant(columns, squares)
    if len({column.block for column in columns}) == 1 and columns[0].role in ("vector", "plain"):
        return columns, []
    sizes = [_size(column, square) for column, square in zip(columns, squares)]
    total = defaultdict[str, float](float)
    for column, square, size in zip(columns, squares, sizes):
        total[column.block] += square / size
    factors = [1 / np.sqrt(size * (total[c.block] or 1)) for c, size in zip(columns, sizes)]
    columns = tuple(replace(column, factor=float(f)) for column, f in zip(columns, factors))
    weights = _by_pairs(columns, sample)
    return tuple(replace(c, factor=float(f"{c.factor * weights[c.block]:.6g}")) for c in columns), []


def _by_pairs(columns: Sequence[Column], sample: pa.Table) -> dict[str, float]:
    """A factor for each block, whose mean squared row length is 1, by how alike two rows are in it."""
    rows = np.unique(np.linspace(0, sample.num_rows - 1, PAIRED_ROWS).astype(np.int64))
    few, parts = sample.take(rows), defaultdict[str, list[Any]](list)
    for column in columns:
        values = column.encoder.transform(few.column(column.encoder.name)).values
        parts[column.block].append(sp.csr_array(values) * column.factor)
    squares = {block: _length_by_product(sp.csr_array(sp.hstack(found))) for block, found in parts.items()}
    mean = sum(squares.values()) / len(squares)
    return {block: float(np.sqrt(square / mean)) for block, square in squares.items()}


def _length_by_product(x: Any) -> float:
    """The mean squared length of the rows over the root mean square of the inner products of all pairs."""
    small = min(x.shape) == x.shape[1]
    if small and x.nnz * 4 > x.shape[0] * x.shape[1]:
        x = x.toarray()
    products = (x.T @ x if small else x @ x.T).astype(np.float64)
    root = float(np.sqrt(_mean_square(products) * products.shape[0]))
    square = _mean_square(x) * x.shape[0]
    return square / root if root else 1.0


def _size(column: Column, square: float) -> float:
    """The mean squared length over the rows that hold something; 1 for numbers that are alike already."""
    if column.block == "plain" or not square:
        return 1.0
    said = getattr(column.encoder, "gaps", False)  # a column of its own for missing values fills their rows
    return square if said else square / (1 - column.missing)


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
    say = "Column {!r} is a copy of the label {!r}. Leave it out: {}."
    return [say.format(name, label, option("exclude", [name])) for name in copies]


def _codes(column: Any) -> NDArray[np.int64]:
    """The values as numbers 0.., -1 where missing."""
    import pyarrow.compute as pc

    codes = pc.dictionary_encode(texts(column)[0]).indices
    return np.asarray(codes.fill_null(-1), dtype=np.int64)


def _name_each_other(a: NDArray[np.int64], b: NDArray[np.int64]) -> bool:
    known = (a >= 0) & (b >= 0)
    pairs = len(np.unique(np.column_stack([a, b])[known], axis=0))
    return 1 < pairs < int(known.sum()) and pairs == len(np.unique(a[known])) == len(np.unique(b[known]))
