"""Pairs of rows by the rank of their similarity, among all n x n, without holding the n x n matrix (AGE)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from tuplet.baselines._gcn import to_csr

_BLOCK = 2**24  # similarities, or numbers of the rows of pairs, at once: 64 MB
_CACHED = 2**18  # numbers of the rows of pairs at once on a CPU: 1 MB stays in its cache
_SAMPLE = 2**16  # random similarities that say near which value a rank lies
_ZERO = torch.finfo(torch.float32).tiny  # similarities below count as 0: ranks there need no order


def similarity_blocks(z: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Blocks of rows of Z Z^T, negative values raised to 0, each with the number of its first row."""
    step = max(1, _BLOCK // len(z))
    for start in range(0, len(z), step):
        yield start, (z[start : start + step] @ z.T).clamp_(min=0)


def pair_similarities(z: Tensor, pairs: Tensor) -> Tensor:
    """z_i . z_j for each column (i, j) of `pairs` (2, m); differentiable in z.

    The gradient is a product with the sparse matrix of the pairs' gradients: no rows are added one by one.
    """
    similarity: Tensor = _PairSimilarities.apply(z, pairs)  # type: ignore[no-untyped-call]
    return similarity


class _PairSimilarities(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, pairs: Tensor) -> Tensor:
        ctx.save_for_backward(z, pairs)
        step = max(1, (_BLOCK if z.is_cuda else _CACHED) // z.shape[1])
        pieces = (pairs[:, start : start + step] for start in range(0, pairs.shape[1], step))
        return torch.cat([z.new_empty(0), *((z[i] * z[j]).sum(dim=1) for i, j in pieces)])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        z, pairs = ctx.saved_tensors
        rows, order = torch.cat([pairs[0], pairs[1]]).sort(stable=True)
        columns = torch.cat([pairs[1], pairs[0]])[order]
        crow = torch.searchsorted(rows, torch.arange(len(z) + 1, device=z.device), out_int32=True)
        both_ways = to_csr(crow, columns.int(), grads[0].repeat(2)[order], (len(z), len(z)))
        return both_ways @ z, None


def rank_thresholds(z: Tensor, ranks: Sequence[int], *, margin: float = 5.0) -> list[Tensor]:
    """For each rank r, the r-th largest entry of Z Z^T (n, n), exactly; entries below 0 count as 0.

    A sample of the entries brackets the rank, `margin` standard deviations to either side; one pass over all entries
    counts those above the bracket and keeps those inside it. A rank that lies outside gets a wider one.
    """
    brackets = _brackets(z, ranks, margin)
    above = [torch.zeros((), dtype=torch.long, device=z.device) for _ in ranks]
    inside: list[list[Tensor]] = [[] for _ in ranks]
    for _, s in similarity_blocks(z):
        for count, kept, (low, high) in zip(above, inside, brackets):
            over = s >= high
            count += over.sum()
            kept.append(s[(s >= low) & ~over])
    found = [
        _ranked(torch.cat(kept), rank - int(count), low)
        for rank, count, kept, (low, _) in zip(ranks, above, inside, brackets)
    ]
    return [
        rank_thresholds(z, [rank], margin=4 * margin + 1)[0] if value is None else value
        for rank, value in zip(ranks, found)
    ]


def _brackets(z: Tensor, ranks: Sequence[int], margin: float) -> list[tuple[float, float]]:
    """For each rank, two values between which its entry very likely lies, the upper one apart."""
    draws = torch.Generator(z.device).manual_seed(0)
    pairs = torch.randint(len(z), (2, _SAMPLE), generator=draws, device=z.device)
    sample = pair_similarities(z, pairs).sort(descending=True).values.tolist()
    ends = []
    for rank in ranks:
        share = rank / len(z) ** 2
        width = margin * (math.sqrt(_SAMPLE * share * (1 - share)) + 1)
        first, last = math.floor(share * _SAMPLE - width) - 1, math.ceil(share * _SAMPLE + width)
        low = sample[last] if last < _SAMPLE else 0.0
        ends.append((max(low, _ZERO), max(sample[first], _ZERO) if first >= 0 else math.inf))
    return ends


def _ranked(inside: Tensor, rank: int, low: float) -> Tensor | None:
    """The `rank`-th largest of `inside`, all entries from `low` up to a bound; None if it lies outside."""
    if 0 < rank <= len(inside):
        return inside.kthvalue(len(inside) - rank + 1).values
    return inside.new_zeros(()) if rank > 0 and low == _ZERO else None


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
        below = pair_similarities(self.z, pairs) < self.low
        return pairs[:, below][:, :size]
