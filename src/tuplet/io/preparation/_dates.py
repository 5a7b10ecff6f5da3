"""Dates as texts in other forms than 2024-01-31: 31.01.2024, 31/01/2024, 01/31/2024, 2024/01/31."""

from __future__ import annotations

from typing import Any

import numpy as np

from tuplet._check import InputError, option
from tuplet.io._cells import OTHER_DATE
from tuplet.io.preparation import values as read

ORDERS = {"": "", "year": "year first", "day": "day before month", "month": "month before day"}
_PARTS = {
    "year": r"^\s*(?P<y>\d{4})[./](?P<m>\d{1,2})[./](?P<d>\d{1,2})(?:\D|$)",
    "day": r"^\s*(?P<d>\d{1,2})[./-](?P<m>\d{1,2})[./-](?P<y>\d{4})(?:\D|$)",
    "month": r"^\s*(?P<m>\d{1,2})[./-](?P<d>\d{1,2})[./-](?P<y>\d{4})(?:\D|$)",
}


def find_order(name: str, column: Any) -> str:
    """Which part of a column's dates comes first: "year", "day" or "month"; "" for ISO dates and other types.

    Days and months are told apart by a number over 12; with dots the day is first. Where nothing tells, an error.
    """
    import pyarrow.compute as pc

    if not read.is_text(column.type) or read.share_matching(column, OTHER_DATE) < 0.5:
        return ""
    text, _ = read.texts(column)
    if read.share_matching(column, r"^\d{4}") > 0.5:
        return "year"
    parts = pc.extract_regex(text, _PARTS["day"])
    first, second = (max(map(int, pc.struct_field(parts, key).drop_null().to_pylist()), default=0) for key in "dm")
    dots = pc.any(pc.match_substring_regex(text, r"^\d+\.")).as_py()
    if first <= 12 and second <= 12 and not dots:
        raise InputError(
            f"Column {name!r}: in {text.drop_null()[0].as_py()!r} and all the others, day and month cannot be told "
            f"apart. Write the dates as 2024-01-31, or say {option('roles', {name: 'category'})}."
        )
    return "month" if second > 12 and not dots else "day"


def days_in_order(name: str, column: Any, order: str) -> read.Doubles:
    """Days since 1970 as float64 (n,), NaN where missing; texts are read in the order that `find_order` gave."""
    if not order or not read.is_text(column.type) or read.share_matching(column, read.ISO_DATE) == 1:
        return read.days(name, column)
    import pyarrow.compute as pc

    text, missing = read.texts(column)
    parts = pc.extract_regex(text, _PARTS[order])
    y, m, d = (_whole(pc.struct_field(parts, key)) for key in "ymd")
    month = (y - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (m - 1)
    day = month.astype("datetime64[D]") + (d - 1)
    right = (m >= 1) & (m <= 12) & (d >= 1) & (day.astype("datetime64[M]") == month)
    wrong = ~missing & ~right
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"Column {name!r} should hold dates, {ORDERS[order]}, but row {row + 1} holds {text[row].as_py()!r}. "
            f"Correct or empty it, or say {option('roles', {name: 'category'})}."
        )
    return np.where(missing, np.nan, day.astype(np.float64))


def _whole(column: Any) -> Any:
    """int64 (n,), 0 where there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return np.asarray(pc.fill_null(pc.cast(column, pa.int64()), 0), dtype=np.int64)
