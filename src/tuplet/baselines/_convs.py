"""Stacks of graph convolutions and views with edges and columns dropped at random (CCA-SSG, BGRL, NS4GC)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tuplet._check import check_number
from tuplet._seed import torch_stream
from tuplet.baselines._gcn import Adjacency, GraphConv, SparseMatrix, to_device
from tuplet.graph import Graph
from tuplet.models.contract import Rows
from tuplet.training.batches import pick_device


class ConvStack(nn.Module):
    """Graph convolutions f -> widths[0] -> .., ReLU between them; the last is linear, or with `norm` each layer is
    followed by batch normalisation and PReLU.
    """

    def __init__(self, n_features: int, widths: Sequence[int], seed: int, *, norm: bool = False) -> None:
        super().__init__()
        generator = torch_stream(seed, "weights")
        self.convs = nn.ModuleList(GraphConv(a, b, generator) for a, b in pairwise([n_features, *widths]))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width, momentum=0.01) for width in widths if norm)
        self.slopes = nn.ModuleList(nn.PReLU() for _ in widths if norm)

    def forward(self, adj: SparseMatrix, x: Tensor | SparseMatrix, mask: Tensor | None = None) -> Tensor:
        """(n, widths[-1]); columns of X where `mask` (f,) is 0 are left out."""
        z: Any = x
        for i, conv in enumerate(self.convs):
            z = conv(adj, z, mask=mask if i == 0 else None)
            if len(self.norms):
                z = self.slopes[i](self.norms[i](z))
            elif i + 1 < len(self.convs):
                z = torch.relu(z)
        out: Tensor = z
        return out


class RandomViews:
    """Views of a graph: each edge gone with probability `drop_edges[i]`, each column with `drop_features[i]`."""

    def __init__(
        self,
        graph: Graph,
        x: Any,
        drop_edges: Sequence[float],
        drop_features: Sequence[float],
        seed: int,
        device: Any,
    ) -> None:
        for name, shares in (("drop_edges", drop_edges), ("drop_features", drop_features)):
            for share in shares:
                check_number(name, share, low=0, high=1, open_high=True)
        self.adj, self.x = Adjacency.of(graph, device), to_device(x, device)
        self.rates = list(zip(drop_edges, drop_features))
        self.n_features, self.device = graph.n_features, device
        self.draws = torch_stream(seed, "views", str(device))

    def draw(self) -> list[tuple[SparseMatrix, Tensor | SparseMatrix, Tensor]]:
        """One (adjacency, features, mask of columns) for each pair of rates, fresh at every call."""
        return [
            (self.adj.normalised(self._kept(self.adj.n_edges, edges)), self.x, self._kept(self.n_features, columns))
            for edges, columns in self.rates
        ]

    def _kept(self, size: int, rate: float) -> Tensor:
        return (torch.rand(size, generator=self.draws, device=self.device) >= rate).float()


@torch.no_grad()
def embed_graph(encoder: nn.Module, graph: Graph, x: Any, device: str) -> Rows:
    """Vectors of all nodes of the whole graph, float32; the encoder is back on the CPU afterwards."""
    where = pick_device(device)
    adj = Adjacency.of(graph, where).normalised()
    vectors: NDArray[np.float32] = encoder.eval().to(where)(adj, to_device(x, where)).cpu().numpy()
    encoder.cpu()
    return vectors
