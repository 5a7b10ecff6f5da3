"""What the stages of DMAT-i cost on one GPU: its constants, measured in half a minute, and the seconds they give.

A filter's seconds: the products, what every stored edge costs once (operator, key, its way to the GPU), and what
every value of the rows costs on its way through host memory, GPU and file. Training: steps, the rows' way to the GPU
and the shuffling of their numbers. Vectors: rows and vectors through host memory, and the encoder's products. Each
constant comes from runs that differ in what it counts.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tuplet._memory import free_on
from tuplet.bench.workload import Workload
from tuplet.filters.widths import device_width

NARROW, WIDE = 32, 128  # columns of the blocks that are measured
_LAYERS = (256, 64)
_BATCHES = (1024, 4096)


@dataclass(frozen=True)
class Gpu:
    """One GPU with the machine around it.

    `memory`: its bytes; nanoseconds: `hop_ns` of a product for a stored edge and column, `edge_ns` of a stored edge
    once, `wide_ns`, `narrow_ns` of a float16 value of rows in a file, in blocks of 128 and of 32 columns, `row_ns` of
    a row of a batch, `shuffle_ns` of a row in an epoch; `step_s`: seconds of a step besides; `gflops` of the
    encoder's products; bytes a second: `load` of rows to the GPU, `stream` of rows and vectors through the encoder.
    """

    memory: int
    hop_ns: float
    edge_ns: float
    wide_ns: float
    narrow_ns: float
    step_s: float
    row_ns: float
    gflops: float
    shuffle_ns: float
    load: float
    stream: float

    def filter_s(self, work: Workload) -> float | None:
        """Seconds of the filter into a file, or None where the GPU has no room for it."""
        width = device_width(work.n, work.stored, work.f, self.memory)
        if width < 1:
            return None
        share = min(1.0, max(0.0, (WIDE - width) / (WIDE - NARROW)))
        value_ns = self.wide_ns + share * (self.narrow_ns - self.wide_ns)
        products = work.products * work.stored * work.f * self.hop_ns
        values = work.n * work.f * value_ns * work.bytes_a_value / 2
        return (products + work.stored * self.edge_ns + values) * 1e-9

    def train_s(self, work: Workload) -> float:
        """Seconds of the training."""
        step = self.step_s + work.batch * self.row_ns * 1e-9
        step += work.flops(work.batch, training=True) / (self.gflops * 1e9)
        rows = work.n * work.f * work.bytes_a_value / self.load
        return work.train_steps * (step + work.batch * self.shuffle_ns * 1e-9) + rows

    def embed_s(self, work: Workload) -> float:
        """Seconds of the vectors."""
        moved = work.bytes_a_value * work.n * (work.f + work.layers[-1])
        return moved / self.stream + work.flops(work.n, training=False) / (self.gflops * 1e9)


def measured_gpu(device: str = "cuda", n: int = 2**22, steps: int = 300) -> Gpu:
    """The constants of that device and this machine, from graphs of `n` nodes and so many training steps."""
    import torch

    where = torch.device(device)
    memory = free_on(where)
    with tempfile.TemporaryDirectory() as folder:
        hop_ns, edge_ns, wide_ns, narrow_ns = _filter_ns(device, n, Path(folder))
        load, stream = _row_rates(device, n, Path(folder))
    step_s, row_ns, gflops = _step_costs(device, steps)
    return Gpu(memory, hop_ns, edge_ns, wide_ns, narrow_ns, step_s, row_ns, gflops, _shuffle_ns(4 * n), load, stream)


def _filter_ns(device: str, n: int, folder: Path, f: int = WIDE) -> tuple[float, float, float, float]:
    """Nanoseconds of (a product, a stored edge, a value in wide blocks, in narrow ones)."""
    from tuplet.filters import GraphFilter
    from tuplet.filters.weights import ppr
    from tuplet.graph.synth import rmat

    x = _rows(n, f)
    seconds, counts = [], []
    first = rmat(n, 10, seed=0).with_(x=x)
    few, many = GraphFilter(ppr(0.1), tol=0.3, device=device), GraphFilter(ppr(0.1), tol=1e-4, device=device)
    few.transform(first, out=folder / "rows.npy", dtype="float16")  # kernels are ready then
    cases = [(first, few, x), (first, many, x), (rmat(n, 20, seed=1), few, x), (first, few, x[:, : f // 4].copy())]
    for graph, spec, columns in cases:
        once = partial(spec.transform, graph.with_(x=columns), out=folder / "rows.npy", dtype="float16")
        seconds.append(_seconds(once))
        counts.append([spec.products() * graph.n_stored * columns.shape[1], graph.n_stored, columns.size])
    hop, edge, value = _parts(counts, seconds)
    wide, narrow = (_through(first, few, device, columns, folder / "rows.npy") for columns in (WIDE, NARROW))
    return hop * 1e9, edge * 1e9, value * 1e9, (value + max(0.0, narrow - wide) / x.size) * 1e9


def _through(graph: Any, spec: Any, device: str, columns: int, path: Path) -> float:
    """Seconds of the products with their transfers, in blocks of so many columns, into a file."""
    from tuplet.filters.on_device import filter_in_blocks

    def once() -> None:
        out = np.lib.format.open_memmap(path, "w+", np.float16, graph.x.shape)
        filter_in_blocks(spec, graph, out, device, columns)
        out.flush()

    return _seconds(once)


def _row_rates(device: str, n: int, folder: Path) -> tuple[float, float]:
    """Bytes a second of (rows in a file to the device, rows through the encoder into a file), float16."""
    import torch

    from tuplet.training.batches import load_rows
    from tuplet.training.encoder import encode, make_encoder

    np.save(folder / "read.npy", _rows(n, WIDE))
    rows = np.load(folder / "read.npy", mmap_mode="r")
    encoder = make_encoder(WIDE, _LAYERS).to(device)
    out = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float16, (n, _LAYERS[-1]))
    where = torch.device(device)

    def loaded() -> None:
        load_rows(rows, where)
        _wait(where)

    encode(encoder, rows[:1000])
    load = rows.nbytes / max(1e-9, _seconds(loaded)) if where.type == "cuda" else 1e12  # a CPU has them already
    return load, (rows.nbytes + out.nbytes) / _seconds(lambda: encode(encoder, rows, out=out))


def _step_costs(device: str, steps: int) -> tuple[float, float, float]:
    """(seconds of a step, nanoseconds of a row of its batch, GFLOP/s) from steps of two sizes and widths."""
    seconds, counts = [], []
    for f in (64, 512):
        for batch in _BATCHES:
            work = Workload(n=2**16, stored=0, f=f, layers=_LAYERS, batch=batch)
            seconds.append((_train(work, device, steps + 20) - _train(work, device, 20)) / steps)
            counts.append([1, batch, work.flops(batch, training=True)])
    step, row, flop = _parts(counts, seconds)
    return step, row * 1e9, 1e-9 / max(flop, 1e-18)


def _train(work: Workload, device: str, steps: int) -> float:
    from tuplet.training.config import TrainConfig
    from tuplet.training.encoder import make_encoder
    from tuplet.training.loop import train

    rows = _rows(work.n, work.f)
    config = TrainConfig(max_steps=steps, batch_size=work.batch, n_views=work.views, mask_fraction=work.mask)
    return _seconds(lambda: train(make_encoder(work.f, work.layers), rows, config, device=device))


def _shuffle_ns(n: int) -> float:
    numbers = np.arange(n)
    return _seconds(lambda: np.random.default_rng(0).shuffle(numbers)) / n * 1e9


def _parts(counts: Sequence[Sequence[float]], seconds: Sequence[float]) -> list[float]:
    """Seconds for one of each thing counted, none below 0, so that every run is met as well as can be in relation."""
    from scipy.optimize import nnls

    table = np.array(counts, np.float64) / np.array(seconds)[:, None]  # each run to 1
    sizes = table.max(0)
    return [float(part) for part in nnls(table / sizes, np.ones(len(table)))[0] / sizes]


def _rows(n: int, f: int) -> Any:
    from tuplet.bench.rmat import fill_random

    x = np.empty((n, f), np.float16)
    fill_random(x, 0)
    return x


def _wait(device: Any) -> None:
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _seconds(once: Callable[[], object]) -> float:
    start = time.perf_counter()
    once()
    return time.perf_counter() - start
