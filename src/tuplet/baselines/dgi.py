"""DGI: deep graph infomax (Velickovic, Fedus, Hamilton, Lio, Bengio and Hjelm, ICLR 2019)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from tuplet._check import check_int, check_number
from tuplet._seed import torch_stream
from tuplet.baselines._gcn import Adjacency, PReLUConv, SparseMatrix, to_device
from tuplet.baselines._input import rows_of_sum_one, tell
from tuplet.graph import Graph
from tuplet.models.contract import NodeEstimator, Progress, Rows
from tuplet.training.batches import pick_device


class DGI(NodeEstimator):
    """A graph convolution whose nodes can be told from those of a shuffled graph by a summary of the whole.

    One layer of `hidden` units with PReLU. The corrupted graph has the rows of X in random order, the summary is
    the sigmoid of the mean vector, the discriminator is bilinear. Training ends after `patience` epochs without a
    lower loss; the weights of the lowest loss are kept. No labels are read.
    """

    dim_parameter = "hidden"
    _keeps = ("losses_", "encoder_")

    def __init__(
        self,
        hidden: int = 512,
        *,
        epochs: int = 2000,
        patience: int = 20,
        lr: float = 1e-3,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.hidden = hidden
        self.epochs = epochs
        self.patience = patience
        self.lr = lr
        self.seed = seed
        self.device = device

    def _fit(self, graph: Graph, y: Any, progress: Progress | None) -> None:
        device = pick_device(self.device)
        adj, x = _inputs(graph, device)
        model = _Infomax(graph.n_features, check_int("hidden", self.hidden), self.seed).to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=check_number("lr", self.lr, low=0, open_low=True))
        shuffles = torch_stream(self.seed, "shuffles", str(device))
        best, best_epoch, kept = math.inf, 0, model.encoder.state_dict()
        self.losses_: list[float] = []
        for epoch in range(check_int("epochs", self.epochs)):
            optimizer.zero_grad()
            loss = model(adj, x, torch.randperm(graph.n_nodes, generator=shuffles, device=device))
            value = loss.item()  # early stopping needs it on the host
            if value < best:
                best, best_epoch = value, epoch
                kept = {name: part.clone() for name, part in model.encoder.state_dict().items()}
            loss.backward()
            optimizer.step()
            self.losses_.append(value)
            tell(progress, "train", epoch + 1, self.epochs)
            if epoch - best_epoch >= check_int("patience", self.patience):
                break
        model.encoder.load_state_dict(kept)
        self.encoder_ = model.encoder
        self.embedding_ = self._embed(graph, None)
        tell(progress, "train", 1, 1)

    def _blank(self, name: str) -> PReLUConv:
        return PReLUConv(self.n_features_in_, self.hidden, torch_stream(self.seed, "weights"))

    @torch.no_grad()
    def _embed(self, graph: Graph, progress: Progress | None) -> Rows:
        device = pick_device(self.device)
        vectors: Rows = self.encoder_.to(device)(*_inputs(graph, device)).cpu().numpy()
        self.encoder_.cpu()
        return vectors


def _inputs(graph: Graph, device: torch.device) -> tuple[SparseMatrix, Tensor | SparseMatrix]:
    """The normalised adjacency and the features, each row scaled to sum 1."""
    return Adjacency.of(graph, device).normalised(), to_device(rows_of_sum_one(graph.x), device)


class _Infomax(nn.Module):
    """The encoder, and the loss of its discriminator."""

    def __init__(self, n_features: int, hidden: int, seed: int) -> None:
        super().__init__()
        generator = torch_stream(seed, "weights")
        self.encoder = PReLUConv(n_features, hidden, generator)
        self.bilinear = nn.Parameter(torch.empty(hidden, hidden))
        nn.init.xavier_uniform_(self.bilinear, generator=generator)

    def forward(self, adj: SparseMatrix, x: Tensor | SparseMatrix, order: Tensor) -> Tensor:
        """Binary cross-entropy of scores h W s: 1 for the n true nodes, 0 for the n corrupted ones."""
        true, corrupted = self.encoder(adj, x), self.encoder(adj, x, order)
        target = self.bilinear @ torch.sigmoid(true.mean(dim=0))
        scores = torch.cat([true @ target, corrupted @ target])
        labels = torch.cat([scores.new_ones(len(true)), scores.new_zeros(len(corrupted))])
        return binary_cross_entropy_with_logits(scores, labels)
