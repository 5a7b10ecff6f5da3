"""The exact filter by groups of rows, for graphs whose edges do not fit one machine.

Each of a team of processes holds the edges of one run of rows, and of every block of columns the same rows. Before a
hop it gets the rows of others that its edges name, the halo, by one exchange. A row is summed by one process in the
order of its edges, so the bits are those of one process. Runs follow the given order of nodes, with about as many
edges each: METIS would need the whole graph in the memory of one machine.

Filtered blocks lie in `out.npy.parts` with checksums until the rows are joined; a team that was killed goes on there.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError, check_out_path, parse_bytes
from tuplet._files import locked, write_header, writing
from tuplet._memory import forget_pages, free_memory
from tuplet.filters import _disk
from tuplet.filters._cpu import Tick, multiply_rows
from tuplet.filters._disk import DiskJob
from tuplet.filters._graph_filter import GraphFilter
from tuplet.filters._operator import Operator, make_plan, run_series
from tuplet.filters._read import Block, checked_map, fill_block, make_reader
from tuplet.filters._tasks import write_joined
from tuplet.filters.widths import free_width
from tuplet.graph import Graph, check_size
from tuplet.rows.unit import unit_lengths, unit_rows_of

if TYPE_CHECKING:
    from tuplet.engines.workers import Team

_CHUNK = 2**22  # edges renumbered at a time


@dataclass(frozen=True, eq=False)
class Part:
    """Rows `low` to `high` of an operator, own rows numbered first, then the `halo`, others' rows in their order.

    `asked` (size,): halo rows of each owner; `given`: own rows that others ask for, `given_to` (size,) of each.
    """

    low: int
    high: int
    op: Operator
    halo: NDArray[np.int64]
    asked: list[int]
    given: NDArray[np.int64]
    given_to: list[int]

    @property
    def received(self) -> int:
        """Rows that come from others before each hop."""
        return len(self.halo)


def check_groups(spec: GraphFilter, n: int, groups: int) -> None:
    """Raise unless `spec` can be computed by so many groups of rows of a graph with `n` nodes."""
    if groups > n:
        raise InputError(f"The graph has {n} nodes, too few for {groups} groups of rows. Give at most {n} groups.")
    if spec.method != "exact" or spec.columns is not None:
        raise InputError(
            f"method={spec.method!r} with columns={spec.columns} cannot be split by rows. Groups of rows need "
            'method="exact" and all columns.'
        )


def filter_by_rows(
    spec: GraphFilter,
    graph: Graph,
    out: Path,
    team: Team,
    key: str,
    *,
    unit_rows: bool = False,
    memory: int | str | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> int:
    """Write the filtered rows (n, f) float32 to `out`; the bytes that this member received from others come back.

    All members call it alike; `graph` is memory maps of which each reads its own rows. `key` names filter and
    content: parts of another key are thrown away.
    """
    check_groups(spec, graph.n_nodes, team.size)
    path = check_out_path(out)
    budget = free_memory() // 2 if memory is None else parse_bytes(memory)
    first = team.rank == 0
    if not first:
        return _member(spec, graph, path, team, key, unit_rows, budget, None)
    with locked(path), writing(path):
        return _member(spec, graph, path, team, key, unit_rows, budget, progress)


def _member(
    spec: GraphFilter, graph: Graph, path: Path, team: Team, key: str, unit_rows: bool, budget: int, progress: Any
) -> int:
    part = read_part_of(spec, graph, team)
    read = _reader(graph, part, unit_rows, team)
    f = int(graph.x.shape[1])  # type: ignore[union-attr]
    n, own, held = graph.n_nodes, part.high - part.low, part.high - part.low + part.received
    room = max(0, budget - 5 * len(part.op.indices) - 40 * own) // (12 * max(1, held))
    width = team.least(min(free_width(n, graph.n_stored, f), max(1, room)))
    if width < min(f, 4):
        raise InputError(
            f"{own} rows and {part.received} of other groups leave no room for 4 columns in {budget / 1e9:.3g} GB. "
            "Give more memory or more groups."
        )
    dtype = np.dtype(np.float32)
    whole = DiskJob(path, f"{key} by {team.size} groups", n, f, width, dtype)
    if team.rank == 0:
        _disk.check_disk(whole, 0)
        _disk.open_job(whole)
    team.wait()
    job = DiskJob(whole.folder / f"rows-{part.low}.npy", whole.key, own, f, width, dtype)
    _disk.open_job(job)
    received = _filter(spec, part, read, graph.x, job, team, progress)
    _join(whole, job, part.low, team)
    return received


def _filter(spec: GraphFilter, part: Part, read: Any, x: Any, job: DiskJob, team: Team, progress: Any) -> int:
    """All blocks of columns that not every member has already; the bytes that were received."""
    engine = _engine(spec, part, read, x, job.columns, team)
    blocks, received = len(job.firsts), 0
    for i, first in enumerate(job.firsts):

        def tick(done: float, i: int = i) -> None:
            if progress is not None:
                progress("filter", (i + done) / blocks)

        if team.any(not _disk.is_good(job.part("done", first))):
            block, products = engine(first, job.width(first), tick)
            received += 4 * products * part.received * job.width(first)
            _disk.write_block(job.part("done", first), block, job.dtype)
        tick(1.0)
    return received


def _engine(spec: GraphFilter, part: Part, read: Any, x: Any, columns: int, team: Team) -> Any:
    """(first, columns, tick) -> (filtered own rows of the block, products); three blocks of own rows and halo."""
    from tuplet.kernels.spmm import hop

    op, own, held = part.op, part.op.n, part.op.n + part.received
    plan = make_plan(spec.weights, spec.tol, spec.series, op.symmetric)
    before, after, inverse = op.degree_power(-spec.r), op.degree_power(spec.r), op.inverse
    store = np.empty((3, held * columns), np.float32)

    def compute(first: int, columns: int, tick: Tick) -> tuple[Block, int]:
        start, one, two = (buffer[: held * columns].reshape(held, columns) for buffer in store)
        fill_block(read, x, first, before, start[:own])
        done = 0

        def one_hop(z: Block, out: Block, scale: float, shift: float, keep: float) -> None:
            nonlocal done
            team.exchange(z[part.given], part.given_to, z[own:], part.asked)
            factors = {"loop": op.loop, "scale": scale, "shift": shift, "keep": keep}
            hop(op.indptr, op.indices, op.weights, inverse, z, start, out[:own], **factors)  # type: ignore[arg-type]
            done += 1
            tick(done / plan.products)

        result, factor = run_series(plan, one_hop, start, one, two)
        multiply_rows(result[:own], after, factor)
        return result[:own], plan.products

    return compute


def read_part_of(spec: GraphFilter, graph: Graph, team: Team) -> Part:
    """This member's rows of the operator, and who asks whom for which rows."""
    bounds = row_bounds(graph, team.size)
    low, high = int(bounds[team.rank]), int(bounds[team.rank + 1])
    indptr, indices, weights = _own_csr(spec, graph, bounds, team)
    degrees = Graph(indptr, indices, weights=weights).degrees + float(spec.self_loops)
    degrees[degrees == 0] = 1.0
    symmetric = not graph.directed or spec.direction == "symmetric"
    halo = _renumber(indices, low, high, graph.n_nodes)
    op = Operator(indptr, indices, weights, degrees, float(spec.self_loops), symmetric)
    asked = np.diff(np.searchsorted(halo, bounds))
    given_to = team.deal(asked)
    given = np.empty(int(given_to.sum()), np.int64)
    team.exchange(halo, asked.tolist(), given, given_to.tolist())
    return Part(low, high, op, halo, asked.tolist(), given - low, given_to.tolist())


def row_bounds(graph: Graph, groups: int) -> NDArray[np.int64]:
    """(groups + 1,): where the rows of each group begin, with about as many edges each."""
    from tuplet.kernels.spmm import balanced_pieces

    bounds = balanced_pieces(graph.indptr, groups).astype(np.int64)
    bounds = np.maximum(bounds, np.arange(groups + 1))  # a hub may be a part's worth: everybody has a row
    return np.minimum(bounds, graph.n_nodes - np.arange(groups, -1, -1))


def halo_rows(graph: Graph, groups: int) -> int:
    """The most rows of others that a group needs, of the first, the middle and the last group; edges as stored."""
    bounds, most = row_bounds(graph, groups), 0
    for i in {0, groups // 2, groups - 1}:
        low, high = int(bounds[i]), int(bounds[i + 1])
        named = _others(graph.indices[int(graph.indptr[low]) : int(graph.indptr[high])], low, high, graph.n_nodes)
        most = max(most, int(np.count_nonzero(named)))
        forget_pages(graph.indices)
    return most


def _own_csr(spec: GraphFilter, graph: Graph, bounds: NDArray[np.int64], team: Team) -> Any:
    """Own rows of the adjacency that the filter reads: (indptr from 0, indices, weights), copied from the maps."""
    low, high = int(bounds[team.rank]), int(bounds[team.rank + 1])
    pointers = np.array(graph.indptr[low : high + 1])
    edges = slice(int(pointers[0]), int(pointers[-1]))
    indices, weights = np.array(graph.indices[edges]), graph.weights
    if (np.diff(pointers) < 0).any() or (
        len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < graph.n_nodes
    ):
        raise InputError(f"Rows {low} to {high} of the graph are damaged. Convert the graph again.")
    csr = (pointers - pointers[0], indices, None if weights is None else np.array(weights[edges]))
    forget_pages(graph.indices)
    if not graph.directed or spec.direction == "out":
        return csr
    from tuplet.kernels.csr import unite

    reverse = _reversed(csr, low, bounds, team)
    return reverse if spec.direction == "in" else unite(csr, reverse)


def _reversed(csr: Any, low: int, bounds: NDArray[np.int64], team: Team) -> Any:
    """Own rows of the transpose: each edge goes to the owner of its target, sources in order."""
    indptr, indices, weights = csr
    sources = np.repeat(np.arange(low, low + len(indptr) - 1, dtype=np.int64), np.diff(indptr))
    owner = np.searchsorted(bounds, indices, side="right") - 1
    order = np.argsort(owner, kind="stable")
    counts = np.bincount(owner, minlength=team.size)
    come = team.deal(counts)
    columns = [indices.astype(np.int64), sources] + ([] if weights is None else [weights])
    found = [np.empty(int(come.sum()), column.dtype) for column in columns]
    for column, target in zip(columns, found):
        team.exchange(column[order], counts.tolist(), target, come.tolist())
    place = np.argsort(found[0], kind="stable")  # they came by rank: sources rise within each target
    own = int(bounds[team.rank + 1] - bounds[team.rank])
    pointers = np.zeros(own + 1, np.int64)
    np.cumsum(np.bincount(found[0] - low, minlength=own), out=pointers[1:])
    return pointers, found[1][place].astype(indices.dtype), None if weights is None else found[2][place]


def _others(indices: NDArray[Any], low: int, high: int, n: int) -> NDArray[np.bool_]:
    """(n,): the rows beyond `low` to `high` that are named."""
    strange = np.zeros(n, bool)
    for start in range(0, len(indices), _CHUNK):
        strange[indices[start : start + _CHUNK]] = True
    strange[low:high] = False
    return strange


def _renumber(indices: NDArray[Any], low: int, high: int, n: int) -> NDArray[np.int64]:
    """Number own rows from 0 and others behind them, in place; the others' numbers (halo,) in order come back."""
    halo = np.flatnonzero(_others(indices, low, high, n))
    for start in range(0, len(indices), _CHUNK):
        some = indices[start : start + _CHUNK]
        own = (some >= low) & (some < high)
        some[...] = np.where(own, some - low, high - low + np.searchsorted(halo, some))
    return halo


def _reader(graph: Graph, part: Part, unit_rows: bool, team: Team) -> Any:
    """The reader of own rows (see `_read.py`), scaled to unit length where asked, as `unit_features` scales them."""
    x: Any = graph.x
    if x is None:
        raise InputError("The graph has no features to filter. Convert it with --features.")
    own = x[part.low : part.high]
    if sp.issparse(own):
        _check_values(own.data, part)
        return make_reader(unit_rows_of(own) if unit_rows else own)
    try:
        checked_map(own, len(own))
    except InputError as error:
        raise InputError(f"Features from row {part.low} on, counted from there: {error}") from None
    factors = 1 / unit_lengths(own)
    if not unit_rows or not team.any(not np.allclose(factors, 1, rtol=0, atol=1e-6)):
        return make_reader(own)

    def read(start: int, first: int, scale: Block, out: Block) -> None:
        rows, columns = out.shape
        some = slice(start, start + rows)
        scaled = (own[some, first : first + columns] * factors[some, None]).astype(np.float32)
        np.multiply(scaled, scale[some, None], out=out)

    return read


def _check_values(values: NDArray[Any], part: Part) -> None:
    if not np.isfinite(values).all():
        raise InputError(f"x holds NaN or infinity in rows {part.low} to {part.high}. Replace these values first.")
    check_size(values)


def _join(whole: DiskJob, job: DiskJob, low: int, team: Team) -> None:
    """Own rows go to their place in the result; the first member puts it in place when all are there."""
    joined = whole.folder / "joined.npy"
    if team.rank == 0:
        with joined.open("wb") as file:
            write_header(file, (whole.n, whole.f), whole.dtype)
            file.truncate(file.tell() + whole.bytes)
    team.wait()
    write_joined(job, joined, 0, job.n, low)
    team.wait()
    if team.rank == 0:
        joined.replace(whole.path)
        shutil.rmtree(whole.folder)
    team.wait()
