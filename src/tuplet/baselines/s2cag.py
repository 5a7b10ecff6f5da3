"""M-S2CAG: spectral subspace clustering of attributed graphs (Lin, Yang, Zheng and Ke, KDD 2025).

Written from the paper's description. Each row of X is divided by the root of its product with the sum of all rows;
T hops of D^-1 A smooth them into Z; the groups lie in the leading eigenvectors of the modularity matrix of Z Z^T,

    Z Z^T - gamma w w^T / (1^T w),   w = Z Z^T 1.

With u the unit vector along Z^T 1 that is Z (I - gamma u u^T) Z^T. Its eigenvectors are the left singular vectors of
Z (I - (1 - sqrt(1 - gamma)) u u^T): nothing n x n is formed. gamma = 0 is S2CAG without modularity.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from tuplet._check import check_int, check_number
from tuplet.baselines._input import cluster_count
from tuplet.filters import GraphFilter
from tuplet.filters.weights import custom
from tuplet.graph import Graph
from tuplet.models.contract import NodeEstimator, Progress, Rows
from tuplet.rows.kmeans import kmeans
from tuplet.rows.svd import left_singular_vectors
from tuplet.rows.unit import scale_rows


class MS2CAG(NodeEstimator):
    """K-Means on the unit rows of the k leading eigenvectors of the modularity matrix of smoothed features.

    hops, alpha : Z = sum over t = 0..hops of (1 - alpha) alpha^t / (1 - alpha^(hops + 1)) (D^-1 A)^t X, self loops
    included.  gamma : share of the expected part that modularity takes off, 0 to 1.
    """

    clusters = True
    inductive = False

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        hops: int = 10,
        alpha: float = 0.9,
        gamma: float = 1.0,
        n_init: int = 10,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.n_clusters = n_clusters
        self.hops = hops
        self.alpha = alpha
        self.gamma = gamma
        self.n_init = n_init
        self.seed = seed
        self.device = device

    def _fit(self, graph: Graph, y: Any, progress: Progress | None) -> None:
        k = cluster_count(self.n_clusters, graph, "M-S2CAG")
        hops = check_int("hops", self.hops, minimum=0)
        alpha = check_number("alpha", self.alpha, low=0, high=1, open_low=True, open_high=True)
        gamma = check_number("gamma", self.gamma, low=0, high=1)
        weights = (1 - alpha) * alpha ** np.arange(hops + 1.0) / (1 - alpha ** (hops + 1))
        graph_filter = GraphFilter(custom(weights.tolist()), r=0.0, tol=1e-6, device=self.device)
        z = graph_filter.transform(graph, x=balanced(graph.x), progress=progress)
        self.embedding_ = scale_rows(left_singular_vectors(without_mean(z, gamma), k, seed=self.seed))
        self.labels_ = kmeans(self.embedding_, k, seed=self.seed, n_init=self.n_init).labels


def balanced(x: Any) -> Any:
    """Each row of `x` over the root of its product with the sum of all rows; rows without such a product become 0."""
    sums = np.asarray(x @ np.asarray(x.sum(axis=0), np.float64).ravel(), np.float64)
    factors = np.divide(
        1, np.sqrt(sums, where=sums > 0, out=np.ones_like(sums)), where=sums > 0, out=np.zeros_like(sums)
    )
    if sp.issparse(x):
        return sp.csr_array(sp.diags_array(factors) @ x).astype(np.float32)
    return (x * factors[:, None]).astype(np.float32)


def without_mean(z: Rows, gamma: float) -> Rows:
    """Z (I - (1 - sqrt(1 - gamma)) u u^T) with u along the sum of the rows."""
    total = z.sum(axis=0, dtype=np.float64)
    u = (total / max(float(np.linalg.norm(total)), 1e-30)).astype(np.float32)
    found: Rows = z - np.float32(1 - np.sqrt(1 - gamma)) * (z @ u)[:, None] * u
    return found
