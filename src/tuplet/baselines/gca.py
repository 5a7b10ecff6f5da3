"""GCA: graph contrastive learning with adaptive augmentation (Zhu, Xu, Yu, Liu, Wu and Wang, WWW 2021)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tuplet._check import check_number
from tuplet.baselines._infonce import info_nce
from tuplet.baselines._limit import check_memory
from tuplet.baselines._views import ViewEncoder, ViewSettings, encode_graph, train_views
from tuplet.graph import Graph
from tuplet.models.contract import NodeEstimator, Progress, Rows
from tuplet.training.batches import pick_device

_MATRICES = 4  # n x n float32 matrices at the peak of one step: 3 kept for the way back; blocks take less than one


class GCA(NodeEstimator):
    """Two views of the graph agree node by node; unimportant edges and features are dropped more often.

    A view drops each edge and each feature column with a probability that falls with its centrality ("degree",
    "pagerank" or "eigenvector"), has `drop_edges` / `drop_features` as its mean and never exceeds `cutoff`. Two
    graph convolutions and a projection head are trained by the symmetric InfoNCE loss over all nodes at once,
    which needs n x n matrices: above `memory_limit`, or what the device has free, `fit` refuses to start.
    """

    dim_parameter = "hidden"
    _keeps = ("encoder_",)

    def __init__(
        self,
        hidden: int = 256,
        *,
        projection: int = 256,
        activation: str = "relu",
        temperature: float = 0.4,
        drop_edges: tuple[float, float] = (0.2, 0.4),
        drop_features: tuple[float, float] = (0.3, 0.4),
        centrality: str = "degree",
        cutoff: float = 0.7,
        epochs: int = 200,
        lr: float = 5e-4,
        weight_decay: float = 1e-5,
        memory_limit: int | str | None = None,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.hidden = hidden
        self.projection = projection
        self.activation = activation
        self.temperature = temperature
        self.drop_edges = drop_edges
        self.drop_features = drop_features
        self.centrality = centrality
        self.cutoff = cutoff
        self.epochs = epochs
        self.lr = lr
        self.weight_decay = weight_decay
        self.memory_limit = memory_limit
        self.seed = seed
        self.device = device

    def _fit(self, graph: Graph, y: Any, progress: Progress | None) -> None:
        settings, device = ViewSettings.of(self), pick_device(self.device)
        temperature = check_number("temperature", self.temperature, low=0, open_low=True)
        check_memory("GCA", graph.n_nodes, self.memory_needed(graph), self.memory_limit, device)

        def contrast(u: Tensor, v: Tensor, epoch: int) -> Tensor:
            return info_nce(u, v, temperature)

        self.encoder_ = train_views(graph, settings, contrast, device, progress)
        self.embedding_ = self._embed(graph, None)

    def memory_needed(self, graph: Graph) -> int:
        """An estimate in bytes of what `fit(graph)` needs: the n x n similarities and the layers' rows."""
        return 4 * graph.n_nodes * (_MATRICES * graph.n_nodes + graph.n_features + 16 * self.hidden)

    def _blank(self, name: str) -> ViewEncoder:
        return ViewEncoder(self.n_features_in_, ViewSettings.of(self))

    def _embed(self, graph: Graph, progress: Progress | None) -> Rows:
        return encode_graph(self.encoder_, graph, pick_device(self.device))
