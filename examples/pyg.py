"""
PyTorch Geometric in and out
============================

A PyTorch Geometric graph in, and the vectors back on it as a new attribute.

Run: ``python examples/pyg.py`` (needs torch-geometric: ``pip install 'tuplet[baselines]'``)
"""

from __future__ import annotations

import torch

import tuplet
from tuplet.io.libraries import from_pyg, to_pyg


def main() -> None:
    data = to_pyg(tuplet.load_dataset("cora"))  # a torch_geometric.data.Data, as any loader gives
    print(data)

    graph = from_pyg(data, name="cora")
    model = tuplet.SelfDMAT(n_clusters=7, seed=0).fit(graph)

    data.z = torch.from_numpy(model.embedding_)
    print("with vectors:", data)
    print(tuplet.cluster_nodes(data.z.numpy(), graph, seed=0, n_init=3))


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = 'images/method-loss.png'
