"""The slow, obvious twins of the kernels: dense float64 formulas and plain Python loops, for tests and reading."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


def dense_operator(adj: Any, r: float, *, self_loops: bool = True) -> Doubles:
    """D^(r-1) A D^-r as a dense matrix; a node without edges has degree 1 and an empty row."""
    a = np.asarray(adj.toarray() if hasattr(adj, "toarray") else adj, dtype=np.float64)
    a = a + np.eye(len(a)) * self_loops
    d = a.sum(1)
    d[d == 0] = 1.0
    return np.asarray(d[:, None] ** (r - 1) * a * d**-r)


def dense_filter(m: Doubles, coefficients: Any, x: Any) -> Doubles:
    """Sum of w_l M^l X, term by term."""
    power = np.asarray(x, dtype=np.float64)
    total = np.zeros_like(power)
    for w in coefficients:
        total += w * power
        power = m @ power
    return total


def dense_pagerank(m: Doubles, alpha: float, x: Any) -> Doubles:
    """alpha (I - (1-alpha) M)^-1 X, the whole series by one solve."""
    return np.asarray(np.linalg.solve(np.eye(len(m)) - (1 - alpha) * m, alpha * np.asarray(x, dtype=np.float64)))


def push_column(a: Doubles, alpha: float, threshold: float, start: Doubles) -> tuple[Doubles, Doubles]:
    """(Q, R) of reverse push on a dense adjacency `a`, by sweeps over all nodes until none is above the threshold."""
    d = a.sum(1)
    d[d == 0] = 1.0
    reserve, residue = np.zeros_like(start), start.astype(np.float64).copy()
    while (residue > threshold).any():
        for u in np.flatnonzero(residue > threshold):
            mass, residue[u] = residue[u], 0.0
            reserve[u] += alpha * mass
            residue += (1 - alpha) * mass * a[:, u] / d
    return reserve, residue
