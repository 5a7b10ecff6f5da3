"""Nearest rows by cosine: exact in blocks, or a faiss HNSW index for millions of rows (extra [search])."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError, check_choice, check_int, need_extra

BLOCK = 2**24  # values held at once by the exact search
EXACT_UP_TO = 10**6  # rows; one exact query reads all of them: 1 GB at d = 256, well under a second


def nearest(
    z: NDArray[Any], query: NDArray[Any], k: int = 10, *, method: str = "auto"
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Indices and cosine similarities, each (q, k), of the rows of `z` (n, d) nearest to each row of `query` (q, d).

    `method` is "exact", "hnsw" (approximate) or "auto": exact up to a million rows. Most similar first; equal
    similarities in row order. A zero row has similarity 0 to everything.

    >>> z = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=np.float32)
    >>> nearest(z, z[:1], k=2)[0]
    array([[0, 2]])
    """
    check_choice("method", method, ("auto", "exact", "hnsw"))
    if query.ndim != 2 or query.shape[1] != z.shape[1]:
        raise InputError(f"query has shape {query.shape} but the vectors have {z.shape[1]} columns.")
    k = min(check_int("k", k), len(z))
    if method == "hnsw" or (method == "auto" and len(z) > EXACT_UP_TO):
        return _hnsw(z, query, k)
    return _exact(z, query, k)


def unit_rows(z: NDArray[Any]) -> NDArray[np.float32]:
    """A float32 copy of `z` with rows of length 1; zero rows stay zero."""
    rows = np.asarray(z, dtype=np.float32)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(norms == 0, 1, norms), dtype=np.float32)


def _exact(z: NDArray[Any], query: NDArray[Any], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Block by block over z, keeping the best k so far, so a memory map is read once and never copied whole."""
    q = unit_rows(query)
    best = np.full((len(q), 0), -np.inf, dtype=np.float32)
    index = np.zeros((len(q), 0), dtype=np.int64)
    step = max(1, BLOCK // max(1, z.shape[1] + len(q)))
    for start in range(0, len(z), step):
        scores = q @ unit_rows(z[start : start + step]).T
        best = np.concatenate([best, scores], axis=1)
        places = np.broadcast_to(np.arange(start, start + scores.shape[1]), scores.shape)
        index = np.concatenate([index, places], axis=1)
        order = np.argsort(-best, axis=1, kind="stable")[:, :k]
        best, index = np.take_along_axis(best, order, 1), np.take_along_axis(index, order, 1)
    return index, best


def _hnsw(z: NDArray[Any], query: NDArray[Any], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    faiss = need_extra("faiss", "search", "An approximate search over many vectors")
    index = faiss.IndexHNSWFlat(z.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    step = max(1, 2**26 // z.shape[1])
    for start in range(0, len(z), step):
        index.add(unit_rows(z[start : start + step]))
    index.hnsw.efSearch = max(64, 4 * k)
    similarity, places = index.search(unit_rows(query), k)
    return places.astype(np.int64), similarity
