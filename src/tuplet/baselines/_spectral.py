"""Spectral clustering of the linear kernel of a matrix of rows, without building the kernel.

The kernel K = H H^T has the left singular vectors of H (n, f) as its eigenvectors, so nothing n x n is needed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tuplet._seed import stream
from tuplet.rows.kmeans import kmeans

_GRAM_UP_TO = 1200  # columns; below, the f x f eigenproblem is faster than Lanczos


def left_singular_vectors(h: NDArray[np.float32], k: int, *, seed: int) -> NDArray[np.float32]:
    """The k leading left singular vectors of `h` (n, f), float32 (n, k), largest first; fewer columns if k > f."""
    k = min(k, min(h.shape))
    if min(h.shape) <= max(_GRAM_UP_TO, k + 1):
        return _by_gram(h, k)
    from scipy.sparse.linalg import svds

    start = stream(seed, "lanczos").normal(size=min(h.shape)).astype(np.float32)
    u, s, _ = svds(h, k=k, v0=start, solver="arpack")
    return np.ascontiguousarray(u[:, np.argsort(s)[::-1]])


def _by_gram(h: NDArray[np.float32], k: int) -> NDArray[np.float32]:
    from scipy.linalg import eigh

    tall = h.shape[0] >= h.shape[1]
    gram = (h.T @ h if tall else h @ h.T).astype(np.float64)
    last = len(gram) - 1
    squares, vectors = eigh(gram, subset_by_index=(last - k + 1, last))
    u = vectors[:, ::-1]
    if tall:
        lengths = np.sqrt(squares[::-1].clip(min=np.finfo(np.float64).tiny))
        u = (h @ u.astype(np.float32)) / lengths
    return np.ascontiguousarray(u, dtype=np.float32)


def spectral_labels(
    h: NDArray[np.float32], k: int, *, seed: int, normalise: bool = False, n_init: int = 10
) -> NDArray[np.int64]:
    """Spectral clustering of the kernel H H^T: K-Means on its k leading eigenvectors, int64 (n,).

    `normalise` divides the kernel by the square roots of its row sums first (normalised cuts); rows of H must then
    have kernel sums above zero, as non-negative features do.
    """
    if normalise:
        sums = (h @ h.sum(axis=0, dtype=np.float64)).clip(min=1e-12)
        h = (h / np.sqrt(sums)[:, None]).astype(np.float32)
    return kmeans(left_singular_vectors(h, k, seed=seed), k, seed=seed, n_init=n_init, unit_rows=False).labels
