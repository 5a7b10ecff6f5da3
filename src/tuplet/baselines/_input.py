"""What rivals make of their input: the number of clusters, rows as their papers want them; and progress."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from tuplet._check import InputError, check_int, option
from tuplet.graph import Graph
from tuplet.models.contract import Progress, Rows


def cluster_count(n_clusters: int | None, graph: Graph, method: str) -> int:
    """`n_clusters`, or the number of classes of `graph`: of the labels only their number is read."""
    if n_clusters is not None:
        return check_int("n_clusters", n_clusters, minimum=2, maximum=graph.n_nodes)
    if graph.n_classes >= 2:
        return graph.n_classes
    raise InputError(
        f"{method} needs the number of clusters, and the graph has no labels. Give {option('n_clusters')}"
    )


def dense_rows(x: Any) -> Rows:
    """`x` as a dense float32 array (n, f)."""
    return np.ascontiguousarray(x.toarray() if sp.issparse(x) else x, dtype=np.float32)


def rows_of_sum_one(x: Any) -> Any:
    """`x`, dense or CSR, as float32, each row divided by the sum of its absolute values; zero rows stay zero."""
    sums = np.asarray(abs(x).sum(axis=1), dtype=np.float64).ravel()
    factors = np.divide(1, sums, out=np.zeros_like(sums), where=sums > 0)
    if sp.issparse(x):
        return sp.csr_array(sp.diags_array(factors) @ x).astype(np.float32)
    return (x * factors[:, None]).astype(np.float32)


def tell(progress: Progress | None, phase: str, done: int, total: int) -> None:
    """Tell `progress` that `done` of `total` steps of `phase` are over."""
    if progress is not None:
        progress(phase, done / total)
