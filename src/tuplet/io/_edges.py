"""Edge tables: which columns are the two ends and the weight, the checks, and the adjacency that they make."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError, check_finite
from tuplet.io._arrow import read_table
from tuplet.io._ids import id_column, unify

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("tuplet")

MAX_ROWS = 2**31  # rows that are read into memory at once
_PAIRS = (("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"), ("head", "tail"), ("i", "j"))
_WEIGHT_NAMES = ("weight", "w")


@dataclass(frozen=True)
class Edges:
    """The ids at both ends of each edge, in one type, and the weights if there are any."""

    source: pa.Array
    target: pa.Array
    weights: NDArray[np.float64] | None


def read_edges(
    edges: Any, source: str | None, target: str | None, weight: str | bool | None, text: dict[str, Any]
) -> Edges:
    """The edges of any table, checked; `text` holds the options for text files."""
    table, layout = read_table(edges, **text, as_text=lambda names: edge_columns(names, source, target))
    check_rows(table.num_rows, "The edges")
    first, second = edge_columns(table.column_names, source, target)
    from_text = layout is not None
    ends = unify(
        *(
            id_column(table.column(column), f"column {column!r} of the edges", from_text=from_text)
            for column in (first, second)
        )
    )
    if layout is not None and not layout.sure and not layout.header:
        _check_first_row(*ends)
    chosen = _weight_column(table, (first, second), weight, named=layout is None or layout.header)
    return Edges(ends[0], ends[1], None if chosen is None else _weights(table, chosen))


def edge_columns(names: Sequence[str], source: str | None, target: str | None) -> tuple[str, str]:
    """The columns of both ends: as given, by their usual names, else the first two."""
    for given in (source, target):
        if given is not None and given not in names:
            raise InputError(f"The edges have no column {given!r}. Their columns are: {', '.join(names)}.")
    lower = {name.lower(): name for name in names}
    for first, second in _PAIRS:
        if first in lower and second in lower:
            return source or lower[first], target or lower[second]
    if len(names) < 2:
        raise InputError(f"The edges have one column only ({names[0]!r}). Two are needed: source and target.")
    return source or names[0], target or names[1]


def check_rows(rows: int, what: str) -> None:
    """Raise for an empty table and for one that is too long to be held in memory."""
    if not rows:
        raise InputError(f"{what} hold no rows. Give at least one.")
    if rows >= MAX_ROWS:
        raise InputError(
            f"{what} have {rows} rows; {MAX_ROWS} (2^31) and more are not read into memory. "
            "Run `tuplet convert` first, which works on disk, and open its folder."
        )


def _check_first_row(source: pa.Array, target: pa.Array) -> None:
    """Text ids and no known header words: a first line whose ids come nowhere else is likely a header."""
    import pyarrow.compute as pc

    if len(source) < 2:
        return
    first = (source[0], target[0])
    for column in (source, target):
        if any(pc.sum(pc.equal(column[1:], value)).as_py() for value in first):
            return
    raise InputError(
        f"The first line of the edges ({first[0]}, {first[1]}) may be a header mistaken for data: its ids come "
        "nowhere else. Say header=True if it is one, header=False if it is an edge."
    )


def _weight_column(table: pa.Table, ends: tuple[str, str], weight: str | bool | None, *, named: bool) -> str | None:
    if weight is False:
        return None
    if isinstance(weight, str):
        if weight not in table.column_names:
            raise InputError(
                f"The edges have no weight column {weight!r}. Their columns are: {', '.join(table.column_names)}."
            )
        return weight
    others = [name for name in table.column_names if name not in ends]
    known = [name for name in others if name.lower() in _WEIGHT_NAMES]
    if not known and not named and others:
        known = [others[0]]
    if weight is True and not known:
        raise InputError(f"No weight column was found among {', '.join(table.column_names)}. Name it: weight='..'.")
    if known:
        log.info("edge weights from column %r", known[0])
    return known[0] if known else None


def _weights(table: pa.Table, name: str) -> NDArray[np.float64]:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = table.column(name)
    try:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            raise pa.ArrowInvalid("text")
        values = np.asarray(pc.fill_null(pc.cast(column, pa.float64()), float("nan")), dtype=np.float64)
    except pa.ArrowException:
        raise InputError(
            f"The weight column {name!r} holds {column.type}, not only numbers. Correct it, or say weight=False."
        ) from None
    check_finite(f"The weight column {name!r}", values, "Fill or remove these rows, or say weight=False.")
    if values.max() > np.finfo(np.float32).max:
        raise InputError(
            f"The weight column {name!r} holds {values.max():g}, too large for float32. Scale the weights."
        )
    if values.min() < 0:
        raise InputError(
            f"The weight column {name!r} holds the negative weight {values.min():g} in row "
            f"{int(values.argmin()) + 1}. Weights must be 0 or more."
        )
    return values


def adjacency(
    sources: NDArray[np.int64],
    targets: NDArray[np.int64],
    weights: NDArray[Any] | None,
    n: int,
    directed: bool = False,
) -> sp.csr_array:
    """The (n, n) adjacency of node pairs; pairs with a -1 are left out, self loops dropped, repeats merged.

    Without weights an edge is 1 however often it is listed; the weights of repeats are summed. An edge listed in both
    directions of an undirected graph keeps the larger weight.
    """
    keep = (sources >= 0) & (targets >= 0)
    loops = keep & (sources == targets)
    if loops.any():
        log.info("dropped %d self loops", int(loops.sum()))
        keep &= ~loops
    if not keep.all():
        sources, targets = sources[keep], targets[keep]
        weights = None if weights is None else weights[keep]
    data = np.ones(len(sources), np.float32) if weights is None else weights.astype(np.float32)
    adj = sp.csr_array((data, (sources, targets)), shape=(n, n))
    adj.sum_duplicates()
    if weights is None:
        adj.data[:] = 1
    if not directed:
        adj = sp.csr_array(adj.maximum(adj.T))
    repeats = len(sources) - (adj.nnz if directed else adj.nnz // 2)
    if repeats:
        log.info("merged %d edges that were listed again%s", repeats, "" if directed else " or in both directions")
    return adj
