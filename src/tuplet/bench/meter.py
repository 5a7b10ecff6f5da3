"""Seconds by phase and the peak of memory, of this process, for one job."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tuplet._memory import peak_bytes, reset_peak


class Meter:
    """Collects seconds by phase; peaks count from its making.

    >>> meter = Meter()
    >>> with meter.phase("load"):
    ...     pass
    >>> list(meter.seconds), meter.peak_mb > 0
    (['load'], True)
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        reset_peak()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time inside to phase `name`, the GPU's queue emptied first."""
        start = time.perf_counter()
        try:
            yield
        finally:
            _wait_for_gpu()
            self.add(name, time.perf_counter() - start)

    def add(self, name: str, seconds: float) -> None:
        """Add seconds to the phase `name`."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    @contextmanager
    def fit_phases(self) -> Iterator[Callable[[str, float], None]]:
        """A progress callback whose phases split the time inside; what follows the last call of "train" is "embed",
        and all that is left of a fit that never names "train" is "train".
        """
        clock = _PhaseClock(self)
        try:
            yield clock
        finally:
            _wait_for_gpu()
            clock("embed" if "train" in clock.phases else "train", 1.0)

    @property
    def peak_mb(self) -> float:
        """Peak resident memory since the last reset, in MB (10^6 bytes)."""
        return round(peak_bytes() / 1e6, 1)

    @property
    def gpu_mb(self) -> float:
        """Peak memory that torch held on the GPU since the last reset, in MB; 0 without a GPU."""
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_initialized():
            return 0.0
        return round(float(torch.cuda.max_memory_allocated()) / 1e6, 1)


class _PhaseClock:
    """Callable (phase, fraction): the time since the last call belongs to the phase that the call names."""

    def __init__(self, meter: Meter) -> None:
        self.meter, self.last, self.phases = meter, time.perf_counter(), set[str]()

    def __call__(self, phase: str, fraction: float) -> None:
        now = time.perf_counter()
        self.meter.add(phase, now - self.last)
        self.phases.add(phase)
        self.last = now


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise TimeoutError inside after `seconds`; only in the main thread, where signals arrive."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise TimeoutError(f"took longer than the limit of {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _wait_for_gpu() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()
