"""Row sums of the similarity matrix, tile by tile: the m x m matrix is never held, forward or backward.

The matrix is symmetric, so only tiles on and above the diagonal are computed; each one serves its rows and, turned
over, its columns. Backward computes the tiles again: for the price of one more product, memory stays at a few tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

TILE = {"cpu": 2048, "cuda": 4096}  # rows of a tile: 16 MB and 64 MB


def similarity_logsumexp(
    w: Tensor, temperature: float, labels: Tensor | None = None, without_self: bool = False, tile: int | None = None
) -> Tensor:
    """log of the sum over j of exp(w_i . w_j / t), for each row i of `w` (m, d): (m,). Differentiable in `w`.

    `labels` (m,) restricts the sum to rows j of i's class; `without_self` leaves j = i out.
    """
    size = tile or TILE.get(w.device.type, TILE["cpu"])
    result: Tensor = _TiledLogSumExp.apply(w, temperature, labels, without_self, size)  # type: ignore[no-untyped-call]
    return result


class _TiledLogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, w: Tensor, temperature: float, labels: Tensor | None, without_self: bool, tile: int
    ) -> Tensor:
        total = w.new_full((w.shape[0],), -torch.inf)
        for rows, cols in _tiles(w.shape[0], tile):
            s = _tile(w, rows, cols, temperature, labels, without_self)
            total[rows] = torch.logaddexp(total[rows], torch.logsumexp(s, dim=1))
            if rows != cols:
                total[cols] = torch.logaddexp(total[cols], torch.logsumexp(s, dim=0))
        ctx.save_for_backward(w, total, labels)
        ctx.options = (temperature, without_self, tile)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        w, total, labels = ctx.saved_tensors
        temperature, without_self, tile = ctx.options
        weight = grads[0] / temperature
        # a row without terms has total -inf; +inf makes its exp(s - total) zero instead of NaN
        shift = total.masked_fill(total == -torch.inf, torch.inf)
        grad = torch.zeros_like(w)
        for rows, cols in _tiles(w.shape[0], tile):
            s = _tile(w, rows, cols, temperature, labels, without_self)
            # d total_i / d s_ij = exp(s_ij - total_i); s_ij = s_ji, so a tile carries both directions
            pull = torch.exp(s - shift[rows, None]).mul_(weight[rows, None])
            pull += s.sub_(shift[None, cols]).exp_().mul_(weight[None, cols])
            grad[rows] += pull @ w[cols]
            if rows != cols:
                grad[cols] += pull.T @ w[rows]
        return grad, None, None, None, None


def _tiles(m: int, size: int) -> Iterator[tuple[slice, slice]]:
    """Row and column ranges of the tiles on and above the diagonal."""
    for top in range(0, m, size):
        for left in range(top, m, size):
            yield slice(top, min(top + size, m)), slice(left, min(left + size, m))


def _tile(
    w: Tensor, rows: slice, cols: slice, temperature: float, labels: Tensor | None, without_self: bool
) -> Tensor:
    s = (w[rows] @ w[cols].T).div_(temperature)
    if without_self and rows == cols:
        s.fill_diagonal_(-torch.inf)
    if labels is not None:
        s.masked_fill_(labels[rows, None] != labels[None, cols], -torch.inf)
    return s
