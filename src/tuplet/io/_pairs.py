"""Edges by their ids -> pairs of node numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tuplet.io._edges import Edges
from tuplet.io._id_maps import BitmapMap, IdMap, SortedMap, TextMap


def id_map(folder: Path, n: int) -> IdMap:
    """The map from the ids that the first pass wrote into `folder`."""
    import pyarrow as pa

    path = folder / "ids.npy"
    if not path.is_file():
        return BitmapMap(np.ones(n, dtype=bool))
    ids = np.load(path, allow_pickle=False)
    if ids.dtype.kind not in "iu":
        return TextMap(pa.array(ids, pa.large_string()))
    ascending = bool((ids[1:] > ids[:-1]).all())
    if ascending and ids[0] >= 0 and ids[-1] < 64 * len(ids):
        seen = np.zeros(int(ids[-1]) + 1, dtype=bool)
        seen[ids] = True
        return BitmapMap(seen)
    return SortedMap(ids, ascending=ascending)


def node_pairs(part: Edges, known: IdMap) -> tuple[Any, Any, Any, tuple[int, int]]:
    """The node pairs of a chunk and their weights; how many edges lead outside, and how many are self loops."""
    source, target = known.look_up(part.source), known.look_up(part.target)
    inside = (source >= 0) & (target >= 0)
    keep = inside & (source != target)
    weights = None if part.weights is None else part.weights[keep]
    dropped = (int(len(inside) - inside.sum()), int(inside.sum() - keep.sum()))
    return source[keep], target[keep], weights, dropped
