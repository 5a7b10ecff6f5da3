"""Seconds by phase and the peak of memory, of this process, for one job."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tuplet._memory import peak_bytes, reset_peak


@dataclass(frozen=True)
class Told:
    """What a fit said last of its progress: `share` of a phase is done, after `inside` seconds; `before` are those of
    the phases before it.
    """

    phase: str
    share: float
    before: float
    inside: float


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
        self.told: Told | None = None
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
        self.told = self.told or Told("the fit", 0.0, 0.0, 0.0)
        try:
            yield clock
        finally:
            _wait_for_gpu()
            clock.count("embed" if "train" in clock.phases else "train")

    def how_far(self) -> str:
        """Where a fit that is stopped now stands, and how long it would take at this pace; "" before it began.

        Seconds are those of the processor, which a busy machine does not stretch; of a fit on a GPU, of the clock.

        >>> meter = Meter()
        >>> meter.told = Told("train", 0.04, 20.0, 120.0)
        >>> meter.how_far()
        'with 4% of train done: about 50 minutes of CPU time a fit'
        """
        told = self.told
        if told is None:
            return ""
        if not 0 < told.share < 1:
            return f"with {told.phase} done" if told.share else f"before the first part of {told.phase} was done"
        whole = _length(told.before + told.inside / told.share)
        cost = f"{whole} a fit by the clock, on a GPU" if _on_gpu() else f"{whole} of CPU time a fit"
        return f"with {100 * told.share:.2g}% of {told.phase} done: about {cost}"

    @property
    def peak_mb(self) -> float:
        """Peak resident memory since the last reset, in MB (10^6 bytes)."""
        return round(peak_bytes() / 1e6, 1)

    @property
    def gpu_mb(self) -> float:
        """Peak memory that torch held on the GPU since the last reset, in MB; 0 without a GPU."""
        torch = _gpu()
        return round(float(torch.cuda.max_memory_allocated()) / 1e6, 1) if torch else 0.0


class _PhaseClock:
    """Callable (phase, fraction): the time since the last call belongs to the phase that the call names."""

    def __init__(self, meter: Meter) -> None:
        self.meter, self.last, self.phases = meter, time.perf_counter(), set[str]()
        self.start = self.phase_start = self.at = _now()

    def __call__(self, phase: str, fraction: float) -> None:
        self.count(phase)
        if self.meter.told is None or self.meter.told.phase != phase:
            self.phase_start = self.at
        self.at = _now()
        before, inside = _spent(self.start, self.phase_start), _spent(self.phase_start, self.at)
        self.meter.told = Told(phase, fraction, before, inside)

    def count(self, phase: str) -> None:
        """Give the time since the last call to `phase`."""
        now = time.perf_counter()
        self.meter.add(phase, now - self.last)
        self.phases.add(phase)
        self.last = now


@contextmanager
def time_limit(seconds: float | None, how_far: Callable[[], str] = str, *, stretch: float = 1.0) -> Iterator[None]:
    """Raise TimeoutError inside after `seconds`, with what `how_far` then says; only in the main thread, where
    signals arrive.

    A process without work on a GPU that had to wait for the processor gets the rest of its seconds, up to `stretch`
    times as long in all.
    """
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    start = _now()

    def stop(*_: object) -> None:
        now = _now()
        left = min(seconds - _spent(start, now), stretch * seconds - (now[0] - start[0]))
        if left > 0.01 * seconds:
            signal.setitimer(signal.ITIMER_REAL, left)
            return
        raise TimeoutError(f"stopped after {seconds:g} s {how_far()}".rstrip())

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _length(seconds: float) -> str:
    """A span of time with two digits, in the unit that suits it.

    >>> _length(70), _length(3000), _length(40_000)
    ('70 s', '50 minutes', '11 hours')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.2g} hours"


def _now() -> tuple[float, float]:
    """Seconds of the clock and of the processor. Both: whether a fit uses a GPU shows only while it runs."""
    return time.perf_counter(), time.process_time()


def _spent(start: tuple[float, float], end: tuple[float, float]) -> float:
    """Seconds of work between two times: of the clock where it is done on a GPU, else of the processor."""
    kind = 0 if _on_gpu() else 1
    return end[kind] - start[kind]


def _on_gpu() -> bool:
    """Whether this job has held memory of a GPU; a process that only asked for the GPU's name has not."""
    torch = _gpu()
    return torch is not None and torch.cuda.max_memory_allocated() > 0


def _gpu() -> Any:
    """torch, where it has a GPU open."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and torch.cuda.is_initialized() else None


def _wait_for_gpu() -> None:
    if torch := _gpu():
        torch.cuda.synchronize()
