"""Peak memory of a conversion in papers100M's layout, at several sizes, and what it comes to at the real one.

    python benchmarks/speed/ogb.py                         10^6 and 10^7 edges, memory 200MB
    python benchmarks/speed/ogb.py --edges 3000000 --memory 100MB

Writes an archive in exactly the official layout (tests/ogb_archives.py), with papers100M's 14.5 edges a node and 128
features, and converts it in a process of its own. What grows with the nodes are labels and split; edges and features
are streamed, so that the peak above labels and libraries stays below the budget at every size.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
NODES, EDGES, FEATURES = 111_059_956, 1_615_685_872, 128
LABEL_BYTES = 4 + 4 + 1 + 8 + 8  # read float32, NaN replaced, mask, int64, checked copy: at most, if all were held


def child(archive: str, out: str, memory: str) -> None:
    """Convert, then print seconds and the peak after each phase as JSON."""
    from tuplet._memory import peak_bytes
    from tuplet.datasets.ogb import convert_ogb

    base, start = peak_bytes(), time.perf_counter()
    phases: dict[str, int] = {}

    def tell(phase: str, done: float) -> None:
        phases[phase] = round(peak_bytes() / 1e6)

    graph = convert_ogb(archive, out, memory=memory, progress=tell)
    assert graph.split is not None
    facts = {"nodes": graph.n_nodes, "stored": graph.n_stored, "seconds": round(time.perf_counter() - start, 1)}
    facts |= {"imports_MB": round(base / 1e6), "peak_MB": round(peak_bytes() / 1e6), "after_MB": phases}
    print(json.dumps(facts))


def measure(edges: int, memory: str, folder: str | None) -> None:
    """Print one JSON line for a size."""
    from tests import ogb_archives

    with tempfile.TemporaryDirectory(dir=folder) as tmp:
        nodes = max(1000, edges * NODES // EDGES)
        archive = ogb_archives.write_binary_layout(
            Path(tmp) / "papers100M-bin", ogb_archives.numbers(nodes, edges, FEATURES, 172)
        )
        command = [sys.executable, __file__, "--child", str(archive), f"{tmp}/graph", memory]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        facts = {"edges": edges, "memory": memory, **json.loads(done.stdout)}
        print(json.dumps(facts | {"labels_at_most_MB": round(LABEL_BYTES * nodes / 1e6)}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--memory", default="200MB")
    parser.add_argument("--folder", help="where to work; default: the system's temporary folder")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
        return
    for edges in options.edges:
        measure(edges, options.memory, options.folder)
    real = LABEL_BYTES * NODES / 1e9
    print(f"papers100M with memory=2GB: at most 2 GB + {real:.1f} GB for labels + the libraries")


if __name__ == "__main__":
    main()
