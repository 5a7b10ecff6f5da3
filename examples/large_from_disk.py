"""
Larger than memory
==================

A graph larger than memory: convert to a folder of memory maps, filter to a file, train from it.

Run: ``python examples/large_from_disk.py [NODES]`` (default 5000; the same code runs for 10^7)
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet as pq

import tuplet
from tuplet.io.convert import convert
from tuplet.io.vectors import write_vectors
from tuplet.training.encoder import encode, make_encoder


def write_parts(folder: Path, n: int, f: int = 32) -> None:
    """Edges in four Parquet parts, features in one file with a vector column."""
    rng = np.random.default_rng(0)
    (folder / "edges").mkdir()
    for part in range(4):
        pairs = rng.integers(n, size=(2, 2 * n))
        pq.write_table(pa.table({"source": pairs[0], "target": pairs[1]}), folder / "edges" / f"{part}.parquet")
    flat = pa.array(rng.normal(size=n * f).astype(np.float32))
    vectors = pa.FixedSizeListArray.from_arrays(flat, f)
    pq.write_table(pa.table({"id": np.arange(n), "x": vectors}), folder / "nodes.parquet")


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp)
        write_parts(folder, n)
        graph = convert(
            folder / "edges", folder / "graph", features=folder / "nodes.parquet", unmatched="keep", memory="500MB"
        )
        print(graph, "opened as", type(graph.indices).__name__)

        rows = tuplet.GraphFilter(device="cpu").transform(graph, out=folder / "rows.npy", memory="2GB")
        encoder = make_encoder(rows.shape[1], (32, 16), seed=0)
        tuplet.train(encoder, rows, tuplet.TrainConfig(max_steps=10), seed=0, device="cpu")

        out = np.lib.format.open_memmap(folder / "z.npy", "w+", np.float32, (n, 16))
        encode(encoder, rows, out=out)
        path = write_vectors(folder / "vectors.parquet", out, graph)
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB, written block by block")


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = 'images/time-against-nodes.png'
