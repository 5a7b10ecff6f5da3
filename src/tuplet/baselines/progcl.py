"""ProGCL: hard negatives weighted by the chance that they are true ones (Xia, Wu, Wang, Chen and Li, ICML 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tuplet._check import check_int, check_number
from tuplet._seed import torch_stream
from tuplet.baselines._infonce import NegativeWeights, anchor_blocks, info_nce
from tuplet.baselines._limit import check_memory
from tuplet.baselines._views import ViewEncoder, ViewSettings, encode_graph, train_views
from tuplet.graph import Graph
from tuplet.models.contract import NodeEstimator, Progress, Rows
from tuplet.training.batches import pick_device

_MATRICES = 7  # n x n float32 matrices at the peak of one step: GCA's, and 3 of weights
_SAMPLE = 200_000  # similarities that the mixture is fitted to
_EDGE = 1e-4  # similarities are kept this far from 0 and 1, where a beta density may have no bound


class ProGCL(NodeEstimator):
    """GCA, where from epoch `start` on a negative counts by its hardness and by the chance that it is a true one.

    At epoch `start` a mixture of two beta distributions is fitted once to the similarities of sampled negatives;
    the component with the higher mean stands for false negatives (nodes of the anchor's class), and `init` is the
    share it starts from. Each negative is then weighted by its posterior of being true times its similarity,
    scaled to mean 1 for each anchor (the paper's ProGCL-weight); the weights stay those of that epoch, as released,
    unless `frozen` is False: then they follow the vectors. Needs almost twice GCA's memory.
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
        start: int = 100,
        frozen: bool = True,
        init: float = 0.05,
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
        self.start = start
        self.frozen = frozen
        self.init = init
        self.epochs = epochs
        self.lr = lr
        self.weight_decay = weight_decay
        self.memory_limit = memory_limit
        self.seed = seed
        self.device = device

    def _fit(self, graph: Graph, y: Any, progress: Progress | None) -> None:
        settings, device = ViewSettings.of(self), pick_device(self.device)
        temperature = check_number("temperature", self.temperature, low=0, open_low=True)
        start = check_int("start", self.start, minimum=0)
        share = check_number("init", self.init, low=0, high=1, open_low=True, open_high=True)
        check_memory("ProGCL", graph.n_nodes, self.memory_needed(graph), self.memory_limit, device)
        pairs = torch_stream(self.seed, "negatives", str(device))
        self.mixture_: BetaMixture | None = None
        kept: list[NegativeWeights] = []

        def contrast(u: Tensor, v: Tensor, epoch: int) -> Tensor:
            if epoch < start:
                return info_nce(u, v, temperature)
            if self.mixture_ is None:
                self.mixture_ = fit_mixture(sampled_similarities(u, v, pairs), share)
            if not kept or not self.frozen:
                kept.clear()  # before the next: they are large
                kept.append(negative_weights(u, v, self.mixture_))
            return info_nce(u, v, temperature, kept[0])

        self.encoder_ = train_views(graph, settings, contrast, device, progress)
        self.embedding_ = self._embed(graph, None)

    def memory_needed(self, graph: Graph) -> int:
        """An estimate in bytes of what `fit(graph)` needs: similarities, weights and the layers' rows."""
        return 4 * graph.n_nodes * (_MATRICES * graph.n_nodes + graph.n_features + 16 * self.hidden)

    def _blank(self, name: str) -> ViewEncoder:
        return ViewEncoder(self.n_features_in_, ViewSettings.of(self))

    def _embed(self, graph: Graph, progress: Progress | None) -> Rows:
        return encode_graph(self.encoder_, graph, pick_device(self.device))


@dataclass(frozen=True)
class BetaMixture:
    """Two beta densities on (0, 1), the true negatives first: shapes `a`, `b` and `share`, a pair each."""

    a: tuple[float, float]
    b: tuple[float, float]
    share: tuple[float, float]

    def means(self) -> tuple[float, float]:
        """The mean of each component."""
        return self.a[0] / (self.a[0] + self.b[0]), self.a[1] / (self.a[1] + self.b[1])

    def posterior(self, s: Tensor) -> Tensor:
        """The chance that a negative of similarity `s` in [0, 1] is a true one, in the shape of `s`.

        The logarithm of the ratio of two beta densities is linear in log(s) and log(1 - s).
        """
        from scipy.special import betaln

        (a0, a1), (b0, b1) = self.a, self.b
        offset = np.log(self.share[0] / self.share[1]) + float(betaln(a1, b1) - betaln(a0, b0))
        s = s.clamp(_EDGE, 1 - _EDGE)
        return torch.sigmoid((a0 - a1) * s.log() + (b0 - b1) * torch.log1p(-s) + offset)


def fit_mixture(s: NDArray[np.float64], init: float, iterations: int = 10) -> BetaMixture:
    """The mixture after `iterations` of EM with moments in place of the likelihood's maximum.

    It starts from the `init` largest of the similarities `s` as false negatives and the rest as true ones.
    """
    s = s.clip(_EDGE, 1 - _EDGE)
    true = (s <= np.quantile(s, 1 - init)).astype(np.float64)
    mixture = _moments(s, true)
    for _ in range(iterations):
        mixture = _moments(s, mixture.posterior(torch.from_numpy(s)).numpy())
    return mixture


def _moments(s: NDArray[np.float64], true: NDArray[np.float64]) -> BetaMixture:
    """Beta shapes whose mean and variance are those of `s` weighted by `true` and by 1 - true."""
    shapes, shares = [], []
    for weights in (true, 1 - true):
        total = max(float(weights.sum()), 1e-9)
        mean = float((weights * s).sum()) / total
        variance = max(float((weights * (s - mean) ** 2).sum()) / total, 1e-8)
        size = max(mean * (1 - mean) / variance - 1, 1e-3)
        shapes.append((mean * size, (1 - mean) * size))
        shares.append(min(max(total / len(s), 1e-6), 1 - 1e-6))
    if shapes[0][0] / sum(shapes[0]) > shapes[1][0] / sum(shapes[1]):
        shapes.reverse()
        shares.reverse()
    (a0, b0), (a1, b1) = shapes
    return BetaMixture((a0, a1), (b0, b1), (shares[0], shares[1]))


@torch.no_grad()
def sampled_similarities(u: Tensor, v: Tensor, generator: torch.Generator) -> NDArray[np.float64]:
    """Similarities of random pairs u_i, v_k with k not i, scaled to [0, 1] by their range, float64."""
    n = len(u)
    i = torch.randint(n, (_SAMPLE,), generator=generator, device=u.device)
    k = (i + 1 + torch.randint(n - 1, (_SAMPLE,), generator=generator, device=u.device)) % n
    s = (u[i] * v[k]).sum(dim=1)
    return _to_range(s, *s.aminmax()).double().cpu().numpy()


def _to_range(s: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return (s - low) / (high - low).clamp(min=1e-12)


@torch.no_grad()
def negative_weights(u: Tensor, v: Tensor, mixture: BetaMixture) -> NegativeWeights:
    """For each anchor and view, `posterior_times_similarity` of its negatives scaled to mean 1."""
    between, first, second = (posterior_times_similarity(a, b, mixture) for a, b in ((u, v), (u, u), (v, v)))
    sums = between.sum(dim=1), first.sum(dim=1), between.sum(dim=0), second.sum(dim=1)
    u_there, u_here, v_there, v_here = ((len(u) - 1) / total.clamp(min=1e-12) for total in sums)
    return NegativeWeights((between, first, second), (u_there, u_here, v_there, v_here))


def posterior_times_similarity(a: Tensor, b: Tensor, mixture: BetaMixture) -> Tensor:
    """The chance that b_k is a true negative of a_i times their similarity, scaled to [0, 1] by its range over all
    pairs, (n, n); 0 on the diagonal.
    """
    matrix = a @ b.T
    low, high = matrix.aminmax()
    for rows in anchor_blocks(matrix):
        s = _to_range(matrix[rows], low, high)
        matrix[rows] = mixture.posterior(s).mul_(s)
    return matrix.fill_diagonal_(0)
