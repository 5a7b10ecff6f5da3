"""The labels that SelfDMAT gives itself: groups of any size, and of each the nodes that belong to it most clearly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet.rows.blocks import over_blocks, summed
from tuplet.rows.lloyd import Clusters, margins


def of_any_size(rows: NDArray[np.float32], found: Clusters, *, steps: int = 30) -> Clusters:
    """Clusters that go on from those of K-Means, which prefers groups of one size, to groups of any size.

    Round Gaussians of one variance v and of shares p_c: each row goes to the centre with the least
    |x - c|^2 / 2v - log p_c, then v, p and the centres are measured again, until no row moves.
    """
    labels, k = found.labels, len(found.centres)
    for _ in range(steps):
        centres, counts = group_means(rows, labels, k), np.bincount(labels, minlength=k)
        doubled = max(2 * _variance(rows, centres, labels), 1e-12)
        moved = _likeliest(rows, centres, doubled, np.log(np.maximum(counts, 1e-9) / len(labels)))
        if np.array_equal(moved, labels):
            break
        labels = moved
    return Clusters(labels, group_means(rows, labels, k))


def _variance(rows: Any, centres: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """Mean squared distance to the own centre, a column."""
    (n, d), k = rows.shape, len(centres)

    def own(block: slice) -> Any:
        distances = _distances(rows[block], centres)
        return np.take_along_axis(distances, labels[block, None], 1).sum(dtype=np.float64)

    total = float(summed(own, n, max(d, k), (), maps=[rows]))
    return total / int(n * d)


def _likeliest(rows: Any, centres: NDArray[np.float32], doubled: float, log_shares: Any) -> NDArray[np.int64]:
    """For each row the centre with the least |x - c|^2 / 2v - log p_c."""

    def some(block: slice) -> Any:
        return (_distances(rows[block], centres) / doubled - log_shares).argmin(axis=1)

    (n, d), k = rows.shape, len(centres)
    return np.concatenate([part for _, part in over_blocks(some, n, max(d, k), maps=[rows])])


def _distances(rows: NDArray[np.float32], centres: NDArray[np.float32]) -> NDArray[np.float32]:
    """Squared distances (b, k) of rows to all centres."""
    squares = np.einsum("ij,ij->i", rows, rows)
    found: NDArray[np.float32] = squares[:, None] - 2 * rows @ centres.T + np.einsum("ij,ij->i", centres, centres)
    return found


def group_means(rows: NDArray[np.float32], labels: NDArray[np.int64], k: int) -> NDArray[np.float32]:
    """The mean row (k, d) of each group; zero for a group without rows.

    >>> group_means(np.array([[1.0], [3.0], [5.0]], np.float32), np.array([0, 0, 1]), 2)
    array([[2.],
           [5.]], dtype=float32)
    """
    return means_of(lambda block: rows[block], rows.shape[1], labels, k, maps=[rows])


def means_of(
    rows_of: Callable[[slice], Any], d: int, labels: NDArray[np.int64], k: int, *, maps: Sequence[Any] = ()
) -> NDArray[np.float32]:
    """The same for rows (n, d) that `rows_of` gives block by block."""

    def sums(block: slice) -> Any:
        rows, some = rows_of(block), labels[block]
        one_hot = sp.csr_array((np.ones(len(some), np.float32), (some, np.arange(len(some)))), (k, len(some)))
        return one_hot @ rows

    counts = np.bincount(labels, minlength=k)[:, None]
    total = summed(sums, len(labels), max(d, k), (k, d), maps=maps)
    means: NDArray[np.float32] = (total / np.maximum(counts, 1)).astype(np.float32)
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
    n, width = rows.shape[0], max(rows.shape[1], len(centres))
    parts = over_blocks(lambda block: margins(rows[block], centres), n, width, maps=[rows])
    margin = np.concatenate([part for _, part in parts])
    kept = np.full(len(labels), -1, np.int64)
    for group in np.unique(labels):
        members = np.flatnonzero(labels == group)
        size = max(1, round(share * len(members)))
        best = members[np.argsort(-margin[members], kind="stable")[:size]]
        kept[best] = group
    return kept if np.count_nonzero(kept >= 0) >= 2 else labels.copy()
