"""What a leak is worth: links on Cora by the filter alone, filtered on the training graph and on the full one.

Prints the table of docs/evaluation.md: unit rows, PPR(0.1), five splits, mean and deviation in percent.
"""

from __future__ import annotations

import argparse

import numpy as np

from tuplet import GraphFilter, load_dataset
from tuplet.evaluation.links import score_links
from tuplet.filters.weights import ppr
from tuplet.graph.splits import split_edges
from tuplet.rows.unit import scale_rows

METRICS = ("auc", "ap", "hits_at_10", "hits_at_50")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="cora")
    parser.add_argument("--splits", type=int, default=5)
    given = parser.parse_args()
    graph = load_dataset(given.dataset)
    graph = graph.with_(x=scale_rows(graph.x))
    graph_filter = GraphFilter(ppr(0.1))
    found: dict[str, list[list[float]]] = {"filter on the training graph": [], "filter on the full graph (leak)": []}
    for seed in range(given.splits):
        split = split_edges(graph, seed=seed)
        for name, seen in zip(found, (split.graph, graph)):
            values = score_links(graph_filter.transform(seen), split, seed=seed).values
            found[name].append([values[metric] for metric in METRICS])
    print("|  | " + " | ".join(METRICS) + " |\n|---|" + "---|" * len(METRICS))
    for name, rows in found.items():
        cells = [f"{m:.2f} ± {s:.2f}" for m, s in zip(np.mean(rows, axis=0), np.std(rows, axis=0))]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
