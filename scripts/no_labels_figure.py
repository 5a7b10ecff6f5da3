"""Draw docs/images/no-labels.png: clustering accuracy of three methods on the eight graphs.

    python scripts/no_labels_figure.py

FilterSVD and SelfDMAT from benchmarks/results/defaults.jsonl, DMAT-i as published, tuned for each graph.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tuplet.bench.report.published import read_published
from tuplet.bench.report.tables import Comparison, group_rows
from tuplet.bench.rows import read_rows
from tuplet.plots import bars, dataset_title

ROOT = Path(__file__).parents[1]
BARS = {
    "FilterSVD": "FilterSVD, no training",
    "paper": "DMAT-i, tuned on each graph (paper)",
    "SelfDMAT": "SelfDMAT, one setting",
}


def main() -> None:
    groups = [g for g in group_rows(read_rows(ROOT / "benchmarks/results/defaults.jsonl")) if g.task == "clustering"]
    table = Comparison(groups, read_published(ROOT / "benchmarks/paper/published"))
    graphs = [d for d in table.datasets if table.paper(d, "DMAT-i", "all", "accuracy") is not None]
    series = {}
    for method, name in BARS.items():
        look = table.paper if method == "paper" else table.ours
        values = [look(d, "DMAT-i" if method == "paper" else method, "all", "accuracy").mean for d in graphs]
        series[name] = [*values, float(np.mean(values))]
    names = [*(dataset_title(d).split()[-1] for d in graphs), "mean"]
    bars(names, series, y="clustering accuracy, percent", low=55, path=ROOT / "docs" / "images" / "no-labels.png")


if __name__ == "__main__":
    main()
