"""SSGC: simple spectral graph convolution, a mean over diffusion steps (Zhu and Koniusz, ICLR 2021)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import check_int
from tuplet.baselines._input import cluster_count, dense_rows, tell
from tuplet.baselines._spectral import spectral_labels
from tuplet.baselines.agc import intra_cluster_distance
from tuplet.filters import GraphFilter
from tuplet.filters.weights import custom, markov
from tuplet.graph import Graph
from tuplet.models.contract import NodeEstimator, Pass, Progress, Rows
from tuplet.rows.unit import scale_rows


class SSGC(NodeEstimator):
    """alpha X + (1 - alpha) / K times the sum of S^k X over k = 1..K: near and far neighbours weigh the same.

    S is the normalised adjacency, with self loops unless told not to, K is `hops`. `labels_` come from spectral
    clustering of the linear kernel of the rows, which `unit_rows` scales to unit length for this, by as many singular
    vectors as clusters, or `columns` of them.

    `adaptive` chooses K as AGC does: 1, 2, .. until the mean intra-cluster distance of the clusters first grows, at
    most `hops`. The clustering that its authors released has that, self_loops=False, alpha=0, columns=16 and
    unit_rows=False. `hops_` is the K that was taken.
    """

    clusters = True
    _keeps = ("hops_",)

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        hops: int = 16,
        alpha: float = 0.05,
        unit_rows: bool = True,
        self_loops: bool = True,
        columns: int | None = None,
        adaptive: bool = False,
        n_init: int = 10,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.n_clusters = n_clusters
        self.hops = hops
        self.alpha = alpha
        self.unit_rows = unit_rows
        self.self_loops = self_loops
        self.columns = columns
        self.adaptive = adaptive
        self.n_init = n_init
        self.seed = seed
        self.device = device

    def _fit(self, graph: Graph, y: Any, progress: Progress | None) -> None:
        k = cluster_count(self.n_clusters, graph, "SSGC")
        self.hops_ = check_int("hops", self.hops)
        if self.columns is not None:
            check_int("columns", self.columns)
        if self.adaptive:
            self._search(graph, k, progress)
        else:
            self.embedding_ = self._embed(graph, progress)
            self.labels_ = self._clusters(self.embedding_, k)

    def _clusters(self, rows: Rows, k: int) -> NDArray[np.int64]:
        how: Any = {"seed": self.seed, "n_init": self.n_init, "columns": self.columns}
        return spectral_labels(scale_rows(rows, self.unit_rows), k, **how)

    def _search(self, graph: Graph, k: int, progress: Progress | None) -> None:
        """The rows and clusters of the last number of hops before the intra-cluster distance grows."""
        x = dense_rows(graph.x)
        step = GraphFilter(custom([0.0, 1.0]), tol=1e-7, self_loops=self.self_loops, device=self.device)
        power, total, last = x, np.zeros_like(x), float("inf")
        for hops in range(1, self.hops + 1):
            power = step.transform(graph, x=power)
            total = total + power
            rows = self.alpha * x + (1 - self.alpha) / hops * total
            labels = self._clusters(rows, k)
            distance = intra_cluster_distance(rows, labels)
            if distance > last:
                break
            last, self.hops_, self.embedding_, self.labels_ = distance, hops, rows, labels
            tell(progress, "train", hops, self.hops)
        tell(progress, "train", 1, 1)

    def passes(self) -> tuple[Pass, ...]:
        """The mean over the hops, of the features as they are."""
        weights = markov(self.hops_, self.alpha)
        how: Any = {"tol": 1e-6, "self_loops": self.self_loops, "device": self.device}
        return (Pass(GraphFilter(weights, **how), lambda x: x),)

    def finish(self, *rows: Rows) -> Rows:
        """The filtered rows themselves."""
        return rows[0]
