"""Graphs without features: SelfDMAT on structural columns beside DeepWalk, by clusters, a linear probe and time.

    python scripts/structure_study.py GRAPH .. [--seeds 10] [--workers 1] [--vectors FOLDER | --ours]
                                       [--out ROWS.jsonl]

The features of each graph are removed. `columns` are the structural columns alone, `SelfDMAT` the default method on
them (its seconds include the columns). Clusters: K-Means with the number of classes on the vectors, for SelfDMAT its
own `labels_`. DeepWalk runs with its defaults and one worker, as SelfDMAT does with OMP_NUM_THREADS=1; its vectors
are kept in --vectors (GRAPH-SEED.npz) and taken from there again, or left out with --ours. Labels are read by the
scores alone. With --workers
several runs share the machine: scores are the same then, seconds are not worth much (scripts/structure_time.py).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
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


def rows(name: str, seed: int, vectors: Path | None) -> list[dict[str, Any]]:
    """One row a method for a graph and a seed; without DeepWalk where there is no folder for its vectors."""
    graph = load_dataset(name)
    found = {"DeepWalk": deepwalk(graph, seed, vectors / f"{name}-{seed}.npz")} if vectors else {}
    found["columns"], found["SelfDMAT"] = structural(graph, seed)
    machine = f"{platform.machine()}, {os.cpu_count()} cores shared"
    return [
        {"graph": name, "method": method, "seed": seed, **{key: round(v, 3) for key, v in values.items()}}
        | {"machine": machine}
        for method, values in found.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--vectors", type=Path, default=Path("deepwalk-vectors"))
    parser.add_argument("--ours", action="store_true", help="without DeepWalk")
    root = Path(__file__).parent.parent
    parser.add_argument("--out", type=Path, default=root / "benchmarks" / "results" / "structure-0.2.jsonl")
    options = parser.parse_args()
    vectors = None if options.ours else options.vectors
    if vectors:
        vectors.mkdir(exist_ok=True, parents=True)
    structural_features(load_dataset("cora"))  # kernels are compiled once for a machine, not for a graph
    jobs = [(name, seed, vectors) for name in options.graphs for seed in range(options.seeds)]
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(rows, *job) for job in jobs]):
            with options.out.open("a") as file:
                for row in done.result():
                    file.write(json.dumps(row) + "\n")
                    print(row, flush=True)


if __name__ == "__main__":
    main()
