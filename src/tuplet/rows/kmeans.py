"""K-Means for vectors of any number of rows, and a label-free choice of k.

Up to `WHOLE_ROWS` rows (and `WHOLE_BYTES` of dense vectors) scikit-learn's K-Means runs on all of them. Beyond,
it runs on a random sample, and whole passes of Lloyd's algorithm over blocks of rows follow until the labels
settle: memory is one block, a memory map is read in order and never copied.
"""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError, check_finite, check_int
from tuplet._seed import seed_of, stream

WHOLE_ROWS = 10**6
WHOLE_BYTES = 2**31
_SAMPLE = 200_000  # rows of the start, at least; 50 for each cluster
_PASSES = 10
_NEAR_BEST = 0.95  # a larger k must gain more than 5% of silhouette
_BLOCK = 2**22  # numbers in a block of rows


@dataclass(frozen=True, eq=False)
class Clusters:
    """`labels` (n,) int64 and `centres` (k, d); `found` counts the clusters that hold a node."""

    labels: NDArray[np.int64]
    centres: NDArray[np.float32]

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


def kmeans(z: Any, k: int, *, seed: int = 0, n_init: int = 10, unit_rows: bool = True) -> Clusters:
    """K-Means with k-means++ starts: the best of `n_init`. Fewer clusters come back where z has fewer distinct rows.

    >>> found = kmeans(np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), 2)
    >>> found.labels[0] == found.labels[1] != found.labels[2]
    np.True_
    """
    z = checked_vectors(z)
    k = check_int("k", k, maximum=z.shape[0])
    whole = z.shape[0] <= WHOLE_ROWS and (sp.issparse(z) or z.size * 4 <= WHOLE_BYTES)
    if whole:
        return _whole(scale_rows(z, unit_rows), k, seed, n_init)
    return _by_blocks(z, k, seed, n_init, unit_rows)


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
        found = _whole(rows, k, seed, n_init=4)
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


def _whole(rows: Any, k: int, seed: int, n_init: int) -> Clusters:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    state = seed_of(check_int("seed", seed, minimum=0), "kmeans") % 2**32
    model = KMeans(k, n_init=check_int("n_init", n_init), random_state=state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than k: `found` tells
        labels = model.fit_predict(rows)
    return Clusters(labels.astype(np.int64), model.cluster_centers_.astype(np.float32))


def _sampled(z: Any, size: int, seed: int) -> Any:
    if z.shape[0] <= size:
        return z
    return z[np.sort(stream(seed, "kmeans sample").choice(z.shape[0], size, replace=False, shuffle=False))]


def _by_blocks(z: Any, k: int, seed: int, n_init: int, unit_rows: bool) -> Clusters:
    centres = _whole(scale_rows(_sampled(z, max(_SAMPLE, 50 * k), seed), unit_rows), k, seed, n_init).centres
    labels = np.full(z.shape[0], -1, np.int64)
    step = max(1, _BLOCK // max(z.shape[1], k))

    def assign(start: int) -> tuple[Any, int]:
        """Label one block of rows; the sums of its rows by cluster, and how many labels changed."""
        rows = scale_rows(z[start : start + step], unit_rows)
        near = nearest(rows, centres)
        moved = int(np.count_nonzero(near != labels[start : start + step]))
        labels[start : start + step] = near
        return _one_hot(near, k) @ rows, moved

    from tuplet.kernels.spmm import thread_count

    with ThreadPoolExecutor(thread_count()) as pool:
        for _ in range(_PASSES):
            found = list(pool.map(assign, range(0, z.shape[0], step)))
            if sum(moved for _, moved in found) <= 1e-4 * z.shape[0]:
                break
            sums = np.zeros(centres.shape)
            for part, _ in found:
                sums += part
            counts = np.bincount(labels, minlength=k)[:, None]
            centres = np.where(counts > 0, sums / np.maximum(counts, 1), centres).astype(np.float32)
    return Clusters(labels, centres)


def nearest(rows: Any, centres: NDArray[np.float32]) -> NDArray[np.int64]:
    """Index of the nearest centre (k, d) of each row (b, d)."""
    closeness = rows @ centres.T
    closeness -= np.sum(centres**2, axis=1) / 2
    found: NDArray[np.int64] = closeness.argmax(axis=1)
    return found


def _one_hot(labels: NDArray[np.int64], k: int) -> sp.csr_array:
    b = len(labels)
    return sp.csc_array((np.ones(b, np.float32), labels, np.arange(b + 1)), shape=(k, b)).tocsr()
