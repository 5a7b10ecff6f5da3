"""SDCN: structural deep clustering network (Bo, Wang, Shi, Zhu, Lu and Cui, WWW 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss, relu

from tuplet._check import InputError, check_int, check_number
from tuplet._seed import torch_stream
from tuplet.baselines._gcn import Adjacency, GraphConv, SparseMatrix, dense_tensor, make_linear
from tuplet.baselines._input import cluster_count, tell
from tuplet.graph import Graph
from tuplet.models.contract import NodeEstimator, Progress, Rows
from tuplet.rows.kmeans import kmeans
from tuplet.training.batches import pick_device


class SDCN(NodeEstimator):
    """An autoencoder and a graph convolution of the same widths, trained towards confident clusters of both.

    The autoencoder (`layers` = encoder widths, mirrored back) is pre-trained on the features; the clusters depend
    much on how. Then each graph convolution takes half its input from the autoencoder's layer. Q, the Student-t
    closeness of codes to centres (first from K-Means), gives the target P; the loss is reconstruction + `q_weight`
    KL(P, Q) + `z_weight` KL(P, Z), Z the softmax of the last convolution. `embedding_` holds the codes
    (n, layers[-1]), `labels_` the largest entry of Z as in the paper, `soft_` and `codes_soft_` Z and Q (n, k).
    """

    clusters = True
    dim_parameter = "layers"
    _keeps = ("soft_", "codes_soft_", "network_")

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        layers: Sequence[int] = (500, 500, 2000, 10),
        pretrain_epochs: int = 50,
        epochs: int = 200,
        batch_size: int = 256,
        lr: float = 1e-3,
        q_weight: float = 0.1,
        z_weight: float = 0.01,
        mix: float = 0.5,
        n_init: int = 20,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.n_clusters = n_clusters
        self.layers = layers
        self.pretrain_epochs = pretrain_epochs
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.q_weight = q_weight
        self.z_weight = z_weight
        self.mix = mix
        self.n_init = n_init
        self.seed = seed
        self.device = device

    def _fit(self, graph: Graph, y: Any, progress: Progress | None) -> None:
        k = cluster_count(self.n_clusters, graph, "SDCN")
        widths = [check_int("layers", width) for width in self.layers]
        if len(widths) < 2:
            raise InputError(f"layers {self.layers!r} is too short. Give at least two widths, e.g. (500, 10).")
        device = pick_device(self.device)
        x = dense_tensor(graph.x, device)
        adj = Adjacency.of(graph, device).normalised()
        model = _Network([graph.n_features, *widths], k, check_number("mix", self.mix, low=0, high=1), self.seed)
        model = model.to(device)
        self._pretrain(model.autoencoder, x, progress)
        self._start_centres(model, x, k)
        self._train(model, adj, x, progress)
        self._keep(model, adj, x)

    def _pretrain(self, autoencoder: _Autoencoder, x: Tensor, progress: Progress | None) -> None:
        optimizer = torch.optim.Adam(autoencoder.parameters(), lr=1e-3)
        orders = torch_stream(self.seed, "batches", str(x.device))
        for epoch in range(check_int("pretrain_epochs", self.pretrain_epochs, minimum=0)):
            order = torch.randperm(len(x), generator=orders, device=x.device)
            for start in range(0, len(x), check_int("batch_size", self.batch_size)):
                optimizer.zero_grad()
                batch = x[order[start : start + self.batch_size]]
                mse_loss(autoencoder(batch)[1], batch).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            tell(progress, "pretrain", epoch + 1, self.pretrain_epochs)

    @torch.no_grad()
    def _start_centres(self, model: _Network, x: Tensor, k: int) -> None:
        codes = model.autoencoder(x)[0][-1].cpu().numpy()
        centres = kmeans(codes, k, seed=self.seed, n_init=self.n_init, unit_rows=False).centres
        model.centres.copy_(torch.from_numpy(centres))

    def _train(self, model: _Network, adj: SparseMatrix, x: Tensor, progress: Progress | None) -> None:
        optimizer = torch.optim.Adam(model.parameters(), lr=check_number("lr", self.lr, low=0, open_low=True))
        for epoch in range(check_int("epochs", self.epochs, minimum=0)):
            optimizer.zero_grad()
            back, q, z, _ = model(adj, x)
            p = target_distribution(q.detach())
            loss = mse_loss(back, x) + self.q_weight * divergence(p, q) + self.z_weight * divergence(p, z)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            tell(progress, "train", epoch + 1, self.epochs)

    @torch.no_grad()
    def _keep(self, model: _Network, adj: SparseMatrix, x: Tensor) -> None:
        _, q, z, codes = model(adj, x)
        self.embedding_ = codes.cpu().numpy()
        self.soft_, self.codes_soft_ = z.cpu().numpy(), q.cpu().numpy()
        self.labels_ = self.soft_.argmax(axis=1).astype(np.int64)
        self.network_ = model.cpu()

    def _blank(self, name: str) -> _Network:
        return _Network([self.n_features_in_, *self.layers], self.soft_.shape[1], self.mix, self.seed)

    @torch.no_grad()
    def _embed(self, graph: Graph, progress: Progress | None) -> Rows:
        codes: Rows = self.network_.autoencoder(dense_tensor(graph.x, torch.device("cpu")))[0][-1].numpy()
        return codes


def student_t(codes: Tensor, centres: Tensor) -> Tensor:
    """Q (n, k): 1 / (1 + squared distance of code and centre), each row scaled to sum 1."""
    squares = (codes[:, None] - centres[None]).square().sum(dim=2)
    closeness = 1 / (1 + squares)
    return closeness / closeness.sum(dim=1, keepdim=True)


def target_distribution(q: Tensor) -> Tensor:
    """P (n, k): q squared over its column sum, rows scaled to sum 1: confident entries grow, big clusters do not."""
    sharp = q.square() / q.sum(dim=0)
    return sharp / sharp.sum(dim=1, keepdim=True)


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """Mean over the rows of the sum of p log(p / q)."""
    return (p * (p.clamp(min=1e-12).log() - q.clamp(min=1e-12).log())).sum(dim=1).mean()


class _Autoencoder(nn.Module):
    """Widths w0 -> .. -> wL and back, ReLU between, codes and reconstruction linear."""

    def __init__(self, widths: Sequence[int], generator: torch.Generator) -> None:
        super().__init__()
        self.down = nn.ModuleList(make_linear(a, b, generator) for a, b in pairwise(widths))
        self.up = nn.ModuleList(make_linear(a, b, generator) for a, b in pairwise(reversed(widths)))

    def forward(self, x: Tensor) -> tuple[list[Tensor], Tensor]:
        """Every layer's output on the way down, the codes last, and the reconstruction."""
        hidden = []
        for layer in self.down:
            x = layer(x) if layer is self.down[-1] else relu(layer(x))
            hidden.append(x)
        for layer in self.up:
            x = layer(x) if layer is self.up[-1] else relu(layer(x))
        return hidden, x


class _Network(nn.Module):
    """The autoencoder, the graph convolutions that it feeds, and the cluster centres."""

    def __init__(self, widths: Sequence[int], k: int, mix: float, seed: int) -> None:
        super().__init__()
        generator = torch_stream(seed, "weights")
        self.autoencoder = _Autoencoder(widths, generator)
        self.convolutions = nn.ModuleList(GraphConv(a, b, generator, bias=False) for a, b in pairwise([*widths, k]))
        self.centres = nn.Parameter(torch.zeros(k, widths[-1]))
        self.mix = mix

    def forward(self, adj: SparseMatrix, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Reconstruction (n, f), Q (n, k), Z (n, k) and codes (n, d)."""
        hidden, back = self.autoencoder(x)
        h = relu(self.convolutions[0](adj, x))
        for layer, own in zip(self.convolutions[1:], hidden):  # type: ignore[arg-type]
            h = layer(adj, (1 - self.mix) * h + self.mix * own)
            h = h if layer is self.convolutions[-1] else relu(h)
        return back, student_t(hidden[-1], self.centres), torch.softmax(h, dim=1), hidden[-1]
