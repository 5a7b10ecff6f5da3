"""K-Means for vectors of any number of rows, and a label-free choice of k.

Dense rows: k-means++ starts and Lloyd's steps on a sample of rows, one start a thread; the best few go on over all
rows, block by block, until the labels settle. Bounds on the distances (Hamerly, 2010) skip rows whose centre cannot
have changed; the answer is the same. Memory is a few numbers a row and one block, so a memory map is read in order
and never copied. On a GPU the rows lie there and every step is a product. CSR rows go to scikit-learn.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError, check_choice, check_finite, check_int
from tuplet._memory import forget_pages, mapped_file
from tuplet._seed import seed_of, stream
from tuplet._threads import one_pool, over

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]

WHOLE_BYTES = 2**31  # of dense vectors: up to here a scaled copy is made
_SAMPLE, _SAMPLE_EACH = 16_384, 256  # rows of the starts, at least; for each cluster
_SEEDING = 2048  # rows of k-means++, at least; 64 for each cluster
_KEPT = 3  # starts that go on over all rows
_SHORT = 10  # steps of a start on a sample; of fewer rows, until it settles
STEPS = 300  # at most
SETTLED = 1e-4  # share of rows that still change their cluster
_NEAR_BEST = 0.95  # a larger k must gain more than 5% of silhouette
_BLOCK = 2**19  # numbers in a block of rows: its products stay in cache
_AT_ONCE = 64  # blocks whose sums are held together
_GPU_WORK = 2**31  # rows x columns x clusters that are worth the way to a GPU


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


def checked_vectors(z: Any, n: int | None = None) -> Any:
    """`z` as (n, d) floats, dense, memory map or CSR, all finite."""
    z = sp.csr_array(z) if sp.issparse(z) else np.asanyarray(z)
    if z.ndim != 2 or z.shape[1] == 0 or z.dtype.kind not in "fiub":
        raise InputError(f"The vectors have shape {z.shape} and type {z.dtype}. Give numbers, one row a node.")
    if n is not None and z.shape[0] != n:
        raise InputError(f"There are {z.shape[0]} vectors but the graph has {n} nodes. Give one row a node.")
    check_finite("The vectors", z.data if sp.issparse(z) else z)
    return z


def scale_rows(rows: Any, unit_rows: bool = True) -> Any:
    """`rows` as float32, dense or CSR, each scaled to unit length unless told not to; zero rows stay zero."""
    rows = rows.astype(np.float32)
    if not unit_rows:
        return rows
    lengths = row_lengths(rows)
    factors = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    if sp.issparse(rows):
        return sp.csr_array(sp.diags_array(factors) @ rows)
    return rows * factors[:, None]


def row_lengths(rows: Any) -> NDArray[Any]:
    """Euclidean length of each row, dense or CSR."""
    lengths: NDArray[Any] = (
        np.sqrt(rows.multiply(rows).sum(axis=1)) if sp.issparse(rows) else np.linalg.norm(rows, axis=1)
    )
    return lengths


def kmeans(
    z: Any, k: int, *, seed: int = 0, n_init: int = 10, unit_rows: bool = True, device: str = "auto"
) -> Clusters:
    """K-Means with k-means++ starts: the best of `n_init`. Fewer clusters come back where z has fewer distinct rows.

    `device`: "cpu", "cuda", or "auto" for a GPU that torch already uses, where the work is worth it.

    >>> found = kmeans(np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), 2)
    >>> found.labels[0] == found.labels[1] != found.labels[2]
    np.True_
    """
    z = checked_vectors(z)
    k = check_int("k", k, maximum=z.shape[0])
    n_init, seed = check_int("n_init", n_init), check_int("seed", seed, minimum=0)
    check_choice("device", device, ("auto", "cpu", "cuda"))
    if sp.issparse(z):
        return _sparse(scale_rows(z, unit_rows), k, seed, n_init)
    rows = scale_rows(z, unit_rows) if _in_memory(z) else z
    starts = _starts(rows, k, seed, n_init, unit_rows and rows is z)
    if len(starts[0].labels) == z.shape[0]:
        return starts[0]
    if _worth_a_gpu(z, k, device):
        from tuplet.rows._kmeans_gpu import refine_on_gpu

        centres = [start.centres for start in starts]
        return Clusters(*refine_on_gpu(rows, centres, unit_rows and rows is z, SETTLED, STEPS))
    found = [lloyd(rows, start.centres, unit_rows=unit_rows and rows is z, steps=STEPS) for start in starts]
    return min(found, key=lambda clusters: clusters.inertia)


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
        from tuplet.kernels.assign import move, nearest_two

        k = len(self.centres)
        part = _Part(np.zeros(self.sums.shape), np.zeros(k, np.int64), 0)
        if len(which) == 0:
            return part
        taken = self.rows[block] if len(which) == block.stop - block.start else self.rows[block][which]
        rows = np.ascontiguousarray(scale_rows(taken, self.unit_rows))
        near, first, second = np.empty(len(rows), np.int64), *(np.empty(len(rows), np.float32) for _ in range(2))
        squares = np.einsum("ij,ij->i", rows, rows)
        half = np.einsum("ij,ij->i", self.centres, self.centres) / np.float32(2)
        nearest_two(rows @ self.centres.T, half, squares, near, first, second)
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


def _half_gaps(centres: Floats) -> Floats:
    """Half the distance of each centre to its nearest other one; inf where there is only one."""
    squares = np.einsum("ij,ij->i", centres, centres)
    gaps = squares[:, None] + squares - 2 * (centres @ centres.T)
    np.fill_diagonal(gaps, np.inf)
    half: Floats = (np.sqrt(gaps.min(axis=1).clip(min=0)) / 2).astype(np.float32)
    return half


def _starts(rows: Any, k: int, seed: int, n_init: int, unit_rows: bool) -> list[Clusters]:
    """Clusters of a sample of rows (of all, where they are few), one start a thread; the best few, best first."""
    sample = np.ascontiguousarray(scale_rows(_sampled(rows, sample_size(k), seed), unit_rows))
    return starts_on(sample, k, seed, n_init, whole=len(sample) == rows.shape[0])


def starts_on(sample: Floats, k: int, seed: int, n_init: int, *, whole: bool) -> list[Clusters]:
    """The best few starts on a sample, best first; where it is the `whole`, only the best, which is settled."""
    seeding = _sampled(sample, max(_SEEDING, 64 * k), seed)
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


def choose_k(z: Any, *, seed: int = 0, k_max: int = 20, unit_rows: bool = True, sample: int = 5000) -> int:
    """The smallest k whose simplified silhouette is within 5% of the best of 2..k_max; no label is read.

    K-Means runs for each k on the same sample of rows. 1 where all rows are equal.

    >>> corners = np.repeat(np.eye(4), 10, axis=0) + 0.01 * np.arange(160).reshape(40, 4) / 160
    >>> choose_k(corners)
    4
    """
    z = checked_vectors(z)
    rows = scale_rows(_sampled(z, sample, seed), unit_rows)
    k_max = min(check_int("k_max", k_max, minimum=2), rows.shape[0] - 1)
    scores = {}
    for k in range(2, k_max + 1):
        found = kmeans(rows, k, seed=seed, n_init=4, unit_rows=False, device="cpu")
        if found.found < k:
            break  # no more distinct rows
        scores[k] = simplified_silhouette(rows, found.centres)
    enough = _NEAR_BEST * max(scores.values(), default=0.0)
    return next((k for k, score in scores.items() if score >= enough), 1)


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


def _in_memory(z: Any) -> bool:
    """Whether a scaled copy of `z` may be held."""
    return mapped_file(z) is None and bool(z.size * 4 <= WHOLE_BYTES)


def _worth_a_gpu(z: Any, k: int, device: str) -> bool:
    if device == "cpu" or (device == "auto" and ("torch" not in sys.modules or z.size * k < _GPU_WORK)):
        return False
    import torch

    from tuplet._memory import free_on

    if not torch.cuda.is_available():
        return False
    return bool(8 * z.size < free_on(torch.device("cuda")))


def _sparse(rows: Any, k: int, seed: int, n_init: int) -> Clusters:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    model = KMeans(k, n_init=n_init, random_state=seed_of(seed, "kmeans") % 2**32)
    with warnings.catch_warnings(), one_pool():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than k: `found` tells
        labels = model.fit_predict(rows)
    return Clusters(labels.astype(np.int64), model.cluster_centers_.astype(np.float32), float(model.inertia_))


def _sampled(z: Any, size: int, seed: int) -> Any:
    return z if z.shape[0] <= size else z[sample_places(z.shape[0], size, seed)]


def sample_size(k: int) -> int:
    """Rows of the sample that the starts are made on."""
    return max(_SAMPLE, _SAMPLE_EACH * k)


def sample_places(n: int, size: int, seed: int) -> Labels:
    """Which of n rows are in a sample, in order; all where there are no more."""
    if n <= size:
        return np.arange(n)
    return np.sort(stream(seed, "kmeans sample").choice(n, size, replace=False, shuffle=False))


def nearest_centre(rows: Any, centres: NDArray[np.float32]) -> NDArray[np.int64]:
    """Index of the nearest centre (k, d) of each row (b, d)."""
    closeness = rows @ centres.T
    closeness -= np.sum(centres**2, axis=1) / 2
    found: NDArray[np.int64] = closeness.argmax(axis=1)
    return found
