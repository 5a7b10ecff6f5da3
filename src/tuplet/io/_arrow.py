"""Anything with rows and columns -> an Arrow table: files, folders of parts, pandas, polars, dicts and arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tuplet._check import InputError
from tuplet.io._text import AsText, Layout, read_text

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc")
TEXT = (".csv", ".tsv", ".txt", ".edges", ".edgelist", ".tab", ".dat")


def read_table(
    source: Any,
    *,
    header: bool | None = None,
    separator: str | None = None,
    comment: str = "#",
    as_text: AsText = lambda names: (),
) -> tuple[pa.Table, Layout | None]:
    """`source` as an Arrow table; the layout too where it was delimited text.

    A path (CSV, TSV, Parquet, Arrow, or a folder of parts of one kind), a binary stream of CSV, a pandas or polars
    frame, a dict of columns, or a 2-d array (columns c1, c2, ..).

    >>> read_table({"id": ["a", "b"], "age": [3, 4]})[0].column_names
    ['id', 'age']
    """
    if isinstance(source, str | os.PathLike):
        return _read_path(Path(source), header=header, separator=separator, comment=comment, as_text=as_text)
    if hasattr(source, "read"):
        return read_text(source, header=header, separator=separator, comment=comment, as_text=as_text)
    return _plain_types(_from_memory(source)), None


def parts_of(path: Path) -> list[Path]:
    """The data files of `path`: itself, or in a folder all files of one kind, by name."""
    if not path.exists():
        raise InputError(f"There is no file or folder {path}. Check the path.")
    if path.is_file():
        return [path]
    files = [file for file in sorted(path.iterdir()) if kind_of(file)]
    kinds = {kind_of(file) for file in files}
    if len(kinds) != 1:
        found = "no data files" if not files else f"files of several kinds ({', '.join(sorted(map(str, kinds)))})"
        raise InputError(f"The folder {path} holds {found}. It must hold parts of one kind: Parquet, Arrow or CSV.")
    return files


def kind_of(path: Path) -> str:
    """ "parquet", "arrow", "text" or "" by the file's name."""
    name = path.name.lower()
    for ending in (".gz", ".bz2", ".zst"):
        name = name.removesuffix(ending)
    for kind, endings in (("parquet", PARQUET), ("arrow", ARROW), ("text", TEXT)):
        if name.endswith(endings):
            return kind
    return ""


def _read_path(path: Path, **text_options: Any) -> tuple[pa.Table, Layout | None]:
    import pyarrow as pa

    tables, layout = [], None
    for part in parts_of(path):
        if kind_of(part) in ("parquet", "arrow"):
            tables.append(_plain_types(_read_columnar(part)))
        else:
            table, layout = read_text(part, **text_options)
            tables.append(table)
    try:
        return pa.concat_tables(tables, promote_options="permissive"), layout
    except pa.ArrowException as error:
        raise InputError(f"The parts in {path} do not fit together ({error}). Give them the same columns.") from None


def _read_columnar(path: Path) -> pa.Table:
    import pyarrow as pa
    from pyarrow import feather
    from pyarrow import parquet as pq

    if not path.stat().st_size:
        raise InputError(f"{path} is empty. Write the file again.")
    try:
        if kind_of(path) == "parquet":
            with pq.ParquetFile(path, memory_map=False) as file:
                table = file.read()
        else:
            table = feather.read_table(path, memory_map=False)
        table.validate(full=True)  # wrong offsets in a damaged file would crash the process later
        return table
    except (pa.ArrowException, OSError, ValueError, EOFError, MemoryError) as error:
        raise InputError(
            f"{path} is not a readable {kind_of(path)} file ({error}). It may be cut off; write or copy it again."
        ) from None


def _from_memory(source: Any) -> pa.Table:
    import pyarrow as pa

    library = type(source).__module__.split(".")[0]
    try:
        if isinstance(source, pa.RecordBatch):
            return pa.Table.from_batches([source])
        if isinstance(source, pa.Table):
            return source
        if library == "pandas":
            return _from_pandas(source)
        if library == "polars":
            return (source.collect() if hasattr(source, "collect") else source).to_arrow()
        if isinstance(source, Mapping):
            return pa.table({str(name): _column(values) for name, values in source.items()})
        array = np.asarray(source)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise InputError(
            f"The table cannot be read ({error}). Give columns of equal length and one type each."
        ) from None
    if array.ndim != 2 or array.dtype.kind not in "iufUSO" or not array.shape[1]:
        raise InputError(
            f"A table of type {type(source).__name__} with shape {array.shape} cannot be read. "
            "Give a path, a data frame, a dict of columns or a 2-d array."
        )
    return pa.table({f"c{i + 1}": _column(array[:, i]) for i in range(array.shape[1])})


def _from_pandas(frame: Any) -> pa.Table:
    import pyarrow as pa

    if frame.index.name is not None or not isinstance(frame.index, type(frame.reset_index(drop=True).index)):
        frame = frame.reset_index(names=frame.index.name if frame.index.name is not None else "id")
    return pa.table({str(name): _column(frame[name]) for name in frame.columns})


def _column(values: Any) -> Any:
    """An Arrow array; objects that Arrow does not know (UUID, mixed ids) become text."""
    import pyarrow as pa

    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return pa.array([None if value is None else str(value) for value in values])


def _plain_types(table: pa.Table) -> pa.Table:
    """Dictionary, string-view and extension columns as their plain types."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for i, field in enumerate(table.schema):
        kind = field.type
        if isinstance(kind, pa.BaseExtensionType):
            column = _from_extension(table.column(i))
        elif pa.types.is_dictionary(kind):
            column = pc.cast(table.column(i), kind.value_type)
        elif kind in (pa.string_view(), pa.binary_view()):
            column = pc.cast(table.column(i), pa.large_string())
        else:
            continue
        table = table.set_column(i, field.name, column)
    return table


def _from_extension(column: pa.ChunkedArray) -> Any:
    import pyarrow as pa

    if "uuid" in str(column.type).lower():
        return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
    return pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
