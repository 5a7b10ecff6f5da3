"""What one setting cannot have at once: SelfDMAT with one step or one setting changed, the number of classes given.

    TUPLET_DATA=folder python scripts/frontier.py --out rows.jsonl [--only "far filter .1"] [--seeds 100,101]
    python scripts/frontier.py --table rows.jsonl

Each change runs on the paper's eight graphs and on the validation graphs a and b (scripts/validation_graphs.py); rows
that the file holds are skipped. Labels score and choose nothing here, but whoever takes a line of the table for its
score has chosen by labels. docs/no-labels.md shows the table.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from validation_graphs import NAMES, UNSEEN, make

import tuplet
from tuplet import Graph, SelfDMAT
from tuplet.metrics import accuracy, ari, modularity, nmi
from tuplet.models._groups import found_groups
from tuplet.models._self_labels import group_means, of_any_size
from tuplet.rows.kmeans import kmeans
from tuplet.rows.lloyd import Clusters

EIGHT = ("acm", "dblp", "cora", "citeseer", "pubmed", "amazon-photo", "coauthor-cs", "coauthor-phy")
VALIDATION = tuple(name for name in NAMES if name not in UNSEEN)


def clusters(rows: Any, labels: Any, k: int) -> Clusters:
    labels = np.asarray(labels, np.int64)
    return Clusters(labels, group_means(rows, labels, k))


def rotated(rows: Any, k: int, seed: int) -> Clusters:
    """Groups by the rotation of k columns that brings the rows nearest to one-hot ones (Yu and Shi, 2003)."""
    v = rows[:, :k] / np.maximum(np.linalg.norm(rows[:, :k], axis=1, keepdims=True), 1e-9)
    best: tuple[float, Any] = (-1.0, None)
    for start in range(10):
        rng = np.random.default_rng([seed, start])
        turn, near = np.zeros((k, k)), np.zeros(len(v))
        turn[:, 0] = v[rng.integers(len(v))]
        for j in range(1, k):
            near += np.abs(v @ turn[:, j - 1])
            turn[:, j] = v[near.argmin()]
        last = 0.0
        for _ in range(100):
            labels = (v @ turn).argmax(axis=1)
            left, values, right = np.linalg.svd(np.eye(k)[labels].T @ v)
            if abs(values.sum() - last) < 1e-6:
                break
            last, turn = values.sum(), (left @ right).T
        best = max(best, (float(values.sum()), labels), key=lambda pair: pair[0])
    return clusters(rows, best[1], k)


def linked(rows: Any, k: int, seed: int) -> Clusters:
    """Groups by average linkage of the centres of 3k small clusters."""
    small = kmeans(rows, 3 * k, seed=seed, n_init=3, unit_rows=False)
    merged = fcluster(linkage(small.centres, "average"), k, "maxclust") - 1
    return clusters(rows, merged[small.labels], k)


class Change:
    """One change: settings of SelfDMAT, what finds the first or the last groups, and what stands in for functions."""

    def __init__(
        self,
        *,
        start: Callable[[Graph, Any, int, int], Clusters] | None = None,
        last: Callable[[Any, int, int, Any], Any] | None = None,
        patches: Any = (),
        **settings,
    ):
        self.start, self.last, self.patches, self.settings = start, last, dict(patches), settings

    @contextmanager
    def made(self, graph: Graph) -> Iterator[None]:
        def found(rows: Any, k: int, *, seed: int, known: Any = None, **rest: Any) -> Any:
            if known is None and self.start is not None:
                return self.start(graph, rows, k, seed).labels
            if known is not None and self.last is not None:
                return self.last(rows, k, seed, known)
            return found_groups(rows, k, seed=seed, known=known, **rest)

        with ExitStack() as stack:
            for place, value in (self.patches | {"tuplet.models.selfdmat.found_groups": found}).items():
                stack.enter_context(patch(place, value))
            yield

    def fit(self, graph: Graph, k: int, seed: int) -> SelfDMAT:
        given = self.settings | {name: value(k) for name, value in self.settings.items() if callable(value)}
        with self.made(graph):
            return SelfDMAT(k, seed=seed, **given).fit(graph)


def by_modularity(graph: Graph, rows: Any, k: int, seed: int) -> Clusters:
    """K-Means, then groups of any size; or the rotation, whichever has the higher modularity."""
    sized = of_any_size(rows, kmeans(rows, k, seed=seed, n_init=50, unit_rows=False))
    return max((sized, rotated(rows, k, seed)), key=lambda found: modularity(graph, found.labels))


def first_ones(rows: Any, k: int, seed: int, known: Any) -> Any:
    return known


EDGE = "tuplet.models._agreement._EDGE"
CHANGES = {
    "as it is": Change(),
    "labels: edges do not count": Change(patches={EDGE: 0.0}),
    "labels: edges count twice as much": Change(patches={EDGE: 4.0}),
    "groups: sizes as K-Means has them": Change(
        patches={"tuplet.models._groups.of_any_size": lambda rows, found: found}
    ),
    "groups: rotation to one-hot rows": Change(start=lambda graph, rows, k, seed: rotated(rows, k, seed)),
    "groups: average linkage of 3k small clusters": Change(start=lambda graph, rows, k, seed: linked(rows, k, seed)),
    "groups: K-Means or rotation, by modularity": Change(start=by_modularity),
    "groups: the same, and not looked for again": Change(start=by_modularity, last=first_ones),
    "last groups: as the first ones are": Change(last=first_ones),
    "last groups: from fifty starts": Change(
        last=lambda rows, k, seed, known: found_groups(rows, k, seed=seed, n_init=50, device="cpu")
    ),
    "vectors: no column lowered": Change(patches={"tuplet.models._spectrum.Spectrum.lowered": lambda self, _: self}),
    "far filter .1": Change(far=0.1),
    "far filter .03": Change(far=0.03),
    "near filter .1": Change(near=0.1),
    "encoder: four columns a group and no more": Change(columns=1),
    "training: 150 steps": Change(max_steps=150),
}


def graph_of(name: str) -> tuple[Graph, Any]:
    if name in EIGHT:
        graph = tuplet.load_dataset(name)
        return graph.with_(y=None), np.asarray(graph.y)
    made = make(name)
    return Graph.from_scipy(made["adj"], made["x"]), made["y"]


def run(out: Path, only: str, seeds: list[int]) -> None:
    known = {(row["graph"], row["change"], row["seed"]) for row in rows_of(out)}
    for name in (*EIGHT, *VALIDATION):
        graph, y = graph_of(name)
        k = len(np.unique(y))
        for title, seed in ((title, seed) for title in CHANGES for seed in seeds):
            if only in title and (name, title, seed) not in known:
                model = CHANGES[title].fit(graph, k, seed)
                on_vectors = kmeans(model.embedding_, k, seed=seed).labels
                scores = {"accuracy": accuracy(y, model.labels_), "nmi": nmi(y, model.labels_)}
                scores |= {"ari": ari(y, model.labels_), "kmeans": accuracy(y, on_vectors)}
                row = {"graph": name, "change": title, "seed": seed}
                row |= {metric: round(100 * float(value), 3) for metric, value in scores.items()}
                with out.open("a") as file:
                    file.write(json.dumps(row) + "\n")


def rows_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def table(file: Path) -> str:
    """Means as Markdown: the eight graphs, four of them alone, the validation graphs."""
    found = rows_of(file)

    def mean(title: str, graphs: tuple[str, ...], metric: str) -> str:
        each = [[r[metric] for r in found if (r["graph"], r["change"]) == (graph, title)] for graph in graphs]
        return f"{fmean(map(fmean, each)):.1f}" if all(each) else ""

    titles = ("accuracy", "NMI", "ARI", "K-Means on vectors", "Cora", "Pubmed", "CS", "Physics", "validation graphs")
    lines = [f"| instead of what it does | {' | '.join(titles)} |", "|---" + "|--:" * len(titles) + "|"]
    for title in CHANGES:
        cells = [mean(title, EIGHT, metric) for metric in ("accuracy", "nmi", "ari", "kmeans")]
        cells += [mean(title, (graph,), "accuracy") for graph in ("cora", "pubmed", "coauthor-cs", "coauthor-phy")]
        lines.append(f"| {title} | {' | '.join([*cells, mean(title, VALIDATION, 'accuracy')])} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="rows are appended here")
    parser.add_argument("--only", default="", help="changes whose title holds this")
    parser.add_argument("--seeds", default="100,101", help="not those that are reported (0 to 9)")
    parser.add_argument("--table", type=Path, help="print the table of a file of rows")
    options = parser.parse_args()
    if options.table:
        print(table(options.table))
    elif options.out:
        run(options.out, options.only, [int(seed) for seed in options.seeds.split(",")])
    else:
        parser.error("give --out or --table")


if __name__ == "__main__":
    main()
