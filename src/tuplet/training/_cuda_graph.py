"""A training step recorded once as a CUDA graph and replayed: one launch in place of some two hundred.

At small batches the GPU waits for launches (4 ms a step eager, most of it nothing). The first steps run eagerly, as
real steps, and warm the allocator and the libraries up; then one step is recorded on fixed input buffers. Batches of
another shape (the last of an epoch) run eagerly.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

log = logging.getLogger("tuplet")

StepFunction = Callable[[Tensor, Tensor | None, Tensor, bool], Tensor]  # x, y, columns, kept -> loss
WARM_STEPS = 3


class CapturedStep:
    """step(x, y, columns, kept) -> loss, replayed from a CUDA graph after a few eager calls.

    The returned loss is the graph's own buffer: read or add it up before the next call. `step` must work in place on
    everything that outlives it (weights, gradients, optimizer state). Where recording fails, the steps stay eager.
    """

    def __init__(self, step: StepFunction) -> None:
        self._step = step
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._failed = False
        self._shape: tuple[int, ...] = ()

    def __call__(self, x: Tensor, y: Tensor | None, columns: Tensor, kept: bool) -> Tensor:
        """One training step; the loss, a scalar tensor. `kept` is the same in all steps of a training."""
        self._calls += 1
        if self._calls == 1:
            self._shape = tuple(x.shape)
        if self._failed or self._calls <= WARM_STEPS or tuple(x.shape) != self._shape:
            return self._step(x, y, columns, kept)
        if self._graph is None and not self._record(x, y, columns, kept):
            return self._step(x, y, columns, kept)
        self._x.copy_(x)
        if y is not None and self._y is not None:
            self._y.copy_(y)
        self._columns.copy_(columns)
        assert self._graph is not None
        self._graph.replay()
        return self._loss

    def _record(self, x: Tensor, y: Tensor | None, columns: Tensor, kept: bool) -> bool:
        """Record the step without running it; False, and eager from now on, where that fails."""
        self._x, self._columns = x.clone(), columns.clone()
        self._y = None if y is None else y.clone()
        graph = torch.cuda.CUDAGraph()
        try:
            torch.cuda.synchronize()
            # thread_local: the thread that reads rows ahead may pin memory meanwhile
            with torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
                self._loss = self._step(self._x, self._y, self._columns, kept)
        except Exception as error:  # the reasons differ between drivers and versions; eager always works
            log.warning("the training step could not be recorded as a CUDA graph, steps stay eager: %s", error)
            self._failed = True
            return False
        self._graph = graph
        log.info("training step recorded as a CUDA graph for batches of %d rows", x.shape[0])
        return True


_streams = threading.local()


def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """This thread's own stream on `device`, always the same one: each new one kept 68 MB of the GPU (H200)."""
    known: dict[torch.device, torch.cuda.Stream] = _streams.__dict__.setdefault("known", {})
    if device not in known:
        known[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    return known[device]


@contextmanager
def device_scope(device: torch.device, tf32: bool) -> Iterator[None]:
    """Run training on a stream of its own, which a step can be recorded on; `tf32` allows rounder, faster products.

    Nothing happens on the CPU.
    """
    if device.type != "cuda":
        yield
        return
    matmul = torch.backends.cuda.matmul
    before, outer = matmul.allow_tf32, torch.cuda.current_stream(device)
    side = _side_stream(device)
    side.wait_stream(outer)
    matmul.allow_tf32 = tf32
    try:
        with torch.cuda.device(device), torch.cuda.stream(side):
            yield
    finally:
        matmul.allow_tf32 = before
        outer.wait_stream(side)
