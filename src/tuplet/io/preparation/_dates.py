"""Dates in other forms than 2024-01-31.

As texts: 31.01.2024, 31/01/2024, 01/31/2024, 2024/01/31, Wed, 31 Jan 2024 10:00:00 +0000, January 31, 2024. As whole
numbers: seconds, milliseconds, .. since 1970.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tuplet._check import InputError, option
from tuplet.io._writings import OTHER_DATE
from tuplet.io.preparation import values as read

UNITS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
ORDERS = {"": "", "year": "year first", "day": "day before month", "month": "month before day"} | {
    "day name": "months by their English names",
    "name day": "months by their English names",
    **{unit: f"{unit} since 1970" for unit in UNITS},
}
FIRST, LAST = 315_532_800, 4_102_444_800  # 1980 and 2100 in seconds: numbers that may count them
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAME = f"(?i:{'|'.join(_MONTHS)})"
_WEEKDAY = r"^\s*(?:[A-Za-z]{3,9},?\s+)?"
_NAMED = rf"(?:\d{{1,2}}[ -]{_NAME}[a-z]*[.,]?[ -]|{_NAME}[a-z]*\.? \d{{1,2}},? )[12]\d{{3}}"
NAMED_DATE = rf"{_WEEKDAY}{_NAMED}(?:\D|$)"  # Wed, 31 Jan 2024 10:00 and 31-Jan-2024 and January 31, 2024
_PARTS = {
    "day name": rf"{_WEEKDAY}(?P<d>\d{{1,2}})[ -](?P<m>{_NAME})[a-z]*[.,]?[ -](?P<y>\d{{4}})(?:\D|$)",
    "name day": rf"{_WEEKDAY}(?P<m>{_NAME})[a-z]*\.? (?P<d>\d{{1,2}}),? (?P<y>\d{{4}})(?:\D|$)",
    "year": r"^\s*(?P<y>\d{4})[./](?P<m>\d{1,2})[./](?P<d>\d{1,2})(?:\D|$)",
    "day": r"^\s*(?P<d>\d{1,2})[./-](?P<m>\d{1,2})[./-](?P<y>\d{4})(?:\D|$)",
    "month": r"^\s*(?P<m>\d{1,2})[./-](?P<d>\d{1,2})[./-](?P<y>\d{4})(?:\D|$)",
}


def find_order(name: str, column: Any) -> str:
    """Which part of a column's dates comes first: "year", "day" or "month"; "day name" or "name day" for months by
    their names, "seconds", .. for whole numbers; "" for ISO dates and other types.

    Days and months are told apart by a number over 12; with dots the day is first. Where nothing tells, an error.
    """
    import pyarrow.compute as pc

    if read.is_number(column.type):
        return _unit_or_raise(name, column)
    if not read.is_text(column.type):
        return ""
    for named in ("day name", "name day"):
        if read.share_matching(column, _PARTS[named]) > 0.5:
            return named
    if read.share_matching(column, OTHER_DATE) < 0.5:
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
    if order in UNITS and read.is_number(column.type):
        return read.numbers(name, column) / (86_400.0 * UNITS[order])
    if (
        not order
        or order in UNITS
        or not read.is_text(column.type)
        or read.share_matching(column, read.ISO_DATE) == 1
    ):
        return read.days(name, column)
    import pyarrow.compute as pc

    text, missing = read.texts(column)
    parts = pc.extract_regex(text, _PARTS[order])
    y, d = (_whole(pc.struct_field(parts, key)) for key in "yd")
    month_part = pc.struct_field(parts, "m")
    m = _by_name(month_part) if "name" in order else _whole(month_part)
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


def unit_of(values: Any) -> str | None:
    """The unit in which all numbers count the time since 1970, from 1980 to 2100; None where there is none."""
    return next((unit for unit, n in UNITS.items() if FIRST * n <= values.min() and values.max() < LAST * n), None)


def _unit_or_raise(name: str, column: Any) -> str:
    values = read.numbers(name, column)
    known = values[~np.isnan(values)]
    unit = unit_of(known)
    if unit is None:
        raise InputError(
            f"Column {name!r} should hold dates, but {known.min():.15g} to {known.max():.15g} are no seconds since "
            f"1970 (nor milliseconds, ..). Write dates as 2024-01-31, or say {option('roles', {name: 'number'})}."
        )
    return unit


def _by_name(column: Any) -> Any:
    """Months 1 to 12 (n,) of the first letters of their names, 0 where there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    place = pc.index_in(pc.utf8_lower(column), value_set=pa.array(_MONTHS, column.type))
    return np.asarray(pc.fill_null(place, -1), dtype=np.int64) + 1


def _whole(column: Any) -> Any:
    """int64 (n,), 0 where there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return np.asarray(pc.fill_null(pc.cast(column, pa.int64()), 0), dtype=np.int64)
