"""Vectors in a DuckDB file. The search compares with every vector: DuckDB has no index that survives a restart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuplet._check import InputError, check_out_path, need_extra
from tuplet.io._duckdb import duckdb_connection, duckdb_tables
from tuplet.io._uris import check_table, first_line, literal, quoted
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


@dataclass(frozen=True)
class DuckStore:
    """The table `table` of the file `path`."""

    path: str
    table: str

    @classmethod
    def at(cls, target: str) -> DuckStore:
        """From `vectors.duckdb` or `duckdb:file?table=name`."""
        path, table = vector_place(target)
        if not path:
            raise InputError(f"{target} names no file. Write vectors.duckdb, or duckdb:FILE?table=NAME.")
        check_out_path(path)
        return cls(path, table or "vectors")

    def check(self, width: int | None, id_type: pa.DataType | None) -> None:
        """Raise where the table holds something else, or the load would be refused: it is rehearsed without rows."""
        import pyarrow as pa

        there = Path(self.path).exists()
        with duckdb_connection(self.path if there else "", read_only=False) as connection:
            if self.table in duckdb_tables(connection):
                kept = self._width(connection)
                if width is not None and kept != width:
                    raise other_width(f"{self.path} ({self.table})", kept, width)
            self._replace(connection, pa.table({"id": [0]}).to_reader(), "")
            connection.execute("rollback")

    def write(self, batches: Callable[[], pa.RecordBatchReader], metadata: str) -> None:
        """Replace the table in one transaction."""
        with duckdb_connection(self.path, read_only=False) as connection:
            self._replace(connection, batches(), metadata)
            connection.execute("commit")

    def _replace(self, connection: Any, rows: pa.RecordBatchReader, metadata: str) -> None:
        """Table and comment, uncommitted."""
        duckdb = need_extra("duckdb", "stores", "A DuckDB store")
        name = quoted(self.table)
        try:
            connection.execute("begin")
            connection.register("tuplet_rows", rows)
            connection.execute(f"create or replace table {name} as from tuplet_rows")
            connection.execute(f"comment on table {name} is {literal(metadata)}")
        except duckdb.Error as error:
            raise InputError(f"{self.path} was not written ({first_line(error)}). It is as it was.") from None

    def read(self) -> pa.Table:
        """All rows."""
        with duckdb_connection(self.path) as connection:
            self._check_there(connection)
            table = connection.sql(f"from {quoted(self.table)}").to_arrow_table()
            comment = connection.execute(
                "select comment from duckdb_tables() where schema_name || '.' || table_name = ?",
                [self.table if "." in self.table else f"main.{self.table}"],
            ).fetchone()
        return with_metadata(table, comment[0] if comment else None)

    def nearest(self, names: list[str], k: int, method: str) -> list[Neighbors]:
        """Exact neighbours."""
        if method == "hnsw":
            raise InputError("DuckDB has no approximate index here. Say exact, or keep the vectors in Lance.")
        with duckdb_connection(self.path) as connection:
            self._check_there(connection)
            return [self._nearest(connection, name, k) for name in names]

    def _nearest(self, connection: Any, name: str, k: int) -> Neighbors:
        table, width = quoted(self.table), self._width(connection)
        row = connection.execute(f"select vector from {table} where id::varchar = ?", [name]).fetchone()
        if row is None:
            raise no_such_id(name, [i for (i,) in connection.execute(f"select id from {table} limit 3").fetchall()])
        rows = connection.execute(
            f"select id, cosine from (select id, rowid as place, array_cosine_similarity(vector, ?::float[{width}]) "
            f"as raw, case when isnan(raw) then 0 else raw end as cosine from {table}) "
            f"order by cosine desc, place limit {k + 1}",
            [row[0]],
        ).fetchall()
        return [(i, float(c)) for i, c in rows if str(i) != name][:k]

    def _check_there(self, connection: Any) -> None:
        check_table(self.table, duckdb_tables(connection), self.path)
        self._width(connection)

    def _width(self, connection: Any) -> int:
        described = connection.execute(f"describe {quoted(self.table)}").fetchall()
        columns = {name: kind for name, kind, *_ in described}
        kind = str(columns.get("vector", ""))
        if "id" not in columns or not kind.startswith("FLOAT["):
            where = f"The table {self.table!r} of {self.path}"
            raise wrong_columns(where, columns, "`id` and a vector column `vector`")
        return int(kind.removeprefix("FLOAT[").removesuffix("]") or 0)
