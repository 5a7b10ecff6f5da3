"""Convert random edges to a graph folder: seconds and peak resident memory, in a process of its own.

    python benchmarks/speed/convert.py            10^8 edges, 10^7 nodes, --memory 2GB; needs 6 GB of disk
    python benchmarks/speed/convert.py --quick    10^6 edges

Writes the edges to Parquet (default) or CSV first, in parts, so that the writing does not count.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv
from pyarrow import parquet as pq

PART = 5_000_000


def write_edges(folder: Path, edges: int, nodes: int, kind: str, seed: int) -> None:
    """Uniform random pairs in parts of five million."""
    rng = np.random.default_rng(seed)
    for i, start in enumerate(range(0, edges, PART)):
        pairs = rng.integers(nodes, size=(2, min(PART, edges - start)))
        table = pa.table({"source": pairs[0], "target": pairs[1]})
        path = folder / f"part-{i:04d}.{kind}"
        csv.write_csv(table, path) if kind == "csv" else pq.write_table(table, path)


def child(edges: str, out: str, memory: str) -> None:
    """Convert, then print seconds and peak RSS as JSON."""
    from tuplet.io.convert import convert

    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    phases: dict[str, float] = {}
    start = time.perf_counter()
    graph = convert(
        edges, out, memory=memory, progress=lambda p, f: phases.__setitem__(p, time.perf_counter() - start)
    )
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    facts = {"nodes": graph.n_nodes, "stored_edges": graph.n_stored, "seconds": round(seconds, 1)}
    facts |= {"peak_GB": round(peak * 1024 / 1e9, 3), "imports_GB": round(base * 1024 / 1e9, 3)}
    print(json.dumps(facts | {"phase_ends": {k: round(v, 1) for k, v in phases.items()}}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=100_000_000)
    parser.add_argument("--nodes", type=int, default=10_000_000)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--kind", choices=["parquet", "csv"], default="parquet")
    parser.add_argument("--folder", default=None, help="where to work; default: the system's temporary folder")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
        return
    edges, nodes = (1_000_000, 100_000) if options.quick else (options.edges, options.nodes)
    with tempfile.TemporaryDirectory(dir=options.folder) as tmp:
        parts = Path(tmp) / "parts"
        parts.mkdir()
        write_edges(parts, edges, nodes, options.kind, seed=0)
        command = [sys.executable, __file__, "--child", str(parts), f"{tmp}/graph", options.memory]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        print(json.dumps({"edges": edges, "kind": options.kind, "memory": options.memory, **json.loads(done.stdout)}))


if __name__ == "__main__":
    main()
