"""PostgreSQL by ADBC: connections that are made again when they are lost, and the rows of a query in a file."""

from __future__ import annotations

import logging
import re
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuplet._check import InputError, need_extra
from tuplet.io._uris import Question, first_line, named_tables, quoted_name, shown

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("tuplet")
_DRIVER = re.compile(
    r"^.*?(Failed to connect: (.*?FATAL:\s+)?|(FATAL|ERROR):\s+)"
)  # its own words before the server's
TRIES, PAUSE = 3, 0.5  # attempts at a connection that is lost, and seconds before the second
RECOVERY = 60  # seconds that a server may take to start or to recover


def asked(place: str, attempt: Callable[[Any, Any], Any]) -> Any:
    """What `attempt` makes of a connection to `place` and a cursor; uncommitted work is taken back.

    A connection that is lost, or cannot be made, is tried again; what the server refuses is an InputError at once.
    """
    driver = need_extra("adbc_driver_postgresql.dbapi", "stores", "PostgreSQL")

    def once() -> Any:
        with driver.connect(place) as connection, connection.cursor() as cursor:
            return attempt(connection, cursor)

    return _retried(once, place, driver.Error)


def is_lost(error: Exception) -> bool:
    """Whether the connection failed, rather than the query, and a second attempt may help."""
    state = getattr(error, "sqlstate", None)
    if state:
        return str(state).startswith(("08", "57P"))  # connection exception, operator intervention
    text = str(error).lower()
    signs = ("connection", "terminating", "server closed", "could not ", "no such file")
    refused = ("password", "role ", 'database "', "authentication", "pg_hba", ": invalid ")
    return any(sign in text for sign in signs) and not any(word in text for word in refused)


def is_blocked(error: Exception) -> bool:
    """Whether the server gave up waiting for a lock (lock_timeout)."""
    return getattr(error, "sqlstate", None) == "55P03"


def _is_starting(error: Exception) -> bool:
    """Whether the server is there but lets nobody in yet: it starts, or recovers from a crash."""
    return any(words in str(error) for words in ("starting up", "in recovery mode", "not yet accepting connections"))


def _retried(attempt: Callable[[], Any], place: str, failure: type[Exception]) -> Any:
    """The result of `attempt`, tried again where the connection is lost."""
    import pyarrow as pa

    lost, start = 0, time.monotonic()
    while True:
        try:
            return attempt()
        except (failure, pa.ArrowException, OSError) as error:
            told = _DRIVER.sub("", first_line(error))
            if not is_lost(error):
                raise InputError(f"{shown(place)} refused ({told}). {_advice(told)}".rstrip()) from None
            waiting = _is_starting(error) and time.monotonic() - start < RECOVERY
            lost += not waiting
            if lost == TRIES:
                raise InputError(
                    f"{shown(place)} cannot be reached, or the connection was lost {TRIES} times "
                    f"({told}). Nothing was written. Check host, port and network, and run it again."
                ) from None
            log.warning("the connection to %s is lost (%s); trying again", shown(place), told)
            time.sleep(2 * PAUSE if waiting else PAUSE * lost)


_ADVICE = {
    "password": "Check user and password: PGPASSWORD, ~/.pgpass, or user:password@ in the URI.",
    'role "': "Check the user in the URI, or PGUSER.",
    'database "': "Check the database in the URI, or PGDATABASE.",
    "URI": "Write postgresql://user@host/base, and percent-encode what is special in a name or password.",
    "invalid integer": "Write postgresql://user@host/base, and percent-encode what is special in a name or password.",
    "pg_hba": "The server lets nobody in from here by that name. Ask its owner.",
    "permission denied": "Ask the owner for the right, or name another table, schema or user.",
    "must be owner": "A load sets the comment and the index of its table, as only its owner may. Name another table.",
    "schema": "Make the schema first, or name another.",
    "no unique": "Make `id` the primary key of the table, or name another table.",
    "read-only": "This server or user cannot write. Name another.",
    "not available": "Install pgvector on the server.",
}


def _advice(told: str) -> str:
    """What to do about a refusal of the server."""
    return next((advice for words, advice in _ADVICE.items() if words in told), "")


def postgres_tables(cursor: Any) -> dict[str, str]:
    """The tables and views, readable or not: name, with the schema unless it is public -> quoted."""
    cursor.execute(
        "select nspname, relname from pg_class join pg_namespace on relnamespace = pg_namespace.oid "
        "where relkind in ('r', 'p', 'v', 'm', 'f') and nspname !~ '^pg_' and nspname <> 'information_schema' "
        "order by 1, 2"
    )
    return named_tables(cursor.fetchall(), "public")


class Answer:
    """The rows of a question, asked once and kept in a temporary file for as long as this lives."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.rows: Path | None = None

    def reader(self) -> pa.RecordBatchReader:
        """The rows from the start, as batches."""
        import pyarrow as pa
        from pyarrow import ipc

        if self.rows is None:
            folder = tempfile.mkdtemp(prefix="tuplet-postgres-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            rows = Path(folder) / "rows.arrow"
            asked(self.question.place, lambda _, cursor: _spool(cursor, self.question, rows))
            self.rows = rows
        return ipc.open_stream(pa.memory_map(str(self.rows)))


def _spool(cursor: Any, question: Question, path: Path) -> None:
    """Write all rows of the answer to `path`, batch by batch."""
    import pyarrow as pa

    query = question.query or f"select * from {question.only_table(postgres_tables(cursor))}"
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
        name, kind = quoted_name(part.name), (part.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
        opaque = isinstance(part.type, pa.BaseExtensionType) or (pa.types.is_binary(part.type) and kind != "bytea")
        cast = "real[]" if kind == "vector" or kind.startswith("unnamed") else "text"
        cast = "double precision" if kind == "numeric" else cast if opaque else ""
        wanted.append(f"{name}::{cast} as {name}" if cast else name)
    return f"select {', '.join(wanted)} from ({query.rstrip().rstrip(';')}\n) as asked"  # a comment may end the query
