"""The way of one filtering: operator, device and block width are chosen, then blocks go to memory or to disk."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError, check_out_path, parse_bytes
from tuplet._files import content_key
from tuplet._memory import free_memory, mapped_file, resident_bytes
from tuplet.engines import Tick, connected
from tuplet.filters import _backends as backends
from tuplet.filters import _disk as filter_disk
from tuplet.filters._backends import Backend
from tuplet.filters._cpu import Engine, cpu_engine
from tuplet.filters._operator import Operator, make_operator, make_plan
from tuplet.filters._read import (
    Block,
    Reader,
    make_reader,
    over_rows,
    put_rows,
)
from tuplet.filters._reduce import column_map
from tuplet.filters._tasks import run_tasks
from tuplet.filters.widths import free_width, task_width
from tuplet.graph import Features, Graph

if TYPE_CHECKING:
    from tuplet.filters._graph_filter import GraphFilter

log = logging.getLogger("tuplet")

SLACK = 100_000_000  # bytes of a budget kept for chunks on their way


def run_filter(
    spec: GraphFilter,
    graph: Graph,
    x: Features,
    out: str | os.PathLike[str] | None,
    memory: int | str | None,
    dtype: np.dtype[Any],
    progress: Callable[[str, float], None] | None,
    engine: str = "local",
    into: NDArray[np.float32] | None = None,
) -> NDArray[Any]:
    """Filter `x` over `graph` as `spec` says, into memory or into the file `out` (on an `engine` always).

    `into` is the array in memory that takes the rows; it may be `x` itself, for a block is written where it was read.
    """
    if engine != "local" and spec.device.startswith("cuda"):
        raise InputError(
            f"engine={engine!r} filters on CPUs, but device={spec.device!r} was asked for. Leave one out."
        )
    path = None if out is None else check_out_path(out)
    budget = None if memory is None else parse_bytes(memory)
    if budget is None and path is not None:
        budget = resident_bytes() + free_memory() // 2
    spec = spec if engine == "local" else replace(spec, device="cpu")
    op = make_operator(graph, direction=spec.direction, self_loops=spec.self_loops)
    projection = None if spec.columns is None else column_map(x, spec.columns, spec.reduction, spec.seed)
    f = int((x if projection is None else projection).shape[1])
    plan = make_plan(spec.weights, spec.tol, spec.series, op.symmetric) if spec.method == "exact" else None
    device = "cpu" if plan is None else backends.choose_device(spec.device, plan.products * len(op.indices) * f)
    backend = backends.backend_of(device)
    log.info("filter %s %s on %s: %d x %d", spec.weights, spec.method, device, op.n, f)

    def tick(fraction: float) -> None:
        if progress is not None:
            progress("filter", fraction)

    def make_engine(read: Reader, source: Features, columns: int) -> Engine:
        on_cpu = functools.partial(cpu_engine, spec, op, plan, read, source, columns)
        if plan is None or device == "cpu":
            return on_cpu()
        return _with_fallback(backend.engine(op, plan, spec.r, read, source, columns, device), on_cpu)

    def whole(read: Reader, result: NDArray[Any]) -> bool:
        return plan is not None and _whole(backend, (op, plan, spec.r, read, result, device, tick))

    if path is not None:
        assert budget is not None
        width = block_width(op, f, budget, projection, 0)
        job = filter_disk.DiskJob(path, rows_key(spec, graph, x, dtype), op.n, f, width, dtype)
        if engine != "local":
            return _on_engine(engine, job, spec, op, x, projection, budget, tick)
        job = filter_disk.resumed(job)
        if backend.whole is not None and job.bytes < budget - resident_bytes():
            read = make_reader(x, projection)
            rows = _whole_to_disk(job, lambda out: whole(read, out))
            if rows is not None:
                return rows
        return _to_disk(job, x, projection, budget, make_engine, tick)
    width = block_width(op, f, budget, projection, dtype.itemsize * op.n * f)
    result = _new_rows(op.n, f, dtype) if into is None else into
    read = make_reader(x, projection)
    if backend.whole is None or not whole(read, result):
        make = make_engine if backend.whole is None else functools.partial(cpu_engine, spec, op, plan)
        _to_memory(result, make(read, x, width), width, tick)
    return result


def rows_key(spec: GraphFilter, graph: Graph, x: Features, dtype: np.dtype[Any]) -> str:
    """The key of filtered rows: it changes with the filter, their type, and any byte of graph and features."""
    settings = repr((sorted(spec.settings().items()), str(dtype), graph.directed))
    return content_key(settings, [graph.indptr, graph.indices, graph.weights, x])


def _on_engine(
    name: str,
    job: filter_disk.DiskJob,
    spec: GraphFilter,
    op: Operator,
    x: Features,
    projection: Any,
    budget: int,
    tick: Tick,
) -> NDArray[Any]:
    """The rows by tasks on the nodes of an engine, all by the CPU."""
    with connected(name) as engine:
        if projection is None:  # else blocks as in one process: the bits of X times a matrix depend on their width
            job = replace(job, columns=task_width(job.f, job.columns, engine.places))
        job = filter_disk.resumed(job)
        split = projection is None and filter_disk.must_split(x, budget, len(job.firsts))
        return run_tasks(job, spec, op, x, projection, split, engine, tick)


def _whole_to_disk(job: filter_disk.DiskJob, filter_into: Callable[[NDArray[Any]], bool]) -> NDArray[Any] | None:
    """The result where the device can make it and the system can hold it in its cache: no parts are needed."""
    filter_disk.check_disk(job, 0, whole=True)
    filter_disk.open_job(job)
    return filter_disk.run_whole(job, filter_into)


def _whole(backend: Backend, work: tuple[Any, ...]) -> bool:
    """Whether the backend could filter everything at once; says in the log when its memory did not do."""
    if backend.whole is None:
        return False
    try:
        backend.whole(*work)
    except MemoryError:
        log.warning(
            "the graph and one block of columns do not fit in the memory of %s: filtering on the CPU", backend.name
        )
        return False
    return True


def _new_rows(n: int, f: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    try:
        return np.empty((n, f), dtype)
    except MemoryError:
        raise InputError(
            f"The filtered rows ({n} x {f}) take {n * f * dtype.itemsize / 1e9:.3g} GB, more than there is. "
            "Filter into a file (out=), or to fewer columns (columns=)."
        ) from None


def _with_fallback(on_device: Engine, on_cpu: Callable[[], Engine]) -> Engine:
    """The engine on the device until its memory is full, from then on the one that `on_cpu` makes."""
    engines = [on_device]

    def compute(first: int, columns: int, tick: Tick) -> Block:
        try:
            return engines[-1](first, columns, tick)
        except MemoryError:
            if len(engines) > 1:
                raise
            log.warning("the device's memory is full: filtering on the CPU from here on")
            engines.append(on_cpu())
        return engines[-1](first, columns, tick)

    return compute


def _to_memory(result: NDArray[Any], engine: Engine, columns: int, tick: Tick) -> None:
    n, f = result.shape
    for first in range(0, f, columns):
        width = min(columns, f - first)
        block = engine(first, width, lambda part, first=first, width=width: tick((first + part * width) / f))  # type: ignore[misc]

        def copy(start: int, stop: int, first: int = first, width: int = width, block: Block = block) -> None:
            put_rows(result[start:stop, first : first + width], block[start:stop])

        over_rows(copy, n, 4 * width)


def _to_disk(
    job: filter_disk.DiskJob,
    x: Features,
    projection: Any,
    budget: int,
    make_engine: Callable[[Reader, Features, int], Engine],
    tick: Tick,
) -> NDArray[Any]:
    split = projection is None and filter_disk.must_split(x, budget, len(job.firsts))
    filter_disk.check_disk(job, x.nbytes if split else 0)
    filter_disk.open_job(job)
    if not split:
        return filter_disk.run_job(job, make_engine(make_reader(x, projection), x, job.columns), tick)
    filter_disk.split_columns(job, x, lambda part: tick(0.05 * part))
    nothing = np.empty((0, job.columns), x.dtype)  # the reader opens the cut files itself; no pages to give back
    engine = make_engine(filter_disk.read_part(job), nothing, job.columns)
    return filter_disk.run_job(job, engine, lambda part: tick(0.05 + 0.95 * part))


def block_width(op: Operator, f: int, budget: int | None, projection: Any, result_bytes: int) -> int:
    """Columns of a block: enough for a hop to be worth its threads, and no more than the budget leaves room for."""
    enough = free_width(op.n, len(op.indices), f)
    if budget is None:
        return enough
    _warm_up()
    graph_bytes = sum(a.nbytes for a in (op.indptr, op.indices, op.weights) if a is not None and mapped_file(a))
    column_bytes = 12 * op.n + (0 if projection is None else 8 * projection.shape[0])
    fixed = resident_bytes() + graph_bytes + SLACK + 32 * op.n + result_bytes
    width = (budget - fixed) // column_bytes
    if width < min(f, 4):
        raise InputError(
            f"memory={budget / 1e9:.3g} GB is too little for this graph: at least "
            f"{(fixed + 4 * column_bytes) / 1e9:.3g} GB are needed. Give more, or give out= if the result "
            "was to stay in memory."
        )
    return min(enough, width if width < 16 else width // 16 * 16)


def _warm_up() -> None:
    """Load the kernels, so that what they take is seen before the blocks are sized."""
    from tuplet.kernels.spmm import hop

    one, z = np.ones(1, np.float32), np.ones((1, 1), np.float32)
    hop(np.array([0, 1]), np.zeros(1, np.int32), None, one, z, z, z.copy())
