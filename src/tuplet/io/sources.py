"""Tables behind a URI -> Arrow streams: DuckDB and PostgreSQL (extra [stores]).

    duckdb:graph.duckdb?table=edges     duckdb:?query=select .. from 'parts/*.parquet'     graph.duckdb?table=edges
    postgresql://user@host/base?table=edges        postgresql://user@host/base?query=select ..

A source can be read as often as needed, batch by batch. DuckDB is asked anew each time. PostgreSQL is asked once: the
answer is kept in a temporary file, so that two passes see the same rows and a lost connection costs a retry only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tuplet._check import InputError
from tuplet.io._duckdb import MEMORY, duckdb_batches
from tuplet.io._postgres import Answer
from tuplet.io._uris import POSTGRES, Question, is_source, shown, split_uri

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Source", "is_source", "open_source", "shown", "split_uri"]


def open_source(uri: str, *, memory: int = MEMORY) -> Source:
    """The table that `uri` names, as an object that Arrow can stream from; its columns are known at once.

    DuckDB works in this process: it may hold `memory` bytes.
    """
    place, asked = split_uri(uri)
    if "query" in asked and "table" in asked:
        raise InputError(f"{shown(uri)} has a table and a query. Give one of them.")
    question = Question(uri, place, asked.get("query", ""), asked.get("table", ""))
    rows = Answer(question).reader if uri.startswith(POSTGRES) else partial(duckdb_batches, question, memory)
    source = Source(uri, rows)
    _ = source.schema
    return source


@dataclass
class Source:
    """A query in a database; `__arrow_c_stream__` gives its rows, each time from the start."""

    uri: str
    reader: Callable[[], pa.RecordBatchReader] = field(repr=False)
    _schema: Any = field(default=None, repr=False)

    @property
    def schema(self) -> pa.Schema:
        """The columns and their Arrow types."""
        if self._schema is None:
            self._schema = self.reader().schema
        return self._schema

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.reader().__arrow_c_stream__(requested_schema)
