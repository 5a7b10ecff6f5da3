"""DMT, DMAT and DMATi: scikit-learn estimators over the filter, the encoder and `train`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from tuplet._check import InputError
from tuplet.encoder import encode, make_encoder
from tuplet.filters import GraphFilter
from tuplet.graph import Graph
from tuplet.trainer import TrainConfig, train
from tuplet.weights import ppr

Progress = Callable[[str, float], None]


class DMATi(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Node vectors without labels: filter, then an encoder trained by the DMAT-i loss (paper, Eq. 6-7)."""

    _loss = "dmati"

    def __init__(
        self,
        layers: Sequence[int] = (256, 256),
        *,
        alpha: float = 0.1,
        r: float = 0.5,
        tol: float = 1e-4,
        graph_filter: GraphFilter | None = None,
        temperature: float = 0.5,
        mask_fraction: float = 0.3,
        n_views: int = 2,
        epochs: int | None = None,
        max_steps: int | None = None,
        batch_size: int = 512,
        lr: float = 1e-3,
        weight_decay: float = 0.02,
        unit_rows: bool = True,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.layers = layers
        self.alpha = alpha
        self.r = r
        self.tol = tol
        self.graph_filter = graph_filter
        self.temperature = temperature
        self.mask_fraction = mask_fraction
        self.n_views = n_views
        self.epochs = epochs
        self.max_steps = max_steps
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.unit_rows = unit_rows
        self.seed = seed
        self.device = device

    def fit(self, X: Any, y: Any = None, *, adjacency: Any = None, progress: Progress | None = None) -> Any:
        """Filter the features of graph `X`, train the encoder, embed all nodes."""
        graph = X if adjacency is None else Graph.from_scipy(adjacency, X, y)
        rows = self._rows(graph, progress)
        encoder = make_encoder(rows.shape[1], self.layers, self.seed)
        config = TrainConfig(
            loss=self._loss,
            temperature=self.temperature,
            mask_fraction=self.mask_fraction,
            n_views=self.n_views,
            epochs=self.epochs,
            max_steps=self.max_steps,
            batch_size=self.batch_size,
            lr=self.lr,
            weight_decay=self.weight_decay,
            unit_rows=self.unit_rows,
        )
        labels = None if self._loss == "dmati" else (y if y is not None else graph.y)
        self.history_ = train(
            encoder, rows, config, labels=labels, seed=self.seed, device=self.device, progress=progress
        )
        self.encoder_ = encoder
        self.n_features_in_ = rows.shape[1]
        self.embedding_ = encode(encoder, rows, unit_rows=self.unit_rows)
        return self

    def transform(self, X: Any, *, adjacency: Any = None, progress: Progress | None = None) -> NDArray[np.float32]:
        """Vectors (n, d) of the nodes of graph `X`: filter and encoder, no training."""
        graph = X if adjacency is None else Graph.from_scipy(adjacency, X)
        return encode(self.encoder_, self._rows(graph, progress), unit_rows=self.unit_rows)

    def fit_transform(
        self, X: Any, y: Any = None, *, adjacency: Any = None, progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """`fit`, then the vectors of the same nodes."""
        self.fit(X, y, adjacency=adjacency, progress=progress)
        return self.embedding_

    def _rows(self, graph: Graph, progress: Progress | None) -> NDArray[np.float32]:
        if graph.x is None:
            raise InputError("The graph has no features. Give x=..., one row a node.")
        graph_filter = self.graph_filter or GraphFilter(ppr(self.alpha), r=self.r, tol=self.tol)
        return graph_filter.transform(graph, x=_unit(graph.x) if self.unit_rows else None, progress=progress)


def _unit(x: Any) -> Any:
    if sp.issparse(x):
        length = np.sqrt(x.multiply(x).sum(axis=1))
        length[length == 0] = 1
        return sp.csr_array(sp.diags_array(1 / length) @ x).astype(np.float32)
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(length == 0, 1, length)


class DMAT(DMATi):
    """Node vectors from some labels and masked views: the DMAT loss (paper, Eq. 5)."""

    _loss = "dmat"


class DMT(DMATi):
    """Node vectors from some labels: the DMT loss (paper, Eq. 4)."""

    _loss = "dmt"
