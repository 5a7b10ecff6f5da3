"""Fewer columns before the filter. The filter is linear, so reducing first gives the same as reducing afterwards.

Both ways are a matrix (f, k) that X is multiplied with, block by block; X itself is never copied or densified.
"""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from tuplet._check import check_choice
from tuplet._seed import seed_of, stream
from tuplet.graph import Features

log = logging.getLogger("tuplet")

REDUCTIONS = ("projection", "svd")
_ROWS = 50_000  # rows that the singular vectors are computed from at most: bounds time and memory


def column_map(x: Features, columns: int, reduction: str, seed: int) -> Any:
    """The (f, columns) matrix that X is multiplied with, or None when X has no more than `columns` columns.

    "projection": a very sparse random projection (entries 0 or +-sqrt(sqrt(f) / k), one in sqrt(f) not 0), which
    keeps distances between rows within about sqrt(8 log(n) / k) and depends on the seed and the shape alone.
    "svd": the leading right singular vectors of X, from a random sample of its rows where there are many.
    """
    f = int(x.shape[1])
    if f <= columns:
        return None
    check_choice("reduction", reduction, REDUCTIONS)
    log.info("reducing %d columns to %d by %s before the filter", f, columns, reduction)
    return _projection(f, columns, seed) if reduction == "projection" else _singular_vectors(x, columns, seed)


def _projection(f: int, k: int, seed: int) -> sp.csc_array:
    rng = stream(seed, "projection")
    every = math.sqrt(f)
    counts = rng.binomial(f, 1 / every, size=k)
    rows = np.concatenate([np.sort(rng.choice(f, size=count, replace=False)) for count in counts])
    values = rng.choice(np.array([-1, 1], np.float32), size=len(rows)) * np.float32(math.sqrt(every / k))
    return sp.csc_array((values, rows, np.r_[0, np.cumsum(counts)]), shape=(f, k))


def _singular_vectors(x: Features, k: int, seed: int) -> Any:
    from tuplet.rows.svd import truncated_svd

    n = x.shape[0]
    rows: Any = slice(None)
    if n > _ROWS:
        rows = np.sort(stream(seed, "svd").choice(n, size=_ROWS, replace=False))
    sample = x[rows].astype(np.float32, copy=False)
    return truncated_svd(sample, min(k, *sample.shape), seed=seed_of(seed, "svd")).right
