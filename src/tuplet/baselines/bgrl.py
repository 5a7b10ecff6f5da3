"""BGRL: bootstrapped graph latents (Thakoor, Tallec, Azar, Azabou, Dyer, Munos, Velickovic and Valko, ICLR 2022)."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from tuplet._check import check_int, check_number
from tuplet._seed import torch_stream
from tuplet.baselines._convs import ConvStack, RandomViews, embed_graph
from tuplet.baselines._gcn import make_linear
from tuplet.baselines._input import tell
from tuplet.graph import Graph
from tuplet.models.contract import NodeEstimator, Progress, Rows
from tuplet.training.batches import pick_device


class BGRL(NodeEstimator):
    """An encoder predicts, from one view of a node, what a slow copy of itself makes of another view; no negatives.

    Graph convolutions of widths `layers` with batch normalisation and PReLU; a predictor with one hidden layer. The
    copy follows with a momentum that rises from `momentum` to 1 along a cosine; the learning rate warms up over
    `warmup` epochs and falls to 0 along a cosine. The loss is 2 minus the cosines of both directions.
    """

    dim_parameter = "layers"
    _keeps = ("encoder_",)

    def __init__(
        self,
        layers: Sequence[int] = (512, 256),
        *,
        predictor: int = 512,
        drop_edges: tuple[float, float] = (0.4, 0.1),
        drop_features: tuple[float, float] = (0.1, 0.2),
        epochs: int = 1000,
        warmup: int = 100,
        lr: float = 5e-4,
        weight_decay: float = 1e-5,
        momentum: float = 0.99,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.layers = layers
        self.predictor = predictor
        self.drop_edges = drop_edges
        self.drop_features = drop_features
        self.epochs = epochs
        self.warmup = warmup
        self.lr = lr
        self.weight_decay = weight_decay
        self.momentum = momentum
        self.seed = seed
        self.device = device

    def _fit(self, graph: Graph, y: Any, progress: Progress | None) -> None:
        device, epochs = pick_device(self.device), check_int("epochs", self.epochs)
        momentum = check_number("momentum", self.momentum, low=0, high=1)
        rate = check_number("lr", self.lr, low=0, open_low=True)
        warmup = check_int("warmup", self.warmup, minimum=0)
        online = self._blank("encoder_", graph.n_features).to(device)
        target = copy.deepcopy(online)
        head = predictor(self.layers[-1], check_int("predictor", self.predictor), self.seed).to(device)
        views = RandomViews(graph, graph.x, self.drop_edges, self.drop_features, self.seed, device)
        parameters = [*online.parameters(), *head.parameters()]
        optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=self.weight_decay)
        for epoch in range(epochs):
            for group in optimizer.param_groups:
                group["lr"] = rate * rate_at(epoch, warmup, epochs)
            optimizer.zero_grad()
            one, two = views.draw()
            bootstrap_loss(online, target, head, one, two).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            move_towards(target, online, 1 - (1 - momentum) * (1 + math.cos(math.pi * epoch / epochs)) / 2)
            tell(progress, "train", epoch + 1, epochs)
        self.encoder_ = online.cpu()
        self.embedding_ = self._embed(graph, None)

    def _blank(self, name: str, n_features: int | None = None) -> ConvStack:
        widths = [check_int("layers", width) for width in self.layers]
        return ConvStack(self.n_features_in_ if n_features is None else n_features, widths, self.seed, norm=True)

    def _embed(self, graph: Graph, progress: Progress | None) -> Rows:
        return embed_graph(self.encoder_, graph, graph.x, self.device)


def predictor(width: int, hidden: int, seed: int) -> nn.Module:
    """Linear, PReLU, linear."""
    generator = torch_stream(seed, "predictor")
    return nn.Sequential(make_linear(width, hidden, generator), nn.PReLU(), make_linear(hidden, width, generator))


def rate_at(epoch: int, warmup: int, epochs: int) -> float:
    """Share of the learning rate: linear up to `warmup`, then a cosine down to 0.

    >>> [round(rate_at(epoch, 2, 6), 2) for epoch in range(6)]
    [0.0, 0.5, 1.0, 0.85, 0.5, 0.15]
    """
    if epoch < warmup:
        return epoch / warmup
    return (1 + math.cos(math.pi * (epoch - warmup) / max(1, epochs - warmup))) / 2


def bootstrap_loss(online: nn.Module, target: nn.Module, head: nn.Module, one: Any, two: Any) -> Tensor:
    """2 - mean cos(head(online(one)), target(two)) - the same with the views exchanged; no gradient to the target."""
    with torch.no_grad():
        aims = target(*two), target(*one)
    guesses = head(online(*one)), head(online(*two))
    return 2 - sum(
        (cosine_similarity(g, a, dim=1).mean() for g, a in zip(guesses, aims)), torch.zeros(()).to(aims[0])
    )


@torch.no_grad()
def move_towards(target: nn.Module, online: nn.Module, momentum: float) -> None:
    """Move each weight of `target` to momentum * itself + (1 - momentum) * that of `online`."""
    for slow, fast in zip(target.parameters(), online.parameters()):
        slow.lerp_(fast, 1 - momentum)
