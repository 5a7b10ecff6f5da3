"""Colours for any number of groups, chosen to stay apart for readers with and without colour blindness.

The first six are Paul Tol's bright scheme. Each further colour is the one, of a grid of some thousand, that lies
farthest from all before it; the distance of two colours is the least of their OKLab distances as they are seen with
full sight and with protanopia, deuteranopia and tritanopia (Machado et al. 2009). No palette keeps a hundred groups
apart by colour alone: pages also write each group's name on the map and single it out on request.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

UNKNOWN = "#9a9a9a"
_FIRST = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
_SIGHT = (
    np.eye(3),
    np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
)
_LMS = np.array(
    [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
     [0.0883024619, 0.2817188376, 0.6299787005]]
)  # fmt: skip
_LAB = np.array(
    [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
     [0.0259040371, 0.7827717662, -0.8086757660]]
)  # fmt: skip


def group_colours(count: int) -> list[str]:
    """`count` distinct colours as #rrggbb; fewer of them are always the first of more.

    >>> group_colours(3)
    ['#4477aa', '#ee6677', '#228833']
    """
    return list(_chosen(-(-count // 16) * 16)[:count])


@cache
def _chosen(count: int) -> tuple[str, ...]:
    levels = np.linspace(0.0, 1.0, 16 if count <= 512 else 40)
    grid = np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(-1, 3)
    light = seen(grid)[0][:, 0]
    grid = grid[(light > 0.47) & (light < 0.82)]  # apart from a white and from a near-black page
    start = np.array([[int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)] for text in _FIRST])
    here, known = seen(grid), seen(start)
    apart = np.min([_least(here, known[:, i : i + 1]) for i in range(len(_FIRST))], axis=0)
    chosen = list(_FIRST)
    while len(chosen) < count:
        best = int(apart.argmax())
        chosen.append("#" + "".join(f"{round(255 * part):02x}" for part in grid[best]))
        apart = np.minimum(apart, _least(here, here[:, best : best + 1]))
    return tuple(chosen)


def seen(rgb: NDArray[np.float64]) -> NDArray[np.float64]:
    """OKLab of sRGB colours (m, 3) as each of the four kinds of sight has them: (4, m, 3)."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    kinds = np.clip(np.stack([linear @ matrix.T for matrix in _SIGHT]), 0, 1)
    return np.asarray(np.cbrt(kinds @ _LMS.T) @ _LAB.T)


def _least(many: NDArray[np.float64], one: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.linalg.norm(many - one, axis=2).min(axis=0))
