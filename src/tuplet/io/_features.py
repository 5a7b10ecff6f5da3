"""Feature tables -> rows of features: the one place where columns become features, given one chunk or many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from tuplet._check import InputError, nearest, option
from tuplet.io._columns import Block
from tuplet.io.preparation import Preparation
from tuplet.io.preparation.values import missing_of

if TYPE_CHECKING:
    import pyarrow as pa

Chunks = Callable[[], "Iterable[pa.Table]"]


@dataclass(frozen=True)
class Encoded:
    """The features of a table: their names, for each chunk the blocks of columns, and how they were made."""

    names: tuple[str, ...]
    chunks: Callable[[], Iterator[list[Block]]]
    preparation: Preparation


def encode(
    chunks: Chunks,
    columns: Sequence[str],
    *,
    label: str | None = None,
    chosen: bool = False,
    categorical: Sequence[str] = (),
    tokens: Sequence[str] | Mapping[str, str] = (),
    roles: Mapping[str, str] | None = None,
    exclude: Sequence[str] = (),
    scale: bool = True,
    missing: str = "role",
    what: str = "the features",
) -> Encoded:
    """The features of `columns`; `chunks()` gives the table from its beginning, whole or in parts, twice.

    `chosen`: the user named the columns, so none of them is left out for what it looks like. `missing` other than
    "role": rows without a value are zero, for the caller to fill.
    """
    for name in [*categorical, *tokens, *(roles or ()), *exclude]:
        if name not in columns:
            hint = nearest(name, columns)
            raise InputError(f"There is no feature column {name!r}.{hint} The columns are: {', '.join(columns)}.")
    if not columns:
        raise InputError(f"There are no columns besides the ids in {what}. Give at least one feature column.")
    if missing == "error":
        check_missing(chunks, [name for name in columns if name not in exclude], what)
    separators = dict(tokens) if isinstance(tokens, Mapping) else dict.fromkeys(tokens)
    found = Preparation.fit(
        chunks, label=label, columns=columns if chosen else None, exclude=exclude, separators=separators, scale=scale,
        roles={**dict.fromkeys(categorical, "category"), **(roles or {})}, gaps=missing == "role",
    )  # fmt: skip
    return Encoded(found.feature_names, lambda: _blocks(found, chunks, keep=missing == "role"), found)


def _blocks(found: Preparation, chunks: Chunks, *, keep: bool) -> Iterator[list[Block]]:
    for chunk in chunks():
        blocks = found.blocks(chunk)
        yield blocks if keep else [_emptied(block) for block in blocks]


def _emptied(block: Block) -> Block:
    """The block with zeros in the rows without a value."""
    if not block.missing.any():
        return block
    known = (~block.missing).astype(np.float32)
    values: Any = block.values
    values = sp.csr_array(sp.diags_array(known) @ values) if sp.issparse(values) else values * known[:, None]
    return replace(block, values=values)


def check_missing(chunks: Chunks, columns: Sequence[str], what: str) -> None:
    """Raise if any column misses a value, with the count and the first place."""
    counts, first, rows = dict.fromkeys(columns, 0), dict.fromkeys(columns, 0), 0
    for chunk in chunks():
        for name in columns:
            gaps = missing_of(chunk.column(name))
            if gaps.any() and not counts[name]:
                first[name] = rows + int(gaps.argmax()) + 1
            counts[name] += int(gaps.sum())
        rows += chunk.num_rows
    for name, count in counts.items():
        if count:
            raise InputError(
                f"Column {name!r} of {what} misses {count} of {rows} values, first in row {first[name]}. Choose how "
                f"to fill them: {option('missing', 'role')}, 'zero', 'mean' or 'propagate'."
            )
