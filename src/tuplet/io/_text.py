"""Delimited text (CSV, TSV, edge lists) -> Arrow tables: separator and header found, comments dropped.

pyarrow parses; this module looks at the first lines, and cleans the stream where pyarrow has no option (comment
lines, runs of blanks).
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tuplet._check import InputError

if TYPE_CHECKING:
    import pyarrow as pa

SEPARATORS = "\t,;| "
HEADER_WORDS = frozenset(
    ("id", "node", "node_id", "source", "target", "src", "dst", "from", "to", "head", "tail", "u", "v")
    + ("weight", "w", "value", "label", "class")
)
_HEAD = 1 << 16
_BLOCK = 1 << 22
AsText = Callable[[Sequence[str]], Sequence[str]]


@dataclass(frozen=True)
class Layout:
    """How a text file is laid out: separator, whether a header comes first, and the column names.

    `sure` is False where the header could not be told from data (text in every column, unknown words).
    """

    separator: str
    header: bool
    names: tuple[str, ...]
    sure: bool = True


def read_text(
    source: str | os.PathLike[str] | IO[bytes],
    *,
    header: bool | None = None,
    separator: str | None = None,
    comment: str = "#",
    as_text: AsText = lambda names: (),
) -> tuple[pa.Table, Layout]:
    """The table in a delimited text file or binary stream, and its layout.

    `as_text(names)` picks the columns that stay text whatever they look like (node ids: "007" is not 7).
    """
    import pyarrow as pa
    from pyarrow import csv as pacsv

    with _parsing(source, header, separator, comment) as (stream, layout, options):
        types = {column: pa.string() for column in as_text(layout.names)}
        convert = pacsv.ConvertOptions(column_types=types)
        table = pacsv.read_csv(stream, convert_options=convert, **options)
    if any(pa.types.is_binary(field.type) for field in table.schema):
        raise _not_utf8(_name(source))
    return table, layout


def scan_text(
    source: str | os.PathLike[str] | IO[bytes],
    *,
    header: bool | None = None,
    separator: str | None = None,
    comment: str = "#",
    types: Callable[[Sequence[str]], dict[str, Any]],
) -> Iterator[pa.RecordBatch]:
    """The batches of a delimited file one after another; memory stays at one block.

    `types(names)` gives the Arrow type of each column that is wanted; others are not returned.
    """
    from pyarrow import csv as pacsv

    with _parsing(source, header, separator, comment) as (stream, layout, options):
        wanted = types(layout.names)
        convert = pacsv.ConvertOptions(column_types=wanted, include_columns=list(wanted))
        yield from pacsv.open_csv(stream, convert_options=convert, **options)


@contextlib.contextmanager
def _parsing(
    source: Any, header: bool | None, separator: str | None, comment: str
) -> Iterator[tuple[Any, Layout, dict[str, Any]]]:
    """The cleaned stream, its layout and pyarrow's options; pyarrow's errors leave as InputError."""
    import pyarrow as pa
    from pyarrow import csv as pacsv

    name = _name(source)
    with _open(source) as raw:
        clean = _Clean(raw, comment.encode(), name)
        layout = sniff(clean.head(), name, header=header, separator=separator)
        clean.begin(squeeze=layout.separator == " ")
        read = pacsv.ReadOptions(column_names=list(layout.names), skip_rows=int(layout.header), block_size=_BLOCK)
        parse = pacsv.ParseOptions(delimiter=layout.separator)
        try:
            yield io.BufferedReader(clean, _BLOCK), layout, {"read_options": read, "parse_options": parse}
        except InputError:
            raise
        except (pa.ArrowException, ValueError, OSError, KeyError) as error:
            raise InputError(_explain(str(error), name)) from None


def sniff(head: bytes, name: str, *, header: bool | None, separator: str | None) -> Layout:
    """The layout that the first lines suggest; `header` and `separator` overrule.

    >>> sniff(b"a,b,1.5\\nc,d,2\\n", "x.csv", header=None, separator=None)
    Layout(separator=',', header=False, names=('c1', 'c2', 'c3'), sure=True)
    >>> sniff(b"source target\\n1 2\\n", "x.txt", header=None, separator=None).names
    ('source', 'target')
    """
    lines = _lines(head, name)
    if not lines:
        raise InputError(f"{name} is empty. Give a file with at least one line of data.")
    mark = separator if separator is not None else _separator(lines, name)
    if len(mark) != 1 or mark in '"\r\n':
        raise InputError(f"separator {mark!r} must be one character such as ',' or '\\t'.")
    try:
        rows = list(csv.reader((" ".join(line.split()) if mark == " " else line for line in lines), delimiter=mark))
    except csv.Error as error:
        raise InputError(f"{name} cannot be split into columns ({error}). Check its first lines.") from None
    first, rest = rows[0], [row for row in rows[1:50] if len(row) == len(rows[0])]
    guess, sure = _looks_like_header(first, rest)
    if header is False and guess and sure and rest and not any(_is_number(cell) for cell in first):
        raise InputError(
            f"The first line of {name} ({mark.join(first)!r}) looks like a header, but header=False says it is data. "
            "Say header=True, or remove the line."
        )
    used = guess if header is None else header
    names = tuple(cell.strip() for cell in first) if used else tuple(f"c{i + 1}" for i in range(len(first)))
    if len(set(names)) < len(names):
        raise InputError(f"{name} names a column twice in its header {list(names)}. Give each its own name.")
    return Layout(mark, used, names, sure or header is not None)


def _lines(head: bytes, name: str) -> list[str]:
    if b"\x00" in head:
        raise InputError(f"{name} is not UTF-8 text (it holds zero bytes). Save it as UTF-8, or check its kind.")
    try:
        text = head.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4 or len(head) < _HEAD // 2:
            raise _not_utf8(name) from None
        text = head[: error.start].decode("utf-8-sig")
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[:-1] if len(head) >= _HEAD and len(lines) > 1 else lines  # the last may be cut


def _separator(lines: list[str], name: str) -> str:
    """The separator that splits the first lines into the same number (two or more) of columns."""
    best = ""
    for mark in SEPARATORS:
        try:
            rows = [" ".join(line.split()) if mark == " " else line for line in lines[:20]]
            widths = {len(row) for row in csv.reader(rows, delimiter=mark)}
        except csv.Error:
            continue
        if min(widths) >= 2 and len(widths) == 1:
            return mark
        if min(widths) >= 2 and not best:
            best = mark
    if best:
        return best
    raise InputError(
        f"{name} has one column only: {lines[0][:60]!r}. Two or more are needed, separated by comma, tab or blank; "
        "name another separator with separator=..."
    )


def _looks_like_header(first: list[str], rest: list[list[str]]) -> tuple[bool, bool]:
    """(is it a header, is that sure)."""
    if any(_is_number(cell) for cell in first):
        return False, True
    if sum(cell.strip().lower() in HEADER_WORDS for cell in first) >= min(2, len(first)):
        return True, True
    numeric = [bool(rest) and all(_is_number(row[i]) for row in rest) for i in range(len(first))]
    if any(numeric):
        return True, True
    return any(cell.strip().lower() in HEADER_WORDS for cell in first), False


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


class _Clean(io.RawIOBase):
    """A byte stream without comment lines and byte order mark; where asked, runs of blanks become one."""

    def __init__(self, raw: Any, comment: bytes, name: str) -> None:
        self.raw, self.comment, self.name = raw, comment, name
        self._left, self._ready = b"", b""  # bytes of an unfinished line; whole lines for the reader
        self._end, self._start, self._squeeze = False, True, False

    def readable(self) -> bool:
        return True

    def head(self) -> bytes:
        """The first clean bytes, which the reader will get too."""
        while len(self._ready) < _HEAD and not self._end:
            self._ready += self._next()
        return self._ready[:_HEAD]

    def begin(self, *, squeeze: bool) -> None:
        """Say, after `head`, whether runs of blanks become one."""
        self._squeeze = squeeze
        self._ready = _squeeze(self._ready) if squeeze else self._ready

    def readinto(self, buffer: Any) -> int:
        while not self._ready and not self._end:
            self._ready = self._next()
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def _next(self) -> bytes:
        try:
            block = self.raw.read(_BLOCK)
        except (OSError, EOFError) as error:
            raise InputError(f"{self.name} cannot be read to its end ({error}). Copy it again.") from None
        self._end = not block
        if self._start:
            block, self._start = block.removeprefix(b"\xef\xbb\xbf"), False
        data = self._left + block
        cut = len(data) if self._end else data.rfind(b"\n") + 1
        self._left = data[cut:]
        lines = self._drop_comments(data[:cut])
        return _squeeze(lines) if self._squeeze else lines

    def _drop_comments(self, data: bytes) -> bytes:
        mark = self.comment
        if not mark or not (data.startswith(mark) or b"\n" + mark in data):
            return data
        return b"".join(line for line in data.splitlines(keepends=True) if not line.startswith(mark))


def _squeeze(data: bytes) -> bytes:
    data = re.sub(rb"[ \t]+", b" ", data)
    return re.sub(rb"(?m)^ | (?=\r?$)", b"", data)


def _open(source: Any) -> Any:
    import pyarrow as pa

    if hasattr(source, "read"):
        return io.BytesIO(source.read())
    if not Path(source).is_file():
        raise InputError(f"There is no file {source}. Check the path.")
    if not Path(source).stat().st_size:
        raise InputError(f"{source} is empty. Give a file with at least one line of data.")
    return pa.input_stream(str(source), compression="detect")


def _explain(text: str, name: str) -> str:
    if "UTF8" in text:
        return str(_not_utf8(name))
    if "Empty CSV" in text:
        return f"{name} holds no data after its header and comments. Give at least one line of data."
    return f"{name} cannot be parsed ({text.strip()}). Check that line; separator=, header= and comment= may help."


def _not_utf8(name: str) -> InputError:
    return InputError(f"{name} is not UTF-8 text. Save it as UTF-8 (for example: iconv -f latin1 -t utf-8).")


def _name(source: Any) -> str:
    return "the stream" if hasattr(source, "read") else str(source)
