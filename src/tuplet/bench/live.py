"""A table on the terminal that follows a run: what is done, the means so far, what runs now, the time left."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self

from tuplet.bench.rows import Row
from tuplet.bench.run import RunState

MAIN = ("accuracy", "auc", "median", "convergence_seconds", "total_seconds", "step_ms", "mean_vectors")


class LiveTable:
    """Hand `on_row` and `on_state` to `run_spec` inside `with LiveTable() as live:`. `quiet` draws nothing."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet, self.cells = quiet, dict[tuple[str, str, str], list[Row]]()
        self.state: RunState | None = None
        self._live: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)
            if not self._live.console.is_terminal:
                self._live.console.print()  # a file has no line's end behind the table

    def on_row(self, row: Row) -> None:
        """Take in a finished row."""
        self.cells.setdefault((row["task"], row["dataset"], row["method"]), []).append(row)

    def on_state(self, state: RunState) -> None:
        """Take in how far the run is; the table begins with the first job, so that a bad spec is one line."""
        self.state = state
        if self._live is None and not self.quiet:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), get_renderable=self.table, refresh_per_second=2)
            self._live.__enter__()

    def table(self) -> Any:
        """The table as it stands: one line a (task, dataset, method), the last dozen of them."""
        from rich.table import Table

        table = Table(title=self.title(), title_justify="left", min_width=100)
        for i, name in enumerate(("task", "dataset", "method", "runs", "result", "seconds a run")):
            table.add_column(name, justify="left" if i < 3 else "right", no_wrap=True)
        for cell, rows in list(self.cells.items())[-12:]:
            seconds = sum(sum(row["seconds"].values()) for row in rows) / len(rows)
            table.add_row(*cell, str(len(rows)), main_result(rows), f"{seconds:.1f}")
        return table

    def title(self) -> str:
        """Counts, what runs now, and the time left."""
        state = self.state
        if state is None:
            return "starting"
        left = state.seconds_left()
        parts = [f"{state.done + state.skipped} of {state.total} jobs"]
        parts += [f"{state.skipped} were done before"] * bool(state.skipped)
        parts += [f"{state.failed} failed"] * bool(state.failed)
        parts += [f"{clock(time.monotonic() - state.start)} spent"]
        parts += [f"about {clock(left)} left"] * (left is not None)
        now = ", ".join(f"{job.dataset} {job.method} {job.seed}" for job in list(state.running.values())[:3])
        return " · ".join(parts) + (f"\nnow: {now}" if now else "")


def main_result(rows: list[Row]) -> str:
    """Mean of the metric that matters most for these rows' task, or the last error."""
    good = [row for row in rows if "error" not in row]
    if not good:
        return str(rows[-1]["error"])[:40]
    metric = next((name for name in MAIN if name in good[0]["metrics"]), "")
    if not metric:
        return "-"
    return f"{metric} {sum(row['metrics'][metric] for row in good) / len(good):.2f}"


def clock(seconds: float | None) -> str:
    """ "42 s", "3 min", "1 h 05 min".

    >>> clock(42), clock(200), clock(3900)
    ('42 s', '3 min', '1 h 05 min')
    """
    if seconds is None:
        return "?"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
