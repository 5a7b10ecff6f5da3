"""The cells of text files: which type a column of texts has, the same however the file is cut into chunks.

A column is whole numbers, numbers, booleans or points in time if every cell is one (or empty); else it stays text.
Numbers in another form (1,5 or 10% or $10; see _writings.py) are refused with their line; as texts they would be
categories.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from tuplet._check import InputError, option
from tuplet.io._writings import Dots, are_numbers, odd_numbers, plainly, ways_to_say

if TYPE_CHECKING:
    import pyarrow as pa

NULL_WORDS = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "-nan", "null", "NULL", "None", "<NA>")
_ORDER = ("null", "int", "number")


class ColumnTypes:
    """Learns the types of columns of texts from chunk after chunk, then casts the chunks."""

    def __init__(self, columns: Collection[str], free: Collection[str] = (), *, decimal: str | None = None) -> None:
        self.kinds = dict.fromkeys(columns, "null")
        self.free = set(free)  # columns that may hold any text: ids, labels, what the user named a category
        self.decimal = decimal  # the mark, where the user named it; free columns are not read by it
        self._dots = {name: Dots() for name in columns if name not in self.free and decimal is None}
        self._odd: dict[str, tuple[str, str]] = {}  # column -> first odd number, its place
        self._counts = {name: [0, 0] for name in columns}  # numbers in any writing, cells

    def add(self, table: pa.Table, place: Callable[[int], str]) -> None:
        """Take in the cells of a chunk; `place` names a row of it."""
        for name in self.kinds:
            cells = _known(table.column(name))
            if name in self.free:
                self.kinds[name] = _join(self.kinds[name], _kind(cells)) if len(cells) else self.kinds[name]
            elif len(cells):
                kind = _kind(cells, self.decimal)
                self.kinds[name] = _join(self.kinds[name], kind)
                if kind == "number" and self.decimal is None:
                    self._dots[name].add(cells)
                self._count(name, table.column(name), cells, kind, place)

    def _count(self, name: str, column: Any, cells: Any, kind: str, place: Callable[[int], str]) -> None:
        import pyarrow.compute as pc

        counts = self._counts[name]
        counts[1] += len(cells)
        if kind != "text":
            counts[0] += len(cells) * (kind in _ORDER)
            return
        read = are_numbers(cells, self.decimal)
        counts[0] += pc.sum(pc.or_(odd_numbers(cells, self.decimal), read)).as_py() or 0
        row = pc.index(odd_numbers(column, self.decimal), True).as_py()
        if row >= 0:
            self._odd.setdefault(name, (column[row].as_py(), place(row)))

    def check(self) -> None:
        """Raise where most cells of a text column are numbers, and some are written in a way that is not read."""
        for name, (cell, where) in self._odd.items():
            numbers, cells = self._counts[name]
            if self.kinds[name] == "text" and 2 * numbers > cells:
                ways = ways_to_say(cell) if self.decimal is None else ""
                by = "" if self.decimal is None else f" by {option('decimal', self.decimal)}"
                raise InputError(
                    f"{where[:1].upper()}{where[1:]}, column {name!r}, holds {cell!r}: a number in a form that is "
                    f"not read{by}. {f'Say {ways}, or write' if ways else 'Write'} it plainly, such as 1234.5, or "
                    f"say {option('categorical', [name])}."
                )

    def remarks(self) -> dict[str, str]:
        """Columns that are read as numbers but may be meant otherwise: what was seen and what to do."""
        found = {name: dots.remark for name, dots in self._dots.items() if self.kinds[name] == "number"}
        return {name: remark for name, remark in found.items() if remark}

    def cast(self, table: pa.Table) -> pa.Table:
        """The chunk in the types that all chunks have together; text stays as it is."""
        import pyarrow as pa

        types = {"null": pa.null(), "int": pa.int64(), "number": pa.float64(), "bool": pa.bool_(),
                 "time": pa.timestamp("us")}  # fmt: skip
        for name, kind in self.kinds.items():
            if kind != "text" and name in table.column_names:
                column = _empty_to_null(table.column(name))
                if kind in _ORDER and name not in self.free:
                    column = plainly(column, self.decimal)
                place = table.column_names.index(name)
                table = table.set_column(place, name, _cast(column, types[kind]))
        return table


def _known(column: Any) -> Any:
    """The cells that are not empty or a word for it."""
    import pyarrow.compute as pc

    return column.filter(pc.invert(pc.is_in(column, value_set=_null_words(column.type))))


def _empty_to_null(column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pc.is_in(column, value_set=_null_words(column.type)), pa.scalar(None, column.type), column)


def _null_words(kind: Any) -> Any:
    import pyarrow as pa

    return pa.array(NULL_WORDS, kind)


def _cast(column: Any, kind: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_null(kind):
        return pa.chunked_array([pa.nulls(len(column))])
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        column = pc.utf8_ltrim(column, "+")
    return pc.cast(column, kind)


def _kind(cells: Any, decimal: str | None = None) -> str:
    """The narrowest type of all cells."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(cells):
        return "null"
    first = cells[0].as_py()
    if first[:1] in "+-.,0123456789" or first.lower().startswith("inf"):
        if decimal is None or pc.all(are_numbers(cells, decimal)).as_py():
            numbers = plainly(cells, decimal)
            for kind, arrow in (("int", pa.int64()), ("number", pa.float64())):
                try:
                    _cast(numbers, arrow)
                except pa.ArrowException:
                    continue
                if kind == "number" or not pc.any(pc.match_substring(cells, "x", ignore_case=True)).as_py():
                    return kind
        try:
            pc.cast(cells, pa.timestamp("us"))
            return "time"
        except pa.ArrowException:
            return "text"
    words = pa.array(["true", "false"], cells.type)
    return "bool" if pc.all(pc.is_in(pc.utf8_lower(cells), value_set=words)).as_py() else "text"


def _join(one: str, two: str) -> str:
    """The type of both together.

    >>> _join("null", "int"), _join("int", "number"), _join("bool", "int")
    ('int', 'number', 'text')
    """
    if one in _ORDER and two in _ORDER:
        return _ORDER[max(_ORDER.index(one), _ORDER.index(two))]
    if "null" in (one, two):
        return two if one == "null" else one
    return one if one == two else "text"
