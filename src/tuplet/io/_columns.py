"""Table columns -> features: numbers, booleans, categories (one-hot), token lists and vector columns.

Each table column becomes a `Block` of feature columns with a mask of the rows where its value is missing; _missing.py
fills the blocks and sets them side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet.io.npz import narrow_csr

if TYPE_CHECKING:
    import pyarrow as pa

NULL_WORDS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
MANY_CATEGORIES = 1000


@dataclass(frozen=True)
class Block:
    """The feature columns made from one table column.

    `values` is (n, width), dense float32 or CSR, zero where missing; `missing` (n,) marks the rows without a value.
    """

    column: str
    kind: str
    names: tuple[str, ...]
    values: Any
    missing: NDArray[np.bool_]


def column_blocks(
    table: pa.Table,
    columns: Sequence[str] | None = None,
    *,
    categorical: Sequence[str] = (),
    tokens: Sequence[str] | Mapping[str, str] = (),
    leave_out: Sequence[str] = (),
) -> list[Block]:
    """One block for each chosen column of `table` (all but `leave_out` by default).

    `categorical` names columns to one-hot encode though they hold numbers (or very many texts). `tokens` names text
    columns that hold several tokens each, split at blanks, or at the separator given for the name.

    >>> import pyarrow as pa
    >>> t = pa.table({"age": [1.0, 2.0], "kind": ["a", "b"], "words": [["x", "y"], ["x"]]})
    >>> [(block.kind, block.names) for block in column_blocks(t)]
    [('numeric', ('age',)), ('categorical', ('kind=a', 'kind=b')), ('tokens', ('words:x', 'words:y'))]
    """
    names = dict.fromkeys(table.column_names)
    chosen = [name for name in names if name not in leave_out] if columns is None else list(columns)
    for name in [*chosen, *categorical, *tokens]:
        if name not in names:
            raise InputError(f"There is no column {name!r}. The columns are: {', '.join(names)}.")
    if not chosen:
        raise InputError("The features have no columns besides the ids. Give at least one feature column.")
    blocks = []
    for name in chosen:
        column = table.column(name)
        if name in categorical:
            blocks.append(_categories(name, column, forced=True))
        elif name in tokens:
            blocks.append(_tokens(name, _split(column, tokens[name] if isinstance(tokens, Mapping) else None)))
        else:
            blocks.append(_by_type(name, column))
    return blocks


def _by_type(name: str, column: pa.ChunkedArray) -> Block:
    import pyarrow as pa

    kind, types = column.type, pa.types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind):
        return _numbers(name, column, "numeric")
    if types.is_boolean(kind):
        return _numbers(name, column, "boolean")
    if types.is_string(kind) or types.is_large_string(kind):
        return _categories(name, column, forced=False)
    if types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind):
        inner = kind.value_type
        if types.is_string(inner) or types.is_large_string(inner):
            return _tokens(name, column)
        if types.is_floating(inner) or (types.is_fixed_size_list(kind) and types.is_integer(inner)):
            return _vectors(name, column)
        if types.is_integer(inner):
            return _tokens(name, column)
    raise InputError(
        f"Column {name!r} holds {kind}, which is not a feature. Convert it to numbers, or leave it out with columns=."
    )


def _numbers(name: str, column: pa.ChunkedArray, kind: str) -> Block:
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = pc.cast(pc.cast(column, pa.int8()) if kind == "boolean" else column, pa.float64(), safe=False)
    values = np.asarray(pc.fill_null(numbers, float("nan")), dtype=np.float64)
    if np.isinf(values).any():
        raise InputError(f"Column {name!r} holds infinity in row {int(np.isinf(values).argmax()) + 1}. Replace it.")
    missing = np.isnan(values)
    with np.errstate(over="ignore"):
        dense = np.where(missing, 0, values).astype(np.float32)[:, None]
    if np.isinf(dense).any():
        raise InputError(
            f"Column {name!r} holds {values[np.isinf(dense[:, 0])][0]:g}, too large for float32. Scale it."
        )
    return Block(name, kind, (name,), dense, missing)


def _categories(name: str, column: pa.ChunkedArray, *, forced: bool) -> Block:
    """One-hot columns NAME=VALUE, values in ascending order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pc.cast(column, pa.large_string())
    missing = np.asarray(pc.fill_null(pc.is_in(text, pa.array(NULL_WORDS, pa.large_string())), True), dtype=bool)
    missing |= np.asarray(pc.is_null(text), dtype=bool)
    known = text.filter(pa.array(~missing))
    if not forced:
        _check_text(name, known, missing)
    values = pc.unique(known)
    values = values.take(pc.sort_indices(values))
    if not forced and len(values) > MANY_CATEGORIES and len(values) > len(known) / 2:
        raise InputError(
            f"Column {name!r} holds {len(values)} different texts in {len(known)} rows, too many for categories. "
            f"Leave it out with columns=, split it with tokens=[{name!r}], or insist with categorical=[{name!r}]."
        )
    codes = np.asarray(pc.index_in(known, value_set=values), dtype=np.int64)
    rows = np.flatnonzero(~missing)
    ones = np.ones(len(rows), np.float32)
    matrix = sp.csr_array((ones, (rows, codes)), shape=(len(text), len(values)))
    return Block(name, "categorical", tuple(f"{name}={value}" for value in values.to_pylist()), matrix, missing)


def _check_text(name: str, known: pa.ChunkedArray, missing: NDArray[np.bool_]) -> None:
    """Raise where a column of texts is mostly numbers: one stray word must not make thousands of categories."""
    import pyarrow.compute as pc

    number = pc.match_substring_regex(known, r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$")
    mask = np.asarray(number, dtype=bool)
    if mask.all() or mask.sum() * 2 <= len(mask):
        return
    first = int((~mask).argmax())
    row = int(np.flatnonzero(~missing)[first]) + 1
    raise InputError(
        f"Column {name!r} holds text in {int((~mask).sum())} of {len(mask)} values, "
        f"first {known[first].as_py()!r} in row {row}; the others are numbers. "
        f"Correct or empty them, or say categorical=[{name!r}]."
    )


def _split(column: pa.ChunkedArray, separator: str | None) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    if separator is None:
        return pc.utf8_split_whitespace(pc.utf8_trim_whitespace(column))
    return pc.split_pattern(column, separator)


def _tokens(name: str, column: Any) -> Block:
    """Counts of each token, columns NAME:TOKEN in ascending order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = np.asarray(pc.is_null(column), dtype=bool)
    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        raise InputError(f"Column {name!r} holds {kind}, not token lists or text. Leave it out of tokens=.")
    flat = pc.list_flatten(column)
    rows = np.asarray(pc.list_parent_indices(column), dtype=np.int64)
    filled = np.asarray(pc.is_valid(flat), dtype=bool)
    if pa.types.is_string(flat.type) or pa.types.is_large_string(flat.type):
        filled &= np.asarray(pc.fill_null(pc.not_equal(flat, ""), False), dtype=bool)
    flat, rows = flat.filter(pa.array(filled)), rows[filled]
    values = pc.unique(flat)
    values = values.take(pc.sort_indices(values))
    if not len(values):
        raise InputError(f"Column {name!r} holds no tokens at all. Leave it out with columns=.")
    codes = np.asarray(pc.index_in(flat, value_set=values), dtype=np.int64)
    matrix = sp.csr_array((np.ones(len(codes), np.float32), (rows, codes)), shape=(len(missing), len(values)))
    matrix.sum_duplicates()
    return Block(name, "tokens", tuple(f"{name}:{value}" for value in values.to_pylist()), matrix, missing)


def _vectors(name: str, column: pa.ChunkedArray) -> Block:
    """A list column of equally long number lists as NAME[0], NAME[1], ..; chunk by chunk, sparse where that pays."""
    import pyarrow.compute as pc

    missing = np.asarray(pc.is_null(column), dtype=bool)
    lengths = pc.unique(pc.list_value_length(column).drop_null()).to_pylist()
    if len(lengths) != 1 or not lengths[0]:
        raise InputError(f"Column {name!r} holds lists of lengths {sorted(lengths)[:5]}. All must be equally long.")
    width, parts = int(lengths[0]), []
    for chunk in column.chunks:
        known = np.asarray(pc.is_valid(chunk), dtype=bool)
        flat = np.asarray(pc.fill_null(pc.list_flatten(chunk), float("nan")), dtype=np.float32)
        rows = np.zeros((len(chunk), width), np.float32)
        rows[known] = flat.reshape(-1, width)
        if not np.isfinite(rows).all():
            raise InputError(
                f"Column {name!r} holds vectors with empty, NaN or infinite entries. Replace them first."
            )
        parts.append(compact(rows))
    dense = all(isinstance(part, np.ndarray) for part in parts)
    values: Any = np.vstack(parts) if dense else sp.csr_array(sp.vstack([sp.csr_array(part) for part in parts]))
    return Block(name, "vector", tuple(f"{name}[{i}]" for i in range(width)), values, missing)


def compact(values: Any) -> Any:
    """`values` as CSR where that takes less memory than dense (16 columns or more, under half filled)."""
    n, f = values.shape
    nonzero = values.nnz if sp.issparse(values) else int(np.count_nonzero(values))
    if f < 16 or nonzero * 2 >= n * f:
        return values.toarray() if sp.issparse(values) else values
    matrix = sp.csr_array(values)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return narrow_csr(matrix)
