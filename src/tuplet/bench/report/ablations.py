"""One setting changed at a time (benchmarks/ablations.toml): a table for each task, and lines for two figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from tuplet.bench.report.legend import GRAPHS
from tuplet.bench.report.tables import markdown_table, spec_name
from tuplet.bench.rows import Row
from tuplet.plots import dataset_title
from tuplet.training.config import DEFAULT_STEPS

SPEC = "ablations"
STEPS = "max_steps"
Values = dict[str, dict[str, float]]  # name of a change -> graph -> mean over seeds


def is_ablation(row: Row) -> bool:
    """Whether a row is of the ablations, whose cells have several settings."""
    return spec_name(row) == SPEC


def changed(rows: Iterable[Row], task: str, metric: str = "accuracy") -> Values:
    """The mean over the seeds of each change on each graph; "defaults" is the change of nothing."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if is_ablation(row) and row["task"] == task and metric in row.get("metrics", {}):
            of_graph = found.setdefault(change_name(row["settings"]), {})
            of_graph.setdefault(row["dataset"], []).append(float(row["metrics"][metric]))
    return {name: {g: fmean(values) for g, values in graphs.items()} for name, graphs in found.items()}


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
    seeds = len({row["seed"] for row in rows if is_ablation(row)})
    about = (
        f"DMAT-i with its defaults and one setting changed, means of {seeds} seeds; in brackets the difference from "
        "the defaults. No test over seeds: read trends. The second figure shows the length of training beside the "
        "untrained FilterSVD."
    )
    return ["## Ablations and sensitivity", about, *parts]


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
        return "-"
    return f"{value:.2f}" if name == "defaults" else f"{value:.2f} ({value - base:+.2f})"


def step_lines(rows: Sequence[Row]) -> dict[str, list[tuple[float, float]]]:
    """Graph -> (steps, clustering accuracy), with the defaults at their length."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for name, found in changed(rows, "clustering").items():
        key, _, value = name.partition(" = ")
        if name == "defaults" or key == STEPS:
            for graph, accuracy in found.items():
                lines.setdefault(graph, []).append((DEFAULT_STEPS if name == "defaults" else float(value), accuracy))
    return {graph: sorted(lines[graph]) for graph in GRAPHS if len(lines.get(graph, ())) > 1}


def untrained(rows: Sequence[Row]) -> dict[str, float]:
    """Graph -> clustering accuracy of FilterSVD with its defaults."""
    found: dict[str, list[float]] = {}
    for row in rows:
        wanted = (spec_name(row), row["task"], row["method"]) == ("defaults", "clustering", "FilterSVD")
        if wanted and "defaults" in row and "accuracy" in row.get("metrics", {}):
            found.setdefault(row["dataset"], []).append(float(row["metrics"]["accuracy"]))
    return {graph: fmean(values) for graph, values in found.items()}


def gaps(rows: Sequence[Row]) -> dict[str, list[float]]:
    """Change -> its differences from the defaults in clustering accuracy, one a graph."""
    values = changed(rows, "clustering")
    base = values.get("defaults", {})
    return {name: [found[g] - base[g] for g in GRAPHS if g in found and g in base] for name, found in values.items()}
