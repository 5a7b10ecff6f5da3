"""Which role a column plays, by its type, its name and the values in the sample."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tuplet._check import InputError, option
from tuplet.io._writings import OTHER_DATE, are_numbers, odd_numbers
from tuplet.io.preparation import values as read
from tuplet.io.preparation._dates import NAMED_DATE, unit_of
from tuplet.io.preparation._encoded import document_counts

if TYPE_CHECKING:
    import pyarrow as pa

ROLES = ("number", "category", "text", "tokens", "vector", "boolean", "date", "plain")
LABEL_NAMES = ("label", "labels", "class", "y", "target")
FEW_ROWS = 20  # in a smaller table, values that all differ say nothing
FEW_LEVELS = 50  # up to so many different numbers as text are a category
FEW_UNITS = 5
NEARLY_ALL = 0.9  # texts of which more than this share differ name rows, unless their words recur
LIKE_NUMBERS = 16  # columns of like size that make one block
LIKE_FACTOR = 10.0

_INDEX = re.compile(r"^(Unnamed: \d+|__index_level_\d+__|index|level_\d+|row_?(nr|num|number|id)?)$", re.IGNORECASE)
_KEY = re.compile(r"(^|[_\W])(id|ids|uuid|guid|key|pk)$|[a-z]Id$", re.IGNORECASE)
_CODE = re.compile(r"(^|[_\W])(id|code|zip|zipcode|postcode|postal_code)$|[a-z]Id$", re.IGNORECASE)
_WHEN = re.compile(  # created, updated_at, timestamp, last_seen, mtime, birthDate
    r"(^|[_\W])(date|datetime|time|timestamp|ts|when|epoch|[acm]time|created|updated|modified|changed|published|seen"
    r"|uploaded|joined|registered)(_?(at|on|time|date|s|ms|us|ns|utc|unix))?$|(?-i:[a-z](Date|Time|Timestamp|At|On)$)",
    re.IGNORECASE,
)
_HASH = r"^\s*(0x)?[0-9a-fA-F]{8}-?[0-9a-fA-F-]{8,}\s*$"
_MARKS = (";", "|", ",")
Found = tuple[str, str]  # role, or "out:REASON" for one that is left out; and a note


def named_as_index(name: str) -> bool:
    """Whether a column is named as an index or a node's id is: "", Unnamed: 0, index, id, node_id."""
    return not name.strip() or bool(_INDEX.match(name) or re.match(r"^(node|edge)?[_ ]?id$", name, re.IGNORECASE))


def find_role(name: str, column: pa.ChunkedArray) -> Found:
    """(role, note) of a column; a role that starts with "out:" is left out."""
    import pyarrow as pa

    kind = column.type
    missing = read.missing_of(column)
    if missing.all():
        return "out:empty", "left out: no value at all"
    if pa.types.is_boolean(kind):
        return _unless_constant(column, missing, "boolean")
    if pa.types.is_temporal(kind) and not (pa.types.is_duration(kind) or pa.types.is_time(kind)):
        return _unless_constant(column, missing, "date")
    if read.is_list(kind):
        return _list_role(name, kind)
    if read.is_number(kind):
        return _number_role(name, column, missing)
    if read.is_text(kind):
        return _text_role(name, column, missing)
    raise InputError(
        f"Column {name!r} holds {kind}, which is not a feature. Convert it to numbers, or leave it out: "
        f"{option('exclude', [name])}."
    )


def _unless_constant(column: Any, missing: Any, role: str) -> Found:
    import pyarrow.compute as pc

    if not missing.any() and len(pc.unique(column)) == 1 and len(column) > 1:
        return "out:constant", f"left out: {column[0].as_py()!r} in every row"
    return role, ""


def _list_role(name: str, kind: Any) -> Found:
    import pyarrow as pa

    inner = kind.value_type
    if pa.types.is_floating(inner) or (pa.types.is_fixed_size_list(kind) and pa.types.is_integer(inner)):
        return "vector", ""
    if read.is_text(inner) or pa.types.is_integer(inner):
        return "tokens", ""
    raise InputError(
        f"Column {name!r} holds {kind}, which is not a feature. Leave it out: {option('exclude', [name])}."
    )


def _number_role(name: str, column: Any, missing: Any) -> Found:
    import pyarrow as pa

    values = read.numbers(name, column)[~missing]
    different = np.unique(values)
    if len(different) == 1 and not missing.any() and len(values) > 1:
        return "out:constant", f"left out: {different[0]:g} in every row"
    if len(different) <= 2:
        return "boolean" if set(different.tolist()) <= {0.0, 1.0} else "number", ""
    if pa.types.is_integer(column.type) or (different == np.round(different)).all():
        if _WHEN.search(name) and unit_of(values) is not None:
            return "date", ""
        if len(different) == len(values) and (not name.strip() or _INDEX.match(name)):
            return "out:id", "left out: an id by its name, different in every row"
        if len(values) >= FEW_ROWS and len(different) == len(values):
            return _distinct_numbers(name, values)
        if _CODE.search(name) and len(different) < len(values) / 2:
            return "category", "whole numbers that name something"
    return "number", ""


def _distinct_numbers(name: str, values: Any) -> Found:
    """Whole numbers that all differ: an index or an id if they rise by row, fill their range, or by their name."""
    if _KEY.search(name):
        return "out:id", "left out: an id by its name, different in every row"
    if np.ptp(values) == len(values) - 1:
        return "out:index", "left out: the row numbers in some order"
    if (np.diff(values) > 0).all():
        return "out:index", "left out: rises with every row, as an index does"
    if np.ptp(values) > 10 * len(values) and _evenly_spread(values):
        return "out:id", "left out: different in every row and evenly spread, as random ids are"
    return "number", ""


def _evenly_spread(values: Any) -> bool:
    """Whether the values lie as evenly over their range as drawn ones would (Kolmogorov-Smirnov, 1 in 1000)."""
    n = len(values)
    place = (np.sort(values) - values.min()) / np.ptp(values)
    return bool(np.abs(place - (np.arange(n) + 0.5) / n).max() < 1.95 / np.sqrt(n))


def _text_role(name: str, column: Any, missing: Any) -> Found:
    import pyarrow.compute as pc

    text, _ = read.texts(column)
    known = text.drop_null()
    levels, rows = len(pc.unique(known)), len(known)
    if levels == 1 and not missing.any() and rows > 1:
        return "out:constant", f"left out: {known[0].as_py()!r} in every row"
    if max(read.share_matching(column, form) for form in (read.ISO_DATE, OTHER_DATE, NAMED_DATE)) >= 0.95:
        return "date", "read from text"
    if rows >= FEW_ROWS and levels == rows and read.share_matching(column, _HASH) > 0.95:
        return "out:id", "left out: hashes or ids, different in every row"
    _refuse_odd(name, known)
    if (found := _text_of_numbers(name, column, known, levels)) is not None:
        return found
    if read.share_matching(column, r"^\s*\[.*\]\s*$") > 0.95:
        raise InputError(
            f"Column {name!r} holds lists written as text, such as {known[0].as_py()[:40]!r}. Save the table as "
            f"Parquet or JSON lines, which have lists; or say {option('roles', {name: 'text'})}."
        )
    if (mark := _mark(known)) is not None:
        return f"tokens:{mark}", f"split at {mark!r}"
    several = pc.mean(pc.list_value_length(read.words(known))).as_py() or 0
    if levels > FEW_LEVELS:
        _refuse_units(name, known)
    role = "category"
    if (rows >= FEW_ROWS and levels > rows / 2 and several >= 2) or (levels > 1000 and several >= 3):
        role = "text"
    if rows >= FEW_ROWS and levels > NEARLY_ALL * rows and not (role == "text" and _words_recur(known)):
        what = "one word" if several < 2 else "no word that recurs"
        return "out:id", f"left out: {what}, different in {'every' if levels == rows else 'nearly every'} row"
    return role, ""


def _words_recur(known: Any) -> bool:
    """Whether some word is in two rows or more, and not in all."""
    tokens, rows = read.flat_tokens(read.words(known))
    counts = document_counts(tokens, rows)[1]
    return any(1 < count < len(known) for count in counts)


def _refuse_odd(name: str, known: Any) -> None:
    """Raise where most texts are numbers, and some in a writing that is not read: 1,5 is no list and no level."""
    import pyarrow.compute as pc

    odd = odd_numbers(known)
    numbers = pc.sum(pc.or_(odd, are_numbers(known, None))).as_py() or 0
    if pc.any(odd).as_py() and 2 * numbers > len(known):
        cell = known[pc.index(odd, True).as_py()].as_py()
        raise InputError(
            f"Column {name!r} holds {cell!r}: a number in a form that is not read. Make it a column of numbers, or "
            f"say what it is: {option('roles', {name: 'category'})}, or 'tokens'."
        )


def _refuse_units(name: str, known: Any) -> None:
    """Raise for numbers with a unit, such as 12 kg: as categories they would be as many levels as numbers."""
    import pyarrow.compute as pc

    parts = pc.extract_regex(known, r"^[-+]?\d[\d.,]*\s?(?P<unit>[^\d\s.,;:/_-]{1,6})$")
    units = pc.struct_field(parts, "unit").drop_null()
    if len(units) > 0.95 * len(known) and len(pc.unique(units)) <= FEW_UNITS:
        raise InputError(
            f"Column {name!r} holds numbers with a unit, such as {known[0].as_py()!r}. Write plain numbers, in one "
            f"unit, or say {option('categorical', [name])}."
        )


def _text_of_numbers(name: str, column: Any, known: Any, levels: int) -> Found | None:
    """Numbers as text: refused where a few are words, a category with few levels, codes with leading zeros."""
    import pyarrow.compute as pc

    number = np.asarray(pc.match_substring_regex(known, read.NUMBER), dtype=bool)
    if number.sum() * 2 <= len(number):
        return None
    if not number.all():
        text, missing = read.texts(column)
        first = int(np.flatnonzero(~missing)[int((~number).argmax())])
        raise InputError(
            f"Column {name!r} holds text in {int((~number).sum())} of {len(number)} values, first "
            f"{text[first].as_py()!r} in row {first + 1}; the others are numbers. Correct or empty them, or say "
            f"{option('categorical', [name])}."
        )
    coded = bool(pc.any(pc.match_substring_regex(known, r"^0\d")).as_py())
    return None if coded or levels <= FEW_LEVELS else ("number", "read from text")


def _mark(known: Any) -> str | None:
    """The separator of values such as "red; green": in half of the rows, with parts that recur."""
    import pyarrow.compute as pc

    if len(known) < FEW_ROWS:
        return None
    for mark in _MARKS:
        if pc.sum(pc.match_substring(known, mark)).as_py() * 2 > len(known):
            tokens, _ = read.flat_tokens(pc.split_pattern(known, mark))
            words = pc.list_value_length(read.words(tokens))
            if len(pc.unique(tokens)) * 3 < len(tokens) and (pc.mean(words).as_py() or 0) < 4:
                return mark
    return None


def like_numbers(table: pa.Table, roles: Mapping[str, str]) -> set[str]:
    """Numbers and booleans that form one block of comparable numbers: words, counts, parts of a vector.

    Sixteen columns or more whose typical size, the mean of |v| over v != 0, lies within a factor of ten of the
    median size of all. Columns of zeros alone belong to it.
    """
    names = [name for name, role in roles.items() if role in ("number", "boolean", "out:constant")]
    if len(names) < LIKE_NUMBERS:
        return set()
    sizes = {}
    for name in names:
        if read.is_text(table.schema.field(name).type):
            continue
        values = np.abs(read.numbers(name, table.column(name)))
        values = values[(values > 0) & ~np.isnan(values)]
        sizes[name] = float(values.mean()) if len(values) else 0.0
    filled = [size for size in sizes.values() if size]
    middle = float(np.median(filled)) if filled else 0.0
    alike = {name for name, size in sizes.items() if not size or middle / LIKE_FACTOR <= size <= middle * LIKE_FACTOR}
    varied = [name for name in alike if roles[name] != "out:constant"]
    return alike if len(varied) >= LIKE_NUMBERS else set()
