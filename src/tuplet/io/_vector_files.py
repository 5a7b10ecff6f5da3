"""One file of vectors, .npy or CSV, and what a table of them becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError, check_finite
from tuplet._files import DAMAGE, write_header
from tuplet._memory import forget_pages
from tuplet.io._vector_parts import arrow_ids, row_blocks, vectors_of
from tuplet.io.seen import labels_seen


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


def write_npy(path: Path, z: Any, ids: Any, groups: Any, info: Mapping[str, Any], dtype: np.dtype[Any]) -> None:
    little = dtype.newbyteorder("<")
    with path.open("wb") as file:
        write_header(file, z.shape, little)
        for part in row_blocks(z):
            file.write(np.ascontiguousarray(z[part], dtype=little).data)
            forget_pages(z)


def write_csv(path: Path, z: Any, ids: Any, groups: Any, info: Mapping[str, Any], dtype: np.dtype[Any]) -> None:
    import pyarrow as pa
    from pyarrow import csv

    names = ["id", *(f"v{i}" for i in range(z.shape[1])), *(["cluster"] if groups is not None else [])]
    types = [arrow_ids(ids[:1]).type, *[pa.float32()] * z.shape[1], *([pa.int64()] if groups is not None else [])]
    with csv.CSVWriter(path, pa.schema(list(zip(names, types)))) as writer:
        for part in row_blocks(z):
            columns = [arrow_ids(ids[part]), *np.asarray(z[part], dtype=np.float32).T]
            columns += [groups[part].astype(np.int64)] if groups is not None else []
            writer.write_table(pa.table([pa.array(column) for column in columns], names=names))


def from_table(table: Any, metadata: dict[str, Any], path: Path) -> Vectors:
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


def read_npy(path: Path) -> Vectors:
    try:
        z = np.load(path, mmap_mode="r", allow_pickle=False)
    except DAMAGE as error:
        raise InputError(f"{path} is not a readable .npy file ({error}). Write or copy it again.") from None
    if z.ndim != 2 or z.dtype.kind != "f":
        raise InputError(f"{path} holds {z.dtype} {z.shape}, not vectors: floats of shape (n, d) are needed.")
    check_finite(f"{path}", z)
    return Vectors(np.arange(len(z)), z if z.dtype == np.float32 else z.astype(np.float32))


def read_csv(path: Path) -> Vectors:
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
