"""Spectral clustering of the linear kernel of a matrix of rows, without building the kernel.

The kernel K = H H^T has the left singular vectors of H (n, f) as its eigenvectors, so nothing n x n is needed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tuplet.rows.kmeans import kmeans
from tuplet.rows.svd import left_singular_vectors


def spectral_labels(
    h: NDArray[np.float32],
    k: int,
    *,
    seed: int,
    normalise: bool = False,
    n_init: int = 10,
    columns: int | None = None,
) -> NDArray[np.int64]:
    """Spectral clustering of the kernel H H^T: K-Means on its k (or `columns`) leading eigenvectors, int64 (n,).

    `normalise` divides the kernel by the square roots of its row sums first (normalised cuts); rows of H must then
    have kernel sums above zero, as non-negative features do.
    """
    if normalise:
        sums = (h @ h.sum(axis=0, dtype=np.float64)).clip(min=1e-12)
        h = (h / np.sqrt(sums)[:, None]).astype(np.float32)
    width = k if columns is None else min(columns, *h.shape)
    return kmeans(left_singular_vectors(h, width, seed=seed), k, seed=seed, n_init=n_init, unit_rows=False).labels
