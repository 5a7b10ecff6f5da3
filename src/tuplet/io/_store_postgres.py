"""Vectors in PostgreSQL with pgvector: loaded beside the table and merged into it by id, in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

import numpy as np

from tuplet._check import InputError, need_extra
from tuplet.io._vector_table import Neighbors, no_such_id, other_width, with_metadata
from tuplet.io.sources import nearest_name, postgres_connection, postgres_tables, quoted, retried, shown, split_uri

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("tuplet")
WIDEST_INDEX = 2000  # columns that pgvector's HNSW takes
EF_SEARCH = 200  # candidates of an approximate search; pgvector's default of 40 finds 9 of 10 neighbours
BUILD_MEMORY = "512MB"  # an index that does not fit in it is built many times slower


@dataclass(frozen=True)
class PostgresStore:
    """The table `table` in the database `place`."""

    place: str
    table: str

    @classmethod
    def at(cls, target: str) -> PostgresStore:
        """From `postgresql://host/base/table`, or `postgresql://host/base?table=table`."""
        place, asked = split_uri(target)
        parts = urlsplit(place)
        steps = [unquote(step) for step in parts.path.split("/") if step]
        if "query" in asked or len(steps) != (1 if "table" in asked else 2):
            raise InputError(f"{shown(target)} names no table. Write postgresql://user@host/base/table.")
        return cls(urlunsplit(parts._replace(path=f"/{steps[0]}")), asked.get("table", steps[-1]))

    def check(self, width: int, id_type: pa.DataType) -> None:
        """Raise where the table holds vectors of another width, ids of another type, or something else."""
        with postgres_connection(self.place) as connection, connection.cursor() as cursor:
            if self.table in postgres_tables(cursor):
                self._check_columns(cursor, width, id_type)

    def write(self, batches: Callable[[], pa.RecordBatchReader], metadata: str) -> None:
        """Upsert all rows in one transaction; a lost connection is made again and the load begins anew."""
        retried(lambda: self._load(batches(), metadata), self.place)

    def _load(self, reader: pa.RecordBatchReader, metadata: str) -> None:
        driver = need_extra("adbc_driver_postgresql.dbapi", "stores", "A PostgreSQL store")
        import pyarrow as pa

        width = reader.schema.field("vector").type.list_size
        number = pa.types.is_integer(reader.schema.field("id").type)
        grouped = "cluster" in reader.schema.names
        with driver.connect(self.place) as connection, connection.cursor() as cursor:
            cursor.execute(f"select pg_advisory_xact_lock(hashtext({_literal(self.table)}))")
            cursor.fetchall()
            cursor.execute("create extension if not exists vector")
            fresh = self.table not in postgres_tables(cursor)
            if fresh:
                kind = "bigint" if number else "text"
                cursor.execute(f"create table {quoted(self.table)} (id {kind} primary key, "
                               f"vector vector({width}) not null, cluster bigint)")  # fmt: skip
            cursor.adbc_ingest("tuplet_rows", reader, mode="create", temporary=True)
            written = self._merge(cursor, grouped)
            self._index(cursor, width)
            cursor.execute(f"comment on table {quoted(self.table)} is {_literal(metadata)}")
            connection.commit()
        if written < self._count():
            log.warning("%s holds %d rows of other ids too; only vectors of one model can be compared",
                        self.table, self._count() - written)  # fmt: skip

    def _merge(self, cursor: Any, grouped: bool) -> int:
        cluster = "cluster" if grouped else "null"
        cursor.execute(
            f"insert into {quoted(self.table)} (id, vector, cluster) select id, vector::vector, {cluster} "
            "from tuplet_rows on conflict (id) do update set vector = excluded.vector, cluster = excluded.cluster"
        )
        cursor.execute("select count(*) from tuplet_rows")
        return int(cursor.fetchone()[0])

    def _index(self, cursor: Any, width: int) -> None:
        if width > WIDEST_INDEX:
            log.warning(
                "no index: pgvector's HNSW takes %d numbers at most, these vectors have %d", WIDEST_INDEX, width
            )
            return
        cursor.execute(f"set local maintenance_work_mem = '{BUILD_MEMORY}'")
        name = quoted(f"{self.table.split('.')[-1][:40]}_vector_hnsw")
        cursor.execute(
            f"create index if not exists {name} on {quoted(self.table)} using hnsw (vector vector_cosine_ops)"
        )

    def _count(self) -> int:
        with postgres_connection(self.place) as connection, connection.cursor() as cursor:
            cursor.execute(f"select count(*) from {quoted(self.table)}")
            return int(cursor.fetchone()[0])

    def read(self) -> pa.Table:
        """All rows, those of a load in its order."""
        with postgres_connection(self.place) as connection, connection.cursor() as cursor:
            self._check_columns(cursor)
            cursor.execute(f"select id, vector, cluster from {quoted(self.table)} order by id")
            table = _decoded(cursor.fetch_arrow_table())
            cursor.execute(f"select obj_description({_literal(quoted(self.table))}::regclass)")
            comment = cursor.fetchone()[0]
        if table.column("cluster").null_count:
            table = table.drop_columns(["cluster"])
        return with_metadata(table, comment)

    def nearest(self, names: list[str], k: int, method: str) -> list[Neighbors]:
        """Neighbours by the HNSW index, or by every vector where `method` is "exact"."""
        with postgres_connection(self.place) as connection, connection.cursor() as cursor:
            self._check_columns(cursor)
            if method == "exact":
                cursor.execute("set local enable_indexscan = off")
            else:
                cursor.execute(f"set local hnsw.ef_search = {min(1000, max(EF_SEARCH, 2 * k))}")
            return [self._nearest(cursor, name, k) for name in names]

    def _nearest(self, cursor: Any, name: str, k: int) -> Neighbors:
        table = quoted(self.table)
        cursor.execute(f"select id, vector::text from {table} where id::text = {_literal(name)}")
        own = cursor.fetchone()
        if own is None:
            cursor.execute(f"select id from {table} limit 3")
            raise no_such_id(name, [i for (i,) in cursor.fetchall()])
        cursor.execute(
            f"select id, vector <=> '{own[1]}'::vector as distance from {table} order by distance limit {k + 1}"
        )
        rows = cursor.fetchall()
        return [(i, 1.0 - (1.0 if d != d else float(d))) for i, d in rows if i != own[0]][:k]

    def _check_columns(self, cursor: Any, width: int | None = None, id_type: pa.DataType | None = None) -> None:
        import pyarrow as pa

        known = postgres_tables(cursor)
        if self.table not in known:
            raise InputError(
                f"{shown(self.place)} has no table {self.table!r}." + nearest_name(self.table, known, "tables")
            )
        cursor.execute(
            "select attname, format_type(atttypid, atttypmod) from pg_attribute "
            f"where attrelid = {_literal(quoted(self.table))}::regclass and attnum > 0 and not attisdropped"
        )
        columns = dict(cursor.fetchall())
        there = columns.get("vector", "")
        if not {"id", "cluster"} <= set(columns) or not there.startswith("vector"):
            raise InputError(
                f"The table {self.table!r} has the columns {', '.join(columns)}, not `id`, `vector` (of pgvector) "
                "and `cluster`. Choose another name."
            )
        size = int(there.removeprefix("vector").strip("()") or 0)
        if width is not None and size != width:
            raise other_width(shown(f"{self.place} ({self.table})"), size, width)
        kind = columns["id"]
        if (
            id_type is not None
            and not pa.types.is_null(id_type)
            and pa.types.is_integer(id_type) != (kind == "bigint")
        ):
            raise InputError(f"The ids of {self.table!r} are {kind}, these are {id_type}. Choose another table.")


def _decoded(table: pa.Table) -> pa.Table:
    """The vector column from pgvector's own bytes: its width and a zero (16 bits each), then big-endian float32."""
    import pyarrow as pa

    column = table.column("vector").combine_chunks()
    raw = (column.storage if isinstance(column, pa.ExtensionArray) else column).cast(pa.binary())
    data = b"".join(raw.to_pylist())
    width = int.from_bytes(data[:2], "big")
    if len(data) != len(raw) * (4 + 4 * width) or not width:
        raise InputError("The column `vector` is not of one width. Write the table again.")
    z = np.frombuffer(data, dtype=">f4").reshape(len(raw), width + 1)[:, 1:].astype(np.float32)
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(z.ravel()), width)
    return table.set_column(table.schema.get_field_index("vector"), "vector", fixed)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
