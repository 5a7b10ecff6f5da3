"""Rows -> means over seeds, cells with the published number beside ours, Markdown tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tuplet.bench.protocol import FIRST_TRIAL_SEED
from tuplet.bench.report.published import Cell, Number
from tuplet.bench.report.statistics import LOSS, LOWER_IS_BETTER, UNTESTED, WIN, verdict
from tuplet.bench.rows import Row, row_key
from tuplet.bench.spec import digest
from tuplet.models.registry import own_methods

MARKS = {WIN: "", LOSS: " ▼", UNTESTED: " ?"}  # a tie: " ="
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
        return number_of(values) if len(values) else None

    def by_seed(self, metric: str) -> dict[int, float]:
        """The values of a metric, seed -> value."""
        rows = [row for row in self.rows if metric in row.get("metrics", {})]
        return {int(row["seed"]): float(row["metrics"][metric]) for row in rows}

    @property
    def runs(self) -> int:
        """Runs that ended well."""
        return sum("error" not in row for row in self.rows)


def number_of(values: Sequence[float]) -> Number:
    """Mean, deviation and number of some values, one a seed."""
    return Number(float(np.mean(values)), float(np.std(values)), n=len(values))


def group_rows(rows: Iterable[Row]) -> list[Group]:
    """One group a (spec, task, dataset, method, usage), in the order of first appearance.

    A job's last row counts. Where a cell was run with several settings or defaults, those of its last row count. Rows
    of trials (seeds of 100 and up) are no results.
    """
    latest: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in (row for row in rows if not is_trial(row)):
        place = (spec_name(row), row["task"], row["dataset"], row["method"], row["usage"])
        runs = latest.setdefault(place, {})
        runs.pop(row_key(row), None)
        runs[row_key(row)] = row
    return [_group(place, list(runs.values())) for place, runs in latest.items()]


def is_trial(row: Row) -> bool:
    """Whether a row is of a trial, which chose settings and is no result."""
    return int(row["seed"]) >= FIRST_TRIAL_SEED


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
    """Our groups of one spec beside the published numbers of their task.

    `empty(dataset, method, usage)` is what a cell without a number says. With `rivals` the tables have every rival
    and graph that the paper has, whether there are rows or not.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        published: Mapping[Cell, Number],
        *,
        empty: Callable[[str, str, str], str] = lambda *_: "-",
        rivals: bool = False,
    ) -> None:
        self.groups = {(g.dataset, g.method, g.usage): g for g in groups}
        self.empty = empty
        self.task = groups[0].task
        self.published = {cell[1:]: number for cell, number in published.items() if cell[0] == self.task}
        theirs = [cell for cell in self.published if rivals and cell[1] not in own_methods()]
        self.datasets = list(dict.fromkeys([*(g.dataset for g in groups), *(d for d, *_ in theirs)]))
        self.methods = list(
            dict.fromkeys([*((g.method, g.usage) for g in groups), *((m, u) for _, m, u, _ in theirs)])
        )

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

    def best(self, dataset: str, metric: str) -> Number | None:
        """The best published number of any method for (dataset, metric)."""
        found = [n for (d, _, _, m), n in self.published.items() if (d, m) == (dataset, metric)]
        pick = min if metric in LOWER_IS_BETTER else max
        return pick(found, key=lambda number: number.mean) if found else None

    def verdicts(
        self, method: str, metrics: Sequence[str], *, usage: str = "all", against: str = "same"
    ) -> list[str]:
        """One verdict a cell that both have: ours against the paper's "same" method, or against its "best"."""
        found = []
        for dataset in self.datasets:
            for metric in metrics:
                mine = self.ours(dataset, method, usage, metric)
                bar = self.best(dataset, metric) if against == "best" else self.paper(dataset, method, usage, metric)
                if mine is not None and bar is not None:
                    found.append(verdict(mine, bar, metric))
        return found


def cell(ours: Number | None, paper: Number | None, metric: str, empty: str = "-") -> str:
    """ "**92.60** ±0.20 (91.60, +1.00)": bold for a win against the paper's, = a tie, ▼ a loss, ? a single run;
    `empty` where we have no number.

    >>> cell(Number(92.6, 0.2), Number(91.6, 0.3), "accuracy")
    '**92.60** ±0.20 (91.60, +1.00)'
    >>> cell(Number(80.0, 0.9), Number(80.3, 0.8), "accuracy")
    '80.00 ±0.90 (80.30, -0.30 =)'
    """
    if ours is None:
        beside = "" if paper is None else f" ({paper.mean:.2f})"
        return empty + beside
    if paper is None:
        return f"{ours.mean:.2f} ±{ours.std:.2f}"
    found = verdict(ours, paper, metric)
    mean = f"**{ours.mean:.2f}**" if found == WIN else f"{ours.mean:.2f}"
    star = "*" if paper.note else ""
    return f"{mean} ±{ours.std:.2f} ({paper.mean:.2f}{star}, {ours.mean - paper.mean:+.2f}{MARKS.get(found, ' =')})"


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
