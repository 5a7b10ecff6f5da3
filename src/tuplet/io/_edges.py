"""Edge tables: which columns are the two ends and the weight, the checks, and the adjacency that they make."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError, did_you_mean, option
from tuplet.io._ids import id_column, unify
from tuplet.io._layout import nameless
from tuplet.io._tables import Chunk, Table, open_table
from tuplet.io._writings import Dots, are_numbers, plainly, ways_to_say
from tuplet.io.preparation._roles import named_as_index

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("tuplet")

MAX_ROWS = 2**31  # rows that are read into memory at once
MOST_NAMELESS = 4  # columns of an edge list without header: ends, weight, time
_PAIRS = (("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"), ("head", "tail"), ("i", "j"))
_WEIGHT_NAMES = ("weight", "w")


@dataclass(frozen=True)
class Edges:
    """The ids at both ends of some edges, the weights if there are any, and the share of the input read so far."""

    source: pa.Array
    target: pa.Array
    weights: NDArray[np.float32] | None
    done: float = 1.0


@dataclass(frozen=True)
class EdgeTable:
    """A table of edges and its columns; read in chunks, as often as needed."""

    table: Table
    ends: tuple[str, str]
    weight: str | None

    @classmethod
    def open(
        cls, edges: Any, source: str | None, target: str | None, weight: str | bool | None, text: dict[str, Any]
    ) -> EdgeTable:
        """The edges of anything that `open_table` takes; columns as in `read_graph`."""
        table = open_table(edges, "The edges", named=(source, target, weight), **text)
        ends = _end_columns(table.names, source, target)
        return cls(table, ends, _weight_column(table, ends, weight))

    def chunks(self, *, numbers: bool = False, as_text: bool = False) -> Iterator[Edges]:
        """All edges in order. Ids of text files are numbers where a chunk has only numbers.

        A second pass that knows better says `numbers` (all are) or `as_text` (some are not).
        """
        import pyarrow as pa

        columns = [*self.ends, *([self.weight] if self.weight else [])]
        types = dict.fromkeys(self.ends, pa.int64()) if numbers and self.table.is_text else None
        from_text = self.table.is_text and not as_text
        dots = Dots() if self.table.decimal is None and not (numbers or as_text) else None  # told once, not each pass
        first_row = _FirstRow(self.table.is_text and not self.table.header and not self.table.sure)
        for chunk in self.table.chunks(columns, types):
            ends = [id_column(chunk.table.column(i), f"column {self.ends[i]!r} of the edges", chunk.place,
                              from_text=from_text) for i in (0, 1)]  # fmt: skip
            first_row.add(*(chunk.table.column(i) for i in (0, 1)))
            weights = checked_weights(chunk, self.weight, self.table.decimal)
            if dots is not None and self.weight and self.table.is_text:
                dots.add(chunk.table.column(self.weight))
            yield Edges(ends[0], ends[1], weights, chunk.done)
        first_row.check()
        if dots is not None and dots.remark:
            log.warning("weight column %r: %s", self.weight, dots.remark)

    def read(self) -> Edges:
        """All edges at once, the ids in one type."""
        import pyarrow as pa

        parts: list[Edges] = []
        rows = 0
        for part in self.chunks():
            parts.append(part)
            rows += len(part.source)
            check_most_rows(rows, "The edges")
        check_some_rows(rows, "The edges")
        ids = unify(*(column for part in parts for column in (part.source, part.target)))
        weights = None if self.weight is None else np.concatenate([part.weights for part in parts])  # type: ignore[misc]
        return Edges(pa.concat_arrays(ids[0::2]), pa.concat_arrays(ids[1::2]), weights)


def _end_columns(names: tuple[str, ...], source: str | None, target: str | None) -> tuple[str, str]:
    """The columns of both ends: as given, by their usual names, else the first two."""
    for given in (source, target):
        if given is not None and given not in names:
            raise InputError(
                f"The edges have no column {given!r}.{did_you_mean(given, names)} "
                f"Their columns are: {', '.join(names)}."
            )
    if len(names) < 2:
        raise InputError(f"The edges have one column only ({names[0]!r}). Two are needed: source and target.")
    if source is None and target is None and len(names) > MOST_NAMELESS and names == nameless(len(names)):
        raise InputError(
            f"The edges have {len(names)} columns without names. Two are needed, the ends of an edge: name them with "
            f"{option('source', 'c1')} {option('target', 'c2')}. Is it an adjacency matrix? Give its edges as a list."
        )
    lower = {name.lower(): name for name in names}
    usual = next(((lower[one], lower[two]) for one, two in _PAIRS if one in lower and two in lower), None)
    if usual is None and source is None and target is None and any(map(named_as_index, names[:2])):
        raise InputError(
            f"Which columns are the ends of the edges? There are: {', '.join(map(repr, names))}. Name them: "
            f"{option('source')} {option('target')}"
        )
    first, second = source or (usual or names)[0], target or (usual or names)[1]
    if usual is None and source is None and target is None and names != nameless(len(names)):
        others = [name for name in names[2:] if name.lower() not in _WEIGHT_NAMES]
        if others:
            log.warning(
                "ends of the edges: the first two columns, %r and %r; not used: %s", *names[:2], ", ".join(others)
            )
    if first == second:
        raise InputError(
            f"Column {first!r} cannot be both ends of the edges. Name the other one too: {option('source')}, "
            f"{option('target')}"
        )
    return first, second


def check_some_rows(rows: int, what: str) -> None:
    """Raise for an empty table."""
    if not rows:
        raise InputError(f"{what} hold no rows. Give at least one.")


def check_most_rows(rows: int, what: str) -> None:
    """Raise for a table that is too long to be held in memory."""
    if rows >= MAX_ROWS:
        raise InputError(
            f"{what} have {rows} rows or more; {MAX_ROWS} (2^31) and more are not read into memory. "
            "Run `tuplet convert` first, which works on disk, and open its folder."
        )


class _FirstRow:
    """Text ids and no known header words: a first line whose ids come nowhere else is likely a header."""

    def __init__(self, doubtful: bool) -> None:
        self.doubtful, self.rows = doubtful, 0
        self.first: tuple[str, str] | None = None

    def add(self, source: Any, target: Any) -> None:
        """Look for the first line's ids in another chunk."""
        import pyarrow.compute as pc

        if not self.doubtful:
            return
        begin = 0
        if self.first is None:
            self.first, begin = (source[0].as_py(), target[0].as_py()), 1
        self.rows += len(source) - begin
        for column in (source.slice(begin), target.slice(begin)):
            if any(pc.index(column, value).as_py() >= 0 for value in self.first):
                self.doubtful = False

    def check(self) -> None:
        """Raise where the ids of the first line came nowhere else."""
        if self.doubtful and self.rows and self.first is not None:
            raise InputError(
                f"The first line of the edges ({self.first[0]}, {self.first[1]}) may be a header mistaken for data: "
                f"its ids come nowhere else. Say {option('header', True)} if it is one, {option('header', False)} if "
                "it is an edge."
            )


def _weight_column(table: Table, ends: tuple[str, str], weight: str | bool | None) -> str | None:
    """As given; else a column with a usual name; else the third of a text file without header."""
    if weight is False:
        return None
    listed = ", ".join(table.names)
    if isinstance(weight, str):
        if weight not in table.names:
            hint = did_you_mean(weight, table.names)
            raise InputError(f"The edges have no weight column {weight!r}.{hint} Their columns are: {listed}.")
        return weight
    others = [name for name in table.names if name not in ends]
    known = [name for name in others if name.lower() in _WEIGHT_NAMES]
    if not known and not table.header:
        known = others[:1]
    if weight is True and not known:
        raise InputError(f"No weight column was found among {listed}. Name it: {option('weight')}")
    if known:
        log.info("edge weights from column %r", known[0])
    return known[0] if known else None


def checked_weights(chunk: Chunk, name: str | None, decimal: str | None = None) -> NDArray[np.float32] | None:
    """The weights of a chunk as float32, each finite and 0 or more; texts are read by the `decimal` mark."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if name is None:
        return None
    column = chunk.table.column(name)
    what = f"The weight column {name!r}"
    remedy = f"Correct it, or say {option('weight', False)}."
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = _numbers(chunk, column, what, remedy, decimal)
    try:
        values = np.asarray(pc.fill_null(pc.cast(column, pa.float64()), float("nan")), dtype=np.float64)
    except pa.ArrowException:
        raise InputError(f"{what} holds {column.type}, not numbers. {remedy}") from None
    for wrong, why in (
        (~np.isfinite(values), "holds NaN or infinity"),
        (values < 0, "holds a negative weight"),
        (values > np.finfo(np.float32).max, "holds a weight too large for float32"),
    ):
        if wrong.any():
            row = int(wrong.argmax())
            raise InputError(f"{what} {why} ({values[row]:g}) in {chunk.place(row)}. {remedy}")
    return values.astype(np.float32)


def _numbers(chunk: Chunk, column: Any, what: str, remedy: str, decimal: str | None) -> Any:
    """Texts as numbers; only those of text files can be."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if chunk.lines is None:
        raise InputError(f"{what} holds {column.type}, not numbers. {remedy}")
    try:
        if decimal is None or pc.all(are_numbers(column, decimal)).as_py():
            return pc.cast(plainly(column, decimal), pa.float64())
    except pa.ArrowException:
        pass
    row, cell = next((row, cell) for row, cell in enumerate(column.to_pylist()) if not _is_number(cell, decimal))
    why = "holds no weight" if not cell else f"holds {cell!r}, not a number,"
    ways = ways_to_say(cell) if decimal is None else ""
    raise InputError(f"{what} {why} in {chunk.place(row)}. {f'Say {ways}. ' if ways else ''}{remedy}")


def _is_number(cell: str, decimal: str | None) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.cast(plainly(pa.scalar(cell), decimal), pa.float64())
    except pa.ArrowException:
        return False
    return decimal is None or bool(are_numbers(pa.scalar(cell), decimal).as_py())


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
    data = np.ones(len(sources), np.float32) if weights is None else weights.astype(np.float64)
    adj = sp.csr_array((data, (sources, targets)), shape=(n, n))
    adj.sum_duplicates()
    if weights is None:
        adj.data[:] = 1
    with np.errstate(over="ignore"):  # a sum beyond float32 is an error of Graph.from_scipy
        adj = adj.astype(np.float32)
    if not directed:
        adj = sp.csr_array(adj.maximum(adj.T))
    repeats = len(sources) - (adj.nnz if directed else adj.nnz // 2)
    if repeats:
        log.info("merged %d edges that were listed again%s", repeats, "" if directed else " or in both directions")
    return adj


def check_weights(weights: Any) -> None:
    """Raise where a weight is negative or not finite."""
    if weights is not None and len(weights) and (not np.isfinite(weights).all() or weights.min() < 0):
        raise InputError(f"The edges hold the weight {weights.min():g}. Weights must be finite and 0 or more.")
