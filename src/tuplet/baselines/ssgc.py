"""SSGC: simple spectral graph convolution, a mean over diffusion steps (Zhu and Koniusz, ICLR 2021)."""

from __future__ import annotations

from typing import Any

from tuplet.baselines._input import cluster_count
from tuplet.baselines._spectral import spectral_labels
from tuplet.filters import GraphFilter
from tuplet.filters.weights import markov
from tuplet.graph import Graph
from tuplet.models.contract import NodeEstimator, Pass, Progress, Rows
from tuplet.rows.kmeans import scale_rows


class SSGC(NodeEstimator):
    """alpha X + (1 - alpha) / K times the sum of S^k X over k = 1..K: near and far neighbours weigh the same.

    S is the normalised adjacency with self loops, K is `hops`. `labels_` come from spectral clustering of the
    linear kernel of the rows, which `unit_rows` scales to unit length for this.
    """

    clusters = True

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        hops: int = 16,
        alpha: float = 0.05,
        unit_rows: bool = True,
        n_init: int = 10,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.n_clusters = n_clusters
        self.hops = hops
        self.alpha = alpha
        self.unit_rows = unit_rows
        self.n_init = n_init
        self.seed = seed
        self.device = device

    def _fit(self, graph: Graph, y: Any, progress: Progress | None) -> None:
        k = cluster_count(self.n_clusters, graph, "SSGC")
        self.embedding_ = self._embed(graph, progress)
        rows = scale_rows(self.embedding_, self.unit_rows)
        self.labels_ = spectral_labels(rows, k, seed=self.seed, n_init=self.n_init)

    def passes(self) -> tuple[Pass, ...]:
        """The mean over the hops, of the features as they are."""
        return (Pass(GraphFilter(markov(self.hops, self.alpha), tol=1e-6, device=self.device), lambda x: x),)

    def finish(self, *rows: Rows) -> Rows:
        """The filtered rows themselves."""
        return rows[0]
