"""Missing feature values: found, filled by a named policy, and the blocks of columns set side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError, option
from tuplet.io._columns import FeatureBlock, compact

MISSING = ("role", "error", "zero", "mean", "propagate")


def spread(block: FeatureBlock, rows: NDArray[np.int64], n: int) -> FeatureBlock:
    """The block over n nodes: table row i belongs to node rows[i] (-1: to none); other nodes are missing."""
    kept = rows >= 0
    source = np.full(n, -1, dtype=np.int64)
    source[rows[kept]] = np.flatnonzero(kept)
    present = source >= 0
    missing = np.ones(n, dtype=bool)
    missing[present] = block.missing[source[present]]
    if present.all():
        return FeatureBlock(block.column, block.kind, block.names, block.values[source], missing)
    if sp.issparse(block.values):
        place = (np.flatnonzero(present), source[present])
        pick = sp.csr_array((np.ones(len(place[0]), np.float32), place), shape=(n, block.values.shape[0]))
        values: Any = sp.csr_array(pick @ block.values)
    else:
        values = np.zeros((n, block.values.shape[1]), np.float32)
        values[present] = block.values[source[present]]
    return FeatureBlock(block.column, block.kind, block.names, values, missing)


def fill(block: FeatureBlock, policy: str, adj: Any) -> Any:
    """The block's values with missing rows filled: by "role" or "zero" as they are, by the "mean", or "propagate".

    "propagate": the mean of the neighbours that have a value; what that fills serves the next round, until nothing
    changes. Nodes that no known value reaches get the column mean.
    """
    if not block.missing.any() or policy in ("role", "zero"):
        return block.values
    mean = ColumnMeans([block]).values()[0]
    if policy == "mean":
        return filled(block, mean)
    dense = block.values.toarray() if sp.issparse(block.values) else block.values.copy()
    known = ~block.missing
    _spread_from_neighbors(dense, known, adj)
    dense[~known] = mean
    return dense


def filled(block: FeatureBlock, mean: NDArray[np.float64]) -> Any:
    """The block's values with `mean` in missing rows."""
    if not block.missing.any():
        return block.values
    dense = block.values.toarray() if sp.issparse(block.values) else block.values.copy()
    dense[block.missing] = mean
    return dense


class ColumnMeans:
    """The mean of the known rows of each block, over one chunk or many."""

    def __init__(self, blocks: Sequence[FeatureBlock] = ()) -> None:
        self._sums: list[Any] = []
        self._counts: list[int] = []
        self._columns: list[str] = []
        if blocks:
            self.add(blocks)

    def add(self, blocks: Sequence[FeatureBlock]) -> None:
        """Take in a chunk; missing rows are zero and count as nothing."""
        if not self._sums:
            self._sums, self._counts = [0.0] * len(blocks), [0] * len(blocks)
            self._columns = [block.column for block in blocks]
        for i, block in enumerate(blocks):
            self._sums[i] = self._sums[i] + np.asarray(block.values.sum(axis=0, dtype=np.float64)).ravel()
            self._counts[i] += int(len(block.missing) - block.missing.sum())

    def values(self) -> list[NDArray[np.float64]]:
        """The means, one array a block."""
        for column, count in zip(self._columns, self._counts):
            if not count:
                raise InputError(f"Column {column!r} has no value at all. Leave it out with {option('columns')}")
        return [total / count for total, count in zip(self._sums, self._counts)]


def _spread_from_neighbors(dense: NDArray[np.float32], known: NDArray[np.bool_], adj: Any) -> None:
    """Fill rows of `dense` in place, wave by wave, and mark them in `known`."""
    while not known.all():
        weight = adj @ known.astype(np.float64)
        wave = np.flatnonzero(~known & (weight > 0))
        if not len(wave):
            return
        total = adj[wave] @ np.where(known[:, None], dense, 0)
        dense[wave] = total / weight[wave, None]
        known[wave] = True


def side_by_side(parts: Sequence[Any]) -> Any:
    """All filled blocks as one matrix, dense or CSR, whichever is smaller."""
    if len(parts) == 1:
        return compact(parts[0])
    if any(sp.issparse(part) for part in parts):
        return compact(sp.csr_array(sp.hstack([sp.csr_array(part) for part in parts])))
    return compact(np.hstack(parts))
