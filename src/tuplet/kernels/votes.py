"""What the neighbours' groups say of a node: counts of edges between groups, and votes. `weights` None: 1 an edge."""

from __future__ import annotations

from typing import Any

from tuplet._jit import jit


@jit  # type: ignore[untyped-decorator]
def count_between(start: int, stop: int, indptr: Any, indices: Any, weights: Any, labels: Any, found: Any) -> None:
    """Add the edges of the nodes `start` to `stop` to `found` (k, k), by the groups of both ends."""
    for u in range(start, stop):
        own = labels[u]
        for e in range(indptr[u], indptr[u + 1]):
            found[own, labels[indices[e]]] += 1 if weights is None else weights[e]


@jit  # type: ignore[untyped-decorator]
def add_votes(
    start: int, stop: int, indptr: Any, indices: Any, weights: Any, labels: Any, says: Any, beliefs: Any
) -> None:
    """Add says[group of v] (k,) to the row of u in `beliefs` (stop - start, k), for each edge u - v."""
    k = says.shape[1]
    for u in range(start, stop):
        for e in range(indptr[u], indptr[u + 1]):
            a = labels[indices[e]]
            if weights is None:
                for c in range(k):
                    beliefs[u - start, c] += says[a, c]
            else:
                for c in range(k):
                    beliefs[u - start, c] += weights[e] * says[a, c]
