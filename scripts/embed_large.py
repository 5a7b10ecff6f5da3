"""SelfDMAT from disk to disk on a graph that is made up first: seconds, and the peak of resident memory.

    python scripts/embed_large.py folder --nodes 1e6 --features 256 --memory 2GB
    python scripts/embed_large.py folder --nodes 1e7 --features 1000 --memory 8GB --kill 600   # killed, then resumed

The graph: R-MAT, 20 edges a node (--edges), float16 features around one of sixteen centres. `tuplet embed` runs in a
process of its own and writes a folder of float16 Parquet parts; --kill ends it by SIGKILL after so many seconds
and goes on with --resume. One JSON line tells what came out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from tuplet._threads import over
from tuplet.graph.synth import rmat
from tuplet.io.folder import write_meta

CLASSES, BLOCK = 16, 2**14


def make_store(store: Path, n: int, f: int, edges: int) -> None:
    """A graph folder: R-MAT, and features whose centre follows the node's number, as R-MAT's communities do."""
    if store.exists():
        return
    unfinished = store.with_name(store.name + ".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    graph = rmat(n, edges, seed=0)
    np.save(unfinished / "indptr.npy", graph.indptr)
    np.save(unfinished / "indices.npy", graph.indices)
    centres = np.random.default_rng(1).random((CLASSES, f), dtype=np.float32)
    with (unfinished / "x.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f2", "fortran_order": False, "shape": (n, f)})
        starts = range(0, n, BLOCK)
        for first in range(0, len(starts), 64):
            for block in over(lambda start: feature_block(start, n, centres), starts[first : first + 64]):
                file.write(block.data)
    write_meta(unfinished, f"rmat-{n}", False, (n, f), (), ())
    unfinished.replace(store)


def feature_block(start: int, n: int, centres: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng([2, start])
    rows = np.arange(start, min(n, start + BLOCK))
    noise = rng.random((len(rows), centres.shape[1]), dtype=np.float32)
    return (0.2 * centres[rows * CLASSES // n] + noise).astype(np.float16)


def embed(words: list[str], kill: float) -> tuple[float, int, int]:
    """Seconds, exit status and peak bytes of the command, killed and resumed once where `kill` says so."""
    begun = time.monotonic()
    code, peak = ended(words, kill)
    if kill and code == -signal.SIGKILL:
        print(f"killed after {kill:.0f} s", file=sys.stderr, flush=True)
        code, again = ended([*words, "--resume"])
        peak = max(peak, again)
    return time.monotonic() - begun, code, peak


def ended(words: list[str], kill: float = 0) -> tuple[int, int]:
    """Exit status of one process, and its peak of resident bytes. It starts as a copy of this one, which is small."""
    child = subprocess.Popen(words)
    timer = threading.Timer(kill or threading.TIMEOUT_MAX, child.kill)
    timer.start()
    try:
        _, status, usage = os.wait4(child.pid, 0)
    finally:
        timer.cancel()
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, usage.ru_maxrss * 1024


def content(folder: Path) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for file in sorted(folder.iterdir()):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=float, default=1e6)
    parser.add_argument("--features", type=int, default=256)
    parser.add_argument("--edges", type=int, default=20, help="a node")
    parser.add_argument("--memory", default="", help="budget; empty: all in memory")
    parser.add_argument("--clusters", type=int, default=16)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--kill", type=float, default=0)
    parser.add_argument("--keep", action="store_true", help="leave the graph for a next run")
    options = parser.parse_args()
    n, place = int(options.nodes), options.folder / f"{options.nodes:g}x{options.features}"
    begun = time.monotonic()
    maker = get_context("spawn").Process(
        target=make_store, args=(place / "store", n, options.features, options.edges)
    )
    maker.start()
    maker.join()
    if maker.exitcode:
        sys.exit(maker.exitcode)
    made = time.monotonic() - begun
    words = [sys.executable, "-m", "tuplet.cli", "embed", str(place / "store"), "-o", f"{place / 'vectors'}/"]
    words += ["-k", str(options.clusters), "--dtype", "float16", "--device", options.device]
    words += ["--memory", options.memory, "--checkpoint", str(place / "steps")] if options.memory else []
    for left in ("steps", "vectors"):  # of an earlier run with --keep
        shutil.rmtree(place / left, ignore_errors=True)
    seconds, code, peak = embed(words, options.kill)
    row = {
        "nodes": n,
        "features": options.features,
        "edges": options.edges * n,
        "memory": options.memory,
        "made_s": round(made, 1),
        "embed_s": round(seconds, 1),
        "peak_gb": round(peak / 1e9, 3),
        "exit": code,
        "threads": len(os.sched_getaffinity(0)),
        "vectors": content(place / "vectors") if code == 0 else None,
    }
    print(json.dumps(row), flush=True)
    if not options.keep:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
