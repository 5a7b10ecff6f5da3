"""DuckDB: connections to a file, its tables, and the rows of a query as Arrow batches."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuplet._check import InputError, need_extra
from tuplet.io._uris import Question, first_line, named_tables

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 2**18  # rows in a batch
MEMORY = 2**28  # bytes that DuckDB may hold; what needs more goes to its temporary folder
LEAST_MEMORY = 2**27  # with less it can hardly read a table


@contextmanager
def duckdb_connection(path: str, *, read_only: bool = True) -> Iterator[Any]:
    """A connection to the file `path` ("" is memory, for queries over files)."""
    connection = connect_duckdb(path, read_only=read_only)
    try:
        yield connection
    finally:
        connection.close()


def connect_duckdb(
    path: str,
    *,
    read_only: bool = True,
    memory: int = MEMORY,
    extra: str = "stores",
    what: str = "A DuckDB source",
) -> Any:
    """A connection to a DuckDB file; an error where the file is absent, damaged or held by another process.

    DuckDB itself holds at most `memory` bytes, 128 MB at the least. `what` needs it, which `extra` installs.
    """
    duckdb = need_extra("duckdb", extra, what)
    if path and read_only and not Path(path).is_file():
        raise InputError(f"There is no file {path}. Check the path.")
    try:
        connection = duckdb.connect(path or ":memory:", read_only=read_only and bool(path))
        connection.execute("set enable_progress_bar = false")  # the library never prints
        connection.execute(f"set memory_limit = '{max(memory, LEAST_MEMORY)}B'")
        spilled = str(Path(tempfile.gettempdir()) / f"tuplet-duckdb-{os.getpid()}")  # not beside the user's file
        connection.execute("set temp_directory = ?", [spilled])
        return connection
    except duckdb.Error as error:
        busy = "lock" in str(error).lower()
        todo = "Another process has it open; wait until it ends." if busy else "Check that it is a DuckDB file."
        raise InputError(f"{path} cannot be opened ({first_line(error)}). {todo}") from None


def duckdb_tables(connection: Any) -> dict[str, str]:
    """The tables and views: name -> quoted."""
    found = connection.execute("select table_schema, table_name from information_schema.tables order by 1, 2")
    return named_tables(found.fetchall(), "main")


def duckdb_batches(question: Question, memory: int = MEMORY) -> pa.RecordBatchReader:
    """The rows that are asked for, in batches; the connection is closed after the last."""
    import pyarrow as pa

    duckdb = need_extra("duckdb", "stores", "A DuckDB source")
    connection = connect_duckdb(question.place, memory=memory)
    query = question.query or f"from {question.only_table(duckdb_tables(connection))}"
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
