"""Vectors out and in: Parquet (id, vector, cluster), .npy or CSV by the file's ending, or a folder of Parquet parts.

A Parquet file has one row a node: `id`, `vector` (a fixed-size list of float32 or float16) and, if given, `cluster`.
Its schema metadata hold, as JSON under "tuplet", what made the vectors: model, settings, graph fingerprint, and what
they have seen (seen.py). All is written whole or not at all.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError, check_choice, check_finite, check_out_path, is_there
from tuplet._files import new_file
from tuplet._memory import forget_pages
from tuplet.graph import Graph
from tuplet.io._vector_files import Vectors, from_table, read_csv, read_npy, write_csv, write_npy
from tuplet.io._vector_parts import (
    is_parts,
    parsed_metadata,
    read_parquet,
    read_parts,
    row_blocks,
    write_parquet,
    write_parts,
)
from tuplet.io._vector_tasks import write_parts_on
from tuplet.io.remote import check_target, is_remote, local_path, uploaded
from tuplet.io.vector_stores import check_store, is_store, read_store, write_store

__all__ = ["Vectors", "align", "check_vectors_path", "in_node_order", "is_vectors", "read_vectors", "write_vectors"]
DTYPES = ("float32", "float16")
_ENDINGS = (".parquet", ".npy", ".csv")


def write_vectors(
    path: str | os.PathLike[str],
    z: NDArray[Any],
    ids: Any = None,
    *,
    cluster: Any = None,
    metadata: Mapping[str, Any] | None = None,
    dtype: str = "float32",
    engine: str = "local",
    progress: Callable[[str, float], None] | None = None,
) -> Path | str:
    """Write vectors (n, d) as .parquet, .npy or .csv; `z` may be a memory map, which is read block by block.

    `path` may also be a table in a database (lance:, postgresql://, .duckdb: vector_stores.py) or lie in an object
    store (s3://, ..: remote.py).

    A `path` that ends with a slash, or is a folder of such parts already, becomes a folder of Parquet files. `ids`
    are the node ids (0, 1, .. by default), or the Graph, whose ids and fingerprint are then stored. An .npy holds
    the vectors alone. `dtype` "float16" takes half the place; not for .csv. On an `engine` ("ray", ..) the nodes of a
    cluster write the parts of a folder, each its own, and tell `progress`; other files are written here.

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
        tick = None if progress is None else functools.partial(progress, "write")
        write_parts_on(engine, target, z, names, groups, info, np.dtype(dtype), tick)
        return target
    assert isinstance(target, Path)
    if _is_folder(path):
        write_parts(target, z, names, groups, info, np.dtype(dtype))
        return target
    writer = {".parquet": write_parquet, ".npy": write_npy, ".csv": write_csv}[target.suffix.lower()]
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
        return from_table(table, parsed_metadata(table.schema.metadata), Path("the table"))
    source = Path(local_path(path))
    if is_there(source) and source.is_dir():
        return from_table(*read_parts(source), source)
    if not (is_there(source) and source.is_file()):
        raise InputError(f"There is no file {source}. Give the path of vectors, as `tuplet embed` writes them.")
    check_choice("file ending", source.suffix.lower(), _ENDINGS)
    if source.suffix.lower() == ".parquet":
        return from_table(*read_parquet(source), source)
    return {".npy": read_npy, ".csv": read_csv}[source.suffix.lower()](source)


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
    if graph.ids is None and graph.x is not None and known is not None and not graph.has_fingerprint(known):
        raise InputError(
            f"The vectors were made for another graph (fingerprint {known}, this one {graph.fingerprint()}), and the "
            "nodes have no ids to tell more. Embed this graph first."
        )
    seen = vectors.labels_seen
    if np.array_equal(place, np.arange(n)):
        return replace(vectors, ids=graph.node_ids)
    groups = None if vectors.cluster is None else vectors.cluster[place]
    return Vectors(graph.node_ids, vectors.z[place], groups, vectors.metadata, None if seen is None else seen[place])
