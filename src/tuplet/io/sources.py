"""Tables behind a URI -> Arrow streams: DuckDB and PostgreSQL (extra [stores]).

    duckdb:graph.duckdb?table=edges     duckdb:?query=select .. from 'parts/*.parquet'     graph.duckdb?table=edges
    postgresql://user@host/base?table=edges        postgresql://user@host/base?query=select ..

A source can be read as often as needed, batch by batch. DuckDB is asked anew each time. PostgreSQL is asked once: the
answer is kept in a temporary file, so that two passes see the same rows and a lost connection costs a retry only.
"""

from __future__ import annotations

import difflib
import logging
import re
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from tuplet._check import InputError, need_extra

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("tuplet")
ROWS = 2**18  # rows in a batch of DuckDB
DUCKDB_MEMORY = "256MB"  # what DuckDB keeps of a file that it reads; more goes to its temporary folder
TRIES, PAUSE = 3, 0.5  # attempts at a connection that is lost, and seconds before the second
POSTGRES = ("postgresql://", "postgres://")
_DUCKDB = re.compile(r"\.(duckdb|ddb)(\?|$)")


def is_source(given: Any) -> bool:
    """Whether `given` is the URI of a table in a database.

    >>> is_source("duckdb:graph.db?table=edges"), is_source("edges.csv")
    (True, False)
    """
    if not isinstance(given, str):
        return False
    return given.startswith(("duckdb:", *POSTGRES)) or bool(_DUCKDB.search(given) and "://" not in given)


def open_source(uri: str) -> Source:
    """The table that `uri` names, as an object that Arrow can stream from; its columns are known at once."""
    place, asked = split_uri(uri)
    opener = _postgres_batches if uri.startswith(POSTGRES) else _duckdb_batches
    if "query" in asked and "table" in asked:
        raise InputError(f"{shown(uri)} has a table and a query. Give one of them.")
    source = Source(uri, place, asked.get("query", ""), asked.get("table", ""), opener)
    _ = source.schema
    return source


@dataclass
class Source:
    """A query in a database; `__arrow_c_stream__` gives its rows, each time from the start."""

    uri: str
    place: str
    query: str
    table: str
    batches: Callable[[Source], Any]
    spool: Path | None = field(default=None, repr=False)
    _schema: Any = field(default=None, repr=False)

    @property
    def schema(self) -> pa.Schema:
        """The columns and their Arrow types."""
        if self._schema is None:
            self._schema = self.reader().schema
        return self._schema

    def reader(self) -> pa.RecordBatchReader:
        """The rows from the start, as batches."""
        return self.batches(self)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.reader().__arrow_c_stream__(requested_schema)


def split_uri(uri: str) -> tuple[str, dict[str, str]]:
    """The place (a file or a libpq URI) and what is asked of it: `query` or `table`; other parameters stay.

    >>> split_uri("duckdb:graph.db?table=edges")
    ('graph.db', {'table': 'edges'})
    """
    if not uri.startswith(POSTGRES):
        path, _, text = uri.removeprefix("duckdb:").partition("?")
        asked = _parameters(text)
        unknown = set(asked) - {"query", "table"}
        if unknown:
            raise InputError(f"{uri} says {sorted(unknown)[0]}=. Known are table= and query=.")
        return path, asked
    parts = urlsplit(uri)
    asked = _parameters(parts.query)
    rest = {name: value for name, value in asked.items() if name not in ("query", "table")}
    place = urlunsplit(parts._replace(query=urlencode(rest, safe="/:")))
    return place, {name: asked[name] for name in ("query", "table") if name in asked}


def _parameters(text: str) -> dict[str, str]:
    """name=value pairs. A query is the rest of the text where it is not percent-encoded: it may hold = and &."""
    head, mark, query = text.partition("query=")
    pairs = dict(parse_qsl(head.rstrip("&")))
    if mark:
        encoded = "%20" in query or ("+" in query and " " not in query)
        pairs |= {"query": query} if not encoded else dict(parse_qsl(mark + query))
    return pairs


def shown(uri: str) -> str:
    """`uri` without its password, for messages.

    >>> shown("postgresql://ann:secret@db/base?table=t")
    'postgresql://ann:***@db/base?table=t'
    """
    return re.sub(r"(://[^:/@?]*):[^@/]*@", r"\1:***@", uri)


def quoted(name: str) -> str:
    """A table name for SQL: schema.table or table, each part in quotes."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def nearest_name(wanted: str, known: list[str], what: str) -> str:
    """The end of a message about an absent name: the nearest, and those that there are."""
    near = difflib.get_close_matches(wanted, known, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"{hint} Its {what} are: {', '.join(known) or 'none'}."


# DuckDB


@contextmanager
def duckdb_connection(path: str, *, read_only: bool = True) -> Iterator[Any]:
    """A connection to the file `path` ("" is memory, for queries over files)."""
    connection = connect_duckdb(path, read_only=read_only)
    try:
        yield connection
    finally:
        connection.close()


def connect_duckdb(path: str, *, read_only: bool = True) -> Any:
    """A connection to a DuckDB file; an error where the file is absent, damaged or held by another process."""
    duckdb = need_extra("duckdb", "stores", "A DuckDB source")
    if path and read_only and not Path(path).is_file():
        raise InputError(f"There is no file {path}. Check the path.")
    try:
        connection = duckdb.connect(path or ":memory:", read_only=read_only and bool(path))
        connection.execute("set enable_progress_bar = false")  # the library never prints
        connection.execute(f"set memory_limit = '{DUCKDB_MEMORY}'")
        return connection
    except duckdb.Error as error:
        busy = "lock" in str(error).lower()
        todo = "Another process writes to it; wait until it ends." if busy else "Check that it is a DuckDB file."
        raise InputError(f"{path} cannot be opened ({first_line(error)}). {todo}") from None


def duckdb_tables(connection: Any) -> list[str]:
    """The names of the tables and views."""
    rows = connection.execute(
        "select table_schema, table_name from information_schema.tables order by 1, 2"
    ).fetchall()
    return [name if schema == "main" else f"{schema}.{name}" for schema, name in rows]


def _duckdb_batches(source: Source) -> pa.RecordBatchReader:
    import pyarrow as pa

    duckdb = need_extra("duckdb", "stores", "A DuckDB source")
    connection = connect_duckdb(source.place)
    query = source.query or f"from {quoted(_only_table(source, duckdb_tables(connection)))}"
    try:
        relation = connection.sql(query)
        if relation is None:
            raise InputError(f"The query {query!r} gives no rows. Write a select.")
        reader = relation.to_arrow_reader(ROWS)
    except duckdb.Error as error:
        raise InputError(f"DuckDB cannot answer {query!r} ({first_line(error)}).") from None

    def batches() -> Iterator[Any]:
        try:
            yield from reader
        except (duckdb.Error, pa.ArrowException) as error:
            raise InputError(f"DuckDB stopped in the middle of {query!r} ({first_line(error)}).") from None
        finally:
            connection.close()

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


def _only_table(source: Source, known: list[str]) -> str:
    """The table that is meant: the one named, or the only one there is."""
    if source.table in known:
        return source.table
    if not source.table and len(known) == 1:
        return known[0]
    if not source.table:
        raise InputError(f"{shown(source.uri)} does not say which table. Add ?table=NAME or ?query=SELECT; "
                         f"the tables are: {', '.join(known) or 'none'}.")  # fmt: skip
    raise InputError(f"{shown(source.place)} has no table {source.table!r}."
                     + nearest_name(source.table, known, "tables"))  # fmt: skip


# PostgreSQL


@contextmanager
def postgres_connection(place: str) -> Iterator[Any]:
    """A connection by ADBC; one that cannot be made is tried again, unless the credentials are refused."""
    driver = need_extra("adbc_driver_postgresql.dbapi", "stores", "A PostgreSQL source")
    connection = retried(lambda: driver.connect(place), place)
    try:
        yield connection
    finally:
        connection.close()


def is_lost(error: Exception) -> bool:
    """Whether the connection failed, rather than the query."""
    text = str(error).lower()
    signs = ("connection", "terminating", "server closed", "could not receive", "could not send", "no such file")
    refused = ("password", "role ", 'database "', "authentication", "pg_hba")
    return any(sign in text for sign in signs) and not any(word in text for word in refused)


def retried(attempt: Callable[[], Any], place: str) -> Any:
    """The result of `attempt`, tried again where the connection is lost."""
    import pyarrow as pa

    driver = need_extra("adbc_driver_postgresql.dbapi", "stores", "A PostgreSQL source")
    for i in range(1, TRIES + 1):
        try:
            return attempt()
        except (driver.Error, pa.ArrowException, OSError) as error:
            if is_lost(error) and i < TRIES:
                log.warning("the connection to %s is lost (%s); trying again", shown(place), first_line(error))
                time.sleep(PAUSE * i)
            elif is_lost(error):
                raise InputError(
                    f"{shown(place)} cannot be reached, or the connection was lost {TRIES} times "
                    f"({first_line(error)}). Nothing was written. Check host, port and network, and run it again."
                ) from None
            else:
                raise InputError(f"{shown(place)} refused ({first_line(error)}).") from None
    raise AssertionError("unreachable")


def postgres_tables(cursor: Any) -> list[str]:
    """The names of the tables and views, with their schema unless it is public."""
    cursor.execute(
        "select table_schema, table_name from information_schema.tables "
        "where table_schema not in ('pg_catalog', 'information_schema') order by 1, 2"
    )
    return [name if schema == "public" else f"{schema}.{name}" for schema, name in cursor.fetchall()]


def _postgres_batches(source: Source) -> pa.RecordBatchReader:
    import pyarrow as pa
    from pyarrow import ipc

    if source.spool is None:
        folder = tempfile.mkdtemp(prefix="tuplet-postgres-")
        weakref.finalize(source, shutil.rmtree, folder, ignore_errors=True)
        path = Path(folder) / "rows.arrow"
        retried(lambda: _spool(source, path), source.place)
        source.spool = path
    return ipc.open_stream(pa.memory_map(str(source.spool)))


def _spool(source: Source, path: Path) -> None:
    """Write all rows of the answer to `path`, batch by batch."""
    import pyarrow as pa

    driver = need_extra("adbc_driver_postgresql.dbapi", "stores", "A PostgreSQL source")
    with driver.connect(source.place) as connection, connection.cursor() as cursor:
        query = source.query or f"select * from {quoted(_only_table(source, postgres_tables(cursor)))}"
        cursor.execute(_readable(query, cursor))
        reader = cursor.fetch_record_batch()
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)


def _readable(query: str, cursor: Any) -> str:
    """The query with pgvector columns as real[], numeric as double, and other types unknown to Arrow as text."""
    import pyarrow as pa

    schema = cursor.adbc_execute_schema(query)
    wanted = []
    for part in schema:
        name, kind = quoted_column(part.name), (part.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
        opaque = isinstance(part.type, pa.BaseExtensionType) or (pa.types.is_binary(part.type) and kind != "bytea")
        cast = "real[]" if kind == "vector" or kind.startswith("unnamed") else "text"
        cast = "double precision" if kind == "numeric" else cast if opaque else ""
        wanted.append(f"{name}::{cast} as {name}" if cast else name)
    return f"select {', '.join(wanted)} from ({query.rstrip().rstrip(';')}) as asked"


def quoted_column(name: str) -> str:
    """A column name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def first_line(error: BaseException) -> str:
    """What an error says, on one line and without passwords."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    hints = [line for line in lines[1:] if line.startswith(("HINT", "Candidate", "Did you mean"))]
    return shown(unquote(" ".join([text, *hints[:1]])))
