"""CCA-SSG: canonical correlation of two views (Zhang, Wu, Yan, Wipf and Yu, NeurIPS 2021)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tuplet._check import check_int, check_number
from tuplet.baselines._convs import ConvStack, RandomViews, embed_graph
from tuplet.baselines._input import tell
from tuplet.graph import Graph
from tuplet.models.contract import NodeEstimator, Progress, Rows
from tuplet.training.batches import pick_device


class CCASSG(NodeEstimator):
    """Two random views agree node by node while the columns of each stay uncorrelated; no negatives, no labels.

    A view drops each edge with probability `drop_edges` and each column with `drop_features`. `n_layers` graph
    convolutions of width `hidden`; the columns of a view's vectors are scaled to mean 0 and deviation 1, and the loss
    is their squared distance plus `decorrelation` times the squared difference of each correlation matrix and I.
    """

    dim_parameter = "hidden"
    _keeps = ("encoder_",)

    def __init__(
        self,
        hidden: int = 512,
        *,
        n_layers: int = 2,
        decorrelation: float = 1e-3,
        drop_edges: float = 0.4,
        drop_features: float = 0.1,
        epochs: int = 50,
        lr: float = 1e-3,
        weight_decay: float = 0.0,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.hidden = hidden
        self.n_layers = n_layers
        self.decorrelation = decorrelation
        self.drop_edges = drop_edges
        self.drop_features = drop_features
        self.epochs = epochs
        self.lr = lr
        self.weight_decay = weight_decay
        self.seed = seed
        self.device = device

    def _fit(self, graph: Graph, y: Any, progress: Progress | None) -> None:
        device = pick_device(self.device)
        strength = check_number("decorrelation", self.decorrelation, low=0)
        encoder = self._blank("encoder_", graph.n_features).to(device)
        rates = (self.drop_edges,) * 2, (self.drop_features,) * 2
        views = RandomViews(graph, graph.x, *rates, self.seed, device)
        rate = check_number("lr", self.lr, low=0, open_low=True)
        optimizer = torch.optim.Adam(encoder.parameters(), lr=rate, weight_decay=self.weight_decay)
        for epoch in range(check_int("epochs", self.epochs)):
            optimizer.zero_grad()
            u, v = (standardised(encoder(*view)) for view in views.draw())
            cca_loss(u, v, strength).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            tell(progress, "train", epoch + 1, self.epochs)
        self.encoder_ = encoder.cpu()
        self.embedding_ = self._embed(graph, None)

    def _blank(self, name: str, n_features: int | None = None) -> ConvStack:
        widths = [check_int("hidden", self.hidden)] * check_int("n_layers", self.n_layers)
        return ConvStack(self.n_features_in_ if n_features is None else n_features, widths, self.seed)

    def _embed(self, graph: Graph, progress: Progress | None) -> Rows:
        return embed_graph(self.encoder_, graph, graph.x, self.device)


def standardised(z: Tensor) -> Tensor:
    """Columns of mean 0 and deviation 1; a constant column is 0."""
    centred = z - z.mean(dim=0)
    return centred / centred.std(dim=0).clamp(min=1e-8)


def cca_loss(u: Tensor, v: Tensor, decorrelation: float) -> Tensor:
    """-trace(U^T V) / n + decorrelation (|U^T U / n - I|^2 + |V^T V / n - I|^2), u and v (n, d) standardised.

    For standardised columns |U - V|^2 / 2n is d minus that trace: the distance of the views.
    """
    n, eye = len(u), torch.eye(u.shape[1], device=u.device)
    spread = sum(((z.T @ z / n - eye).square().sum() for z in (u, v)), u.new_zeros(()))
    return decorrelation * spread - (u * v).sum() / n
