"""One setting changed at a time (benchmarks/ablations*.toml): a table for each task, training against its own filter,
and lines for the figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from tuplet.bench.report.legend import GRAPHS
from tuplet.bench.report.published import Number
from tuplet.bench.report.statistics import WIN, tally, verdict
from tuplet.bench.report.tables import MARKS, markdown_table, number_of, spec_name
from tuplet.bench.rows import Row
from tuplet.models.registry import method_class
from tuplet.plots import dataset_title
from tuplet.training.config import DEFAULT_STEPS

SPECS = ("ablations", "ablations-labels")
STEPS = "max_steps"
Values = dict[str, dict[str, float]]  # name of a change -> graph -> mean over seeds


def is_ablation(row: Row) -> bool:
    """Whether a row is of the ablations, whose cells have several settings."""
    return spec_name(row) in SPECS


def changed(rows: Iterable[Row], task: str, metric: str = "accuracy") -> Values:
    """The mean over the seeds of each change on each graph; "defaults" is the change of nothing."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if is_ablation(row) and row["task"] == task and metric in row.get("metrics", {}):
            of_graph = found.setdefault(row_name(row), {})
            of_graph.setdefault(row["dataset"], []).append(float(row["metrics"][metric]))
    return {name: {g: fmean(values) for g, values in graphs.items()} for name, graphs in found.items()}


def row_name(row: Row) -> str:
    """What a row changes, in words: a setting, or which rows and labels are used."""
    if row["usage"] == "train":
        what = "labels of the training nodes" if method_class(row["method"]).needs_labels else "no labels"
        return f"{row['method']} on the training nodes, {what}"
    return change_name(row["settings"])


def change_name(settings: Mapping[str, Any]) -> str:
    """What a run changes, in words.

    >>> change_name({}), change_name({"alpha": 0.3}), change_name({"layers": [256]})
    ('defaults', 'alpha = 0.3', 'layers = [256]')
    """
    given = {name: value for name, value in settings.items() if name != "evaluate"}
    if not given:
        return "defaults"
    if "filter" in given:
        weights = given["filter"]["weights"]
        kind, values = weights["family"], weights["values"]
        if kind == "custom":
            return "filter: none" if len(values) == 1 else f"filter: SGC, {len(values) - 1} hops"
        return f"filter: {kind}, t = {values[0]:g}"
    return ", ".join(f"{name} = {value}" for name, value in given.items())


def ablations_section(rows: Sequence[Row]) -> list[str]:
    """A table of changes by graphs for each task that has rows."""
    parts = []
    for task in ("clustering", "classification"):
        values = changed(rows, task)
        if "defaults" in values:
            parts += [f"**{task}, accuracy**", _table(values)]
    if not parts:
        return []
    about = (
        f"DMAT-i with its defaults and one setting changed; means of {_seeds(rows)}. In brackets the difference from "
        "the defaults. No test over seeds: read trends."
    )
    return ["## One setting changed", about, *parts, *_training_parts(rows)]


def _seeds(rows: Sequence[Row]) -> str:
    """ "3 seeds" or "2 to 3 seeds": how many the cells have."""
    cells = Counter((r["task"], r["dataset"], row_name(r)) for r in rows if is_ablation(r) and "error" not in r)
    least, most = min(cells.values()), max(cells.values())
    return f"{least} to {most} seeds" if least < most else f"{most} seed{'s' if most > 1 else ''}"


def _training_parts(rows: Sequence[Row]) -> list[str]:
    """Clustering accuracy after so many steps beside the filter without training, graph by graph, tested."""
    base, lines = untrained(rows), step_numbers(rows)
    steps = sorted({step for line in lines.values() for step in line})
    body, found = [], []
    for graph in (g for g in lines if g in base):
        marks = {n: verdict(number, base[graph]) for n, number in lines[graph].items()}
        cells = [_marked(lines[graph].get(n), marks.get(n, "")) for n in steps]
        body.append([dataset_title(graph), f"{base[graph].mean:.2f}", *cells])
        found += [marks[DEFAULT_STEPS]] if DEFAULT_STEPS in marks else []
    if not body:
        return []
    about = (
        "Clustering accuracy of FilterSVD, which clusters the filtered rows without training, and of DMAT-i after so "
        f"many steps, other settings at their defaults ({DEFAULT_STEPS} steps). By Welch's test over the seeds: bold "
        "above FilterSVD, = a tie, ▼ below, ? a single run."
    )
    counts = f"With the defaults against FilterSVD: {tally(found)}." if found else ""
    table = markdown_table(["graph", "FilterSVD", *(f"{n} step{'s' if n > 1 else ''}" for n in steps)], body)
    return ["## Does training beat its own filter?", about, table, counts]


def _marked(number: Number | None, found: str) -> str:
    if number is None:
        return "not run"
    return f"**{number.mean:.2f}**" if found == WIN else f"{number.mean:.2f}{MARKS.get(found, ' =')}"


def _table(values: Values) -> str:
    graphs = [g for g in GRAPHS if g in values["defaults"]]
    base = values["defaults"]
    table = []
    for name, found in values.items():
        cells = [_cell(found.get(g), base[g], name) for g in graphs]
        whole = all(g in found for g in graphs)
        mean = _cell(fmean(found[g] for g in graphs), fmean(base[g] for g in graphs), name) if whole else ""
        table.append([name, *cells, mean])
    return markdown_table(["change", *map(dataset_title, graphs), "mean"], table)


def _cell(value: float | None, base: float, name: str) -> str:
    if value is None:
        return "not run"
    return f"{value:.2f}" if name == "defaults" else f"{value:.2f} ({value - base:+.2f})"


def step_lines(rows: Sequence[Row]) -> dict[str, list[tuple[float, float]]]:
    """Graph -> (steps, clustering accuracy), with the defaults at their length."""
    return {g: sorted((n, number.mean) for n, number in line.items()) for g, line in step_numbers(rows).items()}


def step_numbers(rows: Sequence[Row]) -> dict[str, dict[int, Number]]:
    """Graph -> steps -> clustering accuracy over the seeds; graphs with two lengths and more."""
    found: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        name = row_name(row) if is_ablation(row) and row["task"] == "clustering" else ""
        key, _, value = name.partition(" = ")
        if (name == "defaults" or key == STEPS) and "accuracy" in row.get("metrics", {}):
            of_graph = found.setdefault(row["dataset"], {})
            of_graph.setdefault(int(value or DEFAULT_STEPS), []).append(float(row["metrics"]["accuracy"]))
    several = [graph for graph in GRAPHS if len(found.get(graph, ())) > 1]
    return {graph: {steps: number_of(values) for steps, values in found[graph].items()} for graph in several}


def untrained(rows: Sequence[Row]) -> dict[str, Number]:
    """Graph -> clustering accuracy of FilterSVD with its defaults."""
    found: dict[str, list[float]] = {}
    for row in rows:
        wanted = (spec_name(row), row["task"], row["method"]) == ("defaults", "clustering", "FilterSVD")
        if wanted and "defaults" in row and "accuracy" in row.get("metrics", {}):
            found.setdefault(row["dataset"], []).append(float(row["metrics"]["accuracy"]))
    return {graph: number_of(values) for graph, values in found.items()}


def gaps(rows: Sequence[Row]) -> dict[str, list[float]]:
    """Change -> its differences from the defaults in clustering accuracy, one a graph."""
    values = changed(rows, "clustering")
    base = values.get("defaults", {})
    return {name: [found[g] - base[g] for g in GRAPHS if g in found and g in base] for name, found in values.items()}
