"""Insert 100 nodes into a graph of 10^6: seconds against filtering and encoding everything again.

    python benchmarks/speed/new_nodes.py            R-MAT, 10^6 nodes, 20 edges a node, 64 features
    python benchmarks/speed/new_nodes.py --quick    10^4 nodes

Prints one JSON line: both times, their ratio, rows touched, and the largest difference between the vectors.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

from tuplet import DMATi, GraphFilter
from tuplet.filters.live import LiveRows
from tuplet.filters.weights import ppr
from tuplet.graph.synth import rmat
from tuplet.training.encoder import encode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--new", type=int, default=100)
    parser.add_argument("--degree", type=int, default=20, help="edges of each new node")
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    n = 10_000 if options.quick else options.nodes
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, options.features)).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    graph = rmat(n, 20, seed=0).with_(x=x)
    graph_filter = GraphFilter(ppr(0.1), device="cpu")
    model = DMATi(graph_filter=graph_filter, max_steps=2, device="cpu").fit(graph.with_(
        indptr=graph.indptr[: 2001] * 0, indices=graph.indices[:0], x=x[:2000]))  # fmt: skip
    rows = graph_filter.transform(graph)

    fresh = rng.normal(size=(options.new, options.features)).astype(np.float32)
    fresh /= np.linalg.norm(fresh, axis=1, keepdims=True)
    source = np.repeat(np.arange(n, n + options.new), options.degree)
    edges = np.column_stack([source, rng.integers(n, size=len(source))])
    LiveRows(graph, rows, graph_filter).add_nodes(fresh[:1], edges[:2] * 0 + [[n, 0]])  # compiles

    start = time.perf_counter()
    live = LiveRows(graph, rows, graph_filter, tol=options.tol)
    change = live.add_nodes(fresh, edges)
    vectors = encode(model.encoder_, live.rows(change.new))
    local = time.perf_counter() - start

    whole = live.graph()
    start = time.perf_counter()
    again = encode(model.encoder_, graph_filter.transform(whole))
    full = time.perf_counter() - start
    facts = {"nodes": n, "edges": graph.n_edges, "features": options.features, "new": options.new, "tol": options.tol}
    facts |= {"local_s": round(local, 4), "full_s": round(full, 3), "ratio": round(full / local, 1)}
    facts |= {"touched": change.touched, "pushes": change.pushes, "edges_passed": change.edges}
    print(json.dumps(facts | {"difference": float(np.abs(vectors - again[n:]).max()), "scale": float(again.std())}))


if __name__ == "__main__":
    main()
