"""Time on graphs without features, SelfDMAT on structural columns beside DeepWalk: CPU seconds.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python scripts/structure_time.py GRAPH .. [--out ROWS.jsonl]

CPU seconds, since wall time says little where others use the machine too. Each method has a process of its own, which
fits twice: `process` is all that the process used up to its end without the second fit (start, imports, reading the
graph, compiled kernels from disk, one fit), `first` and `second` are the fits alone. Before that one process of each
fits a small graph, so that kernels lie compiled on disk, as they do from the second process on a machine on. DeepWalk
runs with its defaults and one worker.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

METHODS = ("SelfDMAT", "DeepWalk")


def fit_twice(method: str, name: str, seed: int) -> None:
    """Print the CPU seconds of two fits as JSON; `small` is a graph of 200 nodes."""
    import tuplet
    from tuplet.baselines import DeepWalk
    from tuplet.graph.synth import block_model

    whole = block_model([100, 100], seed=0) if name == "small" else tuplet.load_dataset(name)
    graph = whole.with_(x=None, feature_names=())
    found = []
    for _ in range(2):
        start = time.process_time()
        (tuplet.SelfDMAT(graph.n_classes, seed=seed) if method == "SelfDMAT" else DeepWalk(seed=seed)).fit(graph)
        found.append(time.process_time() - start)
    print(json.dumps(found))


def measure(method: str, name: str, seed: int) -> dict[str, float]:
    """process, first and second of a method in a new process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, __file__, name, "--child", method, "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    first, second = json.loads(done.stdout.splitlines()[-1])
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"process": used - second, "first": first, "second": second}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", choices=METHODS, help=argparse.SUPPRESS)
    root = Path(__file__).parent.parent
    parser.add_argument("--out", type=Path, default=root / "benchmarks" / "results" / "structure-time-0.2.jsonl")
    options = parser.parse_args()
    if options.child:
        fit_twice(options.child, options.graphs[0], options.seed)
        return
    for method in METHODS:
        measure(method, "small", options.seed)
    for name in options.graphs:
        found: dict[str, Any] = {"graph": name, "seed": options.seed}
        for method in METHODS:
            found |= {
                f"{method} {key}": round(value, 2) for key, value in measure(method, name, options.seed).items()
            }
        for key in ("process", "first", "second"):
            found[f"ratio {key}"] = round(found[f"DeepWalk {key}"] / found[f"SelfDMAT {key}"], 2)
        print(found, flush=True)
        with options.out.open("a") as file:
            file.write(json.dumps(found | {"machine": f"{platform.machine()}, CPU seconds, one thread"}) + "\n")


if __name__ == "__main__":
    main()
