"""GraphFilter: (graph, features) -> filtered rows, H = sum of w_l (D^(r-1) A D^-r)^l X."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError, check_choice, check_number
from tuplet.graph import Features, Graph, checked_features
from tuplet.weights import Weights, ppr

log = logging.getLogger("tuplet")

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class GraphFilter:
    """A linear filter over the graph: each row becomes a weighted mean over its neighbourhood.

    >>> import numpy as np
    >>> g = Graph.from_scipy([[0, 1], [1, 0]], x=[[1.0], [0.0]])
    >>> GraphFilter(ppr(0.5)).transform(g)
    array([[0.75],
           [0.25]], dtype=float32)
    """

    weights: Weights = field(default_factory=ppr)
    r: float = field(default=0.5, kw_only=True)
    tol: float = field(default=1e-4, kw_only=True)
    method: str = field(default="exact", kw_only=True)
    series: str = field(default="auto", kw_only=True)
    r_max: float | None = field(default=None, kw_only=True)
    n_walks: int | None = field(default=None, kw_only=True)
    self_loops: bool = field(default=True, kw_only=True)
    direction: str = field(default="symmetric", kw_only=True)
    device: str = field(default="auto", kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        check_number("r", self.r, low=0, high=1)
        check_number("tol", self.tol, low=0, open_low=True)
        check_choice("method", self.method, ("exact", "push", "bidirectional"))
        check_choice("direction", self.direction, ("symmetric", "in", "out"))

    def transform(
        self,
        graph: Graph,
        *,
        x: Any = None,
        out: str | os.PathLike[str] | None = None,
        memory: int | str | None = None,
        progress: Progress | None = None,
    ) -> NDArray[np.float32]:
        """The filtered rows, float32 (n, f). `x` (n, f) takes the place of `graph.x`."""
        features: Features | None = graph.x if x is None else checked_features(x, graph.n_nodes)
        if features is None:
            raise InputError("The graph has no features to filter. Give x=..., one row a node.")
        from tuplet.kernels.spmm import hop

        dense = features.toarray() if sp.issparse(features) else np.asarray(features)
        degrees = graph.degrees + float(self.self_loops)
        degrees[degrees == 0] = 1.0
        inverse = (1 / degrees).astype(np.float32)
        start = np.ascontiguousarray(dense * (degrees**-self.r)[:, None], dtype=np.float32)
        degree = self.weights.degree(self.tol)
        c = self.weights.chebyshev(degree)
        z, spare = np.float32(c[degree]) * start, np.zeros_like(start)
        for k in range(degree - 1, -1, -1):
            scale = 1.0 if k == 0 else 2.0
            hop(
                graph.indptr,
                graph.indices,
                graph.weights,
                inverse,
                z,
                start,
                spare,
                loop=float(self.self_loops),
                scale=scale,
                shift=float(c[k]),
                keep=-1.0,
            )
            z, spare = spare, z
            if progress is not None:
                progress("filter", 1 - k / max(1, degree))
        z *= (degrees**self.r).astype(np.float32)[:, None]
        return z
