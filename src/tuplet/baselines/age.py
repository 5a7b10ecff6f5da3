"""AGE: adaptive graph encoder (Cui, Zhou, Yang and Liu, KDD 2020)."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy, normalize

from tuplet._check import InputError, check_int, check_number
from tuplet._seed import stream, torch_stream
from tuplet.baselines._gcn import make_linear
from tuplet.baselines._input import cluster_count, tell
from tuplet.baselines._limit import check_memory
from tuplet.baselines._pairs import PairSampler, pair_similarities
from tuplet.baselines._spectral import spectral_labels
from tuplet.filters import GraphFilter
from tuplet.filters.weights import laplacian
from tuplet.graph import Graph
from tuplet.models.contract import NodeEstimator, Pass, Progress, Rows
from tuplet.training.batches import pick_device


class AGE(NodeEstimator):
    """Smoothed features, then a linear layer that learns from the most and the least similar pairs of nodes.

    The filter is (I - L / lambda_max)^`power`, L the normalised Laplacian with self loops. All n x n pairs are
    ranked by similarity: the first `positive` share are positives, those after the `negative` share negatives, as
    many drawn anew in each epoch as there are positives. Both shares move from their first to their second value
    and pairs are ranked again every `update_every` epochs, by the vectors of the moment (at first by the smoothed
    features). Of those moments the one with the lowest Davies-Bouldin index of its clusters is kept; no labels are
    read. `labels_` come from spectral clustering of the similarities.
    """

    clusters = True
    dim_parameter = "hidden"
    _keeps = ("lambda_max_", "scores_", "encoder_")

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        power: int = 8,
        hidden: int = 500,
        positive: tuple[float, float] = (0.011, 0.001),
        negative: tuple[float, float] = (0.1, 0.5),
        epochs: int = 400,
        update_every: int = 10,
        batch_size: int = 10_000,
        lr: float = 1e-3,
        n_init: int = 10,
        memory_limit: int | str | None = None,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.n_clusters = n_clusters
        self.power = power
        self.hidden = hidden
        self.positive = positive
        self.negative = negative
        self.epochs = epochs
        self.update_every = update_every
        self.batch_size = batch_size
        self.lr = lr
        self.n_init = n_init
        self.memory_limit = memory_limit
        self.seed = seed
        self.device = device

    def _fit(self, graph: Graph, y: Any, progress: Progress | None) -> None:
        k = cluster_count(self.n_clusters, graph, "AGE")
        self._check()
        device = pick_device(self.device)
        check_memory("AGE", graph.n_nodes, self.memory_needed(graph), self.memory_limit, device)
        self.lambda_max_ = largest_eigenvalue(graph, seed=self.seed)
        x = torch.from_numpy(self.filtered(graph)[0]).to(device)
        encoder = make_linear(x.shape[1], self.hidden, torch_stream(self.seed, "weights")).to(device)
        self._train(encoder, x, k, progress)

    def memory_needed(self, graph: Graph) -> int:
        """An estimate in bytes of what `fit(graph)` needs: the positive pairs, rows, and pairs of one batch."""
        n = graph.n_nodes
        pairs = 3 * 16 * max(self.positive) * n * n  # two int64 a pair; found, joined and drawn
        rows = 4 * n * (2 * graph.n_features + 6 * self.hidden)
        return int(pairs + rows + 4 * 8 * self.batch_size * self.hidden) + 2**28

    def _check(self) -> None:
        for name in ("power", "hidden", "epochs", "update_every", "batch_size"):
            check_int(name, getattr(self, name))
        for name in ("positive", "negative"):
            for share in getattr(self, name):
                check_number(name, share, low=0, high=1, open_low=True, open_high=True)
        if max(self.positive) > min(self.negative):
            raise InputError(
                f"positive {self.positive} and negative {self.negative} overlap: a pair cannot be both. "
                "Keep every positive share below every negative share."
            )

    def _train(self, encoder: nn.Linear, x: Tensor, k: int, progress: Progress | None) -> None:
        optimizer = torch.optim.Adam(encoder.parameters(), lr=check_number("lr", self.lr, low=0, open_low=True))
        draws = torch_stream(self.seed, "pairs", str(x.device))
        sampler, best = self._sampler(scaled(x), 0), math.inf
        self.scores_: list[float] = []
        for epoch in range(1, self.epochs + 1):
            for pairs, labels in self._batches(sampler, draws):
                optimizer.zero_grad()
                z = scaled(encoder(x))
                similarity = pair_similarities(z, pairs).clamp(0, 1)
                binary_cross_entropy(similarity, labels).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            if epoch % self.update_every == 0 or epoch == self.epochs:
                best = self._judge(encoder, x, k, best)
                sampler = self._sampler(scaled(encoder(x).detach()), epoch)
            tell(progress, "train", epoch, self.epochs)

    def _sampler(self, z: Tensor, epoch: int) -> PairSampler:
        """Pairs by the similarities of `z`, the shares as far along their ways as `epoch` is."""
        done = epoch / self.epochs
        shares = [first + (last - first) * done for first, last in (self.positive, self.negative)]
        positive, negative = (max(1, round(share * len(z) ** 2)) for share in shares)
        return PairSampler(z, positive, negative)

    def _batches(self, sampler: PairSampler, draws: torch.Generator) -> Any:
        """All positives in random order with as many fresh negatives: pairs (2, 2b) and labels (2b,)."""
        size, device = sampler.positives.shape[1], sampler.positives.device
        order = torch.randperm(size, generator=draws, device=device)
        negatives = sampler.negatives(size, draws)
        for start in range(0, size, self.batch_size):
            part = order[start : start + self.batch_size]
            below = negatives[:, start : start + self.batch_size]
            pairs = torch.cat([sampler.positives[:, part], below], dim=1)
            yield pairs, (torch.arange(pairs.shape[1], device=device) < len(part)).float()

    @torch.no_grad()
    def _judge(self, encoder: nn.Linear, x: Tensor, k: int, best: float) -> float:
        """Cluster the vectors of the moment; keep them if their Davies-Bouldin index is the lowest so far."""
        from sklearn.metrics import davies_bouldin_score

        z = scaled(encoder(x)).cpu().numpy()
        labels = spectral_labels(z, k, seed=self.seed, normalise=True, n_init=self.n_init)
        score = float(davies_bouldin_score(z, labels)) if len(np.unique(labels)) > 1 else math.inf
        self.scores_.append(score)
        if self.scores_ == [score] or score < best:
            self.embedding_, self.labels_ = z, labels
            self.encoder_ = copy.deepcopy(encoder).cpu()
        return min(best, score)

    def passes(self) -> tuple[Pass, ...]:
        """The smoothing, of the features as they are."""
        gamma = min(1.0, 1 / max(self.lambda_max_, 1e-6))
        return (Pass(GraphFilter(laplacian(self.power, gamma), tol=1e-6, device=self.device), lambda x: x),)

    @torch.no_grad()
    def finish(self, *rows: Rows) -> Rows:
        """The linear layer's output, scaled."""
        vectors: Rows = scaled(self.encoder_(torch.from_numpy(rows[0]))).numpy()
        return vectors

    def _blank(self, name: str) -> nn.Linear:
        return make_linear(self.n_features_in_, self.hidden, torch_stream(self.seed, "weights"))


def scaled(z: Tensor) -> Tensor:
    """Each row less its smallest entry, scaled to unit length: similarities lie in [0, 1].

    The paper stretches rows to [0, 1] before the scaling, which the scaling undoes.
    """
    return normalize(z - z.amin(dim=1, keepdim=True))


def largest_eigenvalue(graph: Graph, *, seed: int) -> float:
    """lambda_max of I - D^-1/2 (A + I) D^-1/2, in [0, 2)."""
    import scipy.sparse as sp
    from scipy.sparse.linalg import eigsh

    adj = sp.csr_array(graph.adj.maximum(graph.adj.T)) if graph.directed else graph.adj
    loops = adj.astype(np.float64) + sp.eye_array(graph.n_nodes)
    root = sp.diags_array(1 / np.sqrt(np.asarray(loops.sum(axis=1)).ravel()))
    operator = sp.eye_array(graph.n_nodes) - root @ loops @ root
    start = stream(seed, "lanczos").normal(size=graph.n_nodes)
    return float(eigsh(operator, k=1, which="LA", v0=start, return_eigenvectors=False, tol=1e-6)[0])
