"""What every baseline shares: the estimator's shape, and the checks at its edge."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from tuplet._check import InputError, check_int
from tuplet.graph import Graph

Progress: TypeAlias = "Callable[[str, float], None]"
Rows: TypeAlias = "NDArray[np.float32]"


class Baseline(BaseEstimator, ABC):  # type: ignore[misc]
    """A method that turns a graph into one vector a node. The constructor stores, `fit` checks and learns."""

    embedding_: Rows
    n_features_in_: int

    @abstractmethod
    def fit(self, graph: Graph, y: Any = None, *, progress: Progress | None = None) -> Self:
        """Learn from `graph`; `y` is ignored. `progress` is called with a phase and the fraction done."""

    def fit_transform(self, graph: Graph, y: Any = None, *, progress: Progress | None = None) -> Rows:
        """`fit(graph)`, then the vectors of its nodes: float32 (n, d)."""
        return self.fit(graph, y, progress=progress).embedding_

    def transform(self, graph: Graph) -> Rows:
        """Vectors of the nodes of `graph`, float32 (n, d), by what `fit` learned."""
        check_is_fitted(self)
        x = checked_features_of(graph, type(self).__name__)
        if x.shape[1] != self.n_features_in_:
            raise InputError(
                f"The graph has {x.shape[1]} features but {type(self).__name__} was fitted on {self.n_features_in_}. "
                "Give the same columns in the same order."
            )
        return self._embed(graph)

    def _embed(self, graph: Graph) -> Rows:
        raise InputError(
            f"{type(self).__name__} learns one vector for each node of the graph it was fitted on, and has none for "
            "others. Take embedding_, or call fit_transform on the new graph."
        )


def checked_graph(graph: Any, method: str) -> Graph:
    """`graph` if it is a Graph."""
    if isinstance(graph, Graph):
        return graph
    raise InputError(
        f"{method}.fit takes a Graph, got {type(graph).__name__}. "
        "Make one with read_graph, load_dataset or Graph.from_scipy(adjacency, x)."
    )


def checked_features_of(graph: Any, method: str) -> Any:
    """The features (n, f) of `graph`, dense or CSR as they are stored."""
    x = checked_graph(graph, method).x
    if x is None:
        raise InputError(f"{method} needs node features, and {graph!r} has none. Give x, or use DeepWalk.")
    return x


def cluster_count(n_clusters: int | None, graph: Graph, method: str) -> int:
    """`n_clusters`, or the number of classes of `graph`: of the labels only their number is read."""
    if n_clusters is not None:
        return check_int("n_clusters", n_clusters, minimum=2, maximum=graph.n_nodes)
    if graph.n_classes >= 2:
        return graph.n_classes
    raise InputError(f"{method} needs the number of clusters, and the graph has no labels. Give n_clusters.")


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


def report(progress: Progress | None, phase: str, done: int, total: int) -> None:
    """Tell `progress` that `done` of `total` steps of `phase` are over."""
    if progress is not None:
        progress(phase, done / total)
