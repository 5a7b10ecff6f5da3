"""NodeVectors: a method on one graph as a scikit-learn transformer of nodes, for cross-validation over nodes."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone

from tuplet._check import InputError
from tuplet.graph import Graph


class NodeVectors(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Nodes in, vectors out: X is an array of node numbers, so that folds and train-test splits are over nodes.

    `fit(nodes, y)` fits `estimator` on the whole graph: every edge and feature is seen, as in node classification on
    one graph, and of the labels those of `nodes` alone. `transform(nodes)` gives their vectors. A clone shares the
    graph; parameters of the estimator are `estimator__NAME`.

    >>> from tuplet.graph.synth import block_model
    >>> from tuplet.models.selfdmat import SelfDMAT
    >>> nodes = NodeVectors(SelfDMAT(3, max_steps=2), block_model([20, 20, 20], seed=0))
    >>> nodes.fit(np.arange(40)).transform(np.arange(40, 60)).shape[0]
    20
    """

    def __init__(self, estimator: Any, graph: Graph) -> None:
        self.estimator = estimator
        self.graph = graph

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit a clone of the estimator; `y` are the classes of the nodes `X`, numbers from 0."""
        nodes = self._nodes(X)
        labels = None
        if y is not None:
            labels = np.full(self.graph.n_nodes, -1, np.int64)
            labels[nodes] = y
        self.estimator_ = clone(self.estimator).fit(self.graph.with_(y=None), labels)
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Vectors (k, d) of the nodes `X`."""
        if not hasattr(self, "estimator_"):
            raise InputError("This NodeVectors is not fitted yet. Call fit first.")
        vectors: NDArray[np.float32] = self.estimator_.embedding_[self._nodes(X)]
        return vectors

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the vectors' columns."""
        names: NDArray[Any] = self.estimator_.get_feature_names_out()
        return names

    def _nodes(self, X: Any) -> NDArray[np.int64]:
        nodes = np.asarray(X)
        n = self.graph.n_nodes
        if nodes.ndim == 2 and nodes.shape[1] == 1:
            nodes = nodes[:, 0]
        if (
            nodes.ndim != 1
            or nodes.dtype.kind not in "iu"
            or (len(nodes) and not 0 <= nodes.min() <= nodes.max() < n)
        ):
            raise InputError(
                f"X must hold node numbers from 0 to {n - 1}, got {nodes.dtype} {nodes.shape}. Give np.arange({n})."
            )
        return nodes.astype(np.int64)

    def __sklearn_clone__(self) -> NodeVectors:
        return type(self)(clone(self.estimator), self.graph)
