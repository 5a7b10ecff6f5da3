"""Dink-Net: clusters dilate and shrink (Liu, Liang, Xia, Zhou, Yang, Liu and Li, ICML 2023)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, normalize

from tuplet._check import check_int, check_number
from tuplet._seed import torch_stream
from tuplet.baselines._convs import embed_graph
from tuplet.baselines._gcn import Adjacency, PReLUConv, make_linear, to_device
from tuplet.baselines._input import cluster_count, tell
from tuplet.graph import Graph
from tuplet.models.contract import NodeEstimator, Progress, Rows
from tuplet.rows.kmeans import kmeans
from tuplet.training.batches import pick_device


class DinkNet(NodeEstimator):
    """Nodes are told from nodes with shuffled features; then k centres drift apart and draw their nodes together.

    One graph convolution of `hidden` units with PReLU; a node's score is the sum of a linear layer's output, and the
    first `pretrain_epochs` fit it by cross-entropy. Then centres from K-Means on the unit rows are weights too, and
    the loss is minus the mean squared distance of two centres, plus the mean squared distance of nodes and centres,
    plus `discrimination` times the cross-entropy. `labels_` are the nearest centres.
    """

    clusters = True
    dim_parameter = "hidden"
    _keeps = ("encoder_",)

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        hidden: int = 512,
        pretrain_epochs: int = 200,
        epochs: int = 100,
        pretrain_lr: float = 1e-3,
        lr: float = 1e-4,
        discrimination: float = 1.0,
        n_init: int = 10,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.n_clusters = n_clusters
        self.hidden = hidden
        self.pretrain_epochs = pretrain_epochs
        self.epochs = epochs
        self.pretrain_lr = pretrain_lr
        self.lr = lr
        self.discrimination = discrimination
        self.n_init = n_init
        self.seed = seed
        self.device = device

    def _fit(self, graph: Graph, y: Any, progress: Progress | None) -> None:
        k, device = cluster_count(self.n_clusters, graph, "DinkNet"), pick_device(self.device)
        for name in ("lr", "pretrain_lr"):
            check_number(name, getattr(self, name), low=0, open_low=True)
        inputs = Adjacency.of(graph, device).normalised(), to_device(graph.x, device)
        encoder = self._blank("encoder_", graph.n_features).to(device)
        head = make_linear(self.hidden, self.hidden, torch_stream(self.seed, "head")).to(device)
        self._train(encoder, head, inputs, k, progress)
        self.encoder_ = encoder.cpu()
        self.embedding_ = self._embed(graph, None)

    def _train(self, encoder: PReLUConv, head: nn.Module, inputs: Any, k: int, progress: Progress | None) -> None:
        n, device = inputs[0].a.shape[0], inputs[0].a.device
        shuffles = torch_stream(self.seed, "shuffles", str(device))
        weights = [*encoder.parameters(), *head.parameters()]
        first, then = (check_int(n, getattr(self, n), minimum=0) for n in ("pretrain_epochs", "epochs"))
        total = max(1, first + then)

        def discriminate() -> Tensor:
            order = torch.randperm(n, generator=shuffles, device=device)
            return discrimination_loss(head(encoder(*inputs)), head(encoder(*inputs, order=order)))

        optimizer = torch.optim.Adam(weights, lr=self.pretrain_lr)
        for epoch in range(first):
            _step(optimizer, discriminate())
            tell(progress, "train", epoch + 1, total)
        with torch.no_grad():
            rows = normalize(encoder(*inputs)).cpu().numpy()
        start = kmeans(rows, k, seed=self.seed, n_init=self.n_init).centres
        centres = nn.Parameter(torch.from_numpy(np.array(start)).to(device))
        optimizer = torch.optim.Adam([*weights, centres], lr=self.lr)
        for epoch in range(then):
            clusters = cluster_loss(normalize(encoder(*inputs)), normalize(centres))
            _step(optimizer, clusters + self.discrimination * discriminate())
            tell(progress, "train", first + epoch + 1, total)
        with torch.no_grad():
            closest = torch.cdist(normalize(encoder(*inputs)), normalize(centres)).argmin(dim=1)
        self.labels_ = closest.cpu().numpy().astype(np.int64)

    def _blank(self, name: str, n_features: int | None = None) -> PReLUConv:
        width = self.n_features_in_ if n_features is None else n_features
        return PReLUConv(width, check_int("hidden", self.hidden), torch_stream(self.seed, "weights"))

    def _embed(self, graph: Graph, progress: Progress | None) -> Rows:
        return embed_graph(self.encoder_, graph, graph.x, self.device)


def _step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def discrimination_loss(true: Tensor, shuffled: Tensor) -> Tensor:
    """Cross-entropy of the row sums as scores: 1 for rows (n, d) of true nodes, 0 for shuffled ones."""
    scores = torch.cat([true.sum(dim=1), shuffled.sum(dim=1)])
    aims = torch.cat([scores.new_ones(len(true)), scores.new_zeros(len(shuffled))])
    return binary_cross_entropy_with_logits(scores, aims)


def cluster_loss(z: Tensor, centres: Tensor) -> Tensor:
    """Shrink minus dilation: mean |z_i - c_j|^2 over all nodes and centres, less the mean over pairs of centres."""
    k = len(centres)
    apart = (centres[:, None] - centres[None]).square().sum() / max(1, k * (k - 1))
    together = (z.square().sum(1).mean() + centres.square().sum(1).mean()) - 2 * z.mean(0) @ centres.mean(0)
    return together - apart
