"""K-Means for vectors of any number of rows, and a label-free choice of k.

Dense rows: the best start on a sample of rows (`starts`) goes on over all rows, block by block, until the labels
settle (`lloyd`). On a GPU the rows lie there and every step is a product. CSR rows go to scikit-learn.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from tuplet._check import check_choice, check_int
from tuplet._memory import mapped_file
from tuplet._seed import seed_of
from tuplet._threads import one_pool
from tuplet.rows.lloyd import SETTLED, STEPS, Clusters, Floats, lloyd, simplified_silhouette
from tuplet.rows.starts import best_start, sampled
from tuplet.rows.unit import checked_vectors, scale_rows

WHOLE_BYTES = 2**31  # of dense vectors: up to here a scaled copy is made
_NEAR_BEST = 0.95  # a larger k must gain more than 5% of silhouette
_GPU_WORK = 2**31  # rows x columns x clusters that are worth the way to a GPU


def kmeans(
    z: Any,
    k: int,
    *,
    seed: int = 0,
    n_init: int = 10,
    unit_rows: bool = True,
    device: str = "auto",
    centres: Floats | None = None,
) -> Clusters:
    """K-Means: the best of `n_init` k-means++ starts, after swaps of centres that lower its inertia.

    Fewer clusters come back where z has fewer distinct rows. `centres` (k, d), for dense z: the one start instead.

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
        assert centres is None
        return _sparse(scale_rows(z, unit_rows), k, seed, n_init)
    rows = scale_rows(z, unit_rows) if _in_memory(z) else z
    later = unit_rows and rows is z  # rows are scaled as they are read
    start = best_start(rows, k, seed, n_init, later, centres)
    if len(start.labels) == z.shape[0]:
        return start
    if _worth_a_gpu(z, k, device):
        from tuplet.rows._kmeans_gpu import refine_on_gpu

        return Clusters(*refine_on_gpu(rows, start.centres, later, SETTLED, STEPS))
    return lloyd(rows, start.centres, unit_rows=later)


def choose_k(z: Any, *, seed: int = 0, k_max: int = 20, unit_rows: bool = True, sample: int = 5000) -> int:
    """The smallest k whose simplified silhouette is within 5% of the best of 2..k_max; no label is read.

    K-Means runs for each k on the same sample of rows. 1 where all rows are equal.

    >>> corners = np.repeat(np.eye(4), 10, axis=0) + 0.01 * np.arange(160).reshape(40, 4) / 160
    >>> choose_k(corners)
    4
    """
    z = checked_vectors(z)
    rows = scale_rows(sampled(z, sample, seed), unit_rows)
    k_max = min(check_int("k_max", k_max, minimum=2), rows.shape[0] - 1)
    scores = {}
    for k in range(2, k_max + 1):
        found = kmeans(rows, k, seed=seed, n_init=4, unit_rows=False, device="cpu")
        if found.found < k:
            break  # no more distinct rows
        scores[k] = simplified_silhouette(rows, found.centres)
    enough = _NEAR_BEST * max(scores.values(), default=0.0)
    return next((k for k, score in scores.items() if score >= enough), 1)


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
