"""Steps of K-Means that NumPy would do in several passes: the two nearest centres, bounds, and moved sums.

Products come from BLAS (rows @ centres.T), a block of rows at a time; these loops read them while they are in cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tuplet._jit import jit


@jit  # type: ignore[untyped-decorator]
def nearest_two(products: Any, half: Any, squares: Any, near: Any, first: Any, second: Any) -> None:
    """Of each row: the nearest centre, and the distances to it and to the second nearest (inf for one centre).

    `products` (b, k) = rows @ centres.T, `half` (k,) half the centres' squared lengths, `squares` (b,) the rows'.
    """
    for i in range(products.shape[0]):
        best, other, j = np.float32(-np.inf), np.float32(-np.inf), 0
        for c in range(products.shape[1]):
            value = products[i, c] - half[c]
            if value > best:
                other, best, j = best, value, c
            elif value > other:
                other = value
        near[i] = j
        first[i] = np.sqrt(max(squares[i] - np.float32(2) * best, np.float32(0)))
        second[i] = np.sqrt(max(squares[i] - np.float32(2) * other, np.float32(0)))


@jit  # type: ignore[untyped-decorator]
def unsure(near: Any, upper: Any, lower: Any, drift: Any, most: Any, apart: Any, found: Any) -> int:
    """Loosen the bounds by how far the centres went, and list the rows whose nearest centre may be another now.

    `drift` (k,): how far each centre went; `most` (k,): the farthest of the others; `apart` (k,): half the distance
    to the nearest other centre. Returns how many numbers stand in `found`.
    """
    count = 0
    for i in range(len(near)):
        c = near[i]
        upper[i] += drift[c]
        lower[i] -= most[c]
        if upper[i] > max(lower[i], apart[c]):
            found[count] = i
            count += 1
    return count


@jit  # type: ignore[untyped-decorator]
def move(rows: Any, old: Any, new: Any, sums: Any, counts: Any) -> int:
    """Take each row whose cluster changed out of the sums (k, d) of the old one (-1: none) and into the new one's."""
    moved = 0
    for i in range(rows.shape[0]):
        a, b = old[i], new[i]
        if a == b:
            continue
        moved += 1
        counts[b] += 1
        for j in range(rows.shape[1]):
            sums[b, j] += rows[i, j]
        if a >= 0:
            counts[a] -= 1
            for j in range(rows.shape[1]):
                sums[a, j] -= rows[i, j]
    return moved
