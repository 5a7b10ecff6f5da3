"""Batches of rows: which rows each training step reads, and how they reach the device.

Everything random is a pure function of (seed, epoch) or (seed, step), so a resumed run needs no generator state.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tuplet._check import InputError
from tuplet._memory import forget_pages, free_on
from tuplet._seed import stream

log = logging.getLogger("tuplet")

BLOCK_BYTES = 2**20  # rows that lie together and are read together from a memory map
GROUP_BYTES = 2**28  # rows of random blocks that are shuffled together: what has to stay in the page cache
RESIDENT_SHARE = 0.6  # of the GPU's free memory that the rows may take

Touch = Callable[[list[tuple[int, int]]], None]


class Batch(NamedTuple):
    """The batch of a training step: `x` (b, f) float32, classes `y` (b,) or None, and its views (`draw_views`)."""

    step: int
    x: Tensor
    y: Tensor | None
    columns: Tensor
    kept: bool


def pick_device(device: str) -> torch.device:
    """The torch device of "auto" (a GPU where there is one), "cpu", "cuda" or "cuda:1".

    >>> pick_device("cpu")
    device(type='cpu')
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        raise InputError(f'device {device!r} is not known. Write "auto", "cpu", "cuda" or "cuda:1".') from None
    if found.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f'device {device!r} was asked for, but torch sees no GPU. Use device="cpu" or "auto".')
    return found


def steps_per_epoch(n_rows: int, batch_size: int) -> int:
    """Batches an epoch; a last batch of one row is skipped.

    >>> steps_per_epoch(1025, 512), steps_per_epoch(1026, 512)
    (2, 3)
    """
    return n_rows // batch_size + (n_rows % batch_size > 1)


def batch_indices(
    n_rows: int,
    batch_size: int,
    rng: np.random.Generator,
    *,
    block: int | None = None,
    group: int = 1,
    skip: int = 0,
    touch: Touch | None = None,
) -> Iterator[NDArray[np.int64]]:
    """Row numbers of each batch of one epoch, sorted inside a batch; every row once.

    Without `block`, one permutation of all rows. With it, blocks of `block` neighbouring rows come in random order,
    `group` of them at a time are shuffled together: reads stay near sequential and memory is one group. `touch` is
    called with the (start, stop) of a group's blocks before they are used. The first `skip` batches are left out.
    """
    pool, done = np.empty(0, np.int64), 0
    for spans in _groups(n_rows, rng, block, group):
        pool = np.concatenate([pool, *(np.arange(*span) for span in spans)])
        rng.shuffle(pool)
        full = len(pool) // batch_size
        if touch is not None and done + full >= skip:
            touch(spans)
        for k in range(full):
            if done + k >= skip:
                yield np.sort(pool[k * batch_size : (k + 1) * batch_size])
        pool, done = pool[full * batch_size :], done + full
    if len(pool) > 1 and done >= skip:
        yield np.sort(pool)


def step_indices(
    n_rows: int, batch_size: int, seed: int, first: int, last: int, **blocks: Any
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """(step, row numbers) of the steps first .. last - 1; `blocks` goes on to `batch_indices`."""
    per_epoch = steps_per_epoch(n_rows, batch_size)
    step = first
    for epoch in itertools.count(first // per_epoch):
        rng = stream(seed, f"batches {epoch}")
        for index in batch_indices(n_rows, batch_size, rng, skip=step - epoch * per_epoch, **blocks):
            if step >= last:
                return
            yield step, index
            step += 1


def block_plan(rows: Any, shuffle: str) -> dict[str, Any]:
    """Arguments of `batch_indices` for these rows: blocks for a memory map (or when told so), else none."""
    if shuffle == "full" or (shuffle == "auto" and not is_memory_map(rows)):
        return {}
    row_bytes = max(1, rows[:1].nbytes)
    block = max(1, BLOCK_BYTES // row_bytes)
    return {"block": block, "group": max(1, GROUP_BYTES // (block * row_bytes)), "touch": _toucher(rows)}


def is_memory_map(rows: Any) -> bool:
    """Whether `rows`, or the array that it is a view of, is a NumPy memory map."""
    while isinstance(rows, np.ndarray):
        if isinstance(rows, np.memmap):
            return True
        rows = rows.base
    return False


def load_rows(rows: Any, device: torch.device) -> Any:
    """`rows` moved to the GPU where they fit there; else, and on the CPU, `rows` as they are."""
    if device.type != "cuda" or (isinstance(rows, Tensor) and rows.device.type == "cuda"):
        return rows
    size = rows.nbytes
    free = free_on(device)
    if size > RESIDENT_SHARE * free:
        log.info("rows (%.1f GB) stay in host memory: the GPU has %.1f GB free", size / 1e9, free / 1e9)
        return rows
    source = rows if isinstance(rows, Tensor) else None
    resident = torch.empty(rows.shape, dtype=_torch_type(rows), device=device)
    step = max(1, 2**26 // max(1, rows[:1].nbytes))
    for start in range(0, rows.shape[0], step):  # in pieces: a memory map is never copied whole
        piece = rows[start : start + step]
        resident[start : start + step].copy_(piece if source is not None else torch.from_numpy(np.array(piece)))
        forget_pages(rows)
    return resident


def take_rows(rows: Any, index: NDArray[np.int64], device: torch.device) -> Tensor:
    """Rows `index` as a float32 tensor (b, f) on `device`."""
    if isinstance(rows, Tensor):
        return rows.index_select(0, send(torch.from_numpy(index), rows.device)).float().to(device)
    return as_float_tensor(rows[index], device)


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """`tensor` on `device`; the copy to a GPU goes through pinned memory, and nobody waits for it."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


def as_float_tensor(block: Any, device: torch.device) -> Tensor:
    """A float32 tensor of a block of rows on `device`; shares memory where nothing has to change."""
    if not isinstance(block, Tensor):
        array = np.asarray(block, dtype=None if block.dtype == np.float16 else np.float32)
        block = torch.from_numpy(array if array.flags.writeable else array.copy())
    tensor: Tensor = block.to(device).float()  # float16 travels as it is
    return tensor


def prefetch(batches: Iterable[Batch], device: torch.device, depth: int = 2) -> Iterator[Batch]:
    """The same batches, moved to the GPU by a thread that stays `depth` batches ahead, on a stream of its own."""
    ready: queue.Queue[Any] = queue.Queue(depth)
    stop = threading.Event()
    side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def work() -> None:
        try:
            for batch in batches:
                with torch.cuda.stream(side):
                    y = None if batch.y is None else send(batch.y, device)
                    moved = Batch(batch.step, send(batch.x, device), y, send(batch.columns, device), batch.kept)
                    event = side.record_event()
                if not _offer(ready, (moved, event), stop):
                    return
            _offer(ready, None, stop)
        except BaseException as error:
            _offer(ready, error, stop)

    thread = threading.Thread(target=work, name="tuplet prefetch", daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            moved, event = item
            here = torch.cuda.current_stream(device)
            here.wait_event(event)
            for tensor in (moved.x, moved.y, moved.columns):
                if tensor is not None:
                    tensor.record_stream(here)  # its memory may not be used again before this stream is done
            yield moved
    finally:
        stop.set()
        thread.join()


def _offer(ready: queue.Queue[Any], item: Any, stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            ready.put(item, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False


def _groups(n_rows: int, rng: np.random.Generator, block: int | None, group: int) -> Iterator[list[tuple[int, int]]]:
    """Spans (start, stop) of rows to shuffle together, one list after the other."""
    if block is None:
        yield [(0, n_rows)]
        return
    starts = rng.permutation(-(-n_rows // block)) * block
    for k in range(0, len(starts), group):
        yield [(int(start), min(int(start) + block, n_rows)) for start in starts[k : k + group]]


def _toucher(rows: Any) -> Touch | None:
    """Reads one value a page of some spans of rows, in order, so that the system reads each from disk as one piece;
    the pages of earlier spans are given back first, so that the process holds one group of blocks.
    """
    if not is_memory_map(rows) or not rows.flags.c_contiguous:
        return None
    flat, width = rows.reshape(-1), rows.shape[1]

    def touch(spans: list[tuple[int, int]]) -> None:
        forget_pages(rows)
        for start, stop in spans:
            flat[start * width : stop * width : max(1, 4096 // rows.itemsize)].max(initial=0)

    return touch


def _torch_type(rows: Any) -> torch.dtype:
    if isinstance(rows, Tensor):
        return rows.dtype
    return torch.float16 if rows.dtype == np.float16 else torch.float32
