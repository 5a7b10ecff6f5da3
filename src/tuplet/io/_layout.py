"""The layout of a delimited text file, found from its first lines: separator, header, column names."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass

from tuplet._check import InputError, option

ID_NAMES = ("id", "node_id", "node", "nodeid", "node id")
SEPARATORS = "\t,;| "
HEADER_WORDS = frozenset(
    ("id", "node", "node_id", "source", "target", "src", "dst", "from", "to", "head", "tail", "u", "v")
    + ("weight", "w", "value", "label", "class")
)
HEAD = 2**16  # bytes that are looked at


@dataclass(frozen=True)
class Layout:
    """How a text file is laid out: separator, whether a header comes first, and the column names.

    `sure` is False where the header could not be told from data (text in every column, unknown words).
    """

    separator: str
    header: bool
    names: tuple[str, ...]
    sure: bool = True


def sniff(head: bytes, name: str, *, header: bool | None, separator: str | None, named: Sequence[str] = ()) -> Layout:
    """The layout that the first lines suggest; `header` and `separator` overrule.

    A first line with one of the columns that were asked for by name, `named`, is a header.

    >>> sniff(b"a,b,1.5\\nc,d,2\\n", "x.csv", header=None, separator=None)
    Layout(separator=',', header=False, names=('c1', 'c2', 'c3'), sure=True)
    >>> sniff(b"source target\\n1 2\\n", "x.txt", header=None, separator=None).names
    ('source', 'target')
    """
    lines = _head_lines(head, name)
    if not lines:
        raise InputError(f"{name} is empty. Give a file with at least one line of data.")
    mark = separator if separator is not None else _separator(lines, name)
    if len(mark) != 1 or mark in '"\r\n':
        raise InputError(f"separator {mark!r} must be one character such as ',' or '\\t'.")
    try:
        rows = _split(lines, mark)
    except csv.Error as error:
        raise InputError(f"{name} cannot be split into columns ({error}). Check its first lines.") from None
    first, rest = rows[0], [row for row in rows[1:50] if len(row) == len(rows[0])]
    guess, sure = (True, True) if set(named) & set(first) else _looks_like_header(first, rest)
    if header is False and guess and sure and rest and not any(_is_number(cell) for cell in first):
        raise InputError(
            f"The first line of {name} ({mark.join(first)!r}) looks like a header, but {option('header', False)} "
            f"says it is data. Say {option('header', True)}, or remove the line."
        )
    used = guess if header is None else header
    names = tuple(first) if used else nameless(len(first))
    check_header(names, name)
    return Layout(mark, used, names, sure or header is not None)


def nameless(width: int) -> tuple[str, ...]:
    """The names of columns that have none: c1, c2, .."""
    return tuple(f"c{i + 1}" for i in range(width))


def check_header(names: Sequence[str], what: str) -> None:
    """Raise where two columns have one name."""
    twice = sorted({name for name in names if list(names).count(name) > 1}) if len(set(names)) < len(names) else ()
    if twice:
        raise InputError(f"{what} names a column twice: {', '.join(map(repr, twice))}. Give each its own name.")


def _split(lines: Sequence[str], mark: str) -> list[list[str]]:
    plain = (" ".join(line.split()) if mark == " " else line for line in lines)
    rows = csv.reader((line + "\n" for line in plain), delimiter=mark, skipinitialspace=mark != " ")
    return [[cell.strip() for cell in row] for row in rows]


def _head_lines(head: bytes, name: str) -> list[str]:
    try:
        text = head.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4 or len(head) < HEAD // 2:
            raise not_utf8(name) from None
        text = head[: error.start].decode("utf-8-sig")
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[:-1] if len(head) >= HEAD and len(lines) > 1 else lines  # the last may be cut


def _separator(lines: list[str], name: str) -> str:
    """The separator that splits the first lines into the same number (two or more) of columns."""
    best = ""
    for mark in SEPARATORS:
        try:
            widths = {len(row) for row in _split(lines[:20], mark)}
        except csv.Error:
            continue
        if min(widths) >= 2 and len(widths) == 1:
            return ";" if mark == "," and _commas_are_decimal(lines[:20]) else mark
        if min(widths) >= 2 and not best:
            best = mark
    if best:
        return best
    raise InputError(
        f"{name} has one column only: {lines[0][:60]!r}. Two or more are needed, separated by comma, tab or blank; "
        f"name another separator with {option('separator')}"
    )


def _commas_are_decimal(lines: list[str]) -> bool:
    """Whether the lines are split by semicolons, with no comma but in numbers such as 1,5."""
    try:
        rows = _split(lines, ";")
    except csv.Error:
        return False
    with_comma = [cell for row in rows for cell in row if "," in cell]
    return len({len(row) for row in rows}) == 1 and len(rows[0]) > 1 and all(map(_is_number, with_comma))


def _looks_like_header(first: list[str], rest: list[list[str]]) -> tuple[bool, bool]:
    """(is it a header, is that sure)."""
    if any(_is_number(cell) for cell in first):
        return False, True
    if sum(cell.lower() in HEADER_WORDS for cell in first) >= min(2, len(first)):
        return True, True
    numeric = [bool(rest) and all(_is_number(row[i]) for row in rest) for i in range(len(first))]
    if any(numeric):
        return True, True
    return any(cell.lower() in HEADER_WORDS for cell in first), False


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))  # a decimal comma is no header either
    except ValueError:
        return False
    return True


def not_utf8(name: str) -> InputError:
    return InputError(f"{name} is not UTF-8 text. Save it as UTF-8 (for example: iconv -f latin1 -t utf-8).")
