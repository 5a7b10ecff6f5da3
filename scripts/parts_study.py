"""The parts of SelfDMAT's vectors, varied: can K-Means on the vectors find `labels_` while links and probe stay?

    TUPLET_DATA=folder python scripts/parts_study.py --minutes 3 [--graphs coauthor-cs,cora] [--out parts.jsonl]

For each graph one fit (seed 100) for clusters and the probe, and one on the training graph of a split for links; then
every variant of the vectors is made of the same rows. A variant: lengths of the parts groups, learned and detail; the
power to which the spread of the detail's columns is raised (1 as it is, below 1 flatter); and how many of the leading
directions of the detail inside of groups are lowered to the next one's spread. docs/LOG.md has what was found.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import tuplet
from tuplet.evaluation.links import score_links
from tuplet.graph.splits import split_edges
from tuplet.metrics import accuracy
from tuplet.models._self_labels import group_means
from tuplet.models.selfdmat import SelfDMAT
from tuplet.rows.kmeans import kmeans
from tuplet.rows.unit import scale_rows

GRAPHS = ("coauthor-cs", "cora", "citeseer", "dblp", "acm", "pubmed", "amazon-photo", "coauthor-phy")
VARIANTS: list[dict[str, Any]] = [
    {"lengths": (groups, learned, 1.0), "power": power, "lowered": lowered}
    for groups, learned, power, lowered in (
        (0.5, 0.5, 1.0, 0),
        (0.7, 0.7, 1.0, 0),
        (0.5, 0.5, 0.5, 0),
        (0.7, 0.7, 0.75, 0),
        (0.7, 0.7, 0.5, 0),
        (1.0, 1.0, 0.5, 0),
        (0.5, 1.0, 0.5, 0),
        (1.0, 1.0, 0.25, 0),
        (0.5, 0.5, 1.0, 8),
        (0.5, 0.5, 1.0, 24),
        (0.7, 0.7, 1.0, 24),
        (0.7, 0.7, 0.5, 24),
        (1.0, 1.0, 0.5, 24),
    )
]


class Kept(SelfDMAT):
    """SelfDMAT that keeps its three parts."""

    def _vectors(self, far_rows: Any, near_rows: Any, work: Any, progress: Any) -> Any:
        self.near_rows, self.turn_ = near_rows, np.empty((0, 0), np.float32)
        self.parts = self._parts(far_rows, near_rows)
        return super()._vectors(far_rows, near_rows, work, progress)


def vectors(model: Kept, s: dict[str, Any]) -> Any:
    groups, learned, _ = model.parts
    rows = model.near_rows - model.near_.centre
    spread = rows.std(axis=0)
    rows = rows * (spread / spread[0]) ** (s["power"] - 1)
    if s["lowered"]:
        rows = lowered(scale_rows(rows), model.labels_, s["lowered"])
    parts = (groups, learned, scale_rows(rows))
    return scale_rows(np.hstack([length * part for length, part in zip(s["lengths"], parts)]))


def lowered(rows: Any, labels: Any, count: int) -> Any:
    """Rows whose `count` leading directions inside of groups have the spread of the next one."""
    inside = rows - group_means(rows, labels, int(labels.max()) + 1)[labels]
    squares, turn = np.linalg.eigh((inside.T @ inside).astype(np.float64))
    squares, turn = squares[::-1], turn[:, ::-1]
    shrink = np.minimum(1, np.sqrt(squares[count] / squares[:count]))
    leading = turn[:, :count].astype(np.float32)
    return rows - ((rows @ leading) * (1 - shrink).astype(np.float32)) @ leading.T


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--probe", default="coauthor-cs,cora,citeseer")
    parser.add_argument("--out", type=Path, default=Path("parts.jsonl"))
    options = parser.parse_args()
    begun = time.time()
    for name in options.graphs.split(","):
        if time.time() - begun > 60 * options.minutes:
            break
        graph = tuplet.load_dataset(name)
        k, blind = int(graph.y.max()) + 1, graph.with_(y=None)
        model, split = Kept(k, seed=100).fit(blind), split_edges(graph, seed=100)
        hidden = Kept(k, seed=100).fit(split.graph.with_(y=None))
        own = 100 * float(accuracy(graph.y, model.labels_))
        for s in VARIANTS:
            z = vectors(model, s)
            row = {"graph": name, **s, "labels": own}
            row["kmeans"] = [100 * float(accuracy(graph.y, kmeans(z, k, seed=i).labels)) for i in (100, 101, 102)]
            row["auc"] = score_links(vectors(hidden, s), split)["auc"]
            if name in options.probe.split(","):
                row["probe"] = tuplet.classify_nodes(z, graph, seed=100).values["accuracy"]
            with options.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            cells = f"{np.mean(row['kmeans']):6.2f} {row['auc']:6.2f} {row.get('probe', 0):6.2f}"
            print(f"{name:14s} {own:6.2f} {cells} {s}", flush=True)


if __name__ == "__main__":
    main()
