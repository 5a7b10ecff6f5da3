"""The vectors of SelfDMAT: three parts side by side, each of unit rows with a length of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from tuplet.models._spectrum import Spectrum
from tuplet.models.contract import Rows
from tuplet.rows.blocks import summed
from tuplet.rows.svd import signed_right
from tuplet.rows.unit import scale_rows
from tuplet.training.batches import pick_device
from tuplet.training.encoder import encode, layer_sizes


@dataclass(frozen=True, eq=False)
class Parts:
    """What turns rows that are projected on the two spectra into vectors, some rows or all."""

    far: Spectrum
    near: Spectrum
    encoder: nn.Sequential
    n_clusters: int
    lengths: Sequence[float]
    device: str

    @property
    def width(self) -> int:
        """Columns of the three parts."""
        groups = min(2 * self.n_clusters, int(self.far.turn.shape[1]))
        return groups + layer_sizes(self.encoder)[-1] + int(self.near.right.shape[1])

    def learned(self, near_rows: Rows) -> Rows:
        """What the encoder makes of the near rows: unit rows (b, c)."""
        columns = self.near.groups(near_rows, layer_sizes(self.encoder)[0])
        unit: Rows = scale_rows(encode(self.encoder, columns, device=pick_device(self.device)))
        return unit

    def joined(self, far_rows: Rows, near_rows: Rows) -> Rows:
        """Groups, learned and detail side by side (b, width), the whole of unit length."""
        parts = self.far.groups(far_rows, 2 * self.n_clusters), self.learned(near_rows), self.near.detail(near_rows)
        joined = np.hstack([length * part for length, part in zip(self.lengths, parts)]).astype(np.float32)
        unit: Rows = scale_rows(joined)
        return unit

    def principal(self, far_rows: Rows, near_rows: Rows, count: int) -> Rows:
        """The `count` principal directions (width, count) of the vectors of all rows, made block by block."""

        def products(block: slice) -> Any:
            rows = self.joined(far_rows[block], near_rows[block])
            return (rows.T @ rows).astype(np.float64)

        n, width = len(near_rows), self.width
        turn = np.linalg.eigh(summed(products, n, width, (width, width), maps=[far_rows, near_rows]))[1]
        return signed_right(turn[:, ::-1][:, :count])[0]
