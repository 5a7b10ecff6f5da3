"""KMeansFeatures: K-Means on the raw features; the edges play no part (MacQueen 1967)."""

from __future__ import annotations

from typing import Any

from tuplet.baselines._input import cluster_count, dense_rows, tell
from tuplet.graph import Graph
from tuplet.models.contract import NodeEstimator, Progress, Rows
from tuplet.rows.kmeans import kmeans


class KMeansFeatures(NodeEstimator):
    """K-Means on the features as they are. `embedding_` are the features themselves, `labels_` the clusters.

    `device` is accepted for the common contract; the work is done on the CPU.

    >>> g = Graph.from_scipy([[0, 1, 0], [1, 0, 1], [0, 1, 0]], x=[[0.0], [0.1], [5.0]])
    >>> labels = KMeansFeatures(n_clusters=2).fit(g).labels_
    >>> labels[0] == labels[1] != labels[2]
    np.True_
    """

    clusters = True

    def __init__(
        self, n_clusters: int | None = None, *, n_init: int = 10, seed: int = 0, device: str = "auto"
    ) -> None:
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.seed = seed
        self.device = device

    def _fit(self, graph: Graph, y: Any, progress: Progress | None) -> None:
        x = graph.x
        k = cluster_count(self.n_clusters, graph, "KMeansFeatures")
        self.labels_ = kmeans(x, k, seed=self.seed, n_init=self.n_init, unit_rows=False).labels
        self.embedding_ = dense_rows(x)
        tell(progress, "train", 1, 1)

    def _embed(self, graph: Graph, progress: Progress | None) -> Rows:
        return dense_rows(graph.x)
