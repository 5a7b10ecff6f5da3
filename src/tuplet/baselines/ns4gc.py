"""NS4GC: a reliable node similarity matrix guides contrast (Liu, Gao, He, Zheng, Zhao and Gao, 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from tuplet._check import check_int, check_number
from tuplet.baselines._convs import ConvStack, RandomViews, embed_graph
from tuplet.baselines._input import tell
from tuplet.baselines._limit import check_memory
from tuplet.graph import Graph
from tuplet.models.contract import NodeEstimator, Progress, Rows
from tuplet.training.batches import pick_device

_MATRICES = 5  # n x n float32 matrices alive at the peak of one step


class NS4GC(NodeEstimator):
    """Cosines between two views: near 1 for a node and itself and for neighbours, below `threshold` for all others.

    Graph convolutions of widths `layers`. The loss is minus the mean cosine of a node with itself, minus `neighbours`
    times that of edges, plus `sparsity` times the mean of sigmoid((cosine - threshold) / temperature) over all other
    pairs. It holds n x n matrices: above `memory_limit`, or what the device has free, `fit` refuses to start.
    """

    dim_parameter = "layers"
    _keeps = ("encoder_",)

    def __init__(
        self,
        layers: Sequence[int] = (256, 64),
        *,
        threshold: float = 0.6,
        temperature: float = 0.1,
        neighbours: float = 1.0,
        sparsity: float = 1.0,
        drop_edges: tuple[float, float] = (0.3, 0.3),
        drop_features: tuple[float, float] = (0.2, 0.2),
        epochs: int = 200,
        lr: float = 1e-3,
        weight_decay: float = 1e-5,
        memory_limit: int | str | None = None,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.layers = layers
        self.threshold = threshold
        self.temperature = temperature
        self.neighbours = neighbours
        self.sparsity = sparsity
        self.drop_edges = drop_edges
        self.drop_features = drop_features
        self.epochs = epochs
        self.lr = lr
        self.weight_decay = weight_decay
        self.memory_limit = memory_limit
        self.seed = seed
        self.device = device

    def _fit(self, graph: Graph, y: Any, progress: Progress | None) -> None:
        device = pick_device(self.device)
        check_number("temperature", self.temperature, low=0, open_low=True)
        rate = check_number("lr", self.lr, low=0, open_low=True)
        check_memory("NS4GC", graph.n_nodes, self.memory_needed(graph), self.memory_limit, device)
        encoder = self._blank("encoder_", graph.n_features).to(device)
        views = RandomViews(graph, graph.x, self.drop_edges, self.drop_features, self.seed, device)
        pairs = views.adj.ends()
        optimizer = torch.optim.Adam(encoder.parameters(), lr=rate, weight_decay=self.weight_decay)
        for epoch in range(check_int("epochs", self.epochs)):
            optimizer.zero_grad()
            u, v = (normalize(encoder(*view)) for view in views.draw())
            self._loss(u, v, pairs).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            tell(progress, "train", epoch + 1, self.epochs)
        self.encoder_ = encoder.cpu()
        self.embedding_ = self._embed(graph, None)

    def _loss(self, u: Tensor, v: Tensor, pairs: tuple[Tensor, Tensor]) -> Tensor:
        own, near, far = similarity_terms(u, v, pairs, self.threshold, self.temperature)
        return self.sparsity * far - own - self.neighbours * near

    def memory_needed(self, graph: Graph) -> int:
        """An estimate in bytes of what `fit(graph)` needs: the n x n cosines and the layers' rows."""
        return 4 * graph.n_nodes * (_MATRICES * graph.n_nodes + graph.n_features + 8 * max(self.layers))

    def _blank(self, name: str, n_features: int | None = None) -> ConvStack:
        widths = [check_int("layers", width) for width in self.layers]
        return ConvStack(self.n_features_in_ if n_features is None else n_features, widths, self.seed)

    def _embed(self, graph: Graph, progress: Progress | None) -> Rows:
        return embed_graph(self.encoder_, graph, graph.x, self.device)


def similarity_terms(
    u: Tensor, v: Tensor, pairs: tuple[Tensor, Tensor], threshold: float, temperature: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Means of u_i . v_i, of u_i . v_j over the edges in both directions, and of sigmoid((u_i . v_j - threshold) /
    temperature) over all pairs that are neither.
    """
    a, b = pairs
    own, edges = (u * v).sum(dim=1), torch.cat([(u[a] * v[b]).sum(dim=1), (u[b] * v[a]).sum(dim=1)])
    every = torch.sigmoid((u @ v.T - threshold) / temperature).sum()
    known = torch.sigmoid((torch.cat([own, edges]) - threshold) / temperature).sum()
    others = max(1, len(u) ** 2 - len(own) - len(edges))
    return own.mean(), edges.mean() if len(edges) else own.new_zeros(()), (every - known) / others
