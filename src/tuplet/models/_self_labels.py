"""The labels that SelfDMAT gives itself: groups of any size, and of each the nodes that belong to it most clearly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet.rows.blocks import over_blocks, summed
from tuplet.rows.lloyd import Clusters, margins

STILL = 10_000  # groups are settled once at most one node in so many moves


@dataclass(frozen=True, eq=False)
class Gaussians:
    """Round Gaussians of one variance, one for each of k groups: `centres` (k, d), twice the variance, log shares."""

    centres: NDArray[np.float32]
    doubled: float
    log_shares: NDArray[np.float64]

    @classmethod
    def measured(cls, rows: Any, labels: NDArray[np.int64], k: int) -> Gaussians:
        """Those of the rows (n, d) with the `labels` (n,)."""
        return cls.of_totals(_totals(rows, labels, k))

    @classmethod
    def of_totals(cls, totals: NDArray[np.float64]) -> Gaussians:
        """Those of the `_totals` of some rows."""
        sums, counts, squares = totals[:, :-2], totals[:, -2], float(totals[:, -1].sum())
        centres = sums / np.maximum(counts, 1)[:, None]
        within = squares - float((counts * np.square(centres).sum(axis=1)).sum())
        shares = np.maximum(counts, 1e-9) / counts.sum()
        doubled = max(2 * within / (counts.sum() * sums.shape[1]), 1e-12)
        return cls(centres.astype(np.float32), doubled, np.log(shares))

    def beliefs(self, rows: Any) -> NDArray[Any]:
        """The log likelihood (b, k) of each group for rows (b, d), up to a number for each row."""
        found: NDArray[Any] = self.log_shares - _distances(rows, self.centres) / self.doubled
        return found


def of_any_size(rows: Any, found: Clusters, *, steps: int = 30) -> Clusters:
    """Clusters that go on from those of K-Means, which prefers groups of one size, to groups of any size.

    Each row goes to the likeliest of the clusters' `Gaussians`, which are then measured again, until hardly a row
    moves. A step reads the rows once.
    """
    labels, k = found.labels.copy(), len(found.centres)
    totals = _totals(rows, labels, k)
    for _ in range(steps):
        model = Gaussians.of_totals(totals)
        before = labels.copy()
        totals[:, :-1] += _moves(rows, before, labels, model)
        if np.count_nonzero(labels != before) <= len(labels) // STILL:
            break
    return Clusters(labels, Gaussians.of_totals(totals).centres)


def _totals(rows: Any, labels: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """Of each group, in one row (k, d + 2): the sum of its rows, their number, and the sum of their squares."""
    from tuplet.kernels.assign import move

    n, d = rows.shape

    def some(block: slice) -> NDArray[np.float64]:
        part, own = np.ascontiguousarray(rows[block]), labels[block]
        sums, counts = np.zeros((k, d)), np.zeros(k, np.int64)
        move(part, np.full(len(part), -1), own, sums, counts)
        squares = np.bincount(own, np.einsum("ij,ij->i", part, part), k)
        return np.column_stack([sums, counts, squares])

    return summed(some, n, max(d, k), (k, d + 2), maps=[rows])


def _moves(rows: Any, before: NDArray[np.int64], labels: NDArray[np.int64], model: Gaussians) -> NDArray[np.float64]:
    """Write the likeliest group of each row to `labels`; how the groups' sums and numbers change (k, d + 1)."""
    from tuplet.kernels.assign import move

    (n, d), k = rows.shape, len(model.centres)

    def some(block: slice) -> NDArray[np.float64]:
        part = np.ascontiguousarray(rows[block])
        labels[block] = model.beliefs(part).argmax(axis=1)
        sums, counts = np.zeros((k, d)), np.zeros(k, np.int64)
        move(part, before[block], labels[block], sums, counts)
        return np.column_stack([sums, counts])

    return summed(some, n, max(d, k), (k, d + 1), maps=[rows])


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

    def sums(block: slice) -> Any:
        some = labels[block]
        one_hot = sp.csr_array((np.ones(len(some), np.float32), (some, np.arange(len(some)))), (k, len(some)))
        return one_hot @ rows[block]

    d, counts = rows.shape[1], np.bincount(labels, minlength=k)[:, None]
    total = summed(sums, len(labels), max(d, k), (k, d), maps=[rows])
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
