"""Vectors out and in: Parquet (id, vector, cluster), .npy or CSV by the file's ending, or a folder of Parquet parts.

A Parquet file has one row a node: `id`, `vector` (a fixed-size list of float32 or float16) and, if given, `cluster`.
Its schema metadata hold, as JSON under "tuplet", what made the vectors: model, settings, graph fingerprint, and what
they have seen (seen.py). All is written whole or not at all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError, check_choice, check_finite, check_out_path, is_there
from tuplet._files import DAMAGE, new_file, write_header
from tuplet._memory import forget_pages
from tuplet.graph import Graph
from tuplet.io._vector_parts import (
    arrow_ids,
    is_parts,
    parsed_metadata,
    read_parquet,
    read_parts,
    row_blocks,
    vectors_of,
    write_parquet,
    write_parts,
)
from tuplet.io._vector_tasks import write_parts_on
from tuplet.io.remote import check_target, is_remote, local_path, uploaded
from tuplet.io.seen import labels_seen
from tuplet.io.vector_stores import check_store, is_store, read_store, write_store

DTYPES = ("float32", "float16")
_ENDINGS = (".parquet", ".npy", ".csv")


@dataclass(frozen=True, eq=False)
class Vectors:
    """What a vectors file holds: `ids` (n,), `z` float32 (n, d), `cluster` (n,) or None, and the metadata.

    `labels_seen` (n,) marks the nodes whose labels have trained the vectors; None where the file does not say.
    """

    ids: NDArray[Any]
    z: NDArray[np.float32]
    cluster: NDArray[np.int64] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    labels_seen: NDArray[np.bool_] | None = None


def write_vectors(
    path: str | os.PathLike[str],
    z: NDArray[Any],
    ids: Any = None,
    *,
    cluster: Any = None,
    metadata: Mapping[str, Any] | None = None,
    dtype: str = "float32",
    engine: str = "local",
) -> Path | str:
    """Write vectors (n, d) as .parquet, .npy or .csv; `z` may be a memory map, which is read block by block.

    `path` may also be a table in a database (lance:, postgresql://, .duckdb: vector_stores.py) or lie in an object
    store (s3://, ..: remote.py).

    A `path` that ends with a slash, or is a folder of such parts already, becomes a folder of Parquet files. `ids`
    are the node ids (0, 1, .. by default), or the Graph, whose ids and fingerprint are then stored. An .npy holds
    the vectors alone. `dtype` "float16" takes half the place; not for .csv. On an `engine` ("ray", ..) the nodes of a
    cluster write the parts of a folder, each its own; other files are written here.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_vectors(f"{folder}/v.parquet", np.eye(2), ["a", "b"], metadata={"model": "7f"})
    ...     back = read_vectors(path)
    >>> back.ids.tolist(), back.z.tolist(), back.metadata["model"]
    (['a', 'b'], [[1.0, 0.0], [0.0, 1.0]], '7f')
    """
    target = _place(path, dtype)
    if is_remote(path) and (engine == "local" or not _is_folder(path)):
        with uploaded(str(path)) as local:
            inside = f"{local}/" if _is_folder(path) else local
            write_vectors(inside, z, ids, cluster=cluster, metadata=metadata, dtype=dtype)
        return str(path)
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
    if is_store(target):
        write_store(str(target), z, names, cluster=groups, metadata=json.dumps(info, default=str))
        return target
    _check_range(z, dtype)
    if _is_folder(path) and engine != "local":
        write_parts_on(engine, target, z, names, groups, info, np.dtype(dtype))
        return target
    assert isinstance(target, Path)
    if _is_folder(path):
        write_parts(target, z, names, groups, info, np.dtype(dtype))
        return target
    writer = {".parquet": write_parquet, ".npy": _write_npy, ".csv": _write_csv}[target.suffix.lower()]
    with new_file(target) as partial:
        writer(partial, z, names, groups, info, np.dtype(dtype))
    return target


def check_vectors_path(
    path: str | os.PathLike[str], dtype: str = "float32", *, width: int | None = None, ids: Any = None
) -> Path | str:
    """`path` as a place where `write_vectors` can write: a known ending or a folder of parts, its parent there.

    A database is asked whether it will take vectors, of this `width` and for these `ids` where they are known yet.
    """
    target = _place(path, dtype)
    if is_store(path):
        check_store(str(path), width, None if ids is None else np.asarray(ids))
    return target


def _place(path: str | os.PathLike[str], dtype: str) -> Path | str:
    check_choice("dtype", dtype, DTYPES)
    if is_store(path):
        if dtype != "float32":
            raise InputError("A database holds float32. Leave dtype out.")
        return str(path)
    if is_remote(path):
        if not _is_folder(path):
            check_choice("file ending", Path(str(path).split("?")[0]).suffix.lower(), _ENDINGS)
        check_target(str(path))
        return str(path)
    target = check_out_path(path)
    if _is_folder(path):
        if target.exists() and not (target.is_dir() and (is_parts(target) or not any(target.iterdir()))):
            raise InputError(f"{target} exists and holds something else than vectors. Choose another place.")
        return target
    if not target.suffix:
        raise InputError(f"{target} has no ending. Give {', '.join(_ENDINGS)}, or {target}/ for a folder of parts.")
    check_choice("file ending", target.suffix.lower(), _ENDINGS)
    if target.is_dir():
        raise InputError(f"{target} is a folder. Choose another name for the vectors.")
    if dtype != "float32" and target.suffix.lower() == ".csv":
        raise InputError("A .csv file holds text, so float16 saves nothing there. Write .parquet or .npy.")
    return target


def _is_folder(path: str | os.PathLike[str]) -> bool:
    text = os.fspath(path)
    return text.endswith(("/", os.sep)) or (Path(path).is_dir() and not Path(path).suffix)


def _check_range(z: NDArray[Any], dtype: str) -> None:
    if dtype == "float32":
        return
    most = float(np.finfo(dtype).max)
    for part in row_blocks(z):
        if len(z) and float(np.abs(z[part]).max()) > most:
            raise InputError(f"The vectors hold values beyond {most:g}, the largest of {dtype}. Write float32.")
        forget_pages(z)


def read_vectors(path: str | os.PathLike[str]) -> Vectors:
    """The vectors in a .parquet, .npy or .csv file or a folder of parts; an .npy file is opened as a memory map."""
    if is_store(path):
        table = read_store(str(path))
        return _from_table(table, parsed_metadata(table.schema.metadata), Path("the table"))
    source = Path(local_path(path))
    if is_there(source) and source.is_dir():
        return _from_table(*read_parts(source), source)
    if not (is_there(source) and source.is_file()):
        raise InputError(f"There is no file {source}. Check the path.")
    check_choice("file ending", source.suffix.lower(), _ENDINGS)
    reader = {".parquet": _read_parquet, ".npy": _read_npy, ".csv": _read_csv}[source.suffix.lower()]
    return reader(source)


def is_vectors(path: Path) -> bool:
    """Whether a Parquet file was written by `write_vectors`, by its metadata alone."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError, ValueError):
        return False
    return parsed_metadata(schema.metadata).get("format") == "tuplet-vectors"


def align(vectors: Vectors, graph: Graph) -> NDArray[np.float32]:
    """The vectors (n, d) in the node order of `graph`; an error where they belong to another graph."""
    return in_node_order(vectors, graph).z


def in_node_order(vectors: Vectors, graph: Graph) -> Vectors:
    """The vectors in the node order of `graph`, with all that goes with a row; an error where they are another's.

    Ids decide. Where a graph has none (0, 1, ..), the fingerprint in the file's metadata does, if there is one.
    """
    n, mine, theirs = graph.n_nodes, graph.node_ids, vectors.ids
    if mine.dtype.kind != theirs.dtype.kind:
        mine, theirs = mine.astype(str), theirs.astype(str)
    order = np.argsort(theirs, kind="stable")
    place = order[np.minimum(np.searchsorted(theirs, mine, sorter=order), len(theirs) - 1)]
    strange = theirs[place] != mine
    if len(theirs) != n or strange.any():
        example = f", for example {mine[strange][0]}" if strange.any() else ""
        raise InputError(
            f"The vectors belong to another graph: they have {len(theirs)} ids for its {n} nodes, and "
            f"{int(strange.sum())} of its ids are not among them{example}. Embed this graph first; where nodes have "
            "ids, write .parquet or .csv, for a .npy holds no ids."
        )
    known = vectors.metadata.get("graph")
    if graph.ids is None and graph.x is not None and known not in (None, graph.fingerprint()):
        raise InputError(
            f"The vectors were made for another graph (fingerprint {known}, this one {graph.fingerprint()}), and the "
            "nodes have no ids to tell more. Embed this graph first."
        )
    seen = vectors.labels_seen
    if np.array_equal(place, np.arange(n)):
        return replace(vectors, ids=graph.node_ids)
    groups = None if vectors.cluster is None else vectors.cluster[place]
    return Vectors(graph.node_ids, vectors.z[place], groups, vectors.metadata, None if seen is None else seen[place])


def _write_npy(path: Path, z: Any, ids: Any, groups: Any, info: Mapping[str, Any], dtype: np.dtype[Any]) -> None:
    little = dtype.newbyteorder("<")
    with path.open("wb") as file:
        write_header(file, z.shape, little)
        for part in row_blocks(z):
            file.write(np.ascontiguousarray(z[part], dtype=little).data)
            forget_pages(z)


def _write_csv(path: Path, z: Any, ids: Any, groups: Any, info: Mapping[str, Any], dtype: np.dtype[Any]) -> None:
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
    return _from_table(*read_parquet(path), path)


def _from_table(table: Any, metadata: dict[str, Any], path: Path) -> Vectors:
    z = vectors_of(table, path)
    seen = labels_seen(metadata, len(z))
    return Vectors(_read_ids(table.column("id")), z, _read_cluster(table, path), metadata, seen)


def _read_cluster(table: Any, path: Path) -> NDArray[np.int64] | None:
    import pyarrow as pa

    if "cluster" not in table.column_names:
        return None
    column = table.column("cluster")
    if column.null_count or not pa.types.is_integer(column.type):
        raise InputError(f"The column `cluster` of {path} must hold a whole number in every row. Write it again.")
    return np.asarray(column).astype(np.int64)


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
