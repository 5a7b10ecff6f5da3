"""The parts of SelfDMAT's vectors, varied: K-Means on them against `labels_`, the probe and links.

    TUPLET_DATA=folder python scripts/parts_study.py --out rows.jsonl [--graphs coauthor-cs,many-a] [--seeds 100,101]

For each graph and seed one fit for clusters and the probe, and on the graphs of the paper one on the training graph
of a split for links; then every variant of the vectors is made of the same rows. A variant: lengths of groups and
learned part (the detail has 1), how many of the widest columns of the detail are lowered to the next one, in groups,
and how far: 1 is all of the way, by logarithms. Graphs of scripts/validation_graphs.py have K-Means alone.
docs/LOG.md has what was found.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from frontier import EIGHT, VALIDATION
from validation_graphs import make

import tuplet
from tuplet.evaluation.links import score_links
from tuplet.graph import Graph
from tuplet.graph.splits import split_edges
from tuplet.metrics import accuracy
from tuplet.models.selfdmat import SelfDMAT
from tuplet.rows.kmeans import kmeans

VARIANTS = [(0.4, 0.3, columns, 1.0) for columns in (0, 1, 2, 4)]
VARIANTS += [(0.4, 0.3, 2, power) for power in (0.5, 0.75)]
VARIANTS += [
    (groups, learned, 2, 1.0) for groups, learned in ((0.45, 0.45), (0.35, 0.35), (0.3, 0.4), (0.4, 0.2), (0.5, 0.3))
]


class Kept(SelfDMAT):
    """SelfDMAT that keeps its projected rows."""

    def _vectors(self, far_rows: Any, near_rows: Any, work: Any, progress: Any) -> Any:
        self.rows = far_rows, near_rows
        return super()._vectors(far_rows, near_rows, work, progress)

    def variant(self, groups: float, learned: float, columns: int, power: float) -> Any:
        """The vectors with these lengths, and so many columns a group lowered, so far."""
        near = replace(self.near_, level=float(self.near_.spread.max()))
        near = near.lowered(columns * self.n_clusters_) if columns else near
        over = np.maximum(near.spread / near.level, 1)
        near = replace(near, spread=(near.spread * over ** (power - 1)).astype(np.float32))
        return replace(self._parts(), near=near, lengths=(groups, learned, 1.0)).joined(*self.rows)


def graph_of(name: str) -> Graph:
    if name in EIGHT:
        return tuplet.load_dataset(name)
    made = make(name)
    return Graph.from_scipy(made["adj"], made["x"], y=made["y"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", default=",".join((*EIGHT, *VALIDATION)))
    parser.add_argument("--seeds", default="100,101")
    parser.add_argument("--out", type=Path, required=True, help="rows are appended here")
    options = parser.parse_args()
    for name in options.graphs.split(","):
        graph = graph_of(name)
        for seed in map(int, options.seeds.split(",")):
            for row in rows_of(graph, seed, probe=name in EIGHT):
                with options.out.open("a") as file:
                    file.write(json.dumps({"graph": name, "seed": seed, **row}) + "\n")
            print(name, seed, flush=True)


def rows_of(graph: Graph, seed: int, *, probe: bool) -> Any:
    k = int(graph.y.max()) + 1
    model, split = Kept(k, seed=seed).fit(graph.with_(y=None)), split_edges(graph, seed=seed)
    hidden = Kept(k, seed=seed).fit(split.graph.with_(y=None)) if probe else None
    for variant in VARIANTS:
        z = model.variant(*variant)
        row: dict[str, Any] = dict(zip(("groups", "learned", "lowered", "power"), variant))
        row["labels"] = 100 * float(accuracy(graph.y, model.labels_))
        row["kmeans"] = 100 * float(accuracy(graph.y, kmeans(z, k, seed=seed).labels))
        if hidden is not None:
            splits = range(seed, seed + 4)
            row["probe"] = float(
                np.mean([tuplet.classify_nodes(z, graph, seed=s).values["accuracy"] for s in splits])
            )
            found = score_links(hidden.variant(*variant), split).values
            row |= {"auc": found["auc"], "ap": found["ap"]}
        yield row


if __name__ == "__main__":
    main()
