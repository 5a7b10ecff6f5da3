"""What every verb shares: progress bars, tables, JSON, and how a graph is named on the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

if TYPE_CHECKING:
    from tuplet.graph import Graph

Progress: TypeAlias = Callable[[str, float], None]

# The options that many verbs take, defined once.
GraphArg = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        help="Dataset name, graph folder, .npz, or edge list (CSV, TSV, Parquet); - reads CSV from standard input.",
    ),
]
FeaturesOpt = Annotated[
    Path | None, typer.Option("--features", "-f", help="Node features: CSV, TSV, Parquet or .npy (one row a node).")
]
LabelsOpt = Annotated[
    Path | None, typer.Option("--labels", "-l", help="Node labels: a table with an id and a label.")
]
DirectedOpt = Annotated[bool, typer.Option("--directed", help="Keep the direction of the edges.")]
SeedOpt = Annotated[int, typer.Option(help="Seed of every random choice.")]
SeedsOpt = Annotated[int, typer.Option(min=1, help="Runs with seeds 0, 1, ..; the table shows mean and deviation.")]
QuietOpt = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars.")]
JsonOpt = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
DeviceOpt = Annotated[str, typer.Option(help="auto, cpu or cuda.")]


@contextmanager
def progress_bars(quiet: bool = False) -> Iterator[Progress | None]:
    """A callback `(phase, fraction)` that draws one bar a phase on standard error, with the time left."""
    if quiet:
        yield None
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


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> None:
    """A table on standard output; the first column is text, the others are aligned right."""
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(title, highlight=False)
    console.print(table)
    if caption:
        console.print(caption, highlight=False)


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


def is_edge_list(source: str) -> bool:
    """Whether `source` names a table of edges, not a dataset, a graph folder or an .npz."""
    path = Path(source)
    return source == "-" or (path.exists() and path.suffix != ".npz" and not (path / "meta.json").is_file())


def load_graph(
    source: str, features: Any = None, labels: Path | None = None, directed: bool = False, **how: Any
) -> Graph:
    """The graph that the user named: a dataset, an on-disk graph, an .npz or an edge list."""
    from tuplet.datasets import dataset_names, load_dataset
    from tuplet.io import read_graph
    from tuplet.io.folder import open_graph

    if source == "-":
        return read_graph(sys.stdin.buffer, features, labels, directed=directed, **how)
    path = Path(source)
    if not path.exists() and (source in dataset_names() or not path.suffix):
        return load_dataset(source)
    if (path / "meta.json").is_file():
        return open_graph(path)
    return read_graph(path, features, labels, directed=directed, **how)
