"""Processes that run groups of jobs, each process one group after the other, until they are told to stop.

A process costs seconds to start (torch, the GPU, compiled kernels), so it is kept from call to call. One that dies
costs its job in flight; a new one goes on with the rest of its group.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Self

from tuplet.bench.rows import Row, new_row
from tuplet.bench.spec import Job

Started = Callable[[Job], None]
Ended = Callable[[Job, Row], None]
POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class OutOfTime(Exception):
    """The deadline of a run has come; rows that were done are written."""


class Workers:
    """`count` processes on `device`, each with its share of the cores; to be used in a `with`."""

    def __init__(self, count: int, device: str = "auto") -> None:
        self.count, self.device = count, device
        self._context = multiprocessing.get_context("spawn")
        self._idle: list[tuple[Any, Any]] = []  # pipe, process
        self._busy: dict[Any, tuple[Any, deque[Job]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        for process in [process for _, process in self._idle] + [process for process, _ in self._busy.values()]:
            process.terminate()
        self._idle, self._busy = [], {}

    def run(
        self, groups: Sequence[Sequence[Job]], started: Started, ended: Ended, *, deadline: float | None = None
    ) -> None:
        """Run all groups; past `deadline` (of time.monotonic) the jobs in flight are given up: OutOfTime."""
        pending = deque(deque(group) for group in groups if group)
        while pending or self._busy:
            while pending and len(self._busy) < self.count:
                self._begin(pending.popleft(), started)
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise OutOfTime
            for pipe in wait(list(self._busy), left):
                if unfinished := self._take(pipe, started, ended):
                    pending.append(unfinished)

    def _begin(self, group: deque[Job], started: Started) -> None:
        pipe, process = self._idle.pop() if self._idle else self._new()
        try:
            pipe.send(list(group))
        except OSError:  # it died while it was idle
            pipe, process = self._new()
            pipe.send(list(group))
        self._busy[pipe] = (process, group)
        started(group[0])

    def _take(self, pipe: Any, started: Started, ended: Ended) -> deque[Job]:
        """One row of a process, or its end; the jobs that a dead process has left."""
        process, group = self._busy[pipe]
        try:
            row = pipe.recv()
        except (EOFError, OSError):
            del self._busy[pipe]
            process.join()
            text = f"the process ended with code {process.exitcode} (killed for memory, or crashed)"
            job = group.popleft()
            ended(job, new_row(job, seconds={}, peak_mb=0.0, metrics={}, error=text))
            return group
        ended(group.popleft(), row)
        if group:
            started(group[0])
        else:
            del self._busy[pipe]
            self._idle.append((pipe, process))
        return deque()

    def _new(self) -> tuple[Any, Any]:
        threads = max(1, len(os.sched_getaffinity(0)) // self.count)
        here, there = self._context.Pipe()
        before = {name: os.environ.get(name) for name in POOLS}
        os.environ.update({name: value or str(threads) for name, value in before.items()})  # read when it loads numpy
        try:
            process = self._context.Process(target=_work, args=(self.device, threads, there), daemon=True)
            process.start()
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
        there.close()
        return here, process


def _work(device: str, threads: int, pipe: Connection[Any, Any]) -> None:
    import torch

    from tuplet.bench.fitting import Bench

    torch.set_num_threads(threads)
    bench = Bench(device=device)
    while True:
        try:
            group = pipe.recv()
        except EOFError:
            return
        for job in group:
            pipe.send(bench.run(job))
