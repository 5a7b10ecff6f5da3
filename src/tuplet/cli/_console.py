"""What every verb shares: progress bars, tables, JSON, and what is said of a graph."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from tuplet._progress import progress_bars as progress_bars

if TYPE_CHECKING:
    from tuplet.graph import Graph

# The options that many verbs take, defined once; those of the graph are in _graph.py.
SeedOpt = Annotated[int, typer.Option(min=0, help="Seed of every random choice.")]
SeedsOpt = Annotated[
    int, typer.Option(min=1, help="Runs, with the seeds from --seed on; the table shows mean and deviation.")
]
QuietOpt = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars.")]
JsonOpt = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
DeviceOpt = Annotated[str, typer.Option(help="auto, cpu or cuda.")]


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
    column = g.label_column or (how or {}).get("label")
    named = f" in column {column!r}" if column else ""
    return f"; labels{named}: {g.n_classes} classes on {int(np.count_nonzero(g.y >= 0))} of {g.n_nodes} nodes"


def print_columns(g: Graph, to: TextIO | None = None) -> None:
    """One line a column of the features, where the graph knows how they were prepared."""
    rows = _column_rows(g)
    if rows:
        columns = list(rows[0])
        body = [[_cell(row[name]) for name in columns] for row in rows]
        print_table("columns", columns, body, to=to)


def prepared_columns(g: Graph) -> dict[str, Any]:
    """The same for JSON."""
    rows = _column_rows(g)
    return {"columns": rows} if rows else {}


def _column_rows(g: Graph) -> list[dict[str, Any]]:
    preparation = getattr(g, "preparation", None)
    return [] if preparation is None else list(preparation.rows())


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
