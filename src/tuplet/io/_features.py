"""Feature tables -> rows of features: the one place where columns become features, given one chunk or many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuplet._check import InputError, nearest
from tuplet.io._columns import Block, Features

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Encoded:
    """The features of a table: their names, and for each chunk the blocks of columns."""

    names: tuple[str, ...]
    chunks: Callable[[], Iterator[list[Block]]]


def encode(
    chunks: Callable[[], Iterable[pa.Table]],
    columns: Sequence[str],
    *,
    categorical: Sequence[str] = (),
    tokens: Sequence[str] | Mapping[str, str] = (),
    missing: str = "error",
    what: str = "the features",
) -> Encoded:
    """The features of `columns`; `chunks()` gives the table from its beginning, whole or in parts, twice."""
    for name in [*categorical, *tokens]:
        if name not in columns:
            hint = nearest(name, columns)
            raise InputError(f"There is no feature column {name!r}.{hint} The columns are: {', '.join(columns)}.")
    if not columns:
        raise InputError(f"There are no columns besides the ids in {what}. Give at least one feature column.")
    plan = Features(chunks(), columns, categorical=categorical, tokens=tokens)
    if missing == "error":
        plan.check_missing(what)
    return Encoded(plan.names, lambda: (plan.blocks(chunk) for chunk in chunks()))
