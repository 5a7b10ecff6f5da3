"""Delimited text (CSV, TSV, edge lists) -> chunks of trimmed texts: separator and header found, comments dropped.

pyarrow splits the lines. This module looks at the first lines, cuts the stream into blocks of whole rows, and drops
what is no data: a byte order mark, comment and blank lines, blanks around cells. Every chunk knows its line numbers.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tuplet._check import InputError, option

if TYPE_CHECKING:
    import pyarrow as pa

SEPARATORS = "\t,;| "
HEADER_WORDS = frozenset(
    ("id", "node", "node_id", "source", "target", "src", "dst", "from", "to", "head", "tail", "u", "v")
    + ("weight", "w", "value", "label", "class")
)
LONGEST_LINE = 2**26
BLOCK = 2**22  # bytes of text in a chunk
MOST_EXPANSION = 500  # of a packed file, once it has given EXPANDED bytes
EXPANDED = 2**30
_HEAD = 2**16
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}


@dataclass(frozen=True)
class Layout:
    """How a text file is laid out: separator, whether a header comes first, and the column names.

    `sure` is False where the header could not be told from data (text in every column, unknown words).
    """

    separator: str
    header: bool
    names: tuple[str, ...]
    sure: bool = True


@dataclass(frozen=True)
class Lines:
    """Whole lines as they stand in a file: `number` is that of the first, `read` the share of the file so far."""

    data: bytes
    number: int
    read: float
    comment: bytes
    separator: str

    def clean(self) -> bytes:
        """The lines without comments, blank lines, and blanks between a separator and a quote."""
        data, mark = self.data, self.comment
        quoted = b'"' in data
        if (mark and (data.startswith(mark) or b"\n" + mark in data)) or (quoted and b' "' in data):
            data = self._pattern.sub(lambda found: found[1] or b"", data)
        if self.separator == " ":
            data = re.sub(rb"(?m)^ | (?=\r?$)", b"", re.sub(rb"[ \t]+", b" ", data))
        if data[:1] in (b" ", b"\r", b"\n") or any(mark in data for mark in (b"\n\n", b"\n\r", b"\n ")):
            data = re.sub(rb"(?m)^ *\r?(?:\n|\Z)", b"", data)
        return data

    @cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        """Quoted cells (kept, in group 1), comment lines, and blanks before a quote."""
        mark, sep = re.escape(self.comment), re.escape(self.separator.encode())
        comment = rb"|(?m:^)" + mark + rb"[^\n]*(?:\n|\Z)" if mark else b""
        return re.compile(
            rb"((?:(?<=" + sep + rb')|(?<= )|(?m:^))"(?:[^"]|"")*")' + comment + rb"|(?<=" + sep + rb') +(?=")'
        )

    def line_of(self, row: int) -> int:
        """The number of the line where data row `row` of these lines begins."""
        text = self.data.decode("utf-8", "replace").split("\n")
        mark = self.comment.decode()
        kept = [i for i, line in enumerate(text) if line.strip() and not (mark and line.startswith(mark))]
        reader = csv.reader([text[i] + "\n" for i in kept], delimiter=self.separator)
        begin = 0
        try:
            for _ in range(row):
                next(reader)
            begin = reader.line_num
        except (csv.Error, StopIteration):
            pass
        return self.number + (kept[min(begin, len(kept) - 1)] if kept else 0)


@dataclass(frozen=True)
class TextChunk:
    """Some rows as a table of texts (or of the types that were asked for), and the lines that they come from."""

    table: pa.Table
    lines: Lines
    skipped: int = 0  # rows before the first, such as the header

    def line_of(self, row: int) -> int:
        """The line number of a row of the table."""
        return self.lines.line_of(row + self.skipped)


@dataclass(frozen=True)
class TextFile:
    """A delimited text file (plain, gzip, zstd, bz2) or binary stream, read in chunks as often as needed."""

    source: str | os.PathLike[str] | IO[bytes]
    header: bool | None = None
    separator: str | None = None
    comment: str = "#"
    _held: list[bytes] = field(default_factory=list, repr=False)

    @property
    def name(self) -> str:
        return "the stream" if hasattr(self.source, "read") else str(self.source)

    @cached_property
    def layout(self) -> Layout:
        """Separator, header and names, from the first lines."""
        head = b""
        for lines in self._lines(self.separator or ""):
            head += lines.clean()[: 2 * _HEAD]
            if len(head) >= _HEAD or lines.read >= 1:
                break
        return sniff(head[:_HEAD], self.name, header=self.header, separator=self.separator)

    def chunks(self, columns: Sequence[str], types: Mapping[str, Any] | None = None) -> Iterator[TextChunk]:
        """The rows in order, `columns` only: trimmed texts, or of the Arrow `types`."""
        first = True
        for lines in self._lines(self.layout.separator):
            data = lines.clean()
            if data:
                skipped = int(first and self.layout.header)
                table = self._parse(data, lines, columns, types or {}, skipped)
                first = False
                yield TextChunk(table, lines, skipped)

    def _parse(
        self, data: bytes, lines: Lines, columns: Sequence[str], types: Mapping[str, Any], skipped: int
    ) -> pa.Table:
        import pyarrow as pa
        from pyarrow import csv as pacsv

        wanted = {name: types.get(name, pa.string()) for name in columns}
        read = pacsv.ReadOptions(
            column_names=list(self.layout.names), skip_rows=0, block_size=len(data) + 1, use_threads=False,
            skip_rows_after_names=skipped,
        )  # fmt: skip
        parse = pacsv.ParseOptions(delimiter=self.layout.separator, newlines_in_values=True)
        convert = pacsv.ConvertOptions(column_types=wanted, include_columns=list(wanted), strings_can_be_null=False)
        try:
            table = pacsv.read_csv(
                pa.BufferReader(data), read_options=read, parse_options=parse, convert_options=convert
            )
        except (pa.ArrowException, ValueError, KeyError) as error:
            raise self._explain(str(error), lines) from None
        return _trimmed(table) if b" " in data or b"\t" in data else table

    def _explain(self, text: str, lines: Lines) -> InputError:
        if "UTF8" in text or "UTF-8" in text:
            return _not_utf8(self.name)
        found = re.search(r"Row #(\d+): (Expected \d+ columns, got \d+)", text)
        if found:
            line = lines.line_of(int(found[1]) - 1)
            return InputError(
                f"Line {line} of {self.name} is not like the others: {found[2]}. Correct the line; "
                f"{option('separator')} and {option('comment')} may help."
            )
        return InputError(
            f"{self.name} cannot be parsed near line {lines.number} ({text.strip()}). Check the lines there; "
            f"{option('separator')}, {option('header')} and {option('comment')} may help."
        )

    def _lines(self, separator: str) -> Iterator[Lines]:
        """The file in blocks of whole rows; a row ends at a line end outside quotes."""
        number, seen = 1, 0
        parts: list[bytes] = []  # what was read of a row that has not ended
        with self._open() as (raw, packed, size):
            while True:
                block = self._read(raw)
                if number == 1 and not seen:
                    block = block.removeprefix(b"\xef\xbb\xbf")
                seen += len(block)
                self._check_block(block, parts, number, seen, packed)
                parts.append(block)
                if block and b"\n" not in block:
                    continue
                data = b"".join(parts)
                cut = _row_end(data, separator) if block else len(data)
                if cut:
                    read = 1.0 if not block else min(1.0, packed.tell() / max(1, size))
                    yield Lines(data[:cut], number, read, self.comment.encode(), separator or ",")
                    number += data.count(b"\n", 0, cut)
                parts = [data[cut:]]
                if not block:
                    return

    def _check_block(self, block: bytes, waiting: list[bytes], number: int, seen: int, packed: Any) -> None:
        zero = block.find(b"\0")
        if zero >= 0:
            line = number + sum(part.count(b"\n") for part in waiting) + block.count(b"\n", 0, zero)
            raise InputError(
                f"Line {line} of {self.name} holds a zero byte, so it is not UTF-8 text. Save it as UTF-8, or check "
                "what kind of file it is."
            )
        if sum(map(len, waiting)) + len(block) > LONGEST_LINE + BLOCK:
            raise InputError(
                f"{self.name} has a row of over {LONGEST_LINE // 2**20} MiB at line {number}: its line ends are "
                "lost, or a quote is not closed. Correct that line."
            )
        if seen > EXPANDED and seen > MOST_EXPANSION * max(1, packed.tell()):
            raise InputError(
                f"{self.name} expands to over {MOST_EXPANSION} times its size, which no table does. Unpack it first "
                "if you trust it."
            )

    def _read(self, raw: Any) -> bytes:
        try:
            return bytes(raw.read(BLOCK))
        except (OSError, EOFError, ValueError) as error:
            raise InputError(f"{self.name} cannot be read to its end ({error}). Copy it again.") from None

    def _open(self) -> Any:
        if hasattr(self.source, "read"):
            return _Opened(io.BytesIO(self._whole()), len(self._whole()), self.name)
        path = Path(self.source)
        if not path.is_file():
            raise InputError(f"There is no file {path}. Check the path.")
        return _Opened(path.open("rb"), path.stat().st_size, self.name)

    def _whole(self) -> bytes:
        """All bytes of a stream, which can be read but once."""
        if not self._held:
            data = self.source.read()  # type: ignore[union-attr]
            self._held.append(data.encode() if isinstance(data, str) else bytes(data))
        return self._held[0]


class _Opened:
    """(unpacked stream, stream of the file's own bytes, their number), closed at the end."""

    def __init__(self, packed: IO[bytes], size: int, name: str) -> None:
        self.packed, self.size, self.name = packed, size, name

    def __enter__(self) -> tuple[Any, IO[bytes], int]:
        import pyarrow as pa

        start = self.packed.read(4)
        self.packed.seek(0)
        kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)
        if not start:
            self.packed.close()
            raise InputError(f"{self.name} is empty. Give a file with at least one line of data.")
        raw = self.packed if kind is None else pa.CompressedInputStream(pa.PythonFile(self.packed, "r"), kind)
        return raw, self.packed, self.size

    def __exit__(self, *error: object) -> None:
        self.packed.close()


def _row_end(data: bytes, separator: str) -> int:
    """Where the last whole row ends: the last line end, unless it lies inside a quoted cell."""
    cut = data.rfind(b"\n") + 1
    if not separator or data.find(b'"', 0, cut) < 0:
        return cut
    begin = _open_quote(data, cut, ord(separator))
    return cut if begin < 0 else data.rfind(b"\n", 0, begin) + 1


def _open_quote(data: bytes, cut: int, separator: int) -> int:
    """Where a quoted cell begins that does not end before `cut`; -1 if there is none.

    Only a quote at the beginning of a cell opens one; inside, two quotes stand for one.
    """
    begin, closed, opened = -1, -2, -1
    for found in re.finditer(b'"', data[:cut]):
        at = found.start()
        if begin < 0:
            before = data[at - 1] if at else 10
            blank = before == 32 and (at < 2 or data[at - 2] in (10, separator))
            if at == closed + 1:  # the second of two quotes: the cell goes on
                begin = opened
            elif before in (10, separator) or blank:
                begin = opened = at
        else:
            begin, closed = -1, at
    return begin


def _trimmed(table: pa.Table) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    for i, field_ in enumerate(table.schema):
        if pa.types.is_string(field_.type):
            table = table.set_column(i, field_.name, pc.utf8_trim_whitespace(table.column(i)))
    return table


def sniff(head: bytes, name: str, *, header: bool | None, separator: str | None) -> Layout:
    """The layout that the first lines suggest; `header` and `separator` overrule.

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
    guess, sure = _looks_like_header(first, rest)
    if header is False and guess and sure and rest and not any(_is_number(cell) for cell in first):
        raise InputError(
            f"The first line of {name} ({mark.join(first)!r}) looks like a header, but {option('header', False)} "
            f"says it is data. Say {option('header', True)}, or remove the line."
        )
    used = guess if header is None else header
    names = tuple(first) if used else tuple(f"c{i + 1}" for i in range(len(first)))
    check_names(names, name)
    return Layout(mark, used, names, sure or header is not None)


def check_names(names: Sequence[str], what: str) -> None:
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
            widths = {len(row) for row in _split(lines[:20], mark)}
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
        f"name another separator with {option('separator')}"
    )


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
        float(cell)
    except ValueError:
        return False
    return True


def _not_utf8(name: str) -> InputError:
    return InputError(f"{name} is not UTF-8 text. Save it as UTF-8 (for example: iconv -f latin1 -t utf-8).")
