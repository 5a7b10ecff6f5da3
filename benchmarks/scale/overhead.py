"""What Ray costs with one task a node: the same filtering by this process and by a cluster of one node, in turns.

    python benchmarks/scale/overhead.py STORE --make          the graph: R-MAT 10^6 nodes, 256 columns (1.1 GB), once
    python benchmarks/scale/overhead.py STORE -o overhead.jsonl   medians of 5; needs tuplet[cluster]

The cluster is started before the clock; what that takes is told apart. Rows are compared bit by bit.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np

from tuplet import GraphFilter
from tuplet.engines import connected
from tuplet.filters.weights import ppr
from tuplet.io.folder import open_graph, save_graph


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--nodes", type=int, default=10**6)
    parser.add_argument("--columns", type=int, default=256)
    parser.add_argument("--edges", type=int, default=5, help="edges a node")
    parser.add_argument("--alpha", type=float, default=0.5)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("-o", "--out", type=Path)
    args = parser.parse_args()
    if args.make:
        make(args.store, args.nodes, args.columns, args.edges)
        return
    graph, spec = open_graph(args.store), GraphFilter(ppr(args.alpha), device="cpu")
    os.environ["RAY_ADDRESS"] = "local"
    seconds: dict[str, list[float]] = {"local": [], "ray": []}
    start = time.perf_counter()
    with connected("ray") as engine:
        up = time.perf_counter() - start
        for i in range(args.times + 1):  # the first of each warms caches and workers up
            for name in ("local", "ray") if i % 2 else ("ray", "local"):
                out = args.store.with_name(f"{name}.npy")
                start = time.perf_counter()
                spec.transform(graph, out=out, engine=name)
                seconds[name] += [time.perf_counter() - start] if i else []
        places = engine.places
    same = np.array_equal(*(np.load(args.store.with_name(f"{name}.npy"), mmap_mode="r") for name in seconds))
    middle = {name: float(np.median(values)) for name, values in seconds.items()}
    row = {"bench": "overhead", "nodes": graph.n_nodes, "stored": graph.n_stored, "columns": graph.n_features,
           "products": spec.products(), "places": places, "start_s": round(up, 2), "same_bits": bool(same),
           "seconds": {name: [round(value, 3) for value in values] for name, values in seconds.items()},
           "overhead": round(middle["ray"] / middle["local"] - 1, 4)}  # fmt: skip
    print(json.dumps(row))
    if args.out:
        args.out.write_text(json.dumps(row) + "\n")


def make(store: Path, nodes: int, columns: int, edges: int) -> None:
    from tuplet.graph.synth import rmat

    x = np.random.default_rng(0).standard_normal((nodes, columns), dtype=np.float32)
    save_graph(rmat(nodes, edges, seed=0).with_(x=x), store)


if __name__ == "__main__":
    main()
