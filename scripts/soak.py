"""Mixed work for a long time: memory and open files stay flat, and so do the results.

    python scripts/soak.py --minutes 60                 one process
    python scripts/soak.py --minutes 60 --processes 4   four at once, over the same files

Each round reads tables, converts, fits, embeds, saves, loads and clusters; every result has the bits of the first
round. Memory is read after each round. Bad is: another result, an error, or more memory or open files in the last
quarter than in the second one (5% and 32 MB, 3 files).
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil


def digest(array: Any) -> str:
    """A short checksum of an array."""
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=8).hexdigest()


def one_round(folder: Path) -> list[str]:
    """All kinds of work, once; the checksums of what came out."""
    import tuplet
    from tuplet.graph.synth import block_model
    from tuplet.io.convert import convert
    from tuplet.io.vectors import read_vectors, write_vectors

    graph = block_model([150, 100, 50], seed=1)
    edges = folder / "edges.csv"
    rows = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))
    edges.write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in zip(rows, graph.indices)))
    stored = convert(edges, folder / "graph", memory="100MB", overwrite=True)
    read = tuplet.read_graph(edges)
    found = [digest(stored.indices), digest(read.indices)]
    ours = (tuplet.DMATi((16, 8), max_steps=20), tuplet.SelfDMAT(3, max_steps=10))
    for model in (*ours, tuplet.baselines.FilterSVD()):
        z = model.fit(graph).embedding_
        model.save(folder / "model")
        found += [digest(z), digest(tuplet.load(folder / "model").transform(graph))]
        write_vectors(folder / "v.parquet", z, graph)
        found += [digest(read_vectors(folder / "v.parquet").z), digest(tuplet.cluster_nodes(z, graph, seed=0).labels)]
    try:
        tuplet.read_graph(folder / "not-there.csv")
    except tuplet.InputError:
        found.append("refused")
    return found


def soak(minutes: float, number: int) -> dict[str, Any]:
    """Rounds for so many minutes in this process: what was seen."""
    own = psutil.Process()
    memory: list[float] = []
    files: list[int] = []
    first: list[str] | None = None
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as name:
        while time.monotonic() < end or len(memory) < 8:
            found = one_round(Path(name))
            first = first or found
            if found != first:
                return {"process": number, "rounds": len(memory), "bad": f"round {len(memory)} gave another result"}
            gc.collect()
            memory.append(own.memory_info().rss / 2**20)
            files.append(own.num_fds())
    quarter = len(memory) // 4
    early, late = (statistics.median(memory[i * quarter : (i + 1) * quarter]) for i in (1, 3))
    grown = late > 1.05 * early + 32 or max(files[3 * quarter :]) > max(files[quarter : 2 * quarter]) + 3
    facts = {"rounds": len(memory), "MB, second quarter": round(early), "MB, last quarter": round(late)}
    return {"process": number, **facts, "open files": files[-1], "bad": "grown" if grown else ""}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        seen = pool.starmap(soak, [(options.minutes, i) for i in range(options.processes)])
    for row in seen:
        print(row)
    sys.exit(1 if any(row["bad"] for row in seen) else 0)


if __name__ == "__main__":
    main()
