"""The exact filter on a GPU: torch's CSR product, blocks of columns, transfers beside the products.

While one block is multiplied, the next is gathered from host memory into pinned pieces and sent, and the one before
is fetched and written out. The device holds the graph and five blocks.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet._memory import free_on, on_device
from tuplet.engines import Tick
from tuplet.filters._cpu import Engine
from tuplet.filters._operator import Operator, Plan, run_series
from tuplet.filters._read import Block, Reader, fill_block, over_rows, put_rows, refuse_large
from tuplet.filters.widths import device_width
from tuplet.graph import Features

if TYPE_CHECKING:
    import torch

WORTH = 10**10  # multiply-adds; below this the CPU is done before torch is imported and the graph is sent
_PIECE = 2**27  # bytes of one pinned piece
_INT32 = 2**31  # nodes and stored edges that int32 can count


def is_worth(work: float) -> bool:
    """Whether to send `work` multiply-adds to CUDA. Does not import torch where there is no NVIDIA driver."""
    return work >= WORTH and _has_driver() and _has_cuda()


def check_device(device: str) -> None:
    """Raise where torch sees no CUDA."""
    if not _has_cuda():
        raise InputError(
            f'device={device!r} was asked for but torch finds no CUDA device. Use device="auto" or "cpu".'
        )


def _has_driver() -> bool:
    for name in ("libcuda.so.1", "nvcuda.dll"):
        try:
            ctypes.CDLL(name)
            return True
        except OSError:
            continue
    return False


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


@contextmanager
def full_memory_told() -> Iterator[None]:
    """Torch's errors that mean a full device become MemoryError."""
    import torch

    try:
        yield
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError) or "out of memory" in str(error).lower():
            raise MemoryError(str(error)) from None
        raise


class DeviceFilter:
    """The operator and plan on a device; `apply` filters one block that lies there, in place of its buffers."""

    def __init__(self, op: Operator, plan: Plan, r: float, device: str) -> None:
        import torch

        self.plan, self.loop, self.device = plan, op.loop, torch.device(device)
        kind = torch.int32 if max(op.n, len(op.indices)) < _INT32 else torch.int64  # half the bytes, and faster
        indptr, indices = (on_device(array, self.device).to(kind) for array in (op.indptr, op.indices))
        degrees = on_device(op.degrees, self.device)
        self.inverse = (1 / degrees).float()[:, None]
        self.before, self.after = (degrees**-r).float()[:, None], (degrees**r).float()[:, None]
        values = self.inverse[:, 0].repeat_interleave((indptr[1:] - indptr[:-1]).long(), output_size=len(indices))
        if op.weights is not None:
            values *= on_device(op.weights, self.device)
        self.matrix = csr_tensor(indptr, indices, values, (op.n, op.n))

    def apply(self, start: torch.Tensor, one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
        """The filtered block, (n, c), in one of the three buffers; `start` holds the raw features before."""
        start *= self.before

        def one_hop(z: torch.Tensor, out: torch.Tensor, scale: float, shift: float, keep: float) -> None:
            import torch

            torch.addmm(out, self.matrix, z, beta=keep, alpha=scale, out=out)
            if self.loop:
                out.addcmul_(self.inverse, z, value=scale * self.loop)
            out.add_(start, alpha=shift)

        result, factor = run_series(self.plan, one_hop, start, one, two)
        result *= self.after if factor == 1.0 else self.after * factor
        return result


def csr_tensor(
    indptr: torch.Tensor, indices: torch.Tensor, values: torch.Tensor, shape: tuple[int, int]
) -> torch.Tensor:
    """A CSR matrix of that shape, without torch's warnings and checks."""
    import torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*beta state.*")
        warnings.filterwarnings("ignore", message=".*invariant.*")
        return torch.sparse_csr_tensor(indptr, indices, values, size=shape, check_invariants=False)


def columns_that_fit(n: int, stored: int, f: int, device: str) -> int:
    """Columns of a block such that the graph and five blocks fit in the device's free memory; at most 128."""
    import torch

    return device_width(n, stored, f, free_on(torch.device(device)))


def filter_whole(
    op: Operator, plan: Plan, r: float, read: Reader, out: NDArray[Any], device: str, tick: Tick
) -> None:
    """Filter everything into `out`; MemoryError where the graph and one block of columns do not fit."""
    with full_memory_told():
        columns = columns_that_fit(op.n, len(op.indices), out.shape[1], device)
        if columns < 1:
            raise MemoryError(f"{device} has no room for the graph and one column")
        filter_through_device(op, plan, r, read, out, device, columns=columns, tick=tick)


def filter_through_device(
    op: Operator,
    plan: Plan,
    r: float,
    read: Reader,
    out: NDArray[Any],
    device: str,
    *,
    columns: int,
    tick: Callable[[float], None],
) -> None:
    """Filter all columns into `out` (n, f): gather, send, multiply, fetch and write are overlapped block by block."""
    import torch

    f = out.shape[1]
    on_device = DeviceFilter(op, plan, r, device)
    cuda = on_device.device.type == "cuda"
    lanes = _Lanes(op.n, columns, on_device.device)
    firsts = list(range(0, f, columns))
    buffers = [torch.empty(op.n * columns, device=on_device.device) for _ in range(5)]

    def view(buffer: torch.Tensor, first: int) -> torch.Tensor:
        width = min(columns, f - first)
        return buffer[: op.n * width].view(op.n, width)

    incoming = buffers.pop()
    lanes.wait_for_products()  # a buffer may lie where what made the matrix lay, and that may not be done yet
    lanes.send(read, firsts[0], view(incoming, firsts[0]))
    finished: tuple[int, torch.Tensor] | None = None
    for i, first in enumerate(firsts):
        lanes.wait_for_transfers()
        one, two = buffers[0], buffers[1]
        result = on_device.apply(view(incoming, first), view(one, first), view(two, first))
        used = next(b for b in (incoming, one, two) if b.data_ptr() == result.data_ptr())
        computed: Any = torch.cuda.Event() if cuda else None  # type: ignore[no-untyped-call]
        if computed is not None:
            computed.record()
        spare = buffers[2:]
        if i + 1 < len(firsts):
            lanes.send(read, firsts[i + 1], view(spare[0], firsts[i + 1]))
        if finished is not None:
            lanes.fetch(finished[1], finished[0], out)
        if computed is not None:
            computed.synchronize()
        tick((i + 1) / len(firsts))
        finished = (first, view(used, first))
        if i + 1 < len(firsts):
            rest = [b for b in (incoming, one, two, spare[1]) if b is not used]
            incoming, buffers = spare[0], [*rest[:2], rest[2], used]
    if finished is not None:
        lanes.fetch(finished[1], finished[0], out)


def device_engine(op: Operator, plan: Plan, r: float, read: Reader, x: Features, columns: int, device: str) -> Engine:
    """One block at a time through the device, for results that go to disk; the device is filled on the first call."""
    state: dict[str, Any] = {}

    def compute(first: int, columns: int, tick: Tick) -> Block:
        import torch

        with full_memory_told():
            if not state:
                state["filter"] = DeviceFilter(op, plan, r, device)
                state["host"] = np.empty(op.n * width, np.float32)
                state["ones"] = np.ones(op.n, np.float32)
            host = state["host"][: op.n * columns].reshape(op.n, columns)
            fill_block(read, x, first, state["ones"], host)
            start = torch.from_numpy(host).to(state["filter"].device)
            result = state["filter"].apply(start, torch.empty_like(start), torch.empty_like(start))
            torch.from_numpy(host).copy_(result)
        tick(1.0)
        return np.asarray(host)

    width = columns
    return compute


class _Lanes:
    """Two pinned pieces and a stream for transfers beside the products."""

    def __init__(self, n: int, columns: int, device: torch.device) -> None:
        import torch

        self.cuda = device.type == "cuda"
        self.device = device
        self.rows = max(1, min(n, _PIECE // (4 * columns)))
        self.pieces = [torch.empty(self.rows * columns, pin_memory=self.cuda) for _ in range(2)]
        self.stream: Any = torch.cuda.Stream(device) if self.cuda else None  # type: ignore[no-untyped-call]
        self.events: list[Any] = [None, None]

    def send(self, read: Reader, first: int, block: torch.Tensor) -> None:
        """Gather columns first.. from the host and send them into `block` (n, c)."""
        ones = np.ones(len(block), np.float32)
        for turn, start in enumerate(range(0, len(block), self.rows)):
            piece = self._free_piece(turn, block[start : start + self.rows])
            host: NDArray[Any] = piece.numpy()

            def gather(a: int, b: int, start: int = start, host: NDArray[Any] = host) -> None:
                read(start + a, first, ones, host[a:b])

            over_rows(gather, len(host), host[:1].nbytes * 4)
            self._copy(block[start : start + self.rows], piece, turn)

    def fetch(self, block: torch.Tensor, first: int, out: NDArray[Any]) -> None:
        """Bring `block` back and write it into the columns first.. of `out`; float16 is rounded on the device."""
        import torch

        waiting: tuple[int, NDArray[Any], int] | None = None
        kind = torch.float16 if out.dtype == np.float16 else torch.float32
        if kind == torch.float16:
            largest = max(abs(float(end)) for end in torch.aminmax(block))
            if largest > torch.finfo(kind).max:
                refuse_large(largest)
        for turn, start in enumerate(range(0, len(block), self.rows)):
            piece = self._free_piece(turn, block[start : start + self.rows], kind)
            self._copy(piece, block[start : start + self.rows], turn)
            if waiting is not None:
                self._write(*waiting, first, out)
            waiting = (turn, piece.numpy(), start)
        if waiting is not None:
            self._write(*waiting, first, out)

    def _write(self, turn: int, host: NDArray[Any], start: int, first: int, out: NDArray[Any]) -> None:
        self._wait(turn)

        def scatter(a: int, b: int) -> None:
            put_rows(out[start + a : start + b, first : first + host.shape[1]], host[a:b])

        over_rows(scatter, len(host), host[:1].nbytes * 4)

    def wait_for_transfers(self) -> None:
        """Let the products' stream wait for everything sent so far."""
        if self.stream is not None:
            self.stream.synchronize()

    def wait_for_products(self) -> None:
        """Let the transfers' stream wait for everything that the products' stream was given so far."""
        if self.stream is not None:
            import torch

            self.stream.wait_stream(torch.cuda.current_stream(self.device))

    def _free_piece(self, turn: int, like: torch.Tensor, kind: torch.dtype | None = None) -> torch.Tensor:
        self._wait(turn)
        return self.pieces[turn % 2].view(kind or like.dtype)[: like.numel()].view(like.shape)

    def _copy(self, target: torch.Tensor, source: torch.Tensor, turn: int) -> None:
        if self.stream is None:
            target.copy_(source)
            return
        import torch

        with torch.cuda.stream(self.stream):
            target.copy_(source.to(target.dtype), non_blocking=True)
            self.events[turn % 2] = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self.events[turn % 2].record(self.stream)

    def _wait(self, turn: int) -> None:
        if self.events[turn % 2] is not None:
            self.events[turn % 2].synchronize()
            self.events[turn % 2] = None
