"""Vectors in databases: one table with `id`, `vector` and, if given, `cluster` (extra [stores]).

    lance:folder/table                     a Lance table, which LanceDB opens as `table` of the database `folder`
    postgresql://user@host/base/table      PostgreSQL with pgvector: upsert by id, an HNSW index by cosine
    vectors.duckdb, duckdb:file?table=name     a DuckDB file; the table is `vectors` unless named

A load is one transaction: a killed one leaves the table as it was. A table of vectors of another width is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError, check_choice, check_int
from tuplet.io._uris import POSTGRES, is_source
from tuplet.io._vector_table import Neighbors

if TYPE_CHECKING:
    import pyarrow as pa

METHODS = ("auto", "exact", "hnsw")
BLOCK = 2**24  # bytes of vectors in a batch


class VectorStore(Protocol):
    """What a place for vectors can do. Vectors are stored as they are; nearness is by cosine."""

    def check(self, width: int | None, id_type: pa.DataType | None) -> None:
        """Raise where vectors of this width and ids of this type, if known yet, cannot be written here."""

    def write(self, batches: Callable[[], pa.RecordBatchReader], metadata: str) -> None:
        """Write all rows, or none; `batches` gives them from the start each time."""

    def read(self) -> pa.Table:
        """All rows, with the metadata under "tuplet" in the schema."""

    def nearest(self, names: list[str], k: int, method: str) -> list[Neighbors]:
        """The `k` rows nearest to each of the named ones, without itself."""


def is_store(target: Any) -> bool:
    """Whether `target` names a table for vectors in a database.

    >>> is_store("lance:out/papers"), is_store("vectors.duckdb"), is_store("vectors.parquet")
    (True, True, False)
    """
    return isinstance(target, str) and (target.startswith("lance:") or is_source(target))


def open_store(target: str) -> VectorStore:
    """The store behind `target`; nothing is connected or made yet."""
    if target.startswith("lance:"):
        from tuplet.io._store_lance import LanceStore

        return LanceStore.at(target)
    if target.startswith(POSTGRES):
        from tuplet.io._store_postgres import PostgresStore

        return PostgresStore.at(target)
    from tuplet.io._store_duckdb import DuckStore

    return DuckStore.at(target)


def write_store(
    target: str, z: NDArray[Any], ids: NDArray[Any], *, cluster: NDArray[Any] | None = None, metadata: str = "{}"
) -> None:
    """Write vectors (n, d), read block by block, with their ids to `target`; `metadata` is JSON on their making."""
    store, names = open_store(target), _names(ids)
    twice = len(names) - len(names.unique())
    if twice:
        raise InputError(f"{twice} ids come twice. A table needs one vector for each id.")
    store.check(z.shape[1], names.type)
    store.write(lambda: _reader(z, names, cluster), metadata)


def check_store(target: str, width: int | None = None, ids: NDArray[Any] | None = None) -> None:
    """Raise at once, before the vectors are made, where `target` cannot take them; `width` and `ids` if known yet.

    Asked of the database itself: password, rights, a schema or table that is not there, a table of something else.
    """
    open_store(target).check(width, None if ids is None else _names(ids[:1]).type)


def store_neighbors(target: str, names: list[str], k: int = 10, *, method: str = "auto") -> dict[str, Neighbors]:
    """For each named node, the `k` nearest others by cosine, asked of the store itself.

    `method` "exact" compares with every vector; "hnsw" asks the approximate index; "auto" lets the store choose.
    """
    check_choice("method", method, METHODS)
    found = open_store(target).nearest(names, check_int("k", k), method)
    return dict(zip(names, found, strict=True))


def read_store(target: str) -> pa.Table:
    """All vectors as an Arrow table: `id`, `vector` (a fixed-size list of float32), `cluster`, and the metadata."""
    import pyarrow as pa

    table = open_store(target).read()
    place = table.schema.get_field_index("vector")
    column = table.column("vector").combine_chunks()
    if column.null_count or not len(column):
        raise InputError(f"The table of {target} holds no vectors, or rows without one. Write it again.")
    width = len(column[0])
    flat = column.flatten()
    if len(flat) != width * len(column):
        raise InputError(f"The vectors of {target} have different widths. Write the table again.")
    fixed = pa.FixedSizeListArray.from_arrays(flat.cast(pa.float32()), width)
    kept = table.schema.metadata
    return table.set_column(place, "vector", fixed).replace_schema_metadata(kept)


def _names(ids: NDArray[Any]) -> pa.Array:
    """Ids as a database keeps them: whole numbers or texts."""
    import pyarrow as pa

    names = pa.array(ids.astype(str) if ids.dtype.kind in "OU" else ids)
    return names.cast(pa.int64()) if pa.types.is_integer(names.type) else names


def _reader(z: NDArray[Any], names: pa.Array, cluster: NDArray[Any] | None) -> pa.RecordBatchReader:
    import pyarrow as pa

    width = z.shape[1]
    fields = [pa.field("id", names.type), pa.field("vector", pa.list_(pa.float32(), width))]
    fields += [] if cluster is None else [pa.field("cluster", pa.int64())]
    schema = pa.schema(fields)

    def batches() -> Iterator[Any]:
        rows = max(1, BLOCK // (4 * width))
        for start in range(0, len(z), rows):
            flat = pa.array(np.ascontiguousarray(z[start : start + rows], dtype=np.float32).ravel())
            columns = [names[start : start + rows], pa.FixedSizeListArray.from_arrays(flat, width)]
            columns += [] if cluster is None else [pa.array(np.asarray(cluster[start : start + rows], np.int64))]
            yield pa.record_batch(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())
