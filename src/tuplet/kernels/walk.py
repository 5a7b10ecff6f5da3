"""Uniform random walks on a CSR adjacency: parallel, one random stream a walk.

The numbers of walk i depend on the seed and on i alone (a SplitMix64 sequence started at a hash of both), so the
result is the same for any number of threads and any order of the walks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange
from numpy.typing import NDArray

from tuplet._jit import jit
from tuplet.kernels.random import mix

_STEP = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


def random_walks(
    indptr: NDArray[np.int64], indices: NDArray[Any], starts: NDArray[Any], length: int, *, seed: int
) -> NDArray[Any]:
    """Walks of `length` nodes, (len(starts), length) in the type of `indices`; column 0 is the start.

    Each step goes to one of the stored neighbours with equal chance; edge weights play no part. A walk that
    reaches a node without out-edges ends there: the rest of its row is -1.

    >>> random_walks(np.array([0, 1, 2, 2]), np.array([1, 0], np.int32), np.array([0, 2]), 4, seed=0)
    array([[ 0,  1,  0,  1],
           [ 2, -1, -1, -1]], dtype=int32)
    """
    walks = np.empty((len(starts), length), dtype=indices.dtype)
    _walk(indptr, indices, np.ascontiguousarray(starts, dtype=np.int64), np.uint64(seed), walks)
    return walks


@jit(parallel=True)  # type: ignore[untyped-decorator]
def _walk(indptr: Any, indices: Any, starts: Any, seed: Any, walks: Any) -> None:
    length = walks.shape[1]
    for i in prange(len(starts)):
        state = mix(mix(seed) + np.uint64(i))
        node = starts[i]
        walks[i, 0] = node
        step = 1
        while step < length:
            first = indptr[node]
            degree = np.uint64(indptr[node + 1] - first)
            if degree == 0:
                break
            state += _STEP
            # 32 random bits times the degree, the high part: a bias below degree / 2^32
            node = indices[first + np.int64(((mix(state) >> _HALF) * degree) >> _HALF)]
            walks[i, step] = node
            step += 1
        for rest in range(step, length):
            walks[i, rest] = -1
