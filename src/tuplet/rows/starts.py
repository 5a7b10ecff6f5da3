"""Where K-Means starts: k-means++ and Lloyd's steps on a sample of rows, one start a thread."""

from __future__ import annotations

from typing import Any

import numpy as np

from tuplet._seed import stream
from tuplet._threads import one_pool, over
from tuplet.rows.lloyd import STEPS, Clusters, Floats, Labels, lloyd
from tuplet.rows.unit import scale_rows

_SAMPLE, _SAMPLE_EACH = 16_384, 256  # rows of the starts, at least; for each cluster
_SEEDING = 2048  # rows of k-means++, at least; 64 for each cluster
_KEPT = 3  # starts that go on over all rows
_SHORT = 10  # steps of a start on a sample; of fewer rows, until it settles


def best_starts(rows: Any, k: int, seed: int, n_init: int, unit_rows: bool) -> list[Clusters]:
    """Clusters of a sample of rows (of all, where they are few), one start a thread; the best few, best first."""
    sample = np.ascontiguousarray(scale_rows(sampled(rows, sample_size(k), seed), unit_rows))
    return starts_on(sample, k, seed, n_init, whole=len(sample) == rows.shape[0])


def starts_on(sample: Floats, k: int, seed: int, n_init: int, *, whole: bool) -> list[Clusters]:
    """The best few starts on a sample, best first; where it is the `whole`, only the best, which is settled."""
    seeding = sampled(sample, max(_SEEDING, 64 * k), seed)
    steps = STEPS if whole else _SHORT

    def start(number: int) -> Clusters:
        rng = stream(seed, f"kmeans {number}")
        return lloyd(sample, plus_plus(seeding, k, rng), steps=steps)

    with one_pool():
        found = over(start, range(n_init))
    found.sort(key=lambda clusters: clusters.inertia)
    return found[: 1 if whole else _KEPT]


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
