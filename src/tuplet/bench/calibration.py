"""The constants of the cost model (estimate.py), measured on this machine in 30 seconds, with a GPU in twice that."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tuplet._memory import free_memory
from tuplet._threads import cores
from tuplet.bench.estimate import COLUMNS, SIZES, Machine
from tuplet.bench.gpu_cost import Gpu, measured_gpu
from tuplet.bench.workload import Workload

_NARROW = 8  # columns of a narrow block
_EDGES, _NODES = 2_000_000, 200_000  # of the table that is converted


def calibrate(progress: Callable[[str, float], None] | None = None) -> Machine:
    """This machine, measured: hops at three sizes of graph, training and embedding at two widths, convert, disk."""
    parts = len(SIZES) + 4

    def tell(done: int) -> None:
        if progress is not None:
            progress("calibrate", done / parts)

    hops = []
    for i, n in enumerate(SIZES):
        hops.append(_hop_ns(n))
        tell(i + 1)
    ratio = _hop_ns(SIZES[1], _NARROW) / hops[1]  # (1 + c / narrow) / (1 + c / wide)
    edge_columns = max(0.0, (ratio - 1) / (1 / _NARROW - ratio / COLUMNS))
    step_s, train_gflops = _step_rate()
    tell(parts - 3)
    embed = _embed_rate()
    tell(parts - 2)
    ids_ns, sort_ns = _convert_ns()
    tell(parts - 1)
    found = Machine(
        cores=cores(), memory=free_memory(), hop_ns=(hops[0], hops[1], hops[2]), train_gflops=train_gflops,
        embed_gflops=embed, step_s=step_s, disk=_disk_rate(),
        edge_columns=edge_columns, ids_ns=ids_ns, sort_ns=sort_ns, gpu=_gpu(),
    )  # fmt: skip
    tell(parts)
    return found


def _gpu() -> Gpu | None:
    import torch

    return measured_gpu() if torch.cuda.is_available() else None


def _hop_ns(n: int, columns: int = COLUMNS) -> float:
    """Nanoseconds for a stored edge, a column and a product, of a whole filtering in memory."""
    from tuplet.filters import GraphFilter
    from tuplet.filters.weights import ppr
    from tuplet.graph.synth import rmat

    x = np.random.default_rng(0).random((n, columns), dtype=np.float32)
    graph, spec = rmat(n, 20, seed=0).with_(x=x), GraphFilter(ppr(0.1), tol=1e-3, device="cpu")
    seconds = _fastest(lambda: spec.transform(graph), 2 if n == SIZES[-1] else 5)
    return seconds / (spec.products() * graph.n_stored * columns) * 1e9


def _step_rate() -> tuple[float, float]:
    """(seconds of a step besides its products, GFLOP/s of the products), from steps at two widths."""
    seconds, flops = [], []
    for f in (128, 1024):
        work = Workload(n=4096, stored=0, f=f)
        _steps(work)  # threads and kernels are ready then
        seconds.append(_steps(work))
        flops.append(work.flops(work.batch, training=True))
    rate = max(1e9, (flops[1] - flops[0]) / max(1e-6, seconds[1] - seconds[0]))
    return max(0.0, seconds[0] - flops[0] / rate), rate / 1e9


def _steps(work: Workload) -> float:
    from tuplet.training.config import TrainConfig
    from tuplet.training.encoder import make_encoder
    from tuplet.training.loop import train

    rows = np.random.default_rng(0).random((work.n, work.f), dtype=np.float32)
    times: list[float] = []
    config = TrainConfig(max_steps=48, batch_size=work.batch, n_views=work.views)
    tick: Callable[[str, float], None] = lambda phase, part: times.append(time.perf_counter())  # noqa: E731
    train(make_encoder(work.f, work.layers), rows, config, device="cpu", progress=tick)
    return float(np.quantile(np.diff(times[4:]), 0.25))  # what else runs here makes steps longer, never shorter


def _embed_rate() -> float:
    from tuplet.training.encoder import encode, make_encoder

    work = Workload(n=2**15, stored=0, f=512)
    rows = np.random.default_rng(0).random((work.n, work.f), dtype=np.float32)
    encoder = make_encoder(work.f, work.layers)
    seconds = _fastest(lambda: encode(encoder, rows), 3)
    return work.flops(work.n, training=False) / seconds / 1e9


def _convert_ns(edges: int = _EDGES, nodes: int = _NODES) -> tuple[float, float]:
    """Nanoseconds for a listed edge: to list its ids, and all that follows; random whole-number ids in Parquet."""
    import pyarrow as pa
    from pyarrow import parquet

    from tuplet.io.convert import convert

    source, target = np.random.default_rng(0).integers(nodes, size=(2, edges))
    found = []
    with tempfile.TemporaryDirectory() as folder:
        table, listed = Path(folder) / "edges.parquet", [0.0]
        parquet.write_table(pa.table({"source": source, "target": target}), table)

        def tell(phase: str, part: float) -> None:
            if phase == "ids":
                listed[0] = time.perf_counter()

        for i in range(3):  # the first one compiles
            start = time.perf_counter()
            convert(table, Path(folder) / f"graph-{i}", progress=tell)
            found.append((listed[0] - start, time.perf_counter() - listed[0]))
    ids, rest = np.min(found[1:], axis=0) / edges * 1e9
    return float(ids), float(rest)


def _disk_rate() -> float:
    """Bytes a second of writing 128 MB, flushed, and reading them back, in the system's temporary folder."""
    block = np.random.default_rng(0).integers(0, 256, 2**27, dtype=np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "block"
        start = time.perf_counter()
        with path.open("wb") as file:
            file.write(block.data)
            os.fsync(file.fileno())
        path.read_bytes()
        return 2 * block.nbytes / (time.perf_counter() - start)


def _fastest(once: Callable[[], object], times: int) -> float:
    once()
    found = []
    for _ in range(times):
        start = time.perf_counter()
        once()
        found.append(time.perf_counter() - start)
    return min(found)
