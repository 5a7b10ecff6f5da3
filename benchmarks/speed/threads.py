"""SelfDMAT on one to many threads, alone and beside others; prints Markdown.

    python benchmarks/speed/threads.py                      # all cores of the machine
    python benchmarks/speed/threads.py --threads 1,2 --quick

Every figure comes from processes of their own, after one that compiled what is compiled once. It shows the second
fit of a process by number of threads (TUPLET_NUM_THREADS); then the first fit against the later ones, the loading of
torch and scikit-learn apart from both; then three
processes at once, with nothing set, against the same three one after another, from start to end of each process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from typing import Any

SIZES = {  # nodes, classes, features, words a node
    "3,067 x 4,973": (3067, 19, 4973, 40),
    "100,000 x 1,000": (100_000, 15, 1000, 20),
    "tiny": (300, 3, 50, 10),
}


def graph_of(name: str) -> Any:
    from tuplet.graph.synth import block_model

    n, k, f, words = SIZES[name]
    return block_model([n // k + (i < n % k) for i in range(k)], n_features=f, words=words, seed=0).with_(y=None)


def worker(name: str, fits: int) -> None:
    """Seconds of loading the libraries, and of each of `fits` fits, as one JSON line."""
    graph, begun = graph_of(name), time.perf_counter()
    from tuplet import SelfDMAT

    seconds = [time.perf_counter() - begun]
    for _ in range(fits):
        begun = time.perf_counter()
        SelfDMAT(SIZES[name][1], device="cpu").fit(graph)
        seconds.append(time.perf_counter() - begun)
    print(json.dumps(seconds))


def start(name: str, fits: int, threads: int | None = None) -> subprocess.Popen[str]:
    told = {} if threads is None else {"TUPLET_NUM_THREADS": str(threads)}
    words = [sys.executable, __file__, "--worker", name, "--fits", str(fits)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, **told})


def ended(process: subprocess.Popen[str]) -> list[float]:
    found: list[float] = json.loads(process.communicate()[0].splitlines()[-1])
    return found


def at_once(name: str, processes: int) -> tuple[float, float]:
    """Seconds of all processes one after another, and at once."""
    begun = time.perf_counter()
    for _ in range(processes):
        ended(start(name, 2))
    row = time.perf_counter() - begun
    begun = time.perf_counter()
    for process in [start(name, 2) for _ in range(processes)]:
        ended(process)
    return row, time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="")
    parser.add_argument("--sizes", default="")
    parser.add_argument("--worker", default="")
    parser.add_argument("--fits", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.fits)
        return
    from tuplet._threads import cores

    names = options.sizes.split("; ") if options.sizes else ["tiny"] if options.quick else list(SIZES)[:2]
    counts = [int(t) for t in options.threads.split(",")] if options.threads else _up_to(cores())
    ended(start("tiny", 1))
    print("| graph | " + " | ".join(f"{t} thread{'s' * (t > 1)}" for t in counts) + " | ratio |")
    print("|---|" + "--:|" * (len(counts) + 1))
    for name in names:
        found = [ended(start(name, 2, t))[2] for t in counts]
        cells = " | ".join(f"{seconds:.2f} s" for seconds in found)
        print(f"| {name} | {cells} | {found[0] / found[-1]:.2f} |", flush=True)
    loading, first, *later = ended(start(names[0], 4))
    print(
        f"\nLoading torch and scikit-learn {loading:.2f} s, first fit of a process {first:.2f} s, later ones", end=" "
    )
    print(f"{', '.join(f'{s:.2f}' for s in later)} s.")
    row, together = at_once(names[0], 3)
    print(f"Three processes in a row {row:.1f} s, at once {together:.1f} s: {together / row:.2f} times.")


def _up_to(most: int) -> list[int]:
    return [t for t in (1, 2, 4, 8, 16, 32, 64) if t < most] + [most]


if __name__ == "__main__":
    main()
