"""Vectors out and in: Parquet (id, vector, cluster), .npy or CSV by the file's ending; written whole or not at all.

A Parquet file has one row a node: `id`, `vector` (a fixed-size list of float32) and, if given, `cluster`. Its
schema metadata hold, as JSON under "tuplet", what made the vectors: model, settings, graph fingerprint.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError, check_choice, check_finite, check_out_path
from tuplet._files import DAMAGE, new_file, write_header
from tuplet.graph import Graph

ROW_GROUP_BYTES = 2**25
_ENDINGS = (".parquet", ".npy", ".csv")


@dataclass(frozen=True, eq=False)
class Vectors:
    """What a vectors file holds: `ids` (n,), `z` float32 (n, d), `cluster` (n,) or None, and the metadata."""

    ids: NDArray[Any]
    z: NDArray[np.float32]
    cluster: NDArray[np.int64] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


def write_vectors(
    path: str | os.PathLike[str],
    z: NDArray[Any],
    ids: Any = None,
    *,
    cluster: Any = None,
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """Write vectors (n, d) as .parquet, .npy or .csv; `z` may be a memory map, which is read block by block.

    `ids` are the node ids (0, 1, .. by default), or the Graph, whose ids and fingerprint are then stored. An .npy
    file holds the vectors alone.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_vectors(f"{folder}/v.parquet", np.eye(2), ["a", "b"], metadata={"model": "7f"})
    ...     back = read_vectors(path)
    >>> back.ids.tolist(), back.z.tolist(), back.metadata["model"]
    (['a', 'b'], [[1.0, 0.0], [0.0, 1.0]], '7f')
    """
    target = check_out_path(path)
    check_choice("file ending", target.suffix.lower(), _ENDINGS)
    info = {"format": "tuplet-vectors", **(metadata or {})}
    if isinstance(ids, Graph):
        info |= {"graph": ids.fingerprint(), "graph_name": ids.name}
        ids = ids.node_ids
    z = np.asanyarray(z)
    if z.ndim != 2 or not z.shape[1]:
        raise InputError(f"The vectors have shape {z.shape}. Give one row for each node: (n, d).")
    check_finite("The vectors", z)
    names = np.arange(len(z)) if ids is None else np.asarray(ids)
    groups = None if cluster is None else np.asarray(cluster)
    for what, array in (("ids", names), ("cluster", groups)):
        if array is not None and array.shape != (len(z),):
            raise InputError(f"{what} has shape {array.shape} for {len(z)} vectors. Give one for each vector.")
    writer = {".parquet": _write_parquet, ".npy": _write_npy, ".csv": _write_csv}[target.suffix.lower()]
    with new_file(target) as partial:
        writer(partial, z, names, groups, info)
    return target


def read_vectors(path: str | os.PathLike[str]) -> Vectors:
    """The vectors in a .parquet, .npy or .csv file; an .npy file is opened as a memory map."""
    source = Path(path)
    if not source.is_file():
        raise InputError(f"There is no file {source}. Check the path.")
    check_choice("file ending", source.suffix.lower(), _ENDINGS)
    reader = {".parquet": _read_parquet, ".npy": _read_npy, ".csv": _read_csv}[source.suffix.lower()]
    return reader(source)


def align(vectors: Vectors, graph: Graph) -> NDArray[np.float32]:
    """The vectors (n, d) in the node order of `graph`; an error where they belong to another graph.

    Ids decide. Where a graph has none (0, 1, ..), the fingerprint in the file's metadata does, if there is one.
    """
    n, mine, theirs = graph.n_nodes, graph.node_ids, vectors.ids
    if mine.dtype.kind != theirs.dtype.kind:
        mine, theirs = mine.astype(str), theirs.astype(str)
    order = np.argsort(theirs, kind="stable")
    place = order[np.minimum(np.searchsorted(theirs, mine, sorter=order), len(theirs) - 1)]
    strange = theirs[place] != mine
    if len(theirs) != n or strange.any():
        example = f", for example {mine[strange][0]!r}" if strange.any() else ""
        raise InputError(
            f"The vectors belong to another graph: they have {len(theirs)} ids for its {n} nodes, and "
            f"{int(strange.sum())} of its ids are not among them{example}. Embed this graph first."
        )
    known = vectors.metadata.get("graph")
    if graph.ids is None and graph.x is not None and known not in (None, graph.fingerprint()):
        raise InputError(
            f"The vectors were made for another graph (fingerprint {known}, this one {graph.fingerprint()}), and the "
            "nodes have no ids to tell more. Embed this graph first."
        )
    return vectors.z if np.array_equal(place, np.arange(n)) else vectors.z[place]


def row_blocks(z: Any) -> Iterator[slice]:
    """Slices of rows of the (n, d) matrix `z`, each some 32 MB of float32."""
    rows = max(1, ROW_GROUP_BYTES // (4 * z.shape[1]))
    for start in range(0, max(1, z.shape[0]), rows):
        yield slice(start, start + rows)


def arrow_ids(ids: NDArray[Any]) -> Any:
    """The ids as an Arrow array; objects become text."""
    import pyarrow as pa

    return pa.array(ids.astype(str) if ids.dtype.kind == "O" else ids)


def _write_parquet(path: Path, z: NDArray[Any], ids: NDArray[Any], groups: Any, info: Mapping[str, Any]) -> None:
    import pyarrow as pa
    from pyarrow import parquet as pq

    fields = [pa.field("id", arrow_ids(ids[:1]).type), pa.field("vector", pa.list_(pa.float32(), z.shape[1]))]
    if groups is not None:
        fields.append(pa.field("cluster", pa.int64()))
    text = json.dumps(info, default=str)
    with pq.ParquetWriter(path, pa.schema(fields, metadata={"tuplet": text})) as writer:
        for part in row_blocks(z):
            flat = pa.array(np.ascontiguousarray(z[part], dtype=np.float32).ravel())
            columns = [arrow_ids(ids[part]), pa.FixedSizeListArray.from_arrays(flat, z.shape[1])]
            if groups is not None:
                columns.append(pa.array(groups[part].astype(np.int64)))
            writer.write_table(pa.table(columns, schema=writer.schema))


def _write_npy(path: Path, z: NDArray[Any], ids: NDArray[Any], groups: Any, info: Mapping[str, Any]) -> None:
    with path.open("wb") as file:
        write_header(file, z.shape, np.dtype("<f4"))
        for part in row_blocks(z):
            file.write(np.ascontiguousarray(z[part], dtype="<f4").data)


def _write_csv(path: Path, z: NDArray[Any], ids: NDArray[Any], groups: Any, info: Mapping[str, Any]) -> None:
    import pyarrow as pa
    from pyarrow import csv

    names = ["id", *(f"v{i}" for i in range(z.shape[1])), *(["cluster"] if groups is not None else [])]
    types = [arrow_ids(ids[:1]).type, *[pa.float32()] * z.shape[1], *([pa.int64()] if groups is not None else [])]
    with csv.CSVWriter(path, pa.schema(list(zip(names, types)))) as writer:
        for part in row_blocks(z):
            columns = [arrow_ids(ids[part]), *np.asarray(z[part], dtype=np.float32).T]
            columns += [groups[part].astype(np.int64)] if groups is not None else []
            writer.write_table(pa.table([pa.array(column) for column in columns], names=names))


def _read_parquet(path: Path) -> Vectors:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            table = file.read()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path} is not a readable Parquet file ({error}). Write or copy it again.") from None
    if not {"id", "vector"} <= set(table.column_names) or not pa.types.is_fixed_size_list(
        table.schema.field("vector").type
    ):
        raise InputError(f"{path} has the columns {table.column_names}, not `id` and a vector column `vector`.")
    column = table.column("vector")
    width = table.schema.field("vector").type.list_size
    flat = pc.list_flatten(column)
    if column.null_count or flat.null_count or not width:
        raise InputError(f"{path} has rows without a vector. Write it again.")
    z = np.asarray(flat, dtype=np.float32).reshape(-1, width)
    check_finite(f"{path}", z)
    return Vectors(_read_ids(table.column("id")), z, _read_cluster(table, path), _metadata(table.schema.metadata))


def _read_cluster(table: Any, path: Path) -> NDArray[np.int64] | None:
    import pyarrow as pa

    if "cluster" not in table.column_names:
        return None
    column = table.column("cluster")
    if column.null_count or not pa.types.is_integer(column.type):
        raise InputError(f"The column `cluster` of {path} must hold a whole number in every row. Write it again.")
    return np.asarray(column).astype(np.int64)


def _metadata(raw: Any) -> dict[str, Any]:
    try:
        meta = json.loads((raw or {}).get(b"tuplet", b"{}"))
    except (ValueError, RecursionError):
        return {}
    return meta if isinstance(meta, dict) else {}


def _read_ids(column: Any) -> NDArray[Any]:
    from tuplet.io._ids import id_column, to_numpy

    return to_numpy(id_column(column, "column 'id' of the vectors"))


def _read_npy(path: Path) -> Vectors:
    try:
        z = np.load(path, mmap_mode="r", allow_pickle=False)
    except DAMAGE as error:
        raise InputError(f"{path} is not a readable .npy file ({error}). Write or copy it again.") from None
    if z.ndim != 2 or z.dtype.kind != "f":
        raise InputError(f"{path} holds {z.dtype} {z.shape}, not vectors: floats of shape (n, d) are needed.")
    check_finite(f"{path}", z)
    return Vectors(np.arange(len(z)), z if z.dtype == np.float32 else z.astype(np.float32))


def _read_csv(path: Path) -> Vectors:
    from tuplet.io._ids import to_numpy
    from tuplet.io._nodes import NodeTable
    from tuplet.io._tables import open_table

    opened = open_table(path, "The vectors", header=True)
    nodes = NodeTable(opened, "the vectors", opened.names[0], opened.names[1:], None, (), in_memory=True)
    (table,) = nodes.chunks()
    names = [name for name in table.column_names if name != "cluster"]
    try:
        z = np.column_stack([np.asarray(table.column(name), dtype=np.float32) for name in names])
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} holds something else than numbers ({error}). Write it again.") from None
    check_finite(f"{path}", z)
    return Vectors(to_numpy(nodes.ids), z, _read_cluster(table, path))
