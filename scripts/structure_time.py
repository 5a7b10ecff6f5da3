"""Time on graphs without features, SelfDMAT on structural columns beside DeepWalk: CPU seconds of one process.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python scripts/structure_time.py GRAPH .. [--out ROWS.jsonl]

CPU seconds, since wall time says little where others use the machine too. SelfDMAT is fitted twice: the first time
loads and compiles what a process needs once, the second is what a graph costs. DeepWalk, with its defaults and one
worker, is fitted once, after its kernels ran on a small graph.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

from tuplet import Graph, SelfDMAT, load_dataset
from tuplet.baselines import DeepWalk
from tuplet.graph.synth import block_model


def cpu_seconds(estimator: Any, graph: Graph) -> float:
    start = time.process_time()
    estimator.fit(graph)
    return time.process_time() - start


def row(name: str, seed: int) -> dict[str, Any]:
    graph = load_dataset(name).with_(x=None, feature_names=())
    once, again = (cpu_seconds(SelfDMAT(graph.n_classes, seed=seed), graph) for _ in range(2))
    rival = cpu_seconds(DeepWalk(seed=seed), graph)
    found = {"first": once, "second": again, "deepwalk": rival, "ratio_first": rival / once, "ratio": rival / again}
    return {"graph": name, "seed": seed, **{key: round(value, 3) for key, value in found.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+")
    parser.add_argument("--seed", type=int, default=0)
    root = Path(__file__).parent.parent
    parser.add_argument("--out", type=Path, default=root / "benchmarks" / "results" / "structure-time.jsonl")
    options = parser.parse_args()
    DeepWalk(epochs=1, seed=0).fit(block_model([100, 100], seed=0))
    for name in options.graphs:
        found = row(name, options.seed) | {"machine": f"{platform.machine()}, CPU seconds of one process"}
        print(found, flush=True)
        with options.out.open("a") as file:
            file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
