"""FilterSVD: filter, truncate, scale. No training: the reference that a trained method has to beat."""

from __future__ import annotations

from typing import Any, Self

from tuplet._check import check_int
from tuplet.baselines._contract import Baseline, Progress, Rows, checked_features_of, cluster_count
from tuplet.filters import GraphFilter
from tuplet.filters.weights import ppr
from tuplet.graph import Graph
from tuplet.rows.kmeans import kmeans, scale_rows
from tuplet.rows.svd import truncated_svd


class FilterSVD(Baseline):
    """Unit rows of X, personalised PageRank, unit rows, truncated SVD to `dimensions`, unit rows.

    `dimensions` None stands for twice the number of clusters. `labels_` are K-Means clusters of the result.
    """

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        dimensions: int | None = None,
        alpha: float = 0.1,
        tol: float = 1e-4,
        n_init: int = 10,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.n_clusters = n_clusters
        self.dimensions = dimensions
        self.alpha = alpha
        self.tol = tol
        self.n_init = n_init
        self.seed = seed
        self.device = device

    def fit(self, graph: Graph, y: Any = None, *, progress: Progress | None = None) -> Self:
        x = checked_features_of(graph, "FilterSVD")
        k = cluster_count(self.n_clusters, graph, "FilterSVD")
        d = 2 * k if self.dimensions is None else check_int("dimensions", self.dimensions)
        self.n_features_in_ = x.shape[1]
        rows = self._filtered(graph, progress)
        self.components_ = truncated_svd(rows, min(d, *rows.shape), seed=self.seed, iterations=8).right.T
        self.embedding_ = scale_rows(rows @ self.components_.T)
        self.labels_ = kmeans(self.embedding_, k, seed=self.seed, n_init=self.n_init).labels
        return self

    def _filtered(self, graph: Graph, progress: Progress | None = None) -> Rows:
        graph_filter = GraphFilter(ppr(self.alpha), tol=self.tol, device=self.device)
        rows: Rows = scale_rows(graph_filter.transform(graph, x=scale_rows(graph.x), progress=progress))
        return rows

    def _embed(self, graph: Graph) -> Rows:
        rows: Rows = scale_rows(self._filtered(graph) @ self.components_.T)
        return rows
