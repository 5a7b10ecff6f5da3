"""The exact filter by groups of rows, for graphs whose edges do not fit one machine.

Each of a team of processes holds the edges of one run of rows, and of every block of columns the same rows. Before a
hop it gets the rows of others that its edges name, the halo, by one exchange. A row is summed by one process in the
order of its edges, so the bits are those of one process.

Filtered blocks lie in `out.npy.parts` with checksums until the rows are joined; a team that was killed goes on there.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError, check_out_path, parse_bytes
from tuplet._files import content_key, locked, write_header, writing
from tuplet._memory import free_memory
from tuplet.engines import Tick
from tuplet.filters import _disk
from tuplet.filters._cpu import multiply_rows
from tuplet.filters._disk import DiskJob
from tuplet.filters._graph_filter import GraphFilter
from tuplet.filters._operator import make_plan, run_series
from tuplet.filters._read import Block, checked_map, fill_block, make_reader
from tuplet.filters._tasks import write_joined
from tuplet.filters.partition import Groups, partitioned, runs
from tuplet.filters.row_parts import Part, chosen_rows, copied_rows, read_part_of
from tuplet.filters.widths import free_width
from tuplet.graph import Graph, check_size
from tuplet.rows.unit import unit_lengths, unit_rows_of

if TYPE_CHECKING:
    from tuplet.engines.workers import Team


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
    partition: NDArray[Any] | None = None,
) -> int:
    """Write the filtered rows (n, f) float32 to `out`; the bytes that this member received from others come back.

    All members call it alike; `graph` is memory maps of which each reads its own rows. `key` names filter and
    content: parts of another key are thrown away. `partition` (n,): the group of each node.
    """
    check_groups(spec, graph.n_nodes, team.size)
    groups = runs(graph, team.size) if partition is None else partitioned(partition, graph.n_nodes, team.size)
    if partition is not None:
        key = content_key(key, [partition])
    path = check_out_path(out)
    budget = free_memory() // 2 if memory is None else parse_bytes(memory)
    first = team.rank == 0
    if not first:
        return _member(spec, graph, groups, path, team, key, unit_rows, budget, None)
    with locked(path), writing(path):
        return _member(spec, graph, groups, path, team, key, unit_rows, budget, progress)


def _member(
    spec: GraphFilter,
    graph: Graph,
    groups: Groups,
    path: Path,
    team: Team,
    key: str,
    unit_rows: bool,
    budget: int,
    progress: Any,
) -> int:
    part = read_part_of(spec, graph, groups, team)
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
    _join(whole, job, part, team)
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


class _Taken:
    """Some rows of a matrix on disk, read when they are asked for."""

    ndim = 2

    def __init__(self, x: Any, nodes: NDArray[np.int64]) -> None:
        self.x, self.nodes = x, nodes
        self.shape, self.dtype, self.base = (len(nodes), x.shape[1]), x.dtype, x

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, asked: Any) -> NDArray[Any]:
        rows, columns = asked if isinstance(asked, tuple) else (asked, slice(None))
        return self.x[self.nodes[rows], columns]  # type: ignore[no-any-return]


def _reader(graph: Graph, part: Part, unit_rows: bool, team: Team) -> Any:
    """The reader of own rows (see `_read.py`), scaled to unit length where asked, as `unit_features` scales them."""
    x: Any = graph.x
    if x is None:
        raise InputError("The graph has no features to filter. Convert it with --features.")
    if sp.issparse(x):
        csr, what = (x.indptr, x.indices, x.data), "the features"
        if part.nodes is None:
            pointers, columns, values = copied_rows(csr, part.low, part.high, x.shape[1], what)
        else:
            pointers, columns, values = chosen_rows(csr, part.nodes, x.shape[1], what)
        own: Any = sp.csr_array((values, columns, pointers), shape=(part.high - part.low, x.shape[1]))
        _check_values(own.data, part)
        return make_reader(unit_rows_of(own) if unit_rows else own)
    own = x[part.low : part.high] if part.nodes is None else _Taken(x, part.nodes)
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


def _join(whole: DiskJob, job: DiskJob, part: Part, team: Team) -> None:
    """Own rows go to their place in the result; the first member puts it in place when all are there."""
    joined = whole.folder / "joined.npy"
    if team.rank == 0:
        with joined.open("wb") as file:
            write_header(file, (whole.n, whole.f), whole.dtype)
            file.truncate(file.tell() + whole.bytes)
    team.wait()
    write_joined(job, joined, 0, job.n, part.low if part.nodes is None else part.nodes)
    team.wait()
    if team.rank == 0:
        joined.replace(whole.path)
        shutil.rmtree(whole.folder)
    team.wait()
