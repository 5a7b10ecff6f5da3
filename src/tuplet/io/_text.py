"""Delimited text (CSV, TSV, edge lists) -> chunks of trimmed texts: comments dropped, rows cut and split.

pyarrow splits the lines, _layout.py looks at the first of them. This module cuts the stream into blocks of whole rows
and drops what is no data: a byte order mark, comment and blank lines, blanks around cells. Every chunk knows its line
numbers.
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
from tuplet.io._layout import HEAD, Layout, not_utf8, sniff
from tuplet.io._quotes import row_end

if TYPE_CHECKING:
    import pyarrow as pa

LONGEST_LINE = 2**26
BLOCK = 2**22  # bytes of text in a chunk
MOST_EXPANSION = 500  # of a packed file, once it has given EXPANDED bytes
EXPANDED = 2**30
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}


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
        if data[:1] in (b" ", b"\r", b"\n") or b"\n " in data:  # pyarrow skips lines without even a blank itself
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
    named: Sequence[str] = ()  # columns that were asked for
    _held: list[bytes] = field(default_factory=list, repr=False)

    @property
    def name(self) -> str:
        return "the stream" if hasattr(self.source, "read") else str(self.source)

    @cached_property
    def layout(self) -> Layout:
        """Separator, header and names, from the first lines."""
        head = b""
        for lines in self._lines(self.separator or ""):
            head += lines.clean()[: 2 * HEAD]
            if len(head) >= HEAD or lines.read >= 1:
                break
        options: dict[str, Any] = {"header": self.header, "separator": self.separator, "named": self.named}
        return sniff(head[:HEAD], self.name, **options)

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
            return not_utf8(self.name)
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
                cut = row_end(data, separator) if block else len(data)
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
        _check_expansion(self.name, seen, packed)

    def _read(self, raw: Any) -> bytes:
        try:
            return _next_block(raw)
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


def _next_block(raw: Any) -> bytes:
    # pyarrow's own read() keeps its block for good when it fails; read_buffer() does not
    return bytes(raw.read_buffer(BLOCK) if hasattr(raw, "read_buffer") else raw.read(BLOCK))


def _check_expansion(name: str, seen: int, packed: Any) -> None:
    """Raise where `seen` bytes came out of far fewer of the file `packed`."""
    if seen > EXPANDED and seen > MOST_EXPANSION * max(1, packed.tell()):
        raise InputError(
            f"{name} expands to over {MOST_EXPANSION} times its size, which no table does. Unpack it first "
            "if you trust it."
        )


def check_packed(path: Path) -> None:
    """Raise where a packed file expands beyond reason; for readers that unpack it whole."""
    seen = 0
    with _Opened(path.open("rb"), path.stat().st_size, path.name) as (raw, packed, _):
        while block := _next_block(raw):
            seen += len(block)
            _check_expansion(path.name, seen, packed)


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


def _trimmed(table: pa.Table) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    for i, field_ in enumerate(table.schema):
        if pa.types.is_string(field_.type):
            table = table.set_column(i, field_.name, pc.utf8_trim_whitespace(table.column(i)))
    return table
