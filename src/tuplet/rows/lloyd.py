"""Lloyd's algorithm: rows to their nearest centre, centres to the mean of their rows, until the labels settle.

Bounds on the distances (Hamerly, 2010) skip rows whose centre cannot have changed; the answer is the same. Memory is
a few numbers a row and one block, so a memory map is read in order and never copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._memory import forget_pages
from tuplet._threads import over
from tuplet.rows.unit import scale_rows

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]

STEPS = 300  # at most
SETTLED = 1e-4  # share of rows that still change their cluster
_BLOCK = 2**19  # numbers in a block of rows: its products stay in cache
_AT_ONCE = 64  # blocks whose sums are held together


@dataclass(frozen=True, eq=False)
class Clusters:
    """`labels` (n,) int64, `centres` (k, d), and `inertia`, the sum of squared distances to the own centre.

    `found` counts the clusters that hold a node.
    """

    labels: NDArray[np.int64]
    centres: NDArray[np.float32]
    inertia: float = 0.0

    @property
    def found(self) -> int:
        return len(np.unique(self.labels))


def lloyd(
    rows: Any, centres: Floats, *, unit_rows: bool = False, steps: int = STEPS, settled: float = SETTLED
) -> Clusters:
    """Lloyd's algorithm from `centres` (k, d) on dense `rows` (n, d), read in blocks of rows and never copied.

    It ends where at most the share `settled` of the rows changes its cluster. Empty clusters keep their centre.
    """
    state = _State.begin(rows, centres, unit_rows)
    for step in range(steps):
        moved = state.sweep(first=step == 0)
        state.update()
        if moved <= settled * len(state.near):
            break
    return Clusters(state.near, state.centres, state.inertia())


def assigned(
    rows: Any, centres: Floats, *, unit_rows: bool = False
) -> tuple[Labels, NDArray[np.float64], Labels, float]:
    """The nearest centre of each row; sums (k, d) and counts (k,) of the clusters, and all rows' squared lengths."""
    state = _State.begin(rows, centres, unit_rows)
    state.sweep(first=True)
    return state.near, state.sums, state.counts, state.squares


@dataclass(frozen=True, eq=False)
class _Part:
    """What one block of rows adds to the clusters' sums (k, d) and counts (k,), and how many labels changed."""

    sums: NDArray[np.float64]
    counts: Labels
    moved: int
    squares: float = 0.0


@dataclass(eq=False)
class _State:
    """Rows, their clusters `near` (n,), and bounds: `upper` on the distance to the own centre, `lower` to others'."""

    rows: Any
    unit_rows: bool
    centres: Floats
    near: Labels
    upper: Floats
    lower: Floats
    sums: NDArray[np.float64]
    counts: Labels
    drift: Floats
    most: Floats
    apart: Floats
    squares: float = 0.0  # of all rows' lengths

    @classmethod
    def begin(cls, rows: Any, centres: Floats, unit_rows: bool) -> _State:
        n, (k, d) = rows.shape[0], centres.shape
        return cls(
            rows=rows,
            unit_rows=unit_rows,
            centres=np.ascontiguousarray(centres, np.float32),
            near=np.full(n, -1, np.int64),
            upper=np.empty(n, np.float32),
            lower=np.empty(n, np.float32),
            sums=np.zeros((k, d)),
            counts=np.zeros(k, np.int64),
            drift=np.zeros(k, np.float32),
            most=np.zeros(k, np.float32),
            apart=np.zeros(k, np.float32),
        )

    def blocks(self) -> list[slice]:
        n = self.rows.shape[0]
        k, d = self.centres.shape
        step = max(256, 4 * k, _BLOCK // max(k, d))
        return [slice(start, min(start + step, n)) for start in range(0, n, step)]

    def sweep(self, *, first: bool) -> int:
        """Assign all rows, block by block, into sums and counts; how many have changed their cluster."""
        work, moved, blocks = self.assign_all if first else self.assign, 0, self.blocks()
        for start in range(0, len(blocks), _AT_ONCE):
            for part in over(work, blocks[start : start + _AT_ONCE]):
                moved += part.moved
                self.sums += part.sums
                self.counts += part.counts
                self.squares += part.squares if first else 0.0
            forget_pages(self.rows)
        return moved

    def assign_all(self, block: slice) -> _Part:
        return self._assign(block, np.arange(block.stop - block.start))

    def assign(self, block: slice) -> _Part:
        """Only the rows whose bounds do not hold are looked at."""
        from tuplet.kernels.assign import unsure

        found = np.empty(block.stop - block.start, np.int64)
        bounds = (self.near[block], self.upper[block], self.lower[block])
        count = unsure(*bounds, self.drift, self.most, self.apart, found)
        return self._assign(block, found[:count])

    def _assign(self, block: slice, which: Labels) -> _Part:
        from tuplet.kernels.assign import move

        k = len(self.centres)
        part = _Part(np.zeros(self.sums.shape), np.zeros(k, np.int64), 0)
        if len(which) == 0:
            return part
        taken = self.rows[block] if len(which) == block.stop - block.start else self.rows[block][which]
        rows = np.ascontiguousarray(scale_rows(taken, self.unit_rows))
        squares = np.einsum("ij,ij->i", rows, rows)
        near, first, second = two_nearest(rows, self.centres, squares)
        where = which + block.start
        moved = move(rows, self.near[where], near, part.sums, part.counts)
        self.near[where], self.upper[where], self.lower[where] = near, first, second
        return _Part(part.sums, part.counts, int(moved), float(squares.sum(dtype=np.float64)))

    def inertia(self) -> float:
        """Sum of squared distances of the rows to the mean of their cluster."""
        between = np.square(self.sums).sum(axis=1) / np.maximum(self.counts, 1)
        return max(0.0, self.squares - float(between.sum()))

    def update(self) -> None:
        """New centres: the means of their rows; and how far each went."""
        full = self.counts > 0
        means = np.where(full[:, None], self.sums / np.maximum(self.counts, 1)[:, None], self.centres)
        new = means.astype(np.float32)
        self.drift = np.linalg.norm(new - self.centres, axis=1).astype(np.float32)
        order = np.argsort(-self.drift, kind="stable")
        self.most = np.full(len(new), self.drift[order[0]], np.float32)
        if len(new) > 1:
            self.most[order[0]] = self.drift[order[1]]
        self.centres, self.apart = new, _half_gaps(new)


def two_nearest(rows: Floats, centres: Floats, squares: Floats | None = None) -> tuple[Labels, Floats, Floats]:
    """The nearest centre of each row (n,), and the distances to it and to the second nearest (inf for one centre)."""
    from tuplet.kernels.assign import nearest_two

    near, first, second = np.empty(len(rows), np.int64), *(np.empty(len(rows), np.float32) for _ in range(2))
    squares = np.einsum("ij,ij->i", rows, rows) if squares is None else squares
    half = np.einsum("ij,ij->i", centres, centres) / np.float32(2)
    nearest_two(rows @ centres.T, half, squares, near, first, second)
    return near, first, second


def _half_gaps(centres: Floats) -> Floats:
    """Half the distance of each centre to its nearest other one; inf where there is only one."""
    squares = np.einsum("ij,ij->i", centres, centres)
    gaps = squares[:, None] + squares - 2 * (centres @ centres.T)
    np.fill_diagonal(gaps, np.inf)
    half: Floats = (np.sqrt(gaps.min(axis=1).clip(min=0)) / 2).astype(np.float32)
    return half


def simplified_silhouette(rows: Any, centres: NDArray[Any]) -> float:
    """Mean over the rows of 1 - (distance to the nearest centre) / (distance to the second nearest)."""
    return float(margins(rows, centres).mean())


def margins(rows: Any, centres: NDArray[Any]) -> NDArray[Any]:
    """1 - (distance to the nearest centre) / (distance to the second nearest) of each row; 1 for one centre.

    How sure a row is of its cluster: 0 between two centres, 1 on one of them.
    """
    if len(centres) < 2:
        return np.ones(rows.shape[0], np.float32)
    squares = rows.multiply(rows).sum(axis=1) if sp.issparse(rows) else np.einsum("ij,ij->i", rows, rows)
    distances = squares[:, None] + np.sum(centres**2, axis=1) - 2 * (rows @ centres.T)
    near = np.sqrt(np.partition(distances, 1, axis=1)[:, :2].clip(min=0))
    share = np.divide(near[:, 0], near[:, 1], out=np.ones(len(near), near.dtype), where=near[:, 1] > 0)
    sure: NDArray[Any] = 1 - share
    return sure


def nearest_centre(rows: Any, centres: NDArray[np.float32]) -> NDArray[np.int64]:
    """Index of the nearest centre (k, d) of each row (b, d)."""
    closeness = rows @ centres.T
    closeness -= np.sum(centres**2, axis=1) / 2
    found: NDArray[np.int64] = closeness.argmax(axis=1)
    return found
