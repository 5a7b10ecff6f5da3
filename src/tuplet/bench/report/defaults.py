"""The report's section on defaults: one setting for every graph, methods side by side, the paper's tuned row last."""

from __future__ import annotations

from collections.abc import Sequence

from tuplet.bench.report.tables import Comparison, Group, cell, markdown_table
from tuplet.plots import dataset_title

METRICS = {"clustering": ("accuracy", "nmi", "ari"), "classification": ("accuracy",), "links": ("auc", "ap")}
TUNED = "DMAT-i"  # the paper's method, with a setting for each graph


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
    return parts


def _table(c: Comparison, datasets: Sequence[str], metric: str) -> str:
    """Graphs x methods; the last row holds means over the graphs."""
    methods = [method for method, _ in c.methods if any(c.ours(d, method, "all", metric) for d in datasets)]
    table, columns = [], []
    for dataset in datasets:
        ours = [c.ours(dataset, method, "all", metric) for method in methods]
        paper = c.paper(dataset, TUNED, "all", metric.removeprefix("vectors_"))
        table.append([dataset_title(dataset), *(cell(number, None, metric) for number in ours)])
        table[-1].append("" if paper is None else f"{paper.mean:.2f}")
        columns.append([*ours, paper])
    means = []
    for column in zip(*columns):
        values = [number.mean for number in column if number is not None]
        means.append(f"{sum(values) / len(values):.2f}" if len(values) == len(column) else "")
    return markdown_table(["graph", *methods, f"paper's {TUNED}, tuned"], [*table, ["mean", *means]])
