"""Pairs of rows by the rank of their similarity, among all n x n, without holding the n x n matrix (AGE)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

_BLOCK = 2**24  # similarities at once: 64 MB
_LOW = 16  # bits looked at in the second pass


def similarity_blocks(z: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Blocks of rows of Z Z^T, negative values raised to 0, each with the number of its first row."""
    step = max(1, _BLOCK // len(z))
    for start in range(0, len(z), step):
        yield start, (z[start : start + step] @ z.T).clamp_(min=0)


def rank_thresholds(z: Tensor, ranks: Sequence[int]) -> list[Tensor]:
    """For each rank r, the r-th largest entry of Z Z^T (n, n), exactly; entries below 0 count as 0.

    A float32 that is not negative has the order of its bits read as an integer. The first pass counts the high
    bits and finds the bucket of each rank, the second counts the low bits inside that bucket.
    """
    high, *low = (torch.zeros(2**_LOW, dtype=torch.long, device=z.device) for _ in range(1 + len(ranks)))
    for s in _bits(z):
        high += torch.bincount(s >> _LOW, minlength=len(high))
    found = [_bucket(high, rank) for rank in ranks]
    for s in _bits(z):
        for counts, (bucket, _) in zip(low, found):
            counts += torch.bincount(s[(s >> _LOW) == bucket] & (2**_LOW - 1), minlength=len(counts))
    bits = [(bucket << _LOW) + _bucket(counts, rest)[0] for counts, (bucket, rest) in zip(low, found)]
    return [torch.tensor(value, dtype=torch.int32).view(torch.float32).to(z.device) for value in bits]


def _bits(z: Tensor) -> Iterator[Tensor]:
    for _, s in similarity_blocks(z):
        yield s.view(torch.int32).view(-1)


def _bucket(counts: Tensor, rank: int) -> tuple[int, int]:
    """The bucket that holds the rank-th largest value, and its rank inside the bucket, from 1."""
    above = counts.flip(0).cumsum(0)
    place = int(torch.searchsorted(above, rank))
    before = int(above[place - 1]) if place else 0
    return len(counts) - 1 - place, rank - before


class PairSampler:
    """Positive pairs: the `positive` most similar of all n x n; negatives: random ones after rank `negative`."""

    def __init__(self, z: Tensor, positive: int, negative: int) -> None:
        self.z = z
        high, self.low = rank_thresholds(z, (positive, negative))
        blocks = [
            (s >= high).nonzero() + torch.tensor([first, 0], device=z.device) for first, s in similarity_blocks(z)
        ]
        self.positives = torch.cat(blocks).T  # (2, about `positive`); ties at the threshold are all in
        self.accepted = max(1 - negative / len(z) ** 2, 1e-3)

    def negatives(self, size: int, generator: torch.Generator) -> Tensor:
        """(2, size) random pairs, each less similar than the threshold; short of `size` only by bad luck."""
        draws = int(1.2 * size / self.accepted) + 64
        pairs = torch.randint(len(self.z), (2, draws), generator=generator, device=self.z.device)
        step = max(1, _BLOCK // self.z.shape[1])
        parts = [pairs[:, start : start + step] for start in range(0, draws, step)]
        below = torch.cat([(self.z[i] * self.z[j]).sum(dim=1) < self.low for i, j in parts])
        return pairs[:, below][:, :size]
