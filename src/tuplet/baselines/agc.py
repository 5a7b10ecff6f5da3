"""AGC: adaptive graph convolution (Zhang, Liu, Li and Wu, IJCAI 2019)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import check_int
from tuplet.baselines._input import cluster_count, dense_rows, tell
from tuplet.baselines._spectral import spectral_labels
from tuplet.filters import GraphFilter
from tuplet.filters.weights import laplacian
from tuplet.graph import Graph
from tuplet.models.contract import NodeEstimator, Pass, Progress, Rows


class AGC(NodeEstimator):
    """The k-order low-pass ((I + S) / 2)^k X with the smallest k after which clusters stop getting tighter.

    S is the normalised adjacency with self loops. For k = 1, 2, .. the rows are clustered by spectral clustering of
    their linear kernel; the first k whose mean intra-cluster distance exceeds that of k - 1 ends the search, and
    k - 1 is taken (at most `max_power`). Afterwards `power_`, `embedding_` (the smoothed rows), `labels_` and
    `distances_` (one for each power tried).
    """

    clusters = True
    _keeps = ("power_", "distances_")

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        max_power: int = 60,
        n_init: int = 10,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.n_clusters = n_clusters
        self.max_power = max_power
        self.n_init = n_init
        self.seed = seed
        self.device = device

    def _fit(self, graph: Graph, y: Any, progress: Progress | None) -> None:
        h = dense_rows(graph.x)
        k = cluster_count(self.n_clusters, graph, "AGC")
        step = GraphFilter(laplacian(1, 0.5), tol=1e-7, device=self.device)
        self.distances_: list[float] = []
        for power in range(1, check_int("max_power", self.max_power) + 1):
            smoother = step.transform(graph, x=h)
            labels = spectral_labels(smoother, k, seed=self.seed, n_init=self.n_init)
            self.distances_.append(intra_cluster_distance(smoother, labels))
            if power > 1 and self.distances_[-1] > self.distances_[-2]:
                break
            h, self.labels_, self.power_ = smoother, labels, power
            tell(progress, "train", power, self.max_power)
        self.embedding_ = h
        tell(progress, "train", 1, 1)

    def passes(self) -> tuple[Pass, ...]:
        """The smoothing of the power found."""
        return (Pass(GraphFilter(laplacian(self.power_, 0.5), tol=1e-7, device=self.device), lambda x: x),)

    def finish(self, *rows: Rows) -> Rows:
        """The smoothed rows themselves."""
        return rows[0]


def intra_cluster_distance(x: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """Mean over the clusters of the mean squared distance between two different rows of the cluster.

    The sum of |x_i - x_j|^2 over all ordered pairs is twice the cluster's size times its scatter around the mean,
    so no pair is visited. A cluster of one row has distance 0.
    """
    spreads = []
    for cluster in np.unique(labels):
        rows = x[labels == cluster]
        scatter = np.square(rows - rows.mean(axis=0)).sum(dtype=np.float64)
        spreads.append(2 * scatter / max(1, len(rows) - 1))
    return float(np.mean(spreads))
