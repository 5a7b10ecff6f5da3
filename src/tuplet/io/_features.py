"""Feature tables -> rows of features: the one place where columns become features, given one chunk or many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from tuplet._check import InputError, did_you_mean, option
from tuplet.graph import Graph
from tuplet.io._columns import FeatureBlock
from tuplet.io.preparation import Preparation
from tuplet.io.preparation.values import missing_of

if TYPE_CHECKING:
    import pyarrow as pa

Chunks = Callable[[], "Iterable[pa.Table]"]


@dataclass(frozen=True)
class EncodedTable:
    """The features of a table: their names, for each chunk the blocks of columns, and how they were made."""

    names: tuple[str, ...]
    chunks: Callable[[], Iterator[list[FeatureBlock]]]
    preparation: Preparation


def encode_table(
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
    preparation: Preparation | None = None,
    remarks: Mapping[str, str] | None = None,
    what: str = "the features",
) -> EncodedTable:
    """The features of `columns`; `chunks()` gives the table from its beginning, whole or in parts, twice.

    `chosen`: the user named the columns, so none of them is left out for what it looks like. `missing` other than
    "role": rows without a value are zero, for the caller to fill. `preparation`: nothing is learned, this is used.
    `remarks` of the reader are added to the columns' notes.
    """
    for name in [*categorical, *tokens, *(roles or ()), *exclude]:
        if name not in columns:
            hint = did_you_mean(name, columns)
            raise InputError(f"There is no feature column {name!r}.{hint} The columns are: {', '.join(columns)}.")
    if not columns:
        raise InputError(f"There are no columns besides the ids in {what}. Give at least one feature column.")
    if missing == "error":
        check_missing(chunks, [name for name in columns if name not in exclude], what)
    if preparation is not None:
        return _encoded(preparation, chunks, missing, new=True)
    separators = dict(tokens) if isinstance(tokens, Mapping) else dict.fromkeys(tokens)
    found = Preparation.fit(
        chunks, label=label, columns=columns if chosen else None, exclude=exclude, separators=separators, scale=scale,
        roles={**dict.fromkeys(categorical, "category"), **(roles or {})}, gaps=missing == "role",
        remarks=remarks,
    )  # fmt: skip
    return _encoded(found, chunks, missing, new=False)


def as_preparation(given: Any) -> Preparation | None:
    """The preparation that was given: itself, or that of a fitted model or of a graph."""
    found = given.preparation if isinstance(given, Graph) else getattr(given, "preparation_", given)
    if found is None and given is not None:
        raise InputError(
            f"This {type(given).__name__} does not come from a table: it knows no preparation. Leave it out."
        )
    if found is not None and not isinstance(found, Preparation):
        raise InputError(
            f"preparation must be a fitted model, a graph or its preparation, got {type(given).__name__}."
        )
    return found


def _encoded(found: Preparation, chunks: Chunks, missing: str, *, new: bool) -> EncodedTable:
    keep = missing == "role"

    def blocks() -> Iterator[list[FeatureBlock]]:
        for made in found.chunks(chunks(), new=new):
            yield made if keep else [_emptied(block) for block in made]

    return EncodedTable(found.feature_names, blocks, found)


def _emptied(block: FeatureBlock) -> FeatureBlock:
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
