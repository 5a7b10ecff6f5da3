"""The labels that SelfDMAT gives itself: groups of any size, and of each the nodes that belong to it most clearly."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet.rows.kmeans import Clusters


def of_any_size(rows: NDArray[np.float32], found: Clusters, *, steps: int = 30) -> Clusters:
    """Clusters that go on from those of K-Means, which prefers groups of one size, to groups of any size.

    Round Gaussians of one variance v and of shares p_c: each row goes to the centre with the least
    |x - c|^2 / 2v - log p_c, then v, p and the centres are measured again, until no row moves.
    """
    labels, k = found.labels, len(found.centres)
    squares = np.einsum("ij,ij->i", rows, rows)
    for _ in range(steps):
        centres, counts = group_means(rows, labels, k), np.bincount(labels, minlength=k)
        distances = squares[:, None] - 2 * rows @ centres.T + np.einsum("ij,ij->i", centres, centres)
        own = float(np.take_along_axis(distances, labels[:, None], 1).mean(dtype=np.float64))
        doubled = max(2 * own / rows.shape[1], 1e-12)  # 2v
        moved = (distances / doubled - np.log(np.maximum(counts, 1e-9) / len(rows))).argmin(axis=1)
        if np.array_equal(moved, labels):
            break
        labels = moved
    return Clusters(labels, group_means(rows, labels, k))


def group_means(rows: NDArray[np.float32], labels: NDArray[np.int64], k: int) -> NDArray[np.float32]:
    """The mean row (k, d) of each group; zero for a group without rows.

    >>> group_means(np.array([[1.0], [3.0], [5.0]], np.float32), np.array([0, 0, 1]), 2)
    array([[2.],
           [5.]], dtype=float32)
    """
    one_hot = sp.csr_array((np.ones(len(labels), np.float32), (labels, np.arange(len(labels)))), (k, len(labels)))
    counts = np.bincount(labels, minlength=k)[:, None]
    means: NDArray[np.float32] = ((one_hot @ rows) / np.maximum(counts, 1)).astype(np.float32)
    return means


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
