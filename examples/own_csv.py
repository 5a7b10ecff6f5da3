"""
Your own CSV files
==================

Edges and a node table in, vectors with the node names out.

Run: ``python examples/own_csv.py``
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import tuplet
from tuplet.io.vectors import read_vectors, write_vectors


def write_files(folder: Path) -> None:
    """Two groups of customers who mostly know their own group; a table with gaps."""
    rng = np.random.default_rng(0)
    names = [f"customer-{i:03d}" for i in range(120)]
    group = np.arange(120) % 2
    edges = ["from,to"]
    for i in range(120):
        for j in rng.permutation(np.flatnonzero(group == group[i]))[:4]:
            edges.append(f"{names[i]},{names[j]}")
    rows = ["id,age,city,premium,interests"]
    for i in range(120):
        age = "" if i % 10 == 0 else str(25 + 15 * group[i] + int(rng.integers(10)))
        city = ["Oslo", "Rome"][int(rng.random() < 0.2 + 0.6 * group[i])]
        words = ["chess", "music"] if group[i] else ["music", "sailing"]
        rows.append(f"{names[i]},{age},{city},{'true' if group[i] else 'false'},{' '.join(words)}")
    (folder / "edges.csv").write_text("\n".join(edges) + "\n")
    (folder / "nodes.csv").write_text("\n".join(rows) + "\n")


def main() -> None:
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp)
        write_files(folder)
        graph = tuplet.read_graph(
            folder / "edges.csv",
            folder / "nodes.csv",
            tokens=["interests"],  # several words in one cell
            missing="propagate",  # an empty age becomes the mean of the neighbours'
        )
        print(graph)
        print("columns:", ", ".join(graph.feature_names))

        model = tuplet.DMATi(layers=(32, 16), max_steps=50, seed=0).fit(graph)
        clusters = tuplet.cluster_nodes(model.embedding_, graph, k=2, seed=0).labels
        write_vectors(folder / "vectors.parquet", model.embedding_, graph, cluster=clusters)

        back = read_vectors(folder / "vectors.parquet")
        for name, cluster in list(zip(back.ids, back.cluster))[:4]:
            print(name, "is in cluster", cluster)


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = 'images/report-clusters.png'
