"""Ways to make structural columns, compared on made-up graphs without their features (scripts/validation_graphs.py).

    OMP_NUM_THREADS=1 python scripts/structure_choice.py [--graphs NAME ..] [--seeds 3] [--workers 1] [--only WAY ..]
                                                         [--out ROWS.jsonl]

SelfDMAT on the columns of each way (of some, with other filters), and DeepWalk, by clusters and a linear probe; seeds
from 100 on. The third graph of each kind ("-c") stays unseen unless it is named. What wins here may become the
default; the graphs that are reported choose nothing.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from validation_graphs import NAMES, UNSEEN, make

from tuplet import Graph, SelfDMAT, classify_nodes, cluster_nodes, load_dataset, metrics, read_graph
from tuplet.baselines import DeepWalk
from tuplet.filters import structural
from tuplet.filters._operator import make_operator
from tuplet.kernels.push import walk_ends
from tuplet.kernels.walk import random_walks
from tuplet.rows.svd import truncated_svd

Ways = Callable[[Graph, int], Any]


def walks(stop: float = 0.2, power: float = 0.5, count: int = 200, d: int = 128) -> Ways:
    """Singular vectors of the log ratios of walks' ends, times a power of the singular values."""

    def columns(graph: Graph, seed: int) -> Any:
        structural.STOP, structural.WALKS = stop, count
        return factors(structural._log_ratios(graph, seed), power, d, seed)

    return columns


def factors(matrix: Any, power: float, d: int, seed: int) -> Any:
    found = truncated_svd(matrix, min(d, matrix.shape[0] - 1), seed=seed)
    return np.ascontiguousarray(found.left * found.values**power, dtype=np.float32)


def visits(graph: Graph, seed: int, count: int, window: int) -> Any:
    """Weights (n, n) of the nodes that walks of `window` steps pass, as DeepWalk weighs them: near ones more."""
    starts = np.repeat(np.arange(graph.n_nodes), count)
    passed = random_walks(graph.indptr, graph.indices, starts, window + 1, seed=seed)[:, 1:]
    weights = np.arange(window, 0, -1) * (2 / (window + 1))  # their sum is the window
    there = passed >= 0
    values = np.broadcast_to(weights.astype(np.float32), passed.shape)[there]
    rows = np.broadcast_to(starts[:, None], passed.shape)[there]
    return sp.csr_array((values, (rows, passed[there])), shape=(graph.n_nodes,) * 2)


def ends(graph: Graph, seed: int, count: int, stop: float) -> Any:
    """How many of `count` walks from i end at j (n, n)."""
    n, op = graph.n_nodes, make_operator(graph, self_loops=False)
    found = walk_ends(op, stop, count, seed).astype(np.int64)
    there = found < n
    starts = np.repeat(np.arange(n), count)[there]
    return sp.csr_array((np.ones(len(starts), np.float32), (starts, found[there])), shape=(n, n))


def pooled(
    prior: float = 0.0, power: float = 0.5, count: int = 200, stop: float = 0.2, window: int = 0, d: int = 128
) -> Ways:
    """log of (both counts + prior) / (both expected counts + prior), where above 0; `d` 0: the matrix itself."""

    def columns(graph: Graph, seed: int) -> Any:
        counts = visits(graph, seed, count, window) if window else ends(graph, seed, count, stop)
        both = sp.coo_array(sp.csr_array(counts + counts.T))
        degrees = np.asarray(graph.degrees, np.float64)
        total = count * max(window, 1) / degrees.sum()
        expected = total * (degrees[both.row] + degrees[both.col])
        values = np.log(np.maximum((both.data + prior) / (expected + prior), 1)).astype(np.float32)
        matrix = sp.csr_array((values, (both.row, both.col)), shape=both.shape)
        matrix.eliminate_zeros()
        return factors(matrix, power, d, seed) if d else matrix

    return columns


def adjacency(power: float) -> Ways:
    """Singular vectors of the normalised adjacency."""

    def columns(graph: Graph, seed: int) -> Any:
        root = sp.diags_array(1 / np.sqrt(np.maximum(graph.degrees, 1)))
        return factors(sp.csr_array(root @ graph.adj @ root), power, 128, seed)

    return columns


def ratios(graph: Graph, seed: int) -> Any:
    """The log ratios themselves, a column for each node."""
    structural.STOP, structural.WALKS = 0.2, 200
    return structural._log_ratios(graph, seed)


def projected(graph: Graph, seed: int) -> Any:
    """Random signs, averaged over neighbours once and twice."""
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (graph.n_nodes, 128))
    step = sp.diags_array(1 / np.maximum(graph.degrees, 1)) @ graph.adj
    once = step @ signs
    return np.hstack([once, step @ once]).astype(np.float32)


WAYS: dict[str, Ways] = {
    "walks": walks(),
    "stop 0.1": walks(stop=0.1),
    "stop 0.3": walks(stop=0.3),
    "stop 0.5": walks(stop=0.5),
    "power 0": walks(power=0.0),
    "power 0.25": walks(power=0.25),
    "power 1": walks(power=1.0),
    "stop 0.1, power 1": walks(stop=0.1, power=1.0),
    "1000 walks": walks(count=1000),
    "64 columns": walks(d=64),
    "256 columns": walks(d=256),
    "adjacency": adjacency(1.0),
    "adjacency, power 0.5": adjacency(0.5),
    "projected": projected,
    "ratios": ratios,
    "pooled": pooled(),
    "pooled, prior 1": pooled(1.0),
    "pooled, prior 1, power 1": pooled(1.0, power=1.0),
    "pooled, prior 1, ratios": pooled(1.0, d=0),
    "window 10": pooled(0.0, count=40, window=10),
    "window 10, prior 1": pooled(1.0, count=40, window=10),
    "window 10, prior 1, power 1": pooled(1.0, power=1.0, count=40, window=10),
    "window 10, prior 1, ratios": pooled(1.0, count=40, window=10, d=0),
}
FILTERS: dict[str, dict[str, float]] = {  # the default columns, filtered otherwise: they are walks' ends already
    "default": {},
    "far 0.1, near 0.3": {"far": 0.1, "near": 0.3},
    "far 0.1, near 0.5": {"far": 0.1, "near": 0.5},
    "far 0.2, near 0.5": {"far": 0.2, "near": 0.5},
    "far 0.3, near 0.8": {"far": 0.3, "near": 0.8},
    "far 0.5, near 0.8": {"far": 0.5, "near": 0.8},
    "hardly filtered": {"far": 0.95, "near": 0.95},
}
WAYS |= dict.fromkeys(FILTERS, structural.structural_features)
TABLES = ("debian", "installed", "pypi", "npm", "languages")  # benchmarks/tables: real edges and classes
REAL = ("pubmed", "coauthor-cs", *TABLES)


def load(name: str) -> Graph:
    """The graph called `name` without its features."""
    if name in TABLES:
        start = Path(__file__).parent.parent / "benchmarks" / "tables" / name
        graph = read_graph(f"{start}.edges.parquet", f"{start}.nodes.parquet", label="label")
        return graph.with_(x=None, feature_names=())
    if name in REAL:
        return load_dataset(name).with_(x=None, feature_names=())
    made = make(name)
    return Graph.from_scipy(made["adj"], None, made["y"])


def row(name: str, way: str, seed: int) -> dict[str, Any]:
    logging.disable(logging.CRITICAL)
    graph = load(name)
    start = time.process_time()
    if way == "DeepWalk":
        z = DeepWalk(seed=seed).fit(graph).embedding_
        labels = cluster_nodes(z, graph, seed=seed).labels
    else:
        model = SelfDMAT(graph.n_classes, seed=seed, **FILTERS.get(way, {}))  # type: ignore[arg-type]
        model.fit(graph.with_(x=WAYS[way](graph, seed)))
        z, labels = model.embedding_, model.labels_
    seconds = time.process_time() - start
    found = {"accuracy": 100 * metrics.accuracy(graph.y, labels), "nmi": 100 * metrics.nmi(graph.y, labels)}
    found |= {"probe": classify_nodes(z, graph, seed=seed).values["accuracy"], "cpu_seconds": seconds}
    return {"graph": name, "way": way, "seed": seed, **{key: round(value, 3) for key, value in found.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="*", default=[name for name in NAMES if name not in UNSEEN])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[*WAYS, "DeepWalk"])
    root = Path(__file__).parent.parent
    parser.add_argument("--out", type=Path, default=root / "benchmarks" / "results" / "structure-choice.jsonl")
    options = parser.parse_args()
    jobs = [(g, way, 100 + s) for g in options.graphs for way in options.only for s in range(options.seeds)]
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        for ready in as_completed([pool.submit(row, *job) for job in jobs]):
            line = json.dumps(ready.result())
            with options.out.open("a") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
