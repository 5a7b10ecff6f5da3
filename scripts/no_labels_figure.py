"""Draw docs/images/no-labels.png: clustering accuracy of three methods on the eight graphs.

    python scripts/no_labels_figure.py

FilterSVD and SelfDMAT from benchmarks/results/defaults.jsonl, DMAT-i as published, tuned for each graph.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from tuplet.bench.report.published import read_published
from tuplet.bench.report.tables import Comparison, group_rows
from tuplet.bench.rows import read_rows
from tuplet.plots import dataset_title

ROOT = Path(__file__).parents[1]
BARS = (
    ("FilterSVD", "FilterSVD, no training", "#b8c4cc"),
    ("paper", "DMAT-i, tuned on each graph (paper)", "#e0a458"),
    ("SelfDMAT", "SelfDMAT, one setting", "#2a6f97"),
)


def main() -> None:
    groups = [g for g in group_rows(read_rows(ROOT / "benchmarks/results/defaults.jsonl")) if g.task == "clustering"]
    table = Comparison(groups, read_published(ROOT / "benchmarks/paper/published"))
    graphs = [d for d in table.datasets if table.paper(d, "DMAT-i", "all", "accuracy") is not None]
    figure, axes = plt.subplots(figsize=(9, 3.4), layout="constrained")
    place = np.arange(len(graphs) + 1)
    for i, (method, name, colour) in enumerate(BARS):
        look = table.paper if method == "paper" else table.ours
        values = [look(d, "DMAT-i" if method == "paper" else method, "all", "accuracy").mean for d in graphs]
        axes.bar(place + 0.27 * (i - 1), [*values, np.mean(values)], 0.25, label=name, color=colour)
    axes.set_xticks(place, [*(dataset_title(d).split()[-1] for d in graphs), "mean"])
    axes.set_ylim(55, 95)
    axes.set_ylabel("clustering accuracy (%)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, 1.16))
    figure.savefig(ROOT / "docs" / "images" / "no-labels.png", dpi=110)


if __name__ == "__main__":
    main()
