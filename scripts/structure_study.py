"""Graphs without features: SelfDMAT on structural columns beside DeepWalk, by clusters, a linear probe and time.

    python scripts/structure_study.py GRAPH .. [--seeds 3] [--vectors FOLDER] [--out ROWS.jsonl]

The features of each graph are removed. `columns` are the structural columns alone, `SelfDMAT` the default method on
them (its seconds include the columns). Clusters: K-Means with the number of classes on the vectors, for SelfDMAT its
own `labels_`. DeepWalk runs with its defaults and one worker, as SelfDMAT does with OMP_NUM_THREADS=1; its vectors
are kept in --vectors (GRAPH-SEED.npz) and taken from there again. Labels are read by the scores alone.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np

from tuplet import Graph, SelfDMAT, classify_nodes, cluster_nodes, load_dataset, metrics
from tuplet.baselines import DeepWalk
from tuplet.filters.structural import structural_features

Scores = dict[str, float]


def scores(z: Any, labels: Any, graph: Graph, seed: int) -> Scores:
    found = {"accuracy": 100 * metrics.accuracy(graph.y, labels), "nmi": 100 * metrics.nmi(graph.y, labels)}
    return found | {"probe": classify_nodes(z, graph, seed=seed).values["accuracy"]}


def deepwalk(graph: Graph, seed: int, kept: Path) -> Scores:
    if not kept.exists():
        start = time.perf_counter()
        z = DeepWalk(seed=seed).fit(graph.with_(x=None)).embedding_
        np.savez(kept, z=z, seconds=time.perf_counter() - start)
    with np.load(kept) as saved:
        z, seconds = saved["z"], float(saved["seconds"])
    return scores(z, cluster_nodes(z, graph, seed=seed).labels, graph, seed) | {"seconds": seconds}


def structural(graph: Graph, seed: int) -> tuple[Scores, Scores]:
    start = time.perf_counter()
    x = structural_features(graph, seed)
    alone = time.perf_counter() - start
    model = SelfDMAT(graph.n_classes, seed=seed).fit(graph.with_(x=x))
    whole = time.perf_counter() - start
    columns = scores(x, cluster_nodes(x, graph, seed=seed).labels, graph, seed) | {"seconds": alone}
    return columns, scores(model.embedding_, model.labels_, graph, seed) | {"seconds": whole}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--vectors", type=Path, default=Path("deepwalk-vectors"))
    root = Path(__file__).parent.parent
    parser.add_argument("--out", type=Path, default=root / "benchmarks" / "results" / "structure.jsonl")
    options = parser.parse_args()
    options.vectors.mkdir(exist_ok=True, parents=True)
    structural_features(load_dataset("cora"))  # kernels are compiled once for a machine, not for a graph
    for name in options.graphs:
        graph = load_dataset(name)
        for seed in range(options.seeds):
            rows = {"DeepWalk": deepwalk(graph, seed, options.vectors / f"{name}-{seed}.npz")}
            rows["columns"], rows["SelfDMAT"] = structural(graph, seed)
            with options.out.open("a") as file:
                for method, found in rows.items():
                    row: dict[str, Any] = {"graph": name, "method": method, "seed": seed}
                    row |= {key: round(value, 3) for key, value in found.items()}
                    file.write(json.dumps(row | {"machine": f"{platform.machine()}, 2 cores shared"}) + "\n")
                    print(row, flush=True)


if __name__ == "__main__":
    main()
