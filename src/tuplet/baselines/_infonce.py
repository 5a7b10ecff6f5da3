"""InfoNCE of two views over all pairs of nodes, plain (GCA) or with weighted negatives (ProGCL).

Three n x n matrices are kept for the way back, of the first view with the second and of each with itself: the anchors
of both views share the first one. Gradients are worked out in place, block by block while a block is in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_BLOCK = 10_000_000  # entries of a block of rows: 40 MB
Matrices = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class NegativeWeights:
    """Weights of the negatives, (n, n) each and 0 on the diagonal: of u_i with v_k, of u_i with u_k, of v_i with v_k.

    The last two are symmetric. `factors` (n,) multiply an anchor's sums: those of u_i over the v_k and over the u_k,
    those of v_i over the u_k and over the v_k.
    """

    matrices: Matrices
    factors: tuple[Tensor, Tensor, Tensor, Tensor]


def info_nce(u: Tensor, v: Tensor, temperature: float, weights: NegativeWeights | None = None) -> Tensor:
    """Mean over the 2n anchors of -log(h / (h + negatives)), h = exp(u_i . v_i / temperature), rows u, v (n, d) of
    unit length.

    The negatives of u_i are the sums of exp(u_i . v_k / temperature) and exp(u_i . u_k / temperature) for all k but
    i, each term times its weight; those of v_i likewise.
    """
    sums = _NegativeSums.apply(u, v, temperature, None if weights is None else weights.matrices)  # type: ignore[no-untyped-call]
    if weights is not None:
        sums = [factor * of_anchors for factor, of_anchors in zip(weights.factors, sums)]
    positive = (u * v).sum(dim=1) / temperature
    negatives = torch.cat([sums[0] + sums[1], sums[2] + sums[3]])
    return torch.log(positive.exp().repeat(2) + negatives).mean() - positive.mean()


class _NegativeSums(torch.autograd.Function):
    """Sums (n,) over k but i: of u_i with the v_k, of u_i with the u_k, of v_i with the u_k, of v_i with the v_k."""

    @staticmethod
    def forward(
        ctx: Any, u: Tensor, v: Tensor, temperature: float, weights: Matrices | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        ctx.save_for_backward(u, v)
        ctx.temperature = temperature
        of_both, of_u, of_v = weights or (None, None, None)
        between, u_there, v_there = _exponentials(u, v, temperature, of_both)
        first, u_here, _ = _exponentials(u, u, temperature, of_u)
        second, v_here, _ = _exponentials(v, v, temperature, of_v)
        ctx.matrices = between, first, second
        return u_there, u_here, v_there, v_here

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        u, v = ctx.saved_tensors
        (between, first, second), ctx.matrices = ctx.matrices, None
        u_there, u_here, v_there, v_here = (grad / ctx.temperature for grad in grads)
        _scale(between, u_there, v_there)
        _scale(first, u_here, u_here)
        _scale(second, v_here, v_here)
        return (between @ v).addmm_(first, u), (between.T @ u).addmm_(second, v), None, None


def _exponentials(a: Tensor, b: Tensor, temperature: float, weights: Tensor | None) -> Matrices:
    """exp(A B^T / temperature) times `weights` (n, n), its diagonal 0; the sums of its rows and of its columns."""
    n, a = len(a), a / temperature
    matrix, of_rows, of_columns = a.new_empty(n, n), a.new_empty(n), a.new_zeros(n)
    for rows in anchor_blocks(matrix):
        block = torch.mm(a[rows], b.T, out=matrix[rows]).exp_()
        if weights is not None:
            block *= weights[rows]
        block.diagonal(rows.start).zero_()
        of_rows[rows] = block.sum(dim=1)
        of_columns += block.sum(dim=0)
    return matrix, of_rows, of_columns


def _scale(matrix: Tensor, of_rows: Tensor, of_columns: Tensor) -> None:
    """Multiply entry (i, k) by of_rows[i] + of_columns[k]."""
    for rows in anchor_blocks(matrix):
        matrix[rows].mul_(of_rows[rows, None] + of_columns)


def anchor_blocks(matrix: Tensor) -> Iterator[slice]:
    """Slices of the rows of `matrix` (n, n), of `_BLOCK` entries each."""
    step = max(1, _BLOCK // len(matrix))
    return (slice(start, start + step) for start in range(0, len(matrix), step))
