"""How many groups do the edges alone tell apart? The Bethe Hessian counts them (Saade, Krzakala and Zdeborova, 2014).

H = (r^2 - 1) I - r A + D, with degrees D and r^2 = sum of d^2 / sum of d - 1. In a random graph of k groups that can
be found at all, k eigenvalues of H lie below 0, and a gap parts them from the others. Most real graphs have groups
inside of groups, and no gap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._seed import stream
from tuplet.graph import Graph

_GAP = 0.05  # between the last eigenvalue beyond the bound and the next one
_MOST_STORED, _BASIS_BYTES = 2**24, 2**24  # entries of a graph that is asked, memory of the search
_STEPS, _TOLERANCE = 100, 1e-2


@dataclass(frozen=True)
class EdgeGroups:
    """How many groups the edges tell apart, and whether a gap says that there are no more and no fewer."""

    count: int
    clear: bool


def edge_groups(graph: Graph, most: int, seed: int) -> EdgeGroups | None:
    """Counted up to `most` + 1; None where there are too few edges, or the graph is too large to ask.

    >>> from tuplet.graph.synth import block_model
    >>> edge_groups(block_model([60, 60, 60], seed=0), 20, seed=0)
    EdgeGroups(count=3, clear=True)
    """
    n = graph.n_nodes
    most = min(most + 1, n - 2, _BASIS_BYTES // (16 * n))
    scaled = _scaled(graph) if most >= 3 and 0 < graph.n_stored <= _MOST_STORED else None
    if scaled is None:
        return None
    start = stream(seed, "edge groups").standard_normal(n)
    for asked in sorted({min(most, 16), min(most, 64), most}):
        values = _largest(scaled, asked, start)
        if values is None:
            return None
        count = int((values > 1).sum())
        if count < len(values):
            return EdgeGroups(count, count >= 2 and bool(values[count - 1] - values[count] >= _GAP))
    return EdgeGroups(most, clear=False)


def _scaled(graph: Graph) -> sp.csr_array | None:
    """r A between roots of r^2 - 1 + D: its eigenvalues above 1 are as many as those of H below 0. No weights."""
    ones = np.ones(graph.n_stored)
    adj = sp.csr_array((ones, graph.indices, graph.indptr), shape=(graph.n_nodes, graph.n_nodes))
    if graph.directed:
        adj = sp.csr_array(adj + adj.T)
        adj.data[:] = 1
    degrees = np.diff(adj.indptr).astype(np.float64)
    r2 = (degrees @ degrees) / degrees.sum() - 1
    if r2 <= 1:
        return None
    scale = 1 / np.sqrt(r2 - 1 + degrees)
    sources = np.repeat(np.arange(graph.n_nodes), np.diff(adj.indptr))
    adj.data = np.sqrt(r2) * scale[sources] * scale[adj.indices]
    return adj


def _largest(matrix: sp.csr_array, count: int, start: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """The largest eigenvalues, falling; None where the search does not end."""
    from scipy.sparse.linalg import ArpackNoConvergence, eigsh

    try:
        found = eigsh(matrix, count, which="LA", v0=start, tol=_TOLERANCE, maxiter=_STEPS, return_eigenvectors=False)
    except ArpackNoConvergence:
        return None
    return np.sort(found)[::-1]
