"""Progress: a callback `(phase, fraction)`, and bars that show it in a terminal, a notebook or a log."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, TypeAlias

Progress: TypeAlias = Callable[[str, float], None]


def silent(phase: str, part: float) -> None:
    """The callback of whoever gave none."""


@contextmanager
def progress_bars(quiet: bool = False) -> Iterator[Progress | None]:
    """A callback `(phase, fraction)` that draws one bar a phase, with the time left; None if `quiet`.

    In a notebook the bars stand under the cell, else on standard error. Where that is no terminal it gets a line now
    and then instead. Whatever takes `progress=` takes the callback:

    >>> import tuplet
    >>> g = tuplet.synth.block_model([30, 20], seed=0)
    >>> with tuplet.progress_bars() as progress:
    ...     model = tuplet.SelfDMAT(2, max_steps=5, n_init=1).fit(g, progress=progress)
    """
    if quiet:
        yield None
    elif _in_notebook():
        yield _NotebookBars()
    elif sys.stderr.isatty():
        with _terminal_bars() as update:
            yield update
    else:
        yield progress_lines()


@contextmanager
def _terminal_bars() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description:>12}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    with Bars(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=Console(stderr=True)) as bars:
        tasks: dict[str, Any] = {}

        def update(phase: str, fraction: float) -> None:
            if phase not in tasks:
                tasks[phase] = bars.add_task(phase, total=1.0)
            bars.update(tasks[phase], completed=fraction)

        yield update


def progress_lines(every: float = 10.0) -> Progress:
    """A callback that writes a line when a phase begins and ends, and every ten seconds between."""
    began: dict[str, float] = {}
    told: dict[str, float] = {}

    def update(phase: str, fraction: float) -> None:
        now = time.monotonic()
        new, done = phase not in began, fraction >= 1
        began.setdefault(phase, now)
        if told.get(phase) == math.inf or not (new or done or now - told[phase] >= every):
            return
        told[phase] = math.inf if done else now
        sys.stderr.write(f"{phase}: {fraction:.0%}, {_times(now - began[phase], fraction)}\n")
        sys.stderr.flush()

    return update


def in_shares(phase: str, total: int, progress: Progress) -> Callable[[int], None]:
    """A function to call with each piece done of `total`, from any thread: `progress` hears the fraction."""
    done, lock = 0, threading.Lock()

    def add(piece: int) -> None:
        nonlocal done
        with lock:
            done += piece
            progress(phase, done / max(1, total))

    return add


def _times(spent: float, fraction: float) -> str:
    left = f", {spent * (1 - fraction) / fraction:.0f} s left" if spent >= 1 and 0 < fraction < 1 else ""
    return f"{spent:.0f} s{left}"


def _in_notebook() -> bool:
    """Whether this runs in a Jupyter kernel, which shows HTML; the IPython of a terminal does not."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class _NotebookBars:
    """One bar of HTML a phase under the cell, drawn anew at most five times a second."""

    def __init__(self, every: float = 0.2) -> None:
        self._every = every
        self._began: dict[str, float] = {}
        self._now: dict[str, tuple[float, float]] = {}  # phase -> fraction, seconds
        self._drawn = -math.inf
        self._handle: Any = None

    def __call__(self, phase: str, fraction: float) -> None:
        now = time.monotonic()
        new = phase not in self._began
        done = fraction >= 1 and self._now.get(phase, (0.0, 0.0))[0] < 1
        spent = now - self._began.setdefault(phase, now)
        self._now[phase] = (fraction, spent)
        if new or done or now - self._drawn >= self._every:
            self._drawn = now
            self._draw()

    def _draw(self) -> None:
        from IPython.display import display

        shown = {"text/html": self._html(), "text/plain": self._text()}
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def _html(self) -> str:
        rows = (
            f"<tr><td style='text-align:right'>{escape(phase)}</td><td><progress value='{fraction:.4f}' max='1' "
            f"aria-label='{escape(phase)}'></progress></td><td style='text-align:right'>{fraction:.0%}</td>"
            f"<td style='text-align:left'>{_times(spent, fraction)}</td></tr>"
            for phase, (fraction, spent) in self._now.items()
        )
        return f"<table>{''.join(rows)}</table>"

    def _text(self) -> str:
        return "\n".join(f"{phase}: {part:.0%}, {_times(spent, part)}" for phase, (part, spent) in self._now.items())
