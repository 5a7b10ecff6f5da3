"""Node ids of any type: whole numbers stay numbers, everything else becomes text. Mapped once, kept, written back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError, option

if TYPE_CHECKING:
    import pyarrow as pa

_TRIED = 100_000  # ids that are tried in other forms


def id_column(
    column: Any, what: str, place: Callable[[int], str] | None = None, *, from_text: bool = False
) -> pa.Array:
    """`column` as one Arrow array of int64, uint64 or large_string, without nulls. `place` names a row for errors.

    `from_text`: it was read from a text file, where "12" is a number, unless some value ("007", "a") is not one.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    array = pa.chunked_array(column) if not isinstance(column, pa.ChunkedArray | pa.Array) else column
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    array = _canonical(array, what)
    absent = array.is_null()
    if pa.types.is_large_string(array.type):
        absent = pc.or_(absent, pc.fill_null(pc.equal(array, ""), True))
    count = pc.sum(absent).as_py() or 0
    if count:
        row = pc.index(absent, True).as_py()
        where = "" if place is None else f", first in {place(row)}"
        raise InputError(f"{count} rows have no id in {what}{where}. Give every row one, or remove the rows.")
    return _as_numbers(array) if from_text else array


def _canonical(array: pa.Array, what: str) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, types = array.type, pa.types
    try:
        if types.is_uint64(kind) and len(array) and (pc.max(array).as_py() or 0) >= 2**63:
            return array
        if types.is_integer(kind):
            return pc.cast(array, pa.int64())
        if types.is_floating(kind):
            return pc.cast(array, pa.int64())  # raises where a value is not whole
        if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
            return pa.array([None if v is None else _from_bytes(v) for v in array.to_pylist()], pa.large_string())
        if types.is_nested(kind) or types.is_null(kind):
            raise InputError(f"{what} holds {kind}, which cannot be node ids. Use numbers or text.")
        return pc.cast(array, pa.large_string())
    except pa.ArrowException as error:
        raise InputError(f"{what} holds {kind} values that cannot be node ids ({error}). Use text.") from None


def _from_bytes(value: bytes) -> str:
    if len(value) == 16:
        import uuid

        return str(uuid.UUID(bytes=value))
    return value.decode("utf-8", "backslashreplace")


def _as_numbers(array: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_large_string(array.type):
        return array
    try:
        numbers = pc.cast(array, pa.int64())
    except pa.ArrowException:
        return array
    return numbers if pc.all(pc.equal(pc.cast(numbers, pa.large_string()), array)).as_py() else array


def unify(*columns: pa.Array) -> list[pa.Array]:
    """The id columns in one common type: all numbers where they are, else all text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if len({column.type for column in columns}) == 1:
        return list(columns)
    numbers = all(pa.types.is_integer(column.type) for column in columns)
    if numbers and all((pc.min(column).as_py() or 0) >= 0 for column in columns):
        return [pc.cast(column, pa.uint64()) for column in columns]
    return [pc.cast(column, pa.large_string()) for column in columns]


def look_up(values: pa.Array, nodes: pa.Array) -> NDArray[np.int64]:
    """The place of each value in `nodes`, -1 where it is not among them."""
    import pyarrow.compute as pc

    found = pc.index_in(values, value_set=nodes)
    return np.asarray(pc.fill_null(found, -1)).astype(np.int64)


def unique_ids(*columns: pa.Array) -> pa.Array:
    """All different ids of the columns, ascending."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = pc.unique(pa.concat_arrays(columns))
    return values.take(pc.sort_indices(values))


def check_unique(column: pa.Array, what: str) -> None:
    """Raise if an id comes twice, with the count and examples."""
    import pyarrow.compute as pc

    counts = pc.value_counts(column)
    often = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(often):
        raise InputError(
            f"{len(often)} ids come more than once in {what}, for example {examples(often.field('values'))}. "
            f"Give one row for each node, or name another id column: {option('id')}"
        )


def would_match(ids: Any, others: Any) -> str:
    """A hint for ids that are not among `others`: how they would have to be written to match, if any way does."""
    import pyarrow as pa
    import pyarrow.compute as pc

    one, two = (pc.cast(side[:_TRIED], pa.large_string()) for side in (ids, others))
    if not len(one) or not len(two):
        return ""
    for way, change in (
        ("without the blanks around them", pc.utf8_trim_whitespace),
        ("as whole numbers (7, not 007 or 7.0)", _number_like),
        ("without the quotes around them", lambda side: pc.utf8_trim(side, " '\"")),
        ("in lower case", lambda side: pc.utf8_lower(pc.utf8_trim_whitespace(side))),
    ):
        count = pc.sum(pc.is_in(change(one), value_set=change(two))).as_py() or 0
        if count:
            return f" {count} of them would match {way}; write them alike."
    return ""


def _number_like(side: Any) -> Any:
    import pyarrow.compute as pc

    return pc.replace_substring_regex(pc.utf8_trim_whitespace(side), r"^0*(\d+?)(\.0*)?$", r"\1")


def examples(ids: Any, most: int = 3) -> str:
    """A few ids for an error message."""
    shown = [repr(value.as_py() if hasattr(value, "as_py") else value) for value in ids[:most]]
    return ", ".join(shown) + (", .." if len(ids) > most else "")


def to_numpy(ids: pa.Array) -> NDArray[Any]:
    """The ids as a NumPy array: int64, uint64 or fixed-width text."""
    import pyarrow as pa

    if pa.types.is_integer(ids.type):
        return np.asarray(ids)
    return np.asarray(ids.to_pylist(), dtype=str)


def is_range(ids: NDArray[Any]) -> bool:
    """Whether the ids are 0, 1, .., n - 1 in this order."""
    return ids.dtype.kind in "iu" and bool(np.array_equal(ids, np.arange(len(ids))))
