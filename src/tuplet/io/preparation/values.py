"""Arrow columns -> plain values: numbers, days, texts and token lists, with the rows where nothing stands."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError, option
from tuplet.io._cells import NULL_WORDS

if TYPE_CHECKING:
    import pyarrow as pa

Doubles = NDArray[np.float64]
Mask = NDArray[np.bool_]

NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
ISO_DATE = r"^\s*[12]\d{3}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])([T ][\d:.]+)?\s*(Z|UTC|[-+]\d\d:?\d\d)?\s*$"


def is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def is_list(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def missing_of(column: Any) -> Mask:
    """(n,), True where a row holds nothing: null, NaN, an empty text, a word for nothing, an empty list."""
    import pyarrow as pa
    import pyarrow.compute as pc

    missing: Mask = np.asarray(pc.is_null(column, nan_is_null=True), dtype=bool)
    if is_text(column.type):
        words = pa.array(NULL_WORDS, column.type)
        trimmed = pc.utf8_trim_whitespace(column)
        missing = missing | np.asarray(pc.fill_null(pc.is_in(trimmed, words), True), dtype=bool)
    return missing


def texts(column: Any) -> tuple[Any, Mask]:
    """The column as texts, null where missing. Whole numbers read 7, not 7.0, whichever type they came in."""
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = missing_of(column)
    if pa.types.is_floating(column.type) and not missing.all():
        whole = np.asarray(pc.fill_null(pc.equal(column, pc.round(column)), True), dtype=bool)
        if (whole | missing).all():
            column = pc.cast(pc.if_else(pa.array(missing), None, column), pa.int64(), safe=False)
    text = pc.cast(column, pa.large_string())
    text = text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text
    return pc.if_else(pa.array(missing), pa.scalar(None, pa.large_string()), pc.utf8_trim_whitespace(text)), missing


def numbers(name: str, column: Any) -> Doubles:
    """float64 (n,), NaN where missing; texts are read as numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if is_text(column.type):
        column = _parsed(name, column)
    elif pa.types.is_boolean(column.type):
        column = pc.cast(column, pa.int8())
    try:
        values = np.asarray(pc.fill_null(pc.cast(column, pa.float64(), safe=False), float("nan")), dtype=np.float64)
    except pa.ArrowException:
        raise InputError(f"Column {name!r} holds {column.type}, not numbers. Give it another role.") from None
    infinite = np.isinf(values)
    if infinite.any():
        raise InputError(f"Column {name!r} holds infinity in row {int(infinite.argmax()) + 1}. Replace it.")
    return values


def _parsed(name: str, column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    text, _ = texts(column)
    wrong = np.asarray(pc.fill_null(pc.invert(pc.match_substring_regex(text, NUMBER)), False), dtype=bool)
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"Column {name!r} should hold numbers, but row {row + 1} holds {text[row].as_py()!r}. "
            f"Correct or empty it, or say {option('roles', {name: 'category'})}."
        )
    return pc.cast(text, pa.float64())


def days(name: str, column: Any) -> Doubles:
    """Days since 1970 as float64 (n,), NaN where missing; texts are read as ISO dates, of which the day counts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if is_text(column.type):
        text, missing = texts(column)
        return _iso_days(name, text, missing)
    try:
        moment = pc.cast(column, pa.timestamp("us"), safe=False)
    except pa.ArrowException:
        raise InputError(f"Column {name!r} holds {column.type}, not dates. Give it another role.") from None
    missing = np.asarray(pc.is_null(moment), dtype=bool)
    micro = np.asarray(pc.fill_null(pc.cast(moment, pa.int64()), 0), dtype=np.float64)
    return np.where(missing, np.nan, micro / 86_400e6)


def _iso_days(name: str, text: Any, missing: Mask) -> Doubles:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        day = pc.cast(pc.cast(pc.utf8_slice_codeunits(text, 0, 10), pa.date32()), pa.int32())
    except pa.ArrowException:
        row = next(i for i in np.flatnonzero(~missing) if not _is_date(text[int(i)].as_py()))
        raise InputError(
            f"Column {name!r} should hold dates, but row {row + 1} holds {text[int(row)].as_py()!r}. "
            f"Correct or empty it (as 2024-01-31), or say {option('roles', {name: 'category'})}."
        ) from None
    return np.where(missing, np.nan, np.asarray(pc.fill_null(day, 0), dtype=np.float64))


def _is_date(text: str) -> bool:
    try:
        datetime.date.fromisoformat(text[:10])
    except ValueError:
        return False
    return True


def share_matching(column: Any, pattern: str) -> float:
    """The share of the values that are there and match `pattern`."""
    import pyarrow.compute as pc

    text, missing = texts(column)
    known = int((~missing).sum())
    matches = int(pc.sum(pc.fill_null(pc.match_substring_regex(text, pattern), False)).as_py() or 0)
    return matches / known if known else 0.0


def words(column: Any) -> Any:
    """Lists of a text column's words: lower case, letters (with their marks) and digits, two characters and more."""
    import pyarrow.compute as pc

    text, _ = texts(column)
    spaced = pc.replace_substring_regex(pc.utf8_lower(pc.utf8_normalize(text, "NFC")), r"[^\pL\pM\pN]+", "  ")
    spaced = pc.replace_substring_regex(spaced, r"(^| )[\pL\pN]( |$)", " ")  # \b would end a word at every ü
    return pc.utf8_split_whitespace(pc.utf8_trim_whitespace(spaced))


def parts(name: str, column: Any, separator: str | None) -> Any:
    """Lists of tokens: a list column as it is, a text column split at `separator` or at blanks."""
    import pyarrow.compute as pc

    if is_list(column.type):
        return column
    if not is_text(column.type):
        raise InputError(f"Column {name!r} holds {column.type}, not token lists or text. Give it another role.")
    text, _ = texts(column)
    return pc.utf8_split_whitespace(text) if separator is None else pc.split_pattern(text, separator)


def flat_tokens(lists: Any) -> tuple[Any, NDArray[np.int64]]:
    """All tokens as trimmed texts, and the row of each; empty ones left out."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(lists, pa.ChunkedArray):
        lists = lists.combine_chunks()
    rows = np.asarray(pc.list_parent_indices(lists), dtype=np.int64)
    text = pc.utf8_trim_whitespace(pc.cast(pc.list_flatten(lists), pa.large_string()))
    filled = np.asarray(pc.fill_null(pc.not_equal(text, ""), False), dtype=bool)
    return text.filter(pa.array(filled)), rows[filled]
