"""Features of single nodes, some of them replaced or added, as the filter sees them; and checks of edited edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError, check_finite
from tuplet.graph._graph import Graph


class FeatureRows:
    """The features of `graph` and those set since, as the filter sees them: in unit rows, or after `start`.

    `start` maps feature rows (k, f), dense or CSR, to what is filtered (k, c), each row by itself.
    """

    def __init__(
        self, graph: Graph, *, unit_rows: bool = False, start: Callable[[Any], NDArray[Any]] | None = None
    ) -> None:
        if graph.x is None:
            raise InputError("The graph has no features. Give x=..., one row a node.")
        self.x: Any = graph.x
        self.unit_rows, self.start, self.width = unit_rows, start, int(graph.x.shape[1])
        self.columns = self.width if start is None else int(start(self.x[:1]).shape[1])
        self.own: dict[int, NDArray[np.float32]] = {}

    def set(self, nodes: NDArray[np.int64], x: NDArray[np.float32]) -> None:
        """Give `nodes` the features `x` (k, f)."""
        self.own |= dict(zip(nodes.tolist(), x))

    def rows(self, nodes: NDArray[np.int64]) -> NDArray[np.float64]:
        """What is filtered of `nodes`, dense (k, c)."""
        out = np.zeros((len(nodes), self.columns))
        base = np.array([u not in self.own for u in nodes.tolist()], dtype=bool)
        if base.any():
            out[base] = self._seen(self.x[nodes[base]])
        if not base.all():
            out[~base] = self._seen(np.array([self.own[u] for u in nodes[~base].tolist()]))
        if self.unit_rows:
            lengths = np.linalg.norm(out, axis=1, keepdims=True)
            out /= np.where(lengths > 0, lengths, 1)
        return out

    def _seen(self, x: Any) -> NDArray[Any]:
        if self.start is not None:
            x = self.start(x)
        return np.asarray(x.toarray() if sp.issparse(x) else x)

    def checked(self, x: Any) -> NDArray[np.float32]:
        """`x` as float32 (k, f) with the graph's columns."""
        features = np.asarray(x.toarray() if sp.issparse(x) else x, dtype=np.float32)
        if features.ndim != 2 or features.shape[1] != self.width:
            raise InputError(
                f"x has shape {features.shape}, but the graph has {self.width} feature columns. "
                f"Give (k, {self.width}), the same columns in the same order."
            )
        check_finite("x", features)
        return features

    def merged(self, n: int) -> Any:
        """All features (n, f), dense or CSR as they came."""
        if not self.own:
            return self.x
        if sp.issparse(self.x):
            x = sp.lil_array(self.x)
            x.resize((n, self.width))
        else:
            x = np.vstack([self.x, np.zeros((n - self.x.shape[0], self.width), self.x.dtype)])
        for u, row in self.own.items():
            x[[u]] = row[None, :]
        return sp.csr_array(x) if sp.issparse(x) else x


def checked_edges(edges: Any, weights: Any, n: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Node pairs (k, 2), smaller first, and their weights; self loops dropped, of repeats the last one kept."""
    pairs = np.asarray(edges)
    if not pairs.size:
        pairs = np.zeros((0, 2), np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InputError(f"Edges have shape {pairs.shape} and type {pairs.dtype}. Give node numbers of shape (k, 2).")
    if len(pairs) and not 0 <= pairs.min() <= pairs.max() < n:
        wrong = pairs.min() if pairs.min() < 0 else pairs.max()
        raise InputError(f"An edge names node {wrong}, but nodes run from 0 to {n - 1}.")
    values = np.ones(len(pairs)) if weights is None else np.asarray(weights, dtype=np.float64)
    if values.shape != (len(pairs),) or not np.isfinite(values).all() or (values < 0).any():
        raise InputError(f"weights of shape {values.shape} for {len(pairs)} edges. Give one for each, 0 or more.")
    ordered = np.sort(pairs.astype(np.int64), axis=1)
    kept = np.flatnonzero(ordered[:, 0] != ordered[:, 1])[::-1]
    _, first = np.unique(ordered[kept], axis=0, return_index=True)
    return ordered[kept][first], values[kept][first]
