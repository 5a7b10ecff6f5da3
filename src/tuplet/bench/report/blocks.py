"""The four blocks of docs/protocol.md side by side: every row says which block it belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from tuplet.bench.report.legend import ABOUT, BLOCKS, GRAPHS, OURS, TASKS, TITLES, TUNED, cost_of_block, tuning_budget
from tuplet.bench.report.published import Cell, Number
from tuplet.bench.report.reasons import RIVALS, Reason, Reasons, coverage, reason_lines
from tuplet.bench.report.statistics import critical_difference, mean_ranks, paired_verdict, tally, verdict
from tuplet.bench.report.tables import Group, markdown_table
from tuplet.bench.rows import Row
from tuplet.bench.spec import digest
from tuplet.metrics import LABEL_SCORES
from tuplet.plots import dataset_title

PAIRED = ("classification", "links")  # there a seed is a split, the same for every method
CHOSEN = dict.fromkeys(("clustering", "classification"), ", tuned with labels") | {"links": ", tuned on edges"}


@dataclass(frozen=True)
class MethodLine:
    """One method in one block: graph -> its runs under the spec."""

    block: str
    name: str
    spec: str
    method: str
    usage: str
    groups: Mapping[str, Group]
    same: bool = False  # a rival that was released with one setting for all graphs: its runs are those of (c) too

    @property
    def title(self) -> str:
        return f"({self.block}{' = c' if self.same else ''}) {self.name}"

    def numbers(self, metric: str) -> dict[str, Number]:
        """Graph -> mean and deviation of a metric."""
        found = {graph: group.number(metric) for graph, group in self.groups.items()}
        return {graph: number for graph, number in found.items() if number is not None}


def lines_of(groups: Sequence[Group], task: str) -> list[MethodLine]:
    """The lines of a task in the order of blocks; usage "train" is a line of its own. A rival that has runs in
    another task has its line here too.
    """
    found: dict[tuple[str, str, str, str, str], dict[str, Group]] = {}
    for g in groups:
        if g.task == task and g.spec in BLOCKS and g.dataset in GRAPHS:
            block, behind = BLOCKS[g.spec]
            behind += CHOSEN[task] if block == "b" else ""
            name = g.method + (" (training nodes)" if g.usage == "train" else "") + behind
            found.setdefault((block, name, g.spec, g.method, g.usage), {})[g.dataset] = g
    rivals = dict.fromkeys(g.method for g in groups if g.spec == RIVALS) if found else {}
    found = {("d", method, RIVALS, method, "all"): {} for method in rivals} | found
    same = _one_setting(groups)
    lines = [MethodLine(*line, runs, line[2] == RIVALS and line[3] in same) for line, runs in found.items()]
    return sorted(lines, key=lambda line: line.block)


def _one_setting(groups: Sequence[Group]) -> set[str]:
    """The rivals whose released settings are the same on all eight graphs."""
    used: dict[str, list[str]] = {}
    for g in groups:
        if (g.spec, g.task) == (RIVALS, "clustering") and g.dataset in GRAPHS:
            used.setdefault(g.method, []).append(digest(g.rows[-1]["settings"]))
    return {method for method, names in used.items() if len(names) == len(GRAPHS) and len(set(names)) == 1}


def blocks_section(
    groups: Sequence[Group], numbers: Mapping[Cell, Number], rows: Sequence[Row], reasons: Reasons
) -> list[str]:
    """A table for each task; the legend of the blocks, what each cost, and which of them has no rows."""
    present = {BLOCKS[g.spec][0] for g in groups if g.spec in BLOCKS}
    if not present:
        return []
    legend = [
        f"- ({b}) {text}. {cost_of_block(b, rows) if b in present else '**No rows yet.**'}"
        for b, text in ABOUT.items()
    ]
    parts = ["## Four blocks", "Every cell belongs to one block of the [protocol](protocol.md):", "\n".join(legend)]
    parts += [text for text in [tuning_budget(groups)] if text]
    for task in TASKS:
        lines = lines_of(groups, task)
        if lines:
            parts += _task_parts(task, lines, numbers, reasons)
    return parts


def _task_parts(
    task: str, lines: Sequence[MethodLine], numbers: Mapping[Cell, Number], reasons: Reasons
) -> list[str]:
    metric = TASKS[task]
    paper = {g: numbers[c] for g in GRAPHS if (c := (task, g, TUNED, "all", metric)) in numbers}
    empty = {line.title: _empty(task, line, metric, reasons) for line in lines}
    judges = _judges(lines)
    body = [_row(task, line, judges, metric, paper, empty[line.title]) for line in lines]
    if paper:
        means = f"{fmean(n.mean for n in paper.values()):.2f}" if len(paper) == len(GRAPHS) else ""
        body.append(
            [f"the paper's {TUNED}", *(f"{paper[g].mean:.2f}" if g in paper else "-" for g in GRAPHS), means, ""]
        )
        body[-1] += [""] * len(judges)
    columns = ["block and method", *map(dataset_title, GRAPHS), "mean", f"against the paper's {TUNED}"]
    columns += [f"(b) {TUNED}{BLOCKS[judge.spec][1]} against it" for judge in judges]
    title = f"### {TITLES[task]}: {'AUC' if metric == 'auc' else metric}"
    parts = [title, markdown_table(columns, body), _runs(lines)]
    parts += [part for part in (coverage(task, metric, RIVALS, reasons, numbers), _reason_list(empty)) if part]
    parts += _means_of_all(task, lines, numbers)
    if task == "clustering":
        parts += _held_out(lines) + _on_vectors(lines)
    return parts + _ranks(task, lines)


def _empty(task: str, line: MethodLine, metric: str, reasons: Reasons) -> dict[str, Reason]:
    """Graph -> why a line has no number there."""
    mine = line.numbers(metric)
    return {g: reasons.of(line.spec, task, g, line.method, line.usage) for g in GRAPHS if g not in mine}


def _reason_list(empty: Mapping[str, Mapping[str, Reason]]) -> str:
    named = {t: {dataset_title(g): why for g, why in found.items()} for t, found in empty.items() if found}
    return f"Cells without a number:\n\n{reason_lines(named)}" if named else ""


def _row(
    task: str,
    line: MethodLine,
    judges: Sequence[MethodLine],
    metric: str,
    paper: Mapping[str, Number],
    empty: Mapping[str, Reason],
) -> list[str]:
    mine = line.numbers(metric)
    cells = [f"{mine[g].mean:.2f} ±{mine[g].std:.2f}" if g in mine else empty[g].word for g in GRAPHS]
    mean = f"{fmean(n.mean for n in mine.values()):.2f}" if len(mine) == len(GRAPHS) else ""
    both = [g for g in GRAPHS if g in mine and g in paper]
    theirs = tally(verdict(mine[g], paper[g], metric) for g in both) if both else ""
    ours = [_against(task, line, judge, metric) for judge in judges]
    return [line.title, *cells, mean, *map(_short, [theirs, *ours])]


def _short(text: str) -> str:
    return text.replace(" with a single run, not tested", " not tested")


def _judges(lines: Sequence[MethodLine]) -> list[MethodLine]:
    """Our own lines of block (b) that have rows."""
    return [one for spec in OURS for one in lines if (one.spec, one.method, one.usage) == (spec, TUNED, "all")]


def _against(task: str, line: MethodLine, judge: MethodLine, metric: str) -> str:
    """Wins, ties and losses of a tuned line of ours against a line, graph by graph."""
    if judge is line:
        return ""
    found = []
    for graph in GRAPHS:
        a, b = judge.groups.get(graph), line.groups.get(graph)
        if a is None or b is None:
            continue
        x, y = a.number(metric), b.number(metric)
        if x is not None and y is not None:
            paired = task in PAIRED and same_splits(a, b)
            found.append(
                paired_verdict(a.by_seed(metric), b.by_seed(metric), metric) if paired else verdict(x, y, metric)
            )
    return tally(found) if found else ""


def same_splits(a: Group, b: Group) -> bool:
    """Whether a seed means the same split to both: both by the protocol, or both at random."""
    kinds = [{row["settings"].get("evaluate", {}).get("split", "random") for row in g.rows} for g in (a, b)]
    return kinds[0] == kinds[1]


def _runs(lines: Sequence[MethodLine]) -> str:
    """How many runs a cell has, where that is not ten; and where and how long all of them ran."""
    few = []
    for line in lines:
        short = {g: group.runs for g, group in line.groups.items() if 0 < group.runs < 10}
        if short:
            few.append(f"{line.title}: " + ", ".join(f"{dataset_title(g)} {n}" for g, n in short.items()))
    return ("Ten runs a cell, but " + "; ".join(few) + ".") if few else "Ten runs a cell."


def _means_of_all(task: str, lines: Sequence[MethodLine], numbers: Mapping[Cell, Number]) -> list[str]:
    """Means over the eight graphs of every metric that the paper has, for lines that have all."""
    metrics = tuple(LABEL_SCORES) if task == "clustering" else ("auc", "ap") if task == "links" else ()
    if not metrics:
        return []
    rows = []
    for line in lines:
        columns = [line.numbers(m) for m in metrics]
        if all(len(column) == len(GRAPHS) for column in columns):
            rows.append([line.title, *(f"{fmean(n.mean for n in column.values()):.2f}" for column in columns)])
    cells = [[numbers.get((task, g, TUNED, "all", m)) for g in GRAPHS] for m in metrics]
    paper = [f"{fmean(n.mean for n in column if n):.2f}" if all(column) else "" for column in cells]
    table = markdown_table(["mean of eight graphs", *metrics], [*rows, [f"the paper's {TUNED}", *paper]])
    return [table] if rows else []


def _held_out(lines: Sequence[MethodLine]) -> list[str]:
    """Accuracy on the nodes that no choice has seen, beside that on all nodes."""
    rows = []
    for line in (one for one in lines if one.block == "b"):
        every, unseen = line.numbers("accuracy"), line.numbers("test_accuracy")
        if not unseen:
            continue
        gaps = [
            f"{unseen[g].mean:.2f} ({unseen[g].mean - every[g].mean:+.2f})" if g in unseen else "-" for g in GRAPHS
        ]
        rows.append([line.title, *gaps])
    title = "Accuracy on the 80% of the nodes that no choice has seen, and its difference from that on all nodes:"
    return [title, markdown_table(["", *map(dataset_title, GRAPHS)], rows)] if rows else []


def _on_vectors(lines: Sequence[MethodLine]) -> list[str]:
    """Accuracy of K-Means on the vectors, for methods whose own clusters are scored, and the difference."""
    rows = []
    for line in lines:
        own, vectors = line.numbers("accuracy"), line.numbers("vectors_accuracy")
        if vectors:
            cells = [
                f"{vectors[g].mean:.2f} ({vectors[g].mean - own[g].mean:+.2f})" if g in vectors else ""
                for g in GRAPHS
            ]
            rows.append([line.title, *cells])
    about = (
        "What is scored: for the methods below the clusters that they assign themselves (`labels_`), for all others "
        "those of K-Means on `embedding_`. The two are not the same clusters: here K-Means on `embedding_` for the "
        "methods that have their own, and its difference from `labels_`."
    )
    return (
        [about, markdown_table(["accuracy of K-Means on the vectors", *map(dataset_title, GRAPHS)], rows)]
        if rows
        else []
    )


def ranked(lines: Sequence[MethodLine], metric: str) -> tuple[list[str], list[float]]:
    """Titles and mean ranks of the lines of blocks b, c and d that have all graphs; the best first."""
    whole = [line for line in lines if line.block in "bcd" and len(line.numbers(metric)) == len(GRAPHS)]
    if len(whole) < 2:
        return [], []
    scores = np.array([[line.numbers(metric)[g].mean for line in whole] for g in GRAPHS])
    ranks = mean_ranks(scores)
    order = np.argsort(ranks, kind="stable")
    return [whole[i].title for i in order], [float(ranks[i]) for i in order]


def _ranks(task: str, lines: Sequence[MethodLine]) -> list[str]:
    titles, ranks = ranked(lines, TASKS[task])
    if not titles:
        return []
    width = critical_difference(len(titles), len(GRAPHS))
    text = ", ".join(f"{title} {rank:.2f}" for title, rank in zip(titles, ranks))
    return [f"Mean ranks over the eight graphs: {text}. Closer than {width:.2f} (Nemenyi, 5%) is a tie."]
