"""Vectors in PostgreSQL with pgvector: loaded beside the table and merged into it by id, in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np

from tuplet._check import InputError
from tuplet.io._postgres import asked, is_blocked, postgres_tables
from tuplet.io._uris import check_table, literal, quoted, shown
from tuplet.io._vector_table import (
    Neighbors,
    no_such_id,
    other_width,
    vector_place,
    with_metadata,
    wrong_columns,
)

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("tuplet")
WIDEST_INDEX = 2000  # columns that pgvector's HNSW takes
EF_SEARCH = 200  # candidates of an approximate search; pgvector's default of 40 finds 9 of 10 neighbours
PATIENCE = "2s"  # for a lock, in a rehearsal
BUILD_MEMORY = "512MB"  # an index that does not fit in it is built many times slower


@dataclass(frozen=True)
class PostgresStore:
    """The table `table` in the database `place`."""

    place: str
    table: str

    @classmethod
    def at(cls, target: str) -> PostgresStore:
        """From `postgresql://host/base/table`, or `postgresql://host/base?table=table`."""
        place, table = vector_place(target)
        path, mark, parameters = place.partition("?")
        steps = path.split("/")  # postgresql:, nothing, host, base, table
        if not (len(steps) <= 4 if table else len(steps) == 5 and steps[4]):
            raise InputError(f"{shown(target)} names no table. Write postgresql://user@host/base/table.")
        return cls("/".join(steps[:4]) + mark + parameters, table or unquote(steps[4]))

    def check(self, width: int | None, id_type: pa.DataType | None) -> None:
        """Raise where the table holds something else, or the load would be refused: it is rehearsed without rows."""
        asked(self.place, lambda connection, cursor: self._rehearse(connection, cursor, width, id_type))

    def _rehearse(self, connection: Any, cursor: Any, width: int | None, id_type: pa.DataType | None) -> None:
        """What a load does, without rows and taken back at the end; another load at work is not waited for."""
        import pyarrow as pa

        if self._exists(cursor):
            self._check_columns(cursor, width, id_type)
        schema = pa.schema({"id": id_type or pa.int64(), "vector": pa.list_(pa.float32(), width or 1)})
        cursor.execute(f"set local lock_timeout = '{PATIENCE}'")
        try:
            self._load(cursor, schema.empty_table().to_reader(), "")
        except Exception as error:
            if not is_blocked(error):
                raise
            log.warning("%s is being written to by somebody else; whether it will take these vectors is not known",
                        self.table)  # fmt: skip
        connection.rollback()

    def write(self, batches: Callable[[], pa.RecordBatchReader], metadata: str) -> None:
        """Upsert all rows in one transaction; a lost connection is made again and the load begins anew."""

        def attempt(connection: Any, cursor: Any) -> int:
            reader = batches()
            width = reader.schema.field("vector").type.list_size
            cursor.execute(f"select pg_advisory_xact_lock(hashtext({literal(self.table)}))")
            cursor.fetchall()
            written = self._load(cursor, reader, metadata)
            self._index(cursor, width)
            cursor.execute(f"select count(*) from {quoted(self.table)}")
            others = int(cursor.fetchone()[0]) - written
            connection.commit()
            return others

        others = asked(self.place, attempt)
        if others:
            log.warning("%s holds %d rows of other ids too; only vectors of one model can be compared",
                        self.table, others)  # fmt: skip

    def _load(self, cursor: Any, reader: pa.RecordBatchReader, metadata: str) -> int:
        """Extension, table, rows and comment, uncommitted; how many rows."""
        cursor.execute("create extension if not exists vector")
        fresh = not self._exists(cursor)
        written = self._fill(cursor, reader) if fresh else self._merge(cursor, reader)
        cursor.execute(f"comment on table {quoted(self.table)} is {literal(metadata)}")
        return written

    def _exists(self, cursor: Any) -> bool:
        """Whether there is such a table, readable or not."""
        cursor.execute(f"select to_regclass({literal(quoted(self.table))}) is not null")
        return bool(cursor.fetchone()[0])

    def _fill(self, cursor: Any, reader: pa.RecordBatchReader) -> int:
        """Make the table and load all rows straight into it; how many."""
        import pyarrow as pa

        width = reader.schema.field("vector").type.list_size
        kind = "bigint" if pa.types.is_integer(reader.schema.field("id").type) else "text"
        cursor.execute(f"create table {quoted(self.table)} (id {kind} primary key, "
                       f"vector vector({width}) not null, cluster bigint)")  # fmt: skip
        *schema, name = self.table.rsplit(".", 1)
        where = {"db_schema_name": schema[0]} if schema else {}
        return int(cursor.adbc_ingest(name, _encoded(reader), mode="append", **where))

    def _merge(self, cursor: Any, reader: pa.RecordBatchReader) -> int:
        """Load the rows beside the table and upsert them by id; how many."""
        grouped = "cluster" in reader.schema.names
        columns = f"id, vector{', cluster' if grouped else ''}"
        cursor.execute(f"create temporary table tuplet_rows on commit drop as select {columns} "
                       f"from {quoted(self.table)} with no data")  # fmt: skip
        written = int(cursor.adbc_ingest("tuplet_rows", _encoded(reader), mode="append", temporary=True))
        cluster = "excluded.cluster" if grouped else "null"
        cursor.execute(
            f"insert into {quoted(self.table)} ({columns}) select {columns} from tuplet_rows "
            f"on conflict (id) do update set vector = excluded.vector, cluster = {cluster}"
        )
        return written

    def _index(self, cursor: Any, width: int) -> None:
        if width > WIDEST_INDEX:
            log.warning(
                "no index: pgvector's HNSW takes %d numbers at most, these vectors have %d", WIDEST_INDEX, width
            )
            return
        log.info("building the HNSW index of %s, where there is none", self.table)
        cursor.execute(f"set local maintenance_work_mem = '{BUILD_MEMORY}'")
        name = quoted(f"{self.table.split('.')[-1][:40]}_vector_hnsw")
        cursor.execute(
            f"create index if not exists {name} on {quoted(self.table)} using hnsw (vector vector_cosine_ops)"
        )

    def read(self) -> pa.Table:
        """All rows, those of a load in its order."""

        def attempt(_: Any, cursor: Any) -> tuple[pa.Table, str | None]:
            cluster = ", cluster" if "cluster" in self._columns(cursor) else ""
            cursor.execute(f"select id, vector{cluster} from {quoted(self.table)} order by id")
            table = _decoded(cursor.fetch_arrow_table())
            cursor.execute(f"select obj_description({literal(quoted(self.table))}::regclass)")
            return table, cursor.fetchone()[0]

        table, comment = asked(self.place, attempt)
        if "cluster" in table.column_names and table.column("cluster").null_count:
            table = table.drop_columns(["cluster"])
        return with_metadata(table, comment)

    def nearest(self, names: list[str], k: int, method: str) -> list[Neighbors]:
        """Neighbours by the HNSW index, or by every vector where `method` is "exact"."""

        def attempt(_: Any, cursor: Any) -> list[Neighbors]:
            number = self._columns(cursor)["id"] in ("bigint", "integer", "smallint")
            if method == "exact":
                cursor.execute("set local enable_indexscan = off")
            else:
                cursor.execute(f"set local hnsw.ef_search = {min(1000, max(EF_SEARCH, 2 * k))}")
            return [self._nearest(cursor, name, k, number) for name in names]

        found: list[Neighbors] = asked(self.place, attempt)
        return found

    def _nearest(self, cursor: Any, name: str, k: int, number: bool) -> Neighbors:
        table = quoted(self.table)
        there = not number or (name.lstrip("-").isdecimal() and str(int(name)) == name)
        cursor.execute(f"select id, vector::text from {table} where {f'id = {literal(name)}' if there else 'false'}")
        own = cursor.fetchone()
        if own is None:
            cursor.execute(f"select id from {table} limit 3")
            raise no_such_id(name, [i for (i,) in cursor.fetchall()])
        cursor.execute(
            f"select id, vector <=> '{own[1]}'::vector as distance from {table} order by distance limit {k + 1}"
        )
        rows = cursor.fetchall()
        return [(i, 1.0 - (1.0 if d != d else float(d))) for i, d in rows if i != own[0]][:k]

    def _columns(self, cursor: Any) -> dict[str, str]:
        """The columns and their types; raises where they are not those of vectors."""
        if not self._exists(cursor):
            check_table(self.table, postgres_tables(cursor), shown(self.place))
        cursor.execute(
            "select attname, format_type(atttypid, atttypmod) from pg_attribute "
            f"where attrelid = {literal(quoted(self.table))}::regclass and attnum > 0 and not attisdropped"
        )
        columns = dict(cursor.fetchall())
        if "id" not in columns or not columns.get("vector", "").startswith("vector"):
            raise wrong_columns(f"The table {self.table!r}", columns, "`id` and `vector` (of pgvector)")
        return columns

    def _check_columns(self, cursor: Any, width: int | None, id_type: pa.DataType | None) -> None:
        """Raise where the table cannot take vectors of `width` with ids of `id_type`, if known yet."""
        import pyarrow as pa

        columns = self._columns(cursor)
        if "cluster" not in columns:
            raise wrong_columns(f"The table {self.table!r}", columns, "`id`, `vector` and `cluster`")
        size = int(columns["vector"].removeprefix("vector").strip("()") or 0)
        if width is not None and size != width:
            raise other_width(shown(f"{self.place} ({self.table})"), size, width)
        kind = columns["id"]
        if id_type is not None and pa.types.is_integer(id_type) != (kind == "bigint"):
            raise InputError(f"The ids of {self.table!r} are {kind}, these are {id_type}. Choose another table.")


def _encoded(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """The rows with each vector as pgvector's own bytes: its width and a zero (16 bits each), big-endian float32.

    COPY hands them to the column as they are; an array of reals would take twice the bytes and a cast.
    """
    import pyarrow as pa

    place = reader.schema.get_field_index("vector")
    schema = reader.schema.set(place, pa.field("vector", pa.binary()))
    width = reader.schema.field("vector").type.list_size
    row = np.dtype([("width", ">i2"), ("zero", ">i2"), ("values", ">f4", (width,))])

    def batches() -> Iterator[Any]:
        for batch in reader:
            cells = np.zeros(batch.num_rows, dtype=row)
            cells["width"] = width
            cells["values"] = np.asarray(batch.column(place).flatten()).reshape(-1, width)
            ends = np.arange(batch.num_rows + 1, dtype=np.int32) * np.int32(row.itemsize)
            buffers = [None, pa.py_buffer(ends), pa.py_buffer(cells)]
            column = pa.Array.from_buffers(pa.binary(), batch.num_rows, buffers)
            columns = [*batch.columns[:place], column, *batch.columns[place + 1 :]]
            yield pa.record_batch(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _decoded(table: pa.Table) -> pa.Table:
    """The vector column from pgvector's own bytes."""
    import pyarrow as pa

    place = table.schema.get_field_index("vector")
    parts = [_floats(chunk) for chunk in table.column(place).chunks]
    widths = {part.shape[1] for part in parts}
    if len(widths) != 1:
        raise InputError("The column `vector` is not of one width. Write the table again.")
    arrays = [pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), part.shape[1]) for part in parts]
    return table.set_column(place, "vector", pa.chunked_array(arrays))


def _floats(chunk: Any) -> Any:
    """float32 (rows, width) of a chunk of pgvector's bytes; width 0 where they are not of one."""
    import pyarrow as pa

    raw = (chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk).cast(pa.large_binary())
    _, ends, data = raw.buffers()
    edges = np.frombuffer(ends, dtype=np.int64)[raw.offset : raw.offset + len(raw) + 1]
    cells = np.frombuffer(data, dtype=np.uint8)[edges[0] : edges[-1]] if data is not None else np.empty(0, np.uint8)
    width = int.from_bytes(cells[:2].tobytes(), "big")
    if raw.null_count or not width or (np.diff(edges) != 4 + 4 * width).any():
        return np.empty((len(raw), 0), dtype=np.float32)
    return cells.view(">f4").reshape(len(raw), width + 1)[:, 1:].astype(np.float32)
