"""Vectors as Parquet: one file, or a folder of parts `part-00000.parquet`, .. that are read as one.

Each file has `id`, `vector` (a fixed-size list of float32 or float16) and, where known, `cluster`. The metadata of
the schema hold JSON under "tuplet"; a part also says which one it is of how many, so that a lost part is seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError, check_finite
from tuplet._files import new_folder
from tuplet._memory import forget_pages
from tuplet._threads import cores, over
from tuplet.io.remote import filesystem, objects_at

ROW_GROUP_BYTES = 2**25
PART_BYTES = 2**28
_PART = "part-{:05d}.parquet"
_WRITERS = 8  # parts written at a time; each holds a row group or two


def row_blocks(z: Any, start: int = 0, stop: int | None = None) -> Iterator[slice]:
    """Slices of rows of the (n, d) matrix `z`, each some 32 MB of float32."""
    rows = max(1, ROW_GROUP_BYTES // (4 * z.shape[1]))
    stop = z.shape[0] if stop is None else stop
    for first in range(start, max(start + 1, stop), rows):
        yield slice(first, min(stop, first + rows))


def arrow_ids(ids: NDArray[Any]) -> Any:
    """The ids as an Arrow array; objects become text."""
    import pyarrow as pa

    return pa.array(ids.astype(str) if ids.dtype.kind == "O" else ids)


def part_name(i: int) -> str:
    """The file of part `i`."""
    return _PART.format(i)


def is_parts(path: Path) -> bool:
    """Whether `path` is a folder of parts and of nothing else."""
    files = sorted(path.iterdir()) if path.is_dir() else []
    return bool(files) and all(file.match("part-*.parquet") for file in files)


def write_parquet(
    path: Path,
    z: NDArray[Any],
    ids: NDArray[Any],
    groups: Any,
    info: Mapping[str, Any],
    dtype: Any = np.float32,
    rows: slice = slice(0, None),
) -> None:
    """The `rows` of the vectors as one Parquet file, written block by block."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    kind = pa.from_numpy_dtype(dtype)
    fields = [pa.field("id", arrow_ids(ids[:1]).type), pa.field("vector", pa.list_(kind, z.shape[1]))]
    if groups is not None:
        fields.append(pa.field("cluster", pa.int64()))
    schema = pa.schema(fields, metadata={"tuplet": json.dumps(info, default=str)})
    how: Any = {"use_dictionary": ["id", "cluster"], "write_page_checksum": True}  # of vectors: slow, saves nothing
    with pq.ParquetWriter(path, schema, **how) as writer:
        for part in row_blocks(z, rows.start, rows.stop):
            flat = pa.array(np.ascontiguousarray(z[part], dtype=dtype).ravel())
            columns = [arrow_ids(ids[part]), pa.FixedSizeListArray.from_arrays(flat, z.shape[1])]
            if groups is not None:
                columns.append(pa.array(groups[part].astype(np.int64)))
            writer.write_table(pa.table(columns, schema=schema))
            forget_pages(z)


def write_parts(
    folder: Path, z: NDArray[Any], ids: NDArray[Any], groups: Any, info: Mapping[str, Any], dtype: Any
) -> None:
    """The vectors as a folder of Parquet files of some 256 MB; whole or not at all."""
    rows = max(1, PART_BYTES // (z.shape[1] * np.dtype(dtype).itemsize))
    count = max(1, -(-len(z) // rows))
    with new_folder(folder) as partial:

        def write(i: int) -> None:
            about = {"format": info["format"], "part": i, "parts": count} | (dict(info) if i == 0 else {})
            some = slice(i * rows, min(len(z), (i + 1) * rows))
            write_parquet(partial / part_name(i), z, ids, groups, about, dtype, some)

        over(write, range(count), threads=min(cores(), _WRITERS), hold=False)


def read_parts(folder: Path) -> tuple[Any, dict[str, Any]]:
    """The table of all parts, and the metadata of the first; a part that is missing is an error."""
    import pyarrow as pa

    files = _part_files(folder)
    tables, about = zip(*(read_parquet(file) for file in files))
    _check_whole(folder, files, [table.schema for table in tables], about[0])
    return pa.concat_tables(tables), about[0]


def vector_files(folder: Path) -> tuple[list[Path], list[int]]:
    """The files of all parts and how many vectors each has, by their footers; a part that is missing is an error."""
    files = _part_files(folder)
    return files, _counts(folder, files, files)


def vector_objects(uri: str) -> tuple[list[str], list[str], list[int]]:
    """The same of a folder in an object store: the parts, what tells them from later ones, and their rows."""
    from pyarrow import fs

    store, path = filesystem(uri)
    found = {info.base_name: info for info in objects_at(uri)}
    names = sorted(name for name in found if PurePosixPath(name).match("part-*.parquet"))
    if not names:
        raise InputError(f"{uri} holds no vectors: there is no {part_name(0)} in it. Check bucket and path.")
    known = [f"{name} {found[name].size} {found[name].mtime}" for name in names]
    handler = fs.SubTreeFileSystem(path.rstrip("/"), store)
    rows = _counts(uri, [PurePosixPath(name) for name in names], [handler.open_input_file(name) for name in names])
    return [f"{uri.rstrip('/')}/{name}" for name in names], known, rows


def _counts(folder: Any, files: Sequence[PurePath], sources: Sequence[Any]) -> list[int]:
    """How many vectors each of the files has; what ParquetFile reads of them lies in `sources`."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    schemas, rows = [], []
    for file, source in zip(files, sources):
        try:
            with pq.ParquetFile(source) as opened:
                schemas.append(opened.schema_arrow)
                rows.append(int(opened.metadata.num_rows))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError(f"{file} is not a readable Parquet file ({error}). Write or copy it again.") from None
    about = parsed_metadata(schemas[0].metadata)
    _check_whole(folder, files, [schema.remove_metadata() for schema in schemas], about)
    return rows


def _part_files(folder: Path) -> list[Path]:
    files = sorted(folder.glob("part-*.parquet"))
    if not files:
        raise InputError(f"{folder} holds no vectors: there is no part-00000.parquet in it. Check the path.")
    return files


def _check_whole(folder: Any, files: Sequence[PurePath], schemas: list[Any], about: Mapping[str, Any]) -> None:
    """Raise where a part is missing or belongs to other vectors; `about` is what the first one says."""
    count = about.get("parts")
    for i in range(count if isinstance(count, int) and 0 < count < 10**6 else len(files)):
        if i >= len(files) or files[i].name != part_name(i):
            raise InputError(f"{folder} is not whole: {part_name(i)} is missing. Copy or write it again.")
    if any(schema != schemas[0] for schema in schemas) or (count is not None and count != len(files)):
        raise InputError(f"{folder} holds parts of different vectors. Write it again.")


def read_parquet(path: Path) -> tuple[Any, dict[str, Any]]:
    """The checked table of one file, without metadata, and the metadata."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path} is not a readable Parquet file ({error}). Write or copy it again.") from None
    names = table.column_names
    if (
        names.count("id") != 1
        or names.count("vector") != 1
        or not pa.types.is_fixed_size_list(table.schema.field("vector").type)
    ):
        raise InputError(
            f"{path} has the columns {names}, not one `id` and one vector column `vector`. Write it again."
        )
    return table.replace_schema_metadata(None), parsed_metadata(table.schema.metadata)


def vectors_of(table: Any, path: Path) -> NDArray[np.float32]:
    """The column `vector` as float32 (n, d)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = table.column("vector")
    width = column.type.list_size
    if not pa.types.is_floating(column.type.value_type):
        raise InputError(f"{path} holds vectors of {column.type.value_type}, not of floats. Write it again.")
    flat = pc.list_flatten(column)
    if column.null_count or flat.null_count or not width:
        raise InputError(f"{path} has rows without a vector. Write it again.")
    z = np.asarray(flat, dtype=np.float32).reshape(-1, width)
    check_finite(f"{path}", z)
    return z


def parsed_metadata(raw: Any) -> dict[str, Any]:
    """The JSON under "tuplet" in a schema's metadata; empty where there is none or it is damaged."""
    try:
        meta = json.loads((raw or {}).get(b"tuplet", b"{}"))
    except (ValueError, RecursionError):
        return {}
    return meta if isinstance(meta, dict) else {}
