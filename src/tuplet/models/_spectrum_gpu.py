"""Filtered rows on a GPU: what `fit_in_steps` works with where features, graph and tall arrays fit its memory.

The features are sent once. What has n rows stays on the device from the first product to the last; only small arrays
and the projected rows come back. Blocks have fixed sizes, so the same device gives the same bits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._memory import forget_pages, free_on, on_device
from tuplet._threads import over
from tuplet.filters import GraphFilter
from tuplet.filters.on_device import csr_tensor, device_filter, full_memory_told
from tuplet.graph import Graph
from tuplet.models._cost import EXTRA, SIGNS, filtered_columns
from tuplet.models._spectrum import Spectrum
from tuplet.models._spectrum_steps import ORDER, fit_in_steps
from tuplet.models._steps import Steps
from tuplet.rows.blocks import blocks, float_rows, gathered, written
from tuplet.rows.svd import Floats

if TYPE_CHECKING:
    import torch

log = logging.getLogger("tuplet")

_COLUMNS = 128  # that are filtered at a time
_VALUES = 2**26  # of a block of rows in float32: what a product reads at a time
_SENT = 2**28  # bytes of a piece on its way to the device


class DeviceFeatures:
    """X (n, f) on a device: dense, where float16 stays float16, or CSR with its transpose."""

    def __init__(self, x: Any, device: torch.device) -> None:
        self.shape, self.device = x.shape, device
        if sp.issparse(x):
            self.rows, self.columns = _csr(x, device), _csr(x.T.tocsr(), device)
        else:
            self.rows = _sent(x, device)

    def times(self, q: torch.Tensor, out: torch.Tensor) -> None:
        """X q into `out` (n, c), for q (f, c)."""
        import torch

        if self.rows.layout == torch.sparse_csr:
            torch.addmm(out, self.rows, q, beta=0, out=out)
            return
        for block in _cut(*self.shape):
            torch.mm(self.rows[block].float(), q, out=out[block])

    def transposed_times(self, y: torch.Tensor) -> torch.Tensor:
        """X' y (f, c), the sums in float64."""
        import torch

        if self.rows.layout == torch.sparse_csr:
            return (self.columns @ y).double()
        total = torch.zeros(self.shape[1], y.shape[1], dtype=torch.float64, device=self.device)
        for block in _cut(*self.shape):
            total += self.rows[block].float().T @ y[block]
        return total


@dataclass(frozen=True, eq=False)
class DeviceRows:
    """H (n, f) of `graph` (see `_spectrum`) on the device of `x`; small arrays and the last rows go to `steps`."""

    name: str
    graph: Graph
    graph_filter: GraphFilter
    weights: Floats
    before: Floats
    x: DeviceFeatures
    steps: Steps | None = None
    tick: Callable[[float], None] = field(default=lambda part: None)
    made: dict[str, Any] = field(default_factory=dict)  # tall arrays by their step, and what all steps need

    @property
    def shape(self) -> tuple[int, int]:
        return self.graph.n_nodes, len(self.weights)

    def kept(self, step: str, make: Callable[[], Any]) -> Any:
        return make() if self.steps is None else self.steps.array(f"{self.name}-{step}", make)

    def forward(self, step: str, q: Floats) -> Any:
        import torch

        if step not in self.made:
            columns = self._there(self.weights[:, None] * q)
            out = torch.empty(self.shape[0], q.shape[1], device=self.x.device)

            def start(some: slice, block: torch.Tensor) -> None:
                self.x.times(columns[:, some].contiguous(), block)

            for some, filtered in self._filtered(step, q.shape[1], start):
                out[:, some] = filtered
            self.made[step] = out
        return self.made[step]

    def backward(self, step: str, y: Any, factors: Floats) -> Floats:
        import torch

        scale, found = self._there(factors)[:, None], []

        def start(some: slice, block: torch.Tensor) -> None:
            torch.mul(y[:, some], scale, out=block)

        for _, filtered in self._filtered(step, y.shape[1], start, backward=True):
            found.append(self.x.transposed_times(filtered))
        sums = torch.cat(found, dim=1).float().cpu().numpy()
        product: Floats = sums * self.weights[:, None]
        return product

    def inverse_lengths(self, y: Any) -> Floats:
        lengths = y.norm(dim=1)
        found: Floats = (lengths > 0).float().div_(lengths.clamp_(min=1e-30)).cpu().numpy()
        return found

    def gram(self, y: Any, factors: Floats) -> NDArray[np.float64]:
        import torch

        scale, c = self._there(factors)[:, None], y.shape[1]
        total = torch.zeros(c, c, dtype=torch.float64, device=self.x.device)
        for block in _cut(len(y), c):
            part = y[block].double() * scale[block]
            total += part.T @ part
        squares: NDArray[np.float64] = total.cpu().numpy()
        return squares

    def turned(self, step: str, y: Callable[[], Any], turn: Floats, factors: Floats) -> Any:
        shape, made = (self.shape[0], turn.shape[1]), self.made

        def some(block: slice) -> Any:
            return made["turned"][block].cpu().numpy()

        def multiply() -> None:  # here, and not in the threads that fetch the blocks
            made["turned"] = (y() @ self._there(turn)).mul_(self._there(factors)[:, None])

        def write(path: Path) -> None:
            multiply()
            written(path, some, shape, len(turn))

        if self.steps is not None:
            rows = self.steps.rows(f"{self.name}-{step}", write)
        else:
            multiply()
            rows = gathered(some, shape, len(turn))
        self.drop("turned")
        return rows

    def drop(self, *steps: str) -> None:
        for step in steps:
            self.made.pop(step, None)
        if self.steps is not None:  # what a run on the CPU left
            self.steps.drop(*(f"{self.name}-{step}" for step in steps))

    def _filtered(
        self, step: str, width: int, start: Callable[[slice, torch.Tensor], None], *, backward: bool = False
    ) -> Iterator[tuple[slice, torch.Tensor]]:
        """(columns, F start) of some columns after the other; rows get X's lengths before or behind the filter."""
        import torch

        if "filter" not in self.made:
            self.made["filter"] = device_filter(self.graph_filter, self.graph, self.x.device)
            self.made["before"] = self._there(self.before)[:, None]
        n, before, place = self.shape[0], self.made["before"], ORDER.index(step)
        buffers = [torch.empty(n * min(_COLUMNS, width), device=self.x.device) for _ in range(3)]
        for first in range(0, width, _COLUMNS):
            some = slice(first, min(width, first + _COLUMNS))
            block, *spare = (buffer[: n * (some.stop - first)].view(n, -1) for buffer in buffers)
            start(some, block)
            if not backward:
                block *= before
            filtered = self.made["filter"].apply(block, *spare)
            if backward:
                filtered *= before
            yield some, filtered
            self.tick((place + some.stop / width) / len(ORDER))

    def _there(self, array: Any) -> torch.Tensor:
        found: torch.Tensor = on_device(np.ascontiguousarray(array, np.float32), self.x.device)
        return found


def _cut(n: int, width: int) -> list[slice]:
    """Slices of `n` rows of `width` numbers, as large as a product on a device likes."""
    step = max(1, _VALUES // max(1, width))
    return [slice(start, min(n, start + step)) for start in range(0, n, step)]


def spectra_on_device(
    graph: Graph,
    filters: Sequence[GraphFilter],
    widths: Sequence[int],
    weights: Floats,
    before: Callable[[], Floats],
    *,
    balance: bool,
    seed: int,
    steps: Steps | None,
    tick: Callable[[int, float], None],
) -> list[tuple[Spectrum, Any]] | None:
    """The spectrum of each filter, and the rows projected on it; None where no GPU is chosen, or it has no room."""
    device = device_for(graph, filters, widths)
    if device is None:
        return None
    found = []
    try:
        with full_memory_told():
            x, lengths = DeviceFeatures(graph.x, device), before()
            for i, (one, width) in enumerate(zip(filters, widths)):
                name = f"{step_name(i)}-{width}"
                rows = DeviceRows(name, graph, one, weights, lengths, x, steps, partial(tick, i))
                found.append(fit_in_steps(rows, width, balance=balance, seed=seed))
    except MemoryError:
        log.warning("the memory of %s is full: filtering by blocks", device)
        return None
    return found


def step_name(i: int) -> str:
    """The name of the i-th filter's steps."""
    return ("far", "near")[i]


def device_for(graph: Graph, filters: Sequence[GraphFilter], widths: Sequence[int]) -> torch.device | None:
    """The GPU that one of the filters would choose; None where it is the CPU, or has no room for the whole work."""
    estimates = [one.estimate(graph, width=filtered_columns(width)) for one, width in zip(filters, widths)]
    name = next((one.device for one in estimates if one.device.startswith("cuda")), None)
    if name is None:
        return None
    import torch

    device = torch.device(name)
    need, have = device_bytes(graph, max(widths)), free_on(device)
    if need > 0.9 * have:
        log.info("the spectrum takes %.3g GB, %s has %.3g GB free: filtering by blocks", need / 1e9, name, have / 1e9)
        return None
    return device


def device_bytes(graph: Graph, width: int) -> int:
    """The most that lies on the device at one time, for a spectrum of `width` directions."""
    x: Any = graph.x
    features = 24 * x.nnz if sp.issparse(x) else x.size * (2 if x.dtype == np.float16 else 4)
    n = graph.n_nodes
    tall = 4 * n * (max(width + EXTRA, SIGNS) + max(3 * _COLUMNS, width) + 16)
    return int(features + 24 * graph.n_stored + tall + 24 * _VALUES)


def _csr(x: Any, device: torch.device) -> torch.Tensor:
    kind = np.int32 if max(*x.shape, x.nnz) < 2**31 else np.int64
    indptr, indices = (on_device(np.asarray(part, kind), device) for part in (x.indptr, x.indices))
    return csr_tensor(indptr, indices, on_device(np.asarray(x.data, np.float32), device), x.shape)


def _sent(x: Any, device: torch.device) -> torch.Tensor:
    """Dense `x` on the device, read by all threads into pinned pieces; float16 stays so, all else is float32."""
    import torch

    half = x.dtype == np.float16
    out = torch.empty(x.shape, dtype=torch.float16 if half else torch.float32, device=device)
    rows = max(1, _SENT // (out.element_size() * x.shape[1]))
    pieces = [torch.empty(rows, x.shape[1], dtype=out.dtype, pin_memory=device.type == "cuda") for _ in range(2)]
    sent: list[Any] = [None, None]
    for turn, first in enumerate(range(0, len(x), rows)):
        piece, some = pieces[turn % 2], x[first : first + rows]
        target: Any = piece.numpy()
        if sent[turn % 2] is not None:
            sent[turn % 2].synchronize()

        def fill(block: slice, some: Any = some, target: Any = target) -> None:
            target[block] = some[block] if half else float_rows(some, block)

        over(fill, blocks(len(some), x.shape[1]), hold=False)
        out[first : first + rows].copy_(piece[: len(some)], non_blocking=True)
        if device.type == "cuda":
            sent[turn % 2] = torch.cuda.Event()  # type: ignore[no-untyped-call]
            sent[turn % 2].record()
        forget_pages(x)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return out
