"""K-Means on the raw features of the eight graphs beside the paper's KMeans row.

    python scripts/kmeans_row.py [--seeds 10] [--n-init 10] [--datasets cora acm] [--markdown]

Nothing is learned and nothing filtered, so this checks data and metrics alone. A value is marked "=" where the two
means are at most one deviation (the larger of both) apart. Modularity and conductance stand in two rows, plain and
with self loops: the paper's number belongs to one of them. The two Coauthor graphs come twice, the second time with
each column divided by its standard deviation: the paper does not say so, but its numbers look like those.
TUPLET_DATA names the folder of the graphs, where they are not cached.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from tuplet import cluster_nodes, load_dataset, repeat
from tuplet.evaluation.results import Summary

PUBLISHED = Path(__file__).parent.parent / "benchmarks" / "paper" / "published" / "clustering.csv"
DATASETS = ["acm", "dblp", "cora", "citeseer", "pubmed", "amazon-photo", "coauthor-cs", "coauthor-phy"]

COUNTS = ("coauthor-cs", "coauthor-phy")  # features are word counts; all others are 0/1 or TF-IDF


def published() -> dict[tuple[str, str], tuple[float, float]]:
    """(dataset, metric) -> mean and deviation of the paper's KMeans row."""
    with PUBLISHED.open() as file:
        rows = [row for row in csv.DictReader(file) if row["method"] == "KMeans"]
    return {(row["dataset"], row["metric"]): (float(row["mean"]), float(row["std"])) for row in rows}


def divided_columns(x: sp.csr_array) -> sp.csr_array:
    """Each column over its standard deviation. K-Means does not feel a shift, so the zeros stay."""
    mean, square = x.mean(axis=0), x.multiply(x).mean(axis=0)
    deviation = np.sqrt(np.maximum(square - mean**2, 0))
    factors = np.divide(1, deviation, out=np.zeros_like(deviation), where=deviation > 0)
    return sp.csr_array(x @ sp.diags_array(factors.astype(np.float32)))


def measured(name: str, seeds: int, n_init: int, *, divide: bool = False) -> Summary:
    """K-Means on the features as they are, or on divided columns: no scaling of rows."""
    graph = load_dataset(name)
    x = divided_columns(sp.csr_array(graph.x)) if divide else graph.x
    return repeat(lambda seed: cluster_nodes(x, graph, seed=seed, n_init=n_init, unit_rows=False), seeds)


def cells(
    name: str, summary: Summary, paper: dict[tuple[str, str], tuple[float, float]]
) -> dict[str, tuple[str, str, bool]]:
    """metric -> ours, the paper's, and whether they are at most one deviation apart."""
    found = {}
    for metric, mean in summary.mean.items():
        deviation = summary.deviation[metric]
        theirs, spread = paper[name, metric.removesuffix("_self_loops")]
        near = abs(mean - theirs) <= max(deviation, spread)
        found[metric] = (f"{mean:.2f} ± {deviation:.2f}", f"{theirs:.2f} ± {spread:.2f}", near)
    return found


def text(title: str, found: dict[str, tuple[str, str, bool]]) -> str:
    """One line a metric."""
    rows = [f"{title:<18} {m:<23} {o:>14} {p:>14} {'=' if near else ''}" for m, (o, p, near) in found.items()]
    return "\n".join(rows)


def markdown(title: str, found: dict[str, tuple[str, str, bool]]) -> str:
    """One row of a Markdown table: ours / paper's, ours bold where they agree."""
    row = [f"**{o}** / {p}" if near else f"{o} / {p}" for o, p, near in found.values()]
    return f"| {title} | {' | '.join(row)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--n-init", type=int, default=10, help="starts of K-Means; the best is kept")
    parser.add_argument("--datasets", nargs="+", default=DATASETS, metavar="NAME")
    parser.add_argument("--markdown", action="store_true", help="print the rows of a Markdown table")
    options = parser.parse_args()
    paper = published()
    for name in options.datasets:
        for divide in (False, True) if name in COUNTS else (False,):
            summary = measured(name, options.seeds, options.n_init, divide=divide)
            title = f"{name} / std" if divide else name
            show = markdown if options.markdown else text
            print(show(title, cells(name, summary, paper)), flush=True)


if __name__ == "__main__":
    main()
