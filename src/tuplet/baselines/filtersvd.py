"""FilterSVD: filter, truncate, scale. No training: the reference that a trained method has to beat."""

from __future__ import annotations

from typing import Any

from tuplet._check import check_int
from tuplet.baselines._input import cluster_count
from tuplet.filters import GraphFilter
from tuplet.filters.weights import ppr
from tuplet.graph import Graph
from tuplet.models.contract import NodeEstimator, Pass, Progress, Rows
from tuplet.rows.kmeans import kmeans
from tuplet.rows.svd import truncated_svd
from tuplet.rows.unit import scale_rows


class FilterSVD(NodeEstimator):
    """Unit rows of X, personalised PageRank, unit rows, truncated SVD to `dimensions`, unit rows.

    `dimensions` None stands for twice the number of clusters. `labels_` are K-Means clusters of the result.
    """

    clusters = True
    keeps_rows = True
    dim_parameter = "dimensions"
    _keeps = ("components_",)

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

    def _fit(self, graph: Graph, y: Any, progress: Progress | None) -> None:
        k = cluster_count(self.n_clusters, graph, "FilterSVD")
        d = 2 * k if self.dimensions is None else check_int("dimensions", self.dimensions)
        rows: Rows = scale_rows(self.filtered(graph, progress)[0])
        self.components_ = truncated_svd(rows, min(d, *rows.shape), seed=self.seed, iterations=8).right.T
        self.embedding_ = scale_rows(rows @ self.components_.T)
        self.labels_ = kmeans(self.embedding_, k, seed=self.seed, n_init=self.n_init).labels

    def width_on(self, graph: Graph) -> int | None:
        """How many numbers the vectors of `graph` will have: no more than it has nodes and features."""
        if graph.x is None or self.__sklearn_is_fitted__():
            return super().width_on(graph)
        wanted = self.dimensions or 2 * (self.n_clusters or graph.n_classes)
        return min(wanted, graph.n_nodes, graph.n_features) or None

    def passes(self) -> tuple[Pass, ...]:
        """PageRank of unit rows."""
        return (Pass(GraphFilter(ppr(self.alpha), tol=self.tol, device=self.device), scale_rows),)

    def finish(self, *rows: Rows) -> Rows:
        """Unit rows, projected, in unit rows."""
        vectors: Rows = scale_rows(scale_rows(rows[0]) @ self.components_.T)
        return vectors
