"""What is to be estimated: a graph's sizes and a method's settings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from tuplet.training.config import TrainConfig


@dataclass(frozen=True)
class Workload:
    """What is to be done: the graph's sizes, the method's settings, `halo`: rows of others that a group names."""

    n: int
    stored: int
    f: int
    products: int = 15
    layers: tuple[int, ...] = (256, 256)
    batch: int = 512
    views: int = 2
    mask: float = 0.6
    steps: int | None = None
    bytes_a_value: int = 4
    halo: float | None = None

    @property
    def train_steps(self) -> int:
        """Training steps: as `TrainConfig` counts them where nothing is said."""
        return self.steps if self.steps is not None else TrainConfig(batch_size=self.batch).n_steps(self.n)

    def halo_rows(self, groups: int) -> float:
        """Rows that a group asks others for: `halo` where they were counted, else as many as random edges name."""
        if self.halo is not None:
            return self.halo
        return self.n * (1 - 1 / groups) * -math.expm1(-self.stored / groups / self.n)

    def flops(self, rows: int, *, training: bool) -> float:
        """Multiply-adds, counted twice, of `rows` rows through the encoder; in training there and back, all views."""
        sizes = (self.f, *self.layers)
        first, rest = sizes[0] * sizes[1], sum(a * b for a, b in pairwise(sizes[1:]))
        if not training:
            return 2.0 * rows * (first + rest)
        narrow = min(self.mask, 1 - self.mask)
        similar = (1 + 2 * self.views) * self.batch * self.layers[-1]  # products of rows with rows, there and back
        return 2.0 * rows * (first * (2 + 2 * narrow * self.views) + 3 * rest * (1 + self.views) + 3 * similar)
