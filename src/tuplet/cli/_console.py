"""What every verb shares: progress bars, tables, JSON, and what is said of a graph."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TextIO, TypeAlias

import typer

if TYPE_CHECKING:
    from tuplet.graph import Graph

Progress: TypeAlias = Callable[[str, float], None]

# The options that many verbs take, defined once; those of the graph are in _graph.py.
SeedOpt = Annotated[int, typer.Option(min=0, help="Seed of every random choice.")]
SeedsOpt = Annotated[
    int, typer.Option(min=1, help="Runs, with the seeds from --seed on; the table shows mean and deviation.")
]
QuietOpt = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars.")]
JsonOpt = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
DeviceOpt = Annotated[str, typer.Option(help="auto, cpu or cuda.")]


@contextmanager
def progress_bars(quiet: bool = False) -> Iterator[Progress | None]:
    """A callback `(phase, fraction)` that draws one bar a phase on standard error, with the time left.

    Where standard error is no terminal it gets a line now and then instead.
    """
    if quiet:
        yield None
        return
    if not sys.stderr.isatty():
        yield _progress_lines()
        return
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


def _progress_lines(every: float = 10.0) -> Progress:
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
        spent = now - began[phase]
        left = f", {spent * (1 - fraction) / fraction:.0f} s left" if spent >= 1 and 0 < fraction < 1 else ""
        sys.stderr.write(f"{phase}: {fraction:.0%}, {spent:.0f} s{left}\n")
        sys.stderr.flush()

    return update


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "", *, to: TextIO | None = None
) -> None:
    """A table on standard output, or `to` another stream; the first column is text, the others are aligned right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", no_wrap=True, min_width=len(column))
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # text of the user's is no markup
    stream = to or sys.stdout
    console = Console(file=stream, width=None if stream.isatty() else 160)
    console.print(title, highlight=False, markup=False)
    console.print(table)
    if caption:
        console.print(caption, highlight=False, markup=False)


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    sys.stdout.write(json.dumps(value, default=str) + "\n")


def print_summary(summary: Any, title: str, as_json: bool, caption: str = "") -> None:
    """A Summary as a table of means, and deviations where there are several runs; or as JSON."""
    if as_json:
        print_json(summary.to_dict())
        return
    runs = len(summary.results)
    columns = ["metric", "value"] if runs == 1 else ["metric", "mean", "deviation"]
    shown = (summary.mean,) if runs == 1 else (summary.mean, summary.deviation)
    rows = [[name, *(f"{part[name]:.2f}" for part in shown)] for name in summary.mean]
    facts = [f"in percent{f', {runs} runs' if runs > 1 else ''}", caption]
    facts += dict.fromkeys(note for result in summary.results for note in result.notes)
    print_table(title, columns, rows, caption="; ".join(fact for fact in facts if fact))


def label_fact(g: Graph, how: Mapping[str, Any] | None = None) -> str:
    """What the labels are, as the end of a sentence: column, classes, labelled nodes."""
    import numpy as np

    if g.y is None:
        return "; no labels"
    found = [row["name"] for row in _column_rows(g) if row["role"] == "label"]
    column = (how or {}).get("label") or (found[0] if found else None)
    named = f" in column {column!r}" if column else ""
    return f"; labels{named}: {g.n_classes} classes on {int(np.count_nonzero(g.y >= 0))} of {g.n_nodes} nodes"


def print_columns(g: Graph, to: TextIO | None = None) -> None:
    """One line a column of the features, where the graph knows how they were prepared."""
    rows = _column_rows(g)
    if rows:
        columns = list(rows[0])
        body = [[_cell(row[name]) for name in columns] for row in rows]
        print_table("columns", columns, body, to=to)


def column_facts(g: Graph) -> dict[str, Any]:
    """The same for JSON."""
    rows = _column_rows(g)
    return {"columns": rows} if rows else {}


def _column_rows(g: Graph) -> list[dict[str, Any]]:
    preparation = getattr(g, "preparation", None)
    return [] if preparation is None else preparation.rows()


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
