"""Drawing the edges of an R-MAT graph: each from its own counter, so that threads do not matter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from tuplet._jit import jit
from tuplet.kernels.random import mix


@jit(parallel=True)  # type: ignore[untyped-decorator]
def draw_keys(keys: Any, offset: Any, n: Any, a: Any, ab: Any, abc: Any, key: Any) -> None:
    """Fill `keys` with u * n + v, u < v, for the edges number offset.. of the stream `key`."""
    scale = 0
    while (1 << scale) < n:
        scale += 1
    low = np.uint64(a * 2.0**16)
    middle, high = np.uint64(ab * 2.0**16), np.uint64(abc * 2.0**16)
    for i in prange(len(keys)):
        state = mix(key ^ mix(np.uint64(offset + i)))
        u = v = np.uint64(n)
        while u >= np.uint64(n) or v >= np.uint64(n) or u == v:  # outside n x n, or a loop: draw again
            u = v = np.uint64(0)
            for level in range(scale):
                if level % 4 == 0:  # one 64-bit word has 16 bits for each of four levels
                    state += np.uint64(0x9E3779B97F4A7C15)
                    word = mix(state)
                part = word & np.uint64(0xFFFF)
                word >>= np.uint64(16)
                u = (u << np.uint64(1)) | np.uint64(part >= middle)
                v = (v << np.uint64(1)) | np.uint64((part >= low and part < middle) or part >= high)
        keys[i] = min(u, v) * np.uint64(n) + max(u, v)


@jit  # type: ignore[untyped-decorator]
def drop_duplicates(keys: Any) -> Any:
    """Move the distinct values of the sorted `keys` to the front; how many there are."""
    kept = min(1, len(keys))
    for i in range(1, len(keys)):
        if keys[i] != keys[i - 1]:
            keys[kept] = keys[i]
            kept += 1
    return kept


@jit  # type: ignore[untyped-decorator]
def thin_out(keys: Any, count: Any) -> Any:
    """Move `count` of the keys, evenly spread by hash, to the front in their order; `count`."""
    kept, left = 0, len(keys)
    for i in range(len(keys)):
        chance = np.float64(mix(keys[i]) >> np.uint64(11)) * 2.0**-53
        if chance * left < count - kept:
            keys[kept] = keys[i]
            kept += 1
        left -= 1
    return kept
