"""Where K-Means starts: k-means++ and Lloyd's steps on a sample of rows, one start a thread; then swaps.

More starts alone end in many optima whose inertia differs by a percent and whose groups differ by much more. A swap
leaves one optimum for a better one: a centre that is hardly missed gives way, and a wide cluster is split.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tuplet._seed import stream
from tuplet._threads import one_pool, over
from tuplet.rows.lloyd import STEPS, Clusters, Floats, Labels, lloyd, two_nearest
from tuplet.rows.unit import scale_rows

_SAMPLE, _SAMPLE_EACH = 16_384, 256  # rows of the starts, at least; for each cluster
_SEEDING = 2048  # rows of k-means++, at least; 64 for each cluster
_SHORT = 10  # steps of a start on a sample; of fewer rows, until it settles
_ROUNDS, _TRIED = 20, 8  # of swaps, at most; swaps that are tried in a round
_NEARLY = 1e-3  # share of rows that still change their cluster where a swap is judged
_GAIN = 1e-4  # share of the inertia that a swap must save
_SPLIT_ROWS, _SPLIT_STEPS = 512, 5  # of a trial split: rows of k-means++, and Lloyd's steps


def best_start(rows: Any, k: int, seed: int, n_init: int, unit_rows: bool, centres: Floats | None = None) -> Clusters:
    """Clusters of a sample of rows; of all, settled, where they are few. From `centres` (k, d), where given."""
    sample = np.ascontiguousarray(scale_rows(sampled(rows, sample_size(k), seed), unit_rows))
    return start_on(sample, k, seed, n_init, whole=len(sample) == rows.shape[0], centres=centres)


def start_on(
    sample: Floats, k: int, seed: int, n_init: int, *, whole: bool, centres: Floats | None = None
) -> Clusters:
    """The best of `n_init` starts on a sample, or that from `centres`, after swaps; settled if it is the `whole`."""

    def settled(first: Floats) -> Clusters:
        return lloyd(sample, first, steps=STEPS if whole else _SHORT)

    def drawn() -> list[Clusters]:
        seeding = sampled(sample, max(_SEEDING, 64 * k), seed)
        return over(lambda i: settled(plus_plus(seeding, k, stream(seed, f"kmeans {i}"))), range(n_init))

    with one_pool():
        begun = drawn() if centres is None else [settled(centres)]
        found = swapped(sample, min(begun, key=_inertia), seed)
    return lloyd(sample, found.centres) if whole else found


def swapped(rows: Floats, found: Clusters, seed: int) -> Clusters:
    """`found` after as many swaps as lower its inertia, the best of a few each time."""
    for number in range(_ROUNDS if len(found.centres) > 1 else 0):
        tried = over(
            lambda centres: lloyd(rows, centres, steps=_SHORT, settled=_NEARLY), _swaps(rows, found, number, seed)
        )
        best = min(tried, key=_inertia, default=found)
        if best.inertia >= (1 - _GAIN) * found.inertia:
            break
        found = best
    return found


def _swaps(rows: Floats, found: Clusters, number: int, seed: int) -> list[Floats]:
    """Centres (k, d) after the swaps that promise most: what a split saves, less what the centre given up costs."""
    centres, k = found.centres, len(found.centres)
    near, first, second = two_nearest(rows, centres)
    cost = np.bincount(near, np.square(second, dtype=np.float64) - np.square(first), k)

    def split(c: int) -> tuple[float, Floats]:
        return _split(rows[near == c], stream(seed, f"kmeans split {number} {c}"))

    parts = over(split, range(k))
    worth = np.array([saved for saved, _ in parts])[:, None] - cost  # (split, given up)
    np.fill_diagonal(worth, -np.inf)
    chosen = []
    for place in np.argsort(-worth, axis=None, kind="stable")[:_TRIED]:
        wide, spare = divmod(int(place), k)
        if parts[wide][0] > 0:
            new = centres.copy()
            new[[wide, spare]] = parts[wide][1]
            chosen.append(new)
    return chosen


def _split(rows: Floats, rng: np.random.Generator) -> tuple[float, Floats]:
    """What two centres save over one for `rows`, by a few steps; and the two (2, d)."""
    if len(rows) < 2:
        return 0.0, rows
    drawn = rows[rng.choice(len(rows), min(len(rows), _SPLIT_ROWS), replace=False)]
    found = lloyd(rows, plus_plus(drawn, 2, rng), steps=_SPLIT_STEPS)
    alone = float(np.square(rows - rows.mean(axis=0)).sum(dtype=np.float64))
    return alone - found.inertia, found.centres


def _inertia(clusters: Clusters) -> float:
    return clusters.inertia


def plus_plus(rows: Floats, k: int, rng: np.random.Generator) -> Floats:
    """k rows far apart: each next one is drawn by its squared distance to the nearest so far, the best of a few.

    Arthur and Vassilvitskii (2007), with 2 + log k trials a centre.
    """
    squares = np.einsum("ij,ij->i", rows, rows)
    trials = 2 + int(np.log(k))
    chosen = [int(rng.integers(len(rows)))]
    gaps = _gaps(rows, squares, chosen)[0]
    for _ in range(1, k):
        marks = np.cumsum(gaps, dtype=np.float64)
        drawn = np.searchsorted(marks, rng.random(trials) * marks[-1]).clip(max=len(rows) - 1)
        tried = np.minimum(gaps, _gaps(rows, squares, drawn))
        best = int(tried.sum(axis=1, dtype=np.float64).argmin())
        chosen.append(int(drawn[best]))
        gaps = tried[best]
    return rows[chosen]


def _gaps(rows: Floats, squares: Floats, chosen: Any) -> Floats:
    """Squared distances (c, n) of all rows to the chosen ones."""
    products = rows[chosen] @ rows.T
    gaps: Floats = (squares[chosen][:, None] + squares - 2 * products).clip(min=0)
    return gaps


def sampled(z: Any, size: int, seed: int) -> Any:
    return z if z.shape[0] <= size else z[sample_places(z.shape[0], size, seed)]


def sample_size(k: int) -> int:
    """Rows of the sample that the starts are made on."""
    return max(_SAMPLE, _SAMPLE_EACH * k)


def sample_places(n: int, size: int, seed: int) -> Labels:
    """Which of n rows are in a sample, in order; all where there are no more."""
    if n <= size:
        return np.arange(n)
    return np.sort(stream(seed, "kmeans sample").choice(n, size, replace=False, shuffle=False))
