"""Rows -> means over seeds, cells with the published number beside ours, Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tuplet.bench.report.published import Cell, Number
from tuplet.bench.rows import Row, row_key
from tuplet.bench.spec import digest

LOWER_IS_BETTER = frozenset({"conductance", "convergence_seconds"})
# The paper counts self loops as edges there: K-Means on raw features gives its numbers only then.
SELF_LOOPS = frozenset({"acm", "dblp", "citeseer"})


@dataclass(frozen=True)
class Group:
    """All runs of one method on one dataset under one spec: `values` maps a metric to its numbers, one a seed."""

    spec: str
    task: str
    dataset: str
    method: str
    usage: str
    values: Mapping[str, Sequence[float]]
    rows: Sequence[Row] = field(repr=False)
    error: str = ""

    def number(self, metric: str) -> Number | None:
        """Mean and deviation (over n, as the paper's) of a metric, or None where no run has it."""
        values = self.values.get(metric, ())
        return Number(float(np.mean(values)), float(np.std(values))) if len(values) else None

    @property
    def runs(self) -> int:
        """Runs that ended well."""
        return sum("error" not in row for row in self.rows)


def group_rows(rows: Iterable[Row]) -> list[Group]:
    """One group a (spec, task, dataset, method, usage), in the order of first appearance.

    A job's last row counts. Where a cell was run with several settings or defaults, those of its last row count.
    """
    latest: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in rows:
        place = (spec_name(row), row["task"], row["dataset"], row["method"], row["usage"])
        runs = latest.setdefault(place, {})
        runs.pop(row_key(row), None)
        runs[row_key(row)] = row
    return [_group(place, list(runs.values())) for place, runs in latest.items()]


def spec_name(row: Row) -> str:
    """The name of the spec that wrote `row`."""
    return str(row.get("spec", "")).partition(":")[0]


def _group(place: tuple[str, ...], runs: list[Row]) -> Group:
    now = _ran_with(runs[-1])
    kept = sorted((row for row in runs if _ran_with(row) == now), key=lambda row: int(row["seed"]))
    values: dict[str, list[float]] = {}
    for row in kept:
        vectors = {f"vectors_{metric}": value for metric, value in row.get("kmeans_on_vectors", {}).items()}
        for metric, value in (row.get("metrics", {}) | vectors).items():
            values.setdefault(metric, []).append(value)
    errors = [row["error"] for row in kept if "error" in row]
    spec, task, dataset, method, usage = place
    return Group(spec, task, dataset, method, usage, values, kept, errors[-1] if errors else "")


def _ran_with(row: Row) -> str:
    """Settings, and the defaults of that day; rows of before 0.2 do not hold these."""
    return digest({"settings": row["settings"], "defaults": row.get("defaults")})


class Comparison:
    """Our groups of one spec beside the published numbers of their task."""

    def __init__(self, groups: Sequence[Group], published: Mapping[Cell, Number]) -> None:
        self.groups = {(g.dataset, g.method, g.usage): g for g in groups}
        self.task = groups[0].task
        self.published = {cell[1:]: number for cell, number in published.items() if cell[0] == self.task}
        self.datasets = list(dict.fromkeys(g.dataset for g in groups))
        self.methods = list(dict.fromkeys((g.method, g.usage) for g in groups))

    def ours(self, dataset: str, method: str, usage: str, metric: str) -> Number | None:
        """Our number; modularity and conductance with self loops where the paper's count them."""
        group = self.groups.get((dataset, method, usage))
        if group is None:
            return None
        comparable = dataset in SELF_LOOPS and metric in ("modularity", "conductance")
        return group.number(f"{metric}_self_loops" if comparable else metric)

    def paper(self, dataset: str, method: str, usage: str, metric: str) -> Number | None:
        """The published number of the same cell."""
        return self.published.get((dataset, method, usage, metric))

    def best(self, dataset: str, metric: str) -> float | None:
        """The best published number of any method for (dataset, metric)."""
        values = [n.mean for (d, _, _, m), n in self.published.items() if (d, m) == (dataset, metric)]
        if not values:
            return None
        return min(values) if metric in LOWER_IS_BETTER else max(values)

    def count(
        self, method: str, metrics: Sequence[str], *, usage: str = "all", slack: float = 0.0, against: str = "same"
    ) -> tuple[int, int]:
        """(cells at or above, cells compared): ours + slack against the paper's "same" method, or its "best"."""
        reached = compared = 0
        for dataset in self.datasets:
            for metric in metrics:
                mine, theirs = self.ours(dataset, method, usage, metric), self.paper(dataset, method, usage, metric)
                bar = self.best(dataset, metric) if against == "best" else (None if theirs is None else theirs.mean)
                if mine is not None and bar is not None:
                    compared += 1
                    reached += reaches(mine.mean, bar - slack, metric)
        return reached, compared


def reaches(ours: float, bar: float, metric: str) -> bool:
    """Whether `ours`, rounded as it is printed, is at or better than `bar`.

    >>> reaches(70.574, 70.57, "accuracy"), reaches(10.0, 9.0, "conductance")
    (True, False)
    """
    gap = round(ours, 2) - round(bar, 2)
    return gap <= 0 if metric in LOWER_IS_BETTER else gap >= 0


def cell(ours: Number | None, paper: Number | None, metric: str, error: str = "") -> str:
    """ "**92.60** ±0.20 (paper 91.60, +1.00)": bold at or above the paper's, ▼ below it.

    >>> cell(Number(92.6, 0.2), Number(91.6), "accuracy")
    '**92.60** ±0.20 (91.60, +1.00)'
    >>> cell(Number(80.0, 0.1), Number(80.3), "accuracy")
    '80.00 ±0.10 (80.30, -0.30 ▼)'
    """
    if ours is None:
        beside = "" if paper is None else f" ({paper.mean:.2f})"
        return f"{'failed' if error else '-'}{beside}"
    if paper is None:
        return f"{ours.mean:.2f} ±{ours.std:.2f}"
    good = reaches(ours.mean, paper.mean, metric)
    gap = f"{ours.mean - paper.mean:+.2f}" + ("" if good else " ▼")
    mean = f"**{ours.mean:.2f}**" if good else f"{ours.mean:.2f}"
    star = "*" if paper.note else ""
    return f"{mean} ±{ours.std:.2f} ({paper.mean:.2f}{star}, {gap})"


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, the first column left, the others right.

    >>> print(markdown_table(["a", "b"], [["x", "1"]]))
    | a | b |
    |---|--:|
    | x | 1 |
    """
    lines = ["| " + " | ".join(columns) + " |", "|---|" + "--:|" * (len(columns) - 1)]
    lines += ["| " + " | ".join(str(value) for value in row) + " |" for row in rows]
    return "\n".join(lines)
