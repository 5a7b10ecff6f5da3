"""What DMAT-i will cost on one machine or many: memory, disk, seconds and network of each stage, before it runs.

The constants fit the rungs of docs/scale.md on a 2-core machine; `calibrate` measures those of this one. Machines are
taken to be alike, and a machine with more cores to be faster by their number. A filter's time is products x stored
edges x columns x a time that grows once a block of columns leaves the caches, so it is measured at
three sizes of graph.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from tuplet._check import InputError, check_int
from tuplet.bench.gpu_cost import Gpu
from tuplet.bench.workload import Workload
from tuplet.filters.widths import free_width, task_width
from tuplet.graph import Graph

COLUMNS = 64  # of a block whose products are measured
SIZES = (2**13, 2**16, 2**19)  # nodes of the graphs that are measured
_SHARE = 0.8  # of a machine's memory that may be used
_FIXED = 600_000_000  # bytes of a process with its libraries
_LATENCY = 2e-4  # seconds of an exchange between workers
_CACHE = 4e9  # bytes a second of a file that lies in the system's cache
_START = 10.0  # seconds until a cluster's workers have started
_BUDGET = 2.3e9  # bytes of a conversion with its defaults
_MORE = (2, 4, 8, 16, 32, 64, 128, 256)  # machines that are tried where fewer do not do


@dataclass(frozen=True)
class Machine:
    """One machine. Times are for all of its cores together.

    `hop_ns`: nanoseconds for a stored edge and column at graphs of `SIZES` nodes; `train_gflops`, `embed_gflops`: of
    the encoder's products; `step_s`: seconds of a training step besides; `disk`, `network`: bytes a second;
    `ids_ns`, `sort_ns`: nanoseconds of one core to convert a listed edge: its ids; dealt, sorted and placed. A `gpu`
    does the work of a machine that is alone.
    """

    cores: int = 2
    memory: int = 24 * 10**9
    hop_ns: tuple[float, float, float] = (0.10, 0.14, 0.22)
    train_gflops: float = 120.0
    embed_gflops: float = 80.0
    step_s: float = 0.004
    disk: float = 1.0e9
    network: float = 1.25e9
    edge_columns: float = 18.0
    ids_ns: float = 100.0
    sort_ns: float = 400.0
    gpu: Gpu | None = None

    def hop_time(self, n: int, width: int = COLUMNS) -> float:
        """Seconds for a stored edge and a column, by the logarithm of n; beyond the measured sizes a bit more.

        In blocks of few columns the way along an edge, which costs as much as `edge_columns` of them, is most of it.
        """
        places = np.log2(SIZES)
        at, narrow = math.log2(max(2, n)), min(width, COLUMNS)
        share = (1 + self.edge_columns / narrow) / (1 + self.edge_columns / COLUMNS) * 1e-9
        if at <= places[-1]:
            return float(np.interp(at, places, self.hop_ns)) * share
        slope = (self.hop_ns[-1] - self.hop_ns[-2]) / (places[-1] - places[-2])
        return float(self.hop_ns[-1] + slope * min(2.0, at - places[-1])) * share

    def moving(self, count: float, held: float) -> float:
        """Seconds to move `count` bytes of files of `held` bytes: what fits half the memory stays in its cache."""
        return count / (self.disk if held > self.memory / 2 else max(self.disk, _CACHE))

    def with_cores(self, count: int, memory: int | None = None, network: float | None = None) -> Machine:
        """A machine of the same kind with more or fewer cores, and where given another memory and network."""
        ratio = self.cores / count
        times = tuple(value * ratio for value in self.hop_ns)
        return replace(
            self, cores=count, memory=memory or self.memory, hop_ns=(times[0], times[1], times[2]),
            train_gflops=self.train_gflops / ratio, embed_gflops=self.embed_gflops / ratio,
            network=network or self.network,
        )  # fmt: skip


@dataclass(frozen=True)
class Stage:
    """One stage on each machine: bytes of memory, disk (of all) and network, and seconds."""

    name: str
    seconds: float
    memory: float
    disk: float
    network: float = 0.0


@dataclass(frozen=True)
class Estimate:
    """The stages, and how they are best run; `others`: seconds of ways to filter that were not taken."""

    stages: tuple[Stage, ...]
    advice: str
    fits: bool
    others: Mapping[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Of all stages."""
        return sum(stage.seconds for stage in self.stages)


@dataclass(frozen=True)
class _Way:
    """A way to filter: by columns or by groups of rows."""

    name: str
    stage: Stage
    advice: str
    fits: bool


def estimate(work: Workload, machine: Machine | None = None, machines: int = 1) -> Estimate:
    """What `work` costs on so many machines of a kind, how to run it, and whether it fits."""
    check_int("machines", machines)
    machine = machine or Machine()
    ways = [_by_columns(work, machine, machines)]
    if machines > 1:
        ways.append(_by_rows(work, machine, machines))
    taken = _better(ways)
    trained = {size: _train(work, machine, size) for size in (1, 2, 4, 8) if size <= machines}
    workers = min(trained, key=lambda size: trained[size].seconds)
    stages = (taken.stage, trained[workers], _embed(work, machine, machines))
    if machines == 1 and machine.gpu is not None:
        stages = _on_gpu(work, machine.gpu, stages)
    advice = taken.advice if taken.fits else _too_small(work, machine, machines)
    advice += f"; training by {workers} worker{'s' * (workers > 1)}" if machines > 1 else ""
    others = {way.name: way.stage.seconds for way in ways if way is not taken and way.fits}
    return Estimate(stages, advice, taken.fits, others)


def _on_gpu(work: Workload, gpu: Gpu, stages: tuple[Stage, Stage, Stage]) -> tuple[Stage, Stage, Stage]:
    """The stages with the GPU's seconds; a filter that has no room there stays with the CPU."""
    filtered, trained, embedded = stages
    seconds = gpu.filter_s(work)
    return (
        filtered if seconds is None else replace(filtered, seconds=seconds),
        replace(trained, seconds=gpu.train_s(work)),
        replace(embedded, seconds=gpu.embed_s(work)),
    )


def _better(ways: Sequence[_Way]) -> _Way:
    """What fits; of two, columns unless rows are a quarter faster: tasks of columns are replaced one by one."""
    fitting = [way for way in ways if way.fits] or [ways[-1]]
    return fitting[-1] if fitting[-1].stage.seconds < 0.8 * fitting[0].stage.seconds else fitting[0]


def _by_columns(work: Workload, machine: Machine, machines: int) -> _Way:
    """Each machine holds all edges, and filters some columns at a time."""
    n, f, value = work.n, work.f, work.bytes_a_value
    graph = 4.0 * work.stored + 8 * n
    base = _FIXED + graph + 32.0 * n
    room = (_SHARE * machine.memory - base) / (12 * n)
    most = min(free_width(n, work.stored, f), max(4, int(room)))
    width = most if machines == 1 else task_width(f, most, machines)
    tasks = -(-f // width)
    columns = min(f, -(-tasks // machines) * width)  # of the busiest machine
    products = work.products * work.stored * columns * machine.hop_time(n, width)
    split = machines == 1 and value * n * f > _SHARE * machine.memory
    moved = value * n * (2 * columns + (3 if split else 1) * f / machines) + (graph if machines > 1 else 0)
    seconds = products + machine.moving(moved, 2.0 * value * n * f) + (_START if machines > 1 else 0)
    disk = value * n * f * (3.0 if split else 2.0)
    network = 0.0 if machines == 1 else graph + value * n * (2.0 * columns + 2 * f / machines)
    seconds = max(seconds, network / machine.network)
    one = f"one machine, blocks of {width} columns"
    how = one if machines == 1 else f"filter by columns, {tasks} tasks of {width} (--engine)"
    stage = Stage("filter", seconds, base + 12.0 * n * width, disk, network)
    return _Way("columns", stage, how, room >= min(f, 4))


def _by_rows(work: Workload, machine: Machine, groups: int) -> _Way:
    """Each machine holds the edges of some rows, and gets from others before each product the rows that they name."""
    n, f = work.n, work.f
    own, halo, stored = n / groups, work.halo_rows(groups), work.stored / groups
    base = _FIXED + 5 * stored + 48 * own + n
    held = own + halo
    room = (_SHARE * machine.memory - base) / (12 * held)
    width = max(min(f, 4), min(free_width(n, work.stored, f), int(room)))
    blocks = -(-f // width)
    received = 4.0 * work.products * halo * f
    products = work.products * stored * f * machine.hop_time(int(held), width)
    read = work.bytes_a_value * own * f * (blocks if work.bytes_a_value * own * f > machine.memory / 2 else 1)
    moved = read + 12.0 * own * f + 4 * stored
    seconds = products + received / machine.network + work.products * blocks * _LATENCY
    seconds += machine.moving(moved, 8.0 * own * f) + _START
    stage = Stage("filter", seconds, base + 12.0 * held * width, 8.0 * n * f, received + moved)
    how = f"filter by {groups} groups of rows, blocks of {width} columns (tuplet filter --groups {groups})"
    return _Way("rows", stage, how, room >= min(f, 4))


def _too_small(work: Workload, machine: Machine, machines: int) -> str:
    """How many machines would do."""
    found = next((r for r in _MORE if r > machines and _by_rows(work, machine, r).fits), None)
    need = f"More than {_MORE[-1]} would be needed" if found is None else f"{found} machines would do, by rows"
    return f"edges and 4 columns do not fit {machines} machine{'s' * (machines > 1)} of this size. {need}"


def _train(work: Workload, machine: Machine, workers: int) -> Stage:
    step = work.flops(work.batch, training=True) / (machine.train_gflops * 1e9) / workers + machine.step_s
    sizes = (work.f, *work.layers)
    weights = 4.0 * sum(a * b + b for a, b in pairwise(sizes))
    sent = 0.0 if workers == 1 else (1 + work.views) * work.batch * work.layers[-1] * 4.0 + (workers - 1) * weights
    step += sent / machine.network + (0 if workers == 1 else 4 * _LATENCY)
    memory = _FIXED + 3e8 + 4.0 * work.batch * (work.f + sum(work.layers)) * (1 + work.views) + 4 * weights
    return Stage("train", work.train_steps * step, memory, 0.0, work.train_steps * sent)


def _embed(work: Workload, machine: Machine, machines: int) -> Stage:
    read, made = work.bytes_a_value * work.n * work.f, 4.0 * work.n * work.layers[-1]
    products = work.flops(work.n, training=False) / (machine.embed_gflops * 1e9)
    seconds = max(products, machine.moving(read + made, read + made))  # the system reads ahead meanwhile
    return Stage("embed", seconds / machines, _FIXED + 2e8, made, 0.0 if machines == 1 else (read + made) / machines)


def convert_stage(work: Workload, machine: Machine, machines: int = 1) -> Stage:
    """What making the graph from whole-number ids in Parquet parts costs, before the stages of `estimate`.

    One core of each machine works: the driver's lists the ids, then all deal and sort.
    """
    edges, entry = work.stored / 2, 8.0  # listed once, stored in both directions
    moved = 2 * entry * work.stored * 2 + 3 * 4.0 * work.stored  # dealt and sorted, written and read; placed
    cores = (machine.ids_ns + machine.sort_ns / machines) * edges * 1e-9
    disk = machine.moving(moved / machines, 2 * entry * work.stored / machines)
    seconds = max(cores, disk) + (_START if machines > 1 else 0)
    held = 2 * entry * work.stored + 4.0 * work.stored + 8 * work.n
    return Stage("convert", seconds, _BUDGET, held, 0.0 if machines == 1 else moved / machines)


def workload(n: int, edges: int, f: int) -> Workload:
    """The work of `DMATi()` with its defaults on an undirected graph of so many nodes, edges and columns."""
    from tuplet.models.dmat import DMATi

    model = DMATi()
    layers = tuple(model.layers) if isinstance(model.layers, Sequence) else (int(model.layers),)
    return Workload(n, 2 * edges, f, model.graph_filter_.products(True), layers, model.batch_size, model.n_views,
                    model.mask_fraction, model.max_steps)  # fmt: skip


def workload_of(graph: Graph, groups: int = 1) -> Workload:
    """The work of `DMATi()` with its defaults on that graph; with `groups` of rows their halo is counted."""
    from tuplet.filters.row_parts import halo_rows
    from tuplet.models.dmat import DMATi

    if graph.x is None:
        raise InputError("The graph has no features to estimate with. Give --features.")
    plan = DMATi().graph_filter_.products(not graph.directed)
    work = replace(workload(graph.n_nodes, 0, graph.n_features), stored=graph.n_stored, products=plan)
    return work if not 1 < groups <= graph.n_nodes else replace(work, halo=float(halo_rows(graph, groups)))
