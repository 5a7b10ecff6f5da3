"""The report's section on defaults: one setting for every graph, methods side by side, the paper's tuned row last."""

from __future__ import annotations

from collections.abc import Sequence

from tuplet.bench.report.tables import Comparison, Group, cell, markdown_table
from tuplet.models.registry import default_method
from tuplet.plots import dataset_title

METRICS = {"clustering": ("accuracy", "nmi", "ari"), "classification": ("accuracy",), "links": ("auc", "ap")}
TUNED = default_method(recipe=True)  # the paper's, with a setting for each graph

OLD = "†"


def defaults_section(c: Comparison, groups: Sequence[Group]) -> list[str]:
    """A table for each metric with the paper's graphs as rows; then the graphs that we made or damaged."""
    real = [d for d in c.datasets if c.paper(d, TUNED, "all", METRICS[c.task][0]) is not None]
    parts = []
    for metric in METRICS[c.task]:
        parts += [f"**{metric}**", _table(c, real, metric)]
    if any("vectors_accuracy" in group.values for group in groups):
        title = "**accuracy of K-Means on the vectors, for methods whose own labels are scored above**"
        parts += [title, _table(c, real, "vectors_accuracy")]
    own = [d for d in c.datasets if d not in real]
    if own:
        parts += [
            "**accuracy on graphs of our own, and with edges, features or k changed**",
            _table(c, own, "accuracy"),
        ]
    if any(_is_old(c, dataset, method) for dataset, method, _ in c.groups):
        parts.append(f"{OLD} made by version 0.1, whose methods and defaults were others; not run again.")
    return parts


def _table(c: Comparison, datasets: Sequence[str], metric: str) -> str:
    """Graphs x methods; the last row holds means over the graphs."""
    methods = [method for method, _ in c.methods if any(c.ours(d, method, "all", metric) for d in datasets)]
    table, columns = [], []
    for dataset in datasets:
        ours = [c.ours(dataset, method, "all", metric) for method in methods]
        paper = c.paper(dataset, TUNED, "all", metric.removeprefix("vectors_"))
        old = [OLD if _is_old(c, dataset, method) else "" for method in methods]
        table.append([dataset_title(dataset), *(cell(n, None, metric) + mark for n, mark in zip(ours, old))])
        table[-1].append("" if paper is None else f"{paper.mean:.2f}")
        columns.append([*ours, paper])
    means = []
    for column in zip(*columns):
        values = [number.mean for number in column if number is not None]
        means.append(f"{sum(values) / len(values):.2f}" if len(values) == len(column) else "")
    return markdown_table(["graph", *methods, f"paper's {TUNED}, tuned"], [*table, ["mean", *means]])


def _is_old(c: Comparison, dataset: str, method: str) -> bool:
    """Whether the rows of a cell are of before 0.2: they do not hold the defaults that they ran with."""
    group = c.groups.get((dataset, method, "all"))
    return group is not None and not any("defaults" in row for row in group.rows)
