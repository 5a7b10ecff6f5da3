"""The labels that SelfDMAT gives itself: of each group, the nodes that belong to it most clearly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def confident(
    rows: NDArray[np.float32], labels: NDArray[np.int64], centres: NDArray[np.float32], share: float
) -> NDArray[np.int64]:
    """`labels` (n,) with -1 for all but the `share` of each group with the largest margin.

    Margin: (distance to the second-nearest centre - to the nearest) / to the second-nearest.

    >>> rows = np.array([[0.0], [0.4], [1.0]], np.float32)
    >>> confident(rows, np.array([0, 0, 1]), np.array([[0.0], [1.0]], np.float32), 0.5)
    array([ 0, -1,  1])
    """
    if len(centres) < 2 or share >= 1:
        return labels.copy()
    squares = np.sum(rows**2, axis=1)[:, None] - 2 * rows @ centres.T + np.sum(centres**2, axis=1)
    near = np.sqrt(np.partition(squares, 1, axis=1)[:, :2].clip(min=0))
    margin = 1 - np.divide(near[:, 0], near[:, 1], out=np.ones(len(near), near.dtype), where=near[:, 1] > 0)
    kept = np.full(len(labels), -1, np.int64)
    for group in np.unique(labels):
        members = np.flatnonzero(labels == group)
        size = max(1, round(share * len(members)))
        best = members[np.argsort(-margin[members], kind="stable")[:size]]
        kept[best] = group
    return kept if np.count_nonzero(kept >= 0) >= 2 else labels.copy()
