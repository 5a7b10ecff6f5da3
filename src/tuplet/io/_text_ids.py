"""Text ids on an engine, by DuckDB: it lists them in order, and numbers the edges of a part, within a memory limit.

For edges in Parquet parts whose ends are plain text, without a table of nodes: then the ids are never all in memory.
What does not fit the limit goes to the work folder. Other ids are held in memory, as by one process.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tuplet._check import InputError
from tuplet._files import new_file, write_header
from tuplet._threads import cores
from tuplet.io._duckdb import ROWS, connect_duckdb
from tuplet.io._edges import Edges, EdgeTable, checked_weights
from tuplet.io._inputs import Inputs
from tuplet.io._tables import Chunk
from tuplet.io._uris import first_line, quoted_name


def are_plain_text(inputs: Inputs) -> bool:
    """Whether the ends of all edges are text in Parquet parts, none of them empty, and nothing else lists nodes."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    parts, ends = inputs.edges.table.parts, inputs.edges.ends
    if inputs.kind or not all(isinstance(part, Path) for part in parts):
        return False
    for part in parts:
        schema = pq.read_schema(part)
        for end in ends:
            found = schema.field(end).type
            found = found.value_type if pa.types.is_dictionary(found) else found
            if not (pa.types.is_string(found) or pa.types.is_large_string(found)):
                return False
    return True


def list_ids(inputs: Inputs, folder: Path, memory: int) -> tuple[int, int] | None:
    """(nodes, rows): the ids in order go to ids.npy and ids.parquet; None, and no file, where an end has no id."""
    one, two = (quoted_name(end) for end in inputs.edges.ends)
    files = [str(Path(part).resolve()) for part in inputs.edges.table.parts]
    with _database(folder, memory) as database:
        rows, bad = database.execute(
            f"select count(*), count(*) filter (coalesce({one}, '') = '' or coalesce({two}, '') = '') "
            "from read_parquet($files, union_by_name = true)", {"files": files},
        ).fetchone()  # fmt: skip
        if bad or not rows:
            return None
        parquet = folder / "ids.parquet"
        with new_file(parquet) as partial:
            database.execute(
                f"copy (select id from (select {one} as id from read_parquet($files, union_by_name = true) union "
                f"select {two} from read_parquet($files, union_by_name = true)) order by id) "
                f"to '{_escaped(partial)}' (format parquet)", {"files": files},
            )  # fmt: skip
        listed = database.sql("select id from read_parquet($file)", params={"file": str(parquet)})
        n, width = listed.aggregate("count(*), max(length(id))").fetchall()[0]
        with new_file(folder / "ids.npy") as partial, partial.open("wb") as file:
            kind = np.dtype(f"<U{width}")
            write_header(file, (n,), kind)
            for batch in listed.to_arrow_reader(ROWS):
                file.write(np.asarray(batch.column(0).to_pylist(), kind).data)
    return n, rows


def numbered_chunks(edges: EdgeTable, part: Path, folder: Path, memory: int) -> Iterator[Edges]:
    """The edges of a part, in its order where they have weights, with the numbers of their ids."""
    import pyarrow as pa

    one, two = (quoted_name(end) for end in edges.ends)
    weight, order = "", ""
    if edges.weight is not None:
        weight, order = f", e.{quoted_name(edges.weight)}", "order by e.file_row_number"
    numbers = "(select id, file_row_number as number from read_parquet($ids, file_row_number = true))"
    with _database(folder, memory) as database:
        found = database.sql(
            f"select s.number, t.number{weight} from read_parquet($part, file_row_number = true) e "
            f"join {numbers} s on e.{one} = s.id join {numbers} t on e.{two} = t.id {order}",
            params={"part": str(part), "ids": str(folder / "ids.parquet")},
        )  # fmt: skip
        first = 0
        for batch in found.to_arrow_reader(ROWS):
            table = pa.Table.from_batches([batch])
            weights = checked_weights(Chunk(table, 1.0, first), edges.weight)
            first += len(table)
            yield Edges(table.column(0).combine_chunks(), table.column(1).combine_chunks(), weights)


@contextmanager
def _database(folder: Path, memory: int) -> Iterator[Any]:
    """A DuckDB of our own that spills into the work folder `folder`."""
    connection = connect_duckdb("", memory=memory, extra="cluster", what="Text ids on an engine")
    import duckdb

    try:
        connection.execute(
            "set temp_directory = ?", [str(folder / "buckets" / f"spilled-{socket.gethostname()}-{os.getpid()}")]
        )
        connection.execute(f"set threads = {cores()}")
        yield connection
    except duckdb.Error as error:
        raise InputError(
            f"DuckDB cannot number the text ids with {memory / 1e9:.2g} GB ({first_line(error)}). Give more memory."
        ) from None
    finally:
        connection.close()


def _escaped(path: Path) -> str:
    return str(path).replace("'", "''")
