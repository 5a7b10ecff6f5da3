"""Anything with rows and columns -> a Table that is read in chunks: files, folders, streams, frames, arrays."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuplet._check import InputError, check_choice, is_there
from tuplet.io._arrow import from_memory, plain_types
from tuplet.io._layout import check_header
from tuplet.io._text import TextFile, check_packed
from tuplet.io._writings import DECIMALS
from tuplet.io.sources import is_source, open_source

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 2**20  # rows in a chunk of a columnar file
PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc")
FORMATS: dict[str, Callable[[Path], Any]] = {}  # ending -> reader, of `register_format`
NOT_READ = {  # ending -> how to come by something that is read
    (".xlsx", ".xls", ".ods"): "Save the sheet as CSV, or give the frame of pandas.read_excel to read_graph.",
    (".json",): "Give one object a line (.jsonl), or the frame of pandas.read_json to read_graph.",
    (".graphml", ".gml", ".gexf"): "Read it with NetworkX in Python; an estimator's fit takes that graph.",
    (".mtx", ".mat"): "Read it with SciPy in Python; an estimator's fit takes a sparse matrix.",
    (".pkl", ".pickle", ".pt", ".h5", ".hdf5", ".sqlite", ".db", ".avro", ".orc"): "Save it as CSV or Parquet.",
}
TEXT = (".csv", ".tsv", ".txt", ".edges", ".edgelist", ".tab", ".dat")


@dataclass(frozen=True)
class Chunk:
    """Some rows; `done` is the share of the input read after them, `first` the number of rows before them."""

    table: pa.Table
    done: float
    first: int
    lines: Any = None  # the TextChunk, where the rows come from a text file
    name: str = ""

    def place(self, row: int) -> str:
        """Where a row stands, for an error: its line in a text file, else its number."""
        if self.lines is None:
            return f"row {self.first + row + 1}"
        return f"line {self.lines.line_of(row)} of {self.name}"


@dataclass(frozen=True)
class Table:
    """A table in one or more parts; `names` are its columns. `is_text`: all cells are texts still.

    `sure` is False where the header of a text file could not be told from data. `header`: the columns have names.
    """

    parts: tuple[Any, ...]
    names: tuple[str, ...]
    is_text: bool = False
    header: bool = True
    sure: bool = True
    schema: Any = None
    decimal: str | None = None  # the mark in the numbers of a text file, where it was named

    def chunks(self, columns: Sequence[str], types: Mapping[str, Any] | None = None) -> Iterator[Chunk]:
        """The rows of `columns` in order; text files give texts, or `types` where given."""
        first = 0
        for i, part in enumerate(self.parts):
            for done, table, lines in _part_chunks(part, columns, types):
                if table.num_rows:
                    table = table if self.is_text else _as_schema(plain_types(table), self.schema)
                    name = part.name if self.is_text else ""
                    yield Chunk(table, (i + done) / len(self.parts), first, lines, name)
                    first += table.num_rows

    def read(self) -> pa.Table:
        """All rows and columns at once."""
        import pyarrow as pa

        return pa.concat_tables([chunk.table for chunk in self.chunks(self.names)])

    def facts(self) -> Any:
        """What identifies the content: names, sizes and times of files; None where it lies in memory."""
        paths: list[Any] = [part.source if isinstance(part, TextFile) else part for part in self.parts]
        if not all(isinstance(path, str | os.PathLike) for path in paths):
            return None
        stats = [(str(Path(path).resolve()), Path(path).stat()) for path in paths]
        return [[name, stat.st_size, stat.st_mtime_ns, stat.st_ino] for name, stat in stats]


def register_format(ending: str, read: Callable[[Path], Any]) -> None:
    """Let `read` open the files whose name has this ending: it gives an Arrow table, a frame or a dict of columns.

    `read_graph`, `convert` and the command line then take such files for edges and nodes.
    """
    FORMATS[ending.lower()] = read


def _json_lines(path: Path) -> pa.Table:
    """A table of the objects of a file, one a line."""
    from pyarrow import json

    with _reading(path):
        check_packed(path)
        table = json.read_json(path)
        table.validate(full=True)  # the reader takes any bytes for text
    return table


for _ending in (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz"):
    register_format(_ending, _json_lines)


def open_table(
    given: Any,
    what: str,
    *,
    header: bool | None = None,
    separator: str | None = None,
    comment: str = "#",
    decimal: str | None = None,
    named: Iterable[Any] = (),
) -> Table:
    """`given` as a Table; `what` names it in errors, such as "The edges".

    A path (CSV, TSV, Parquet, Arrow, JSON lines; text may be gzip, zstd or bz2), a folder of parts, a glob pattern,
    a list of paths, a binary stream of CSV, a table of a database by its URI (sources.py), anything with
    `__arrow_c_stream__` (pandas, polars, DuckDB, Arrow), a dict of columns, or a 2-d array (columns c1, c2, ..). A
    text file whose first line has a column of `named`, the names that were given, has a header.

    >>> open_table({"id": ["a", "b"], "age": [3, 4]}, "The features").names
    ('id', 'age')
    """
    if decimal is not None:
        check_choice("decimal", decimal, DECIMALS)
    asked = tuple(name for name in named if isinstance(name, str))
    text: dict[str, Any] = {"header": header, "separator": separator, "comment": comment, "named": asked}
    given = open_source(given) if is_source(given) else given
    paths = _paths(given)
    if paths is None and hasattr(given, "read"):
        return _text_table([TextFile(given, **text)], decimal)
    if paths is None:
        return _columnar((from_memory(given, what),), what)
    kind = kind_of(paths[0])
    if kind in FORMATS:
        return _columnar(tuple(from_memory(FORMATS[kind](path), what) for path in paths), what)
    for endings, remedy in NOT_READ.items():
        if paths[0].name.lower().endswith(endings):
            raise InputError(f"{paths[0]} is of a kind that is not read as a table. {remedy}")
    if kind in ("parquet", "arrow"):
        return _columnar(tuple(paths), what)
    return _text_table([TextFile(path, **text) for path in paths], decimal)


def _paths(given: Any) -> list[Path] | None:
    """The data files that are meant, or None where `given` is no path."""
    if isinstance(given, str) and glob.has_magic(given) and not is_there(given):
        found = sorted(glob.glob(given))  # noqa: PTH207 (a pattern may be absolute)
        if not found:
            raise InputError(f"No file matches {given!r}. Check the pattern.")
        return _of_one_kind([Path(path) for path in found], f"The pattern {given!r} matches")
    if isinstance(given, str | os.PathLike):
        return parts_of(Path(given))
    if isinstance(given, list | tuple) and given and all(isinstance(path, str | os.PathLike) for path in given):
        return _of_one_kind([part for path in given for part in parts_of(Path(path))], "The list holds")
    return None


def parts_of(path: Path) -> list[Path]:
    """The data files of `path`: itself, or in a folder all files of one kind, by name."""
    if not is_there(path):
        raise InputError(f"There is no file or folder {path}. Check the path.")
    if path.is_file():
        return [path]
    return _of_one_kind([file for file in sorted(path.iterdir()) if kind_of(file)], f"The folder {path} holds")


def _of_one_kind(files: list[Path], says: str) -> list[Path]:
    kinds = {kind_of(file) or "text" for file in files}
    if len(kinds) != 1:
        found = "no data files" if not files else f"files of several kinds ({', '.join(sorted(kinds))})"
        raise InputError(f"{says} {found}. Give parts of one kind: Parquet, Arrow or CSV.")
    return files


def kind_of(path: Path) -> str:
    """ "parquet", "arrow", "text", a registered ending or "" by the file's name."""
    name = path.name.lower()
    for ending in FORMATS:
        if name.endswith(ending):
            return ending
    for ending in (".gz", ".bz2", ".zst"):
        name = name.removesuffix(ending)
    for kind, endings in (("parquet", PARQUET), ("arrow", ARROW), ("text", TEXT)):
        if name.endswith(endings):
            return kind
    return ""


def _text_table(files: list[TextFile], decimal: str | None) -> Table:
    layout = files[0].layout
    for file in files[1:]:
        if file.layout.names != layout.names:
            raise InputError(
                f"{file.name} has the columns {', '.join(file.layout.names)}, {files[0].name} has "
                f"{', '.join(layout.names)}. Give all parts the same columns, each with or each without a header."
            )
    sure = all(file.layout.sure for file in files)
    return Table(tuple(files), layout.names, is_text=True, header=layout.header, sure=sure, decimal=decimal)


def _columnar(parts: tuple[Any, ...], what: str) -> Table:
    import pyarrow as pa

    try:
        schemas = [_schema(part) for part in parts]
        [schema.names for schema in schemas]
    except UnicodeDecodeError as error:
        raise InputError(f"{what} have a column whose name is no text ({error}). Write them again.") from None
    for schema in schemas:
        check_header(schema.names, what)
        if set(schema.names) != set(schemas[0].names):
            raise InputError(
                f"The parts of {what.lower()} have different columns: {', '.join(schemas[0].names)}, and "
                f"{', '.join(schema.names)}. Give all the same."
            )
    try:
        schema = pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowException as error:
        raise InputError(f"The parts of {what.lower()} do not fit together ({error}). Write them again.") from None
    if not schema.names:
        raise InputError(f"{what} have no columns. Give a table with some.")
    return Table(parts, tuple(schema.names), schema=schema)


def _schema(part: Any) -> pa.Schema:
    import pyarrow as pa
    from pyarrow import ipc
    from pyarrow import parquet as pq

    if not isinstance(part, Path):
        schema = part.schema if hasattr(part, "schema") else pa.RecordBatchReader.from_stream(part).schema
    else:
        with _reading(part):
            if kind_of(part) == "parquet":
                with pq.ParquetFile(part, page_checksum_verification=True) as file:
                    schema = file.schema_arrow
            else:
                with pa.memory_map(str(part)) as mapped:
                    schema = ipc.open_file(mapped).schema
    if not isinstance(schema, pa.Schema):
        schema = pa.schema(schema)
    return plain_types(schema.remove_metadata().empty_table()).schema


def _part_chunks(part: Any, columns: Sequence[str], types: Any) -> Iterator[tuple[float, pa.Table, Any]]:
    """(share of the part that is read, rows, the lines of a text chunk) in order."""
    if isinstance(part, TextFile):
        for chunk in part.chunks(columns, types):
            yield chunk.lines.read, chunk.table, chunk
    elif isinstance(part, Path):
        with _reading(part):
            yield from _file_chunks(part, list(columns))
    else:
        yield from _memory_chunks(part, list(columns))


def _file_chunks(part: Path, columns: list[str]) -> Iterator[tuple[float, pa.Table, None]]:
    import pyarrow as pa
    from pyarrow import ipc
    from pyarrow import parquet as pq

    if kind_of(part) == "parquet":
        with pq.ParquetFile(part, page_checksum_verification=True) as file:
            read, total = 0, max(1, file.metadata.num_rows)
            for batch in file.iter_batches(batch_size=ROWS, columns=columns):
                read += batch.num_rows
                yield read / total, _checked(batch).select(columns), None
        return
    with pa.memory_map(str(part)) as mapped:
        reader = ipc.open_file(mapped)
        for i in range(reader.num_record_batches):
            yield (i + 1) / reader.num_record_batches, _checked(reader.get_batch(i)).select(columns), None


def _checked(batch: Any) -> pa.Table:
    """The batch as a table; wrong offsets in a damaged file would crash the process later."""
    import pyarrow as pa

    batch.validate(full=True)
    return pa.Table.from_batches([batch])


def _memory_chunks(part: Any, columns: list[str]) -> Iterator[tuple[float, pa.Table, None]]:
    import pyarrow as pa

    if isinstance(part, pa.Table):
        table, total = part.select(columns), max(1, part.num_rows)
        for start in range(0, part.num_rows, ROWS):
            yield min(1.0, (start + ROWS) / total), table.slice(start, ROWS), None
        return
    try:
        for batch in pa.RecordBatchReader.from_stream(part):
            yield 0.5, pa.Table.from_batches([batch]).select(columns), None
    except (pa.ArrowException, RuntimeError) as error:
        raise InputError(f"The table of type {type(part).__name__} cannot be read ({error}).") from None


class _reading:
    """Turns pyarrow's errors on a damaged file into InputError."""

    def __init__(self, part: Path) -> None:
        self.part = part

    def __enter__(self) -> None:
        if not self.part.stat().st_size:
            raise InputError(f"{self.part} is empty. Write the file again.")

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        import pyarrow as pa

        wrong = (pa.ArrowException, OSError, ValueError, EOFError, MemoryError, OverflowError)
        if isinstance(error, wrong) and not isinstance(error, InputError):
            kind = kind_of(self.part).strip(".")
            raise InputError(
                f"{self.part} is not a readable {kind} file ({error}). It may be cut off; write or copy it again."
            ) from None


def _as_schema(table: pa.Table, schema: Any) -> pa.Table:
    """The chunk in the types that all parts have together."""
    for i, field in enumerate(table.schema):
        kind = schema.field(field.name).type
        if field.type != kind:
            table = table.set_column(i, field.name, table.column(i).cast(kind))
    return table
