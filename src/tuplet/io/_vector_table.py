"""What the stores of vectors share: the shape of an answer, the errors, and the metadata of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tuplet._check import InputError
from tuplet.io._uris import shown, split_uri

if TYPE_CHECKING:
    import pyarrow as pa

Neighbors = list[tuple[Any, float]]  # (id, cosine), the nearest first


def vector_place(target: str) -> tuple[str, str]:
    """(database, table or "") of a URI that names a place for vectors; a query is none."""
    place, asked = split_uri(target)
    if "query" in asked:
        raise InputError(f"{shown(target)} is a query, not a place for vectors. Name a table: ?table=NAME.")
    return place, asked.get("table", "")


def wrong_columns(where: str, columns: Iterable[str], wanted: str) -> InputError:
    """The error for a table that holds something else than vectors."""
    return InputError(f"{where} has the columns {', '.join(columns)}, not {wanted}. Choose another table.")


def other_width(target: str, there: int, here: int) -> InputError:
    """The error for a table whose vectors are longer or shorter."""
    return InputError(
        f"The table of {target} holds vectors of {there} numbers, these have {here}. Choose another table, or drop "
        "that one first."
    )


def no_such_id(name: str, examples: list[Any]) -> InputError:
    """The error for an id that the table does not hold."""
    return InputError(f"The id {name!r} is not in the table. Its ids look like: {', '.join(map(str, examples))}.")


def with_metadata(table: pa.Table, metadata: str | None) -> pa.Table:
    """The table with what made its vectors in its schema."""
    kept: Mapping[str, str] = {"tuplet": metadata} if metadata else {}
    return table.replace_schema_metadata(kept)
