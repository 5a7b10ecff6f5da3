"""The body of each section of the report: tables and counts, one function a task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tuplet.bench.report.statistics import tally
from tuplet.bench.report.tables import Comparison, Group, cell, markdown_table
from tuplet.metrics import LABEL_SCORES, clustering_metrics
from tuplet.models.registry import default_method, own_methods
from tuplet.plots import dataset_title

FOUR = tuple(LABEL_SCORES)
SIX = clustering_metrics()
OURS = default_method(recipe=True)
BY_RECIPE = f"{OURS} with the recipes of 0.1, which were **chosen with labels**"
# The paper's table: cost of training in nodes N, edges E, features d, layers L and batch B.
PAPER_COSTS = {
    "DMAT-i": ("L·B·d²", "B·d + L·d²"),
    **dict.fromkeys(("GCA", "DGI", "SDCN", "ProGCL"), ("L·E·d + L·N·d²", "N·d + E + L·d²")),
    **dict.fromkeys(("AGC", "SSGC", "AGE"), ("E·d + N·d", "N·d + E")),
}
SIZES = {"n": "nodes N", "e": "edges E", "f": "features d", "b": "batch B"}


def clustering_section(c: Comparison, groups: Sequence[Group]) -> list[str]:
    """Our method on every metric, how many cells reach the paper's, then every method on each metric."""
    parts = []
    for method, usage in c.methods:
        if method == OURS:
            rows = [[dataset_title(d), *(_cell(c, d, method, usage, m) for m in SIX)] for d in c.datasets]
            parts += [f"**{method}**", markdown_table(["graph", *SIX], rows), _clustering_counts(c)]
    parts.append(_means(c))
    for metric in SIX if c.methods != [(OURS, "all")] else ():  # else the first table has them all
        parts += [f"**{metric}, every method**", _by_method(c, metric)]
    parts.append(
        "Modularity and conductance of ACM, DBLP and Citeseer count self loops as edges, as the paper's do; the "
        "plain values are in the rows. Lower conductance is better."
    )
    return parts


def _clustering_counts(c: Comparison) -> str:
    return _counts(
        c,
        (
            (f"accuracy against the paper's {OURS}", ("accuracy",), "same"),
            ("accuracy, NMI, ARI and F1 against it", FOUR, "same"),
            ("accuracy against the best of all methods in the paper's table", ("accuracy",), "best"),
        ),
    )


def _counts(c: Comparison, what: Sequence[tuple[str, Sequence[str], str]], *, method: str = OURS) -> str:
    """Wins, ties and losses of our method, a line for each (text, metrics, against)."""
    lines = []
    for text, metrics, against in what:
        found = c.verdicts(method, metrics, against=against)
        if found:
            lines.append(f"- {text}: {tally(found)}")
    return "\n".join(lines)


def _means(c: Comparison) -> str:
    """Means over the real graphs, for each method that has all of them, so that one line compares methods."""
    real = [d for d in c.datasets if "~" not in d and not d.startswith("blocks")]
    rows = []
    for method, usage in c.methods:
        values = [[c.ours(d, method, usage, m) for m in FOUR] for d in real]
        if all(number is not None for row in values for number in row):
            means = np.mean([[n.mean for n in row if n is not None] for row in values], axis=0)
            rows.append([method, *(f"{value:.2f}" for value in means)])
    title = f"**Means over {len(real)} graphs**"
    return f"{title}\n\n{markdown_table(['method', *FOUR], rows)}" if rows else ""


def classification_section(c: Comparison, groups: Sequence[Group]) -> list[str]:
    """Test accuracy of each method and usage on each graph."""
    lines = []
    for method, usage in c.methods:
        found = c.verdicts(method, ("accuracy",), usage=usage) if method in own_methods() else []
        if found:
            name = f"{method} on the training nodes" if usage == "train" else method
            lines.append(f"- {name} against the paper's: {tally(found)}")
    return [_by_method(c, "accuracy"), "\n".join(lines)]


def links_section(c: Comparison, groups: Sequence[Group]) -> list[str]:
    """AUC and average precision of each method on each graph."""
    both = ("auc", "ap")
    counts = _counts(c, ((f"{OURS} against the paper's", both, "same"), ("against its best method", both, "best")))
    return ["**AUC**", _by_method(c, "auc"), "**Average precision**", _by_method(c, "ap"), counts]


def convergence_section(c: Comparison, groups: Sequence[Group]) -> list[str]:
    """Seconds of each method on each graph."""
    about = (
        "Seconds from features to vectors. The paper's were measured on another machine (NVIDIA V100); ours, and the "
        f"limits that ended runs, on CPU cores. {OURS} from its filter with the settings of block (b), which were "
        "**chosen with labels** of validation nodes, the length of training too."
    )
    return [about, _by_method(c, "convergence_seconds")]


def tau0_section(c: Comparison, groups: Sequence[Group]) -> list[str]:
    """Quartiles beside the paper's."""
    rows, near = [], 0
    for g in groups:
        cells, ratio = [], math.nan
        for metric in ("q1", "median", "q3"):
            ours, paper = g.number(metric), c.paper(g.dataset, g.method, g.usage, metric)
            cells.append("-" if ours is None else f"{ours.mean:.2f}" + (f" ({paper.mean:.2f})" if paper else ""))
            if metric == "median" and ours is not None and paper is not None:
                ratio = ours.mean / paper.mean
        near += 0.1 < ratio < 10
        rows.append([dataset_title(g.dataset), *cells, "-" if math.isnan(ratio) else f"{ratio:.2f}"])
    table = markdown_table(["graph", "Q1 (paper)", "median (paper)", "Q3 (paper)", "median / paper's"], rows)
    return [f"{BY_RECIPE}.", table, f"- medians within a factor of ten of the paper's: {near} of {len(rows)}"]


def hardness_section(c: Comparison, groups: Sequence[Group]) -> list[str]:
    """Mean similarity among negative pairs, and the share of hard ones, for the three sets of vectors."""
    sources = ("features", "filtered", "vectors")
    columns = ["graph", *(f"mean, {s}" for s in sources), *(f"above 0.25, {s}" for s in sources)]
    rows = []
    for g in groups:
        means = [_plain(g.number(f"mean_{s}"), 3) for s in sources]
        shares = [_plain(g.number(f"hard_{s}"), 1) for s in sources]
        rows.append([dataset_title(g.dataset), *means, *shares])
    about = (
        "Cosine similarity of random pairs of nodes with different labels; share of pairs above 0.25 in percent. "
        f"{BY_RECIPE}."
    )
    return [about, markdown_table(columns, rows)]


THEORY = {
    "lemma1_holds": "Lemma 1 holds, share",
    "theorem1_left": "Theorem 1, left",
    "theorem1_right": "right",
    "lemma_a1_share_0.5": "Lemma A.1: share with a gap of .5 or more",
    "lemma_a1_bound_0.5": "its bound",
    "lemma_a1_share_1": "of 1 or more",
    "lemma_a1_bound_1": "its bound",
    "largest_difference": "Lemma A.3: largest difference of cosines",
    "theorem2_supervised": "Theorem 2: supervised loss",
    "theorem2_dmati": "DMAT-i loss",
    "theorem2_complexity": "its term for the class of encoders",
}


def theory_section(c: Comparison, groups: Sequence[Group]) -> list[str]:
    """What the paper states beside what is measured, graph by graph."""
    rows = [[dataset_title(g.dataset), *(_plain(g.number(name), 2) for name in THEORY)] for g in groups]
    about = "Measured on vectors of DMAT-i, 2000 anchors, plain numbers; [theory](theory.md) explains."
    return [about, markdown_table(["graph", *THEORY.values()], rows)]


def complexity_section(c: Comparison, groups: Sequence[Group]) -> list[str]:
    """How seconds and memory grow with each size, as the exponent of a power law, beside the paper's O()."""
    rows = []
    for method in dict.fromkeys(g.method for g in groups):
        mine = [g for g in groups if g.method == method and g.runs]
        compute, memory = PAPER_COSTS.get(method, ("-", "-"))
        costs = [("seconds", "step_ms", compute), ("memory", "train_mb", memory)]
        if any("filter_ms" in g.values for g in mine):
            costs.append(("seconds of the filter", "filter_ms", "-"))
        for title, measure, theirs in costs:
            exponents = [_plain(exponent(mine, size, measure), 2) for size in SIZES]
            rows.append([f"{method}, {title}", *exponents, theirs])
    about = (
        "Measured exponent of the cost in each size, the others fixed (0: does not grow, 1: linear). DMAT-i: one "
        "training step, and apart from it the filter, which runs once; the other methods: their whole fit on the "
        "graph. All layers are as wide as the features. Small sizes hide under fixed costs. The paper's column is "
        "that of training alone."
    )
    return [about, markdown_table(["", *SIZES.values(), "paper, O()"], rows)]


def exponent(groups: Sequence[Group], size: str, measure: str) -> float | None:
    """Slope of log(measure) against log(size) over the groups that differ from the first in `size` alone."""
    points = []
    for g in groups:
        same = all(g.values[s][0] == groups[0].values[s][0] for s in SIZES if s != size)
        value = g.number(measure)
        if same and value is not None and value.mean > 0:
            points.append((math.log(g.values[size][0]), math.log(value.mean)))
    return slope(points)


def slope(points: Sequence[tuple[float, float]]) -> float | None:
    """Least-squares slope; None with fewer than two different x.

    >>> slope([(0, 1), (1, 3), (2, 5)])
    2.0
    """
    x, y = np.array([p[0] for p in points]), np.array([p[1] for p in points])
    if len(set(x.tolist())) < 2:
        return None
    return float(((x - x.mean()) @ (y - y.mean())) / ((x - x.mean()) @ (x - x.mean())))


def scale_section(c: Comparison, groups: Sequence[Group]) -> list[str]:
    """The ladder: seconds by phase, peaks of memory and disk; the slope of time against nodes."""
    parts = []
    for method in dict.fromkeys(g.method for g in groups):
        mine = [g for g in groups if g.method == method]
        phases = list(dict.fromkeys(phase for g in mine for row in g.rows for phase in row["seconds"]))
        rows, points = [], []
        for g in sorted((g for g in mine if g.runs), key=lambda g: g.values["nodes"][0]):
            seconds = [_mean(row["seconds"].get(p, 0.0) for row in g.rows if "error" not in row) for p in phases]
            total = g.number("total_seconds")
            peaks = [_plain(g.number(name), 0) for name in ("peak_mb", "disk_mb")]
            rows.append([f"{g.values['nodes'][0]:.0e}".replace("e+0", "e"), *(f"{s:.2f}" for s in seconds)])
            rows[-1] += [_plain(total, 1), *peaks]
            if total is not None:
                points.append((math.log10(g.values["nodes"][0]), math.log10(max(total.mean, 1e-9))))
        parts.append(f"**{method}**")
        if rows:
            parts.append(markdown_table(["nodes", *phases, "all but generate", "peak MB", "disk MB"], rows))
        steep = slope(points)
        if steep is not None:
            parts.append(f"- slope of log seconds against log nodes: {steep:.2f}")
        parts += [f"- stops at {g.dataset}: {g.error}" for g in mine if g.error and not g.runs][:1]
    return parts


def _by_method(c: Comparison, metric: str) -> str:
    rows = []
    for method, usage in c.methods:
        name = f"{method} (training nodes)" if usage == "train" else method
        rows.append([name, *(_cell(c, d, method, usage, metric) for d in c.datasets)])
    return markdown_table(["method", *map(dataset_title, c.datasets)], rows)


def _cell(c: Comparison, dataset: str, method: str, usage: str, metric: str) -> str:
    where: Any = (dataset, method, usage, metric)
    return cell(c.ours(*where), c.paper(*where), metric, c.empty(dataset, method, usage))


def _plain(value: Any, digits: int) -> str:
    if value is None:
        return "-"
    return f"{getattr(value, 'mean', value):.{digits}f}"


def _mean(values: Any) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0
