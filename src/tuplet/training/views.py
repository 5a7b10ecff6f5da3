"""Views: random columns of a batch set to zero. A view costs only the columns that it masks.

Masking columns of the batch equals leaving out columns of the first weight matrix. So a view's first layer is the
anchor's product minus the masked columns' (or the kept columns' alone, where those are fewer), and the gradient of
the first layer is one product for all views together plus one small product for each view's columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tuplet._seed import seed_of

AnchorTerms = Callable[[Tensor], tuple[Tensor, ...]]  # (b, d) -> what a loss needs of the anchor view
PairLoss = Callable[[tuple[Tensor, ...], Tensor], Tensor]  # those terms and a view (b, d) -> the loss
StackLoss = Callable[[Tensor, Tensor], Tensor]  # the anchor view (b, d) and all views (v, b, d) -> the mean loss

STACK_LIMIT = 2048  # rows of all views of a batch up to which a GPU takes them at once


def n_masked(n_features: int, fraction: float) -> int:
    """Number of columns that a view masks: `fraction` of all, rounded, never all of them.

    >>> n_masked(1433, 0.3), n_masked(4, 0.99)
    (430, 3)
    """
    return min(round(fraction * n_features), n_features - 1)


class Views(NamedTuple):
    """The views of a batch: row i of `columns` (n_views, count), sorted, are the columns that view i masks; where
    `kept`, those that it keeps.
    """

    columns: NDArray[np.int64]
    kept: bool


def draw_views(seed: int, step: int, n_features: int, n_views: int, fraction: float) -> Views:
    """The views of training step `step`, told by the fewer of their masked and kept columns: those cost the least.

    The only place that decides what a view masks. A pure function of seed and step: a resumed run needs no generator
    state, a worker thread no order.
    """
    rng = np.random.Generator(np.random.Philox(key=seed_of(seed, "views"), counter=[0, 0, 0, step]))
    masked = n_masked(n_features, fraction)
    kept = 2 * masked > n_features
    count = n_features - masked if kept else masked
    scores = rng.random((n_views, n_features), dtype=np.float32)
    picked = np.argpartition(scores, count, axis=1)[:, :count]
    return Views(np.sort(picked, axis=1).astype(np.int64), kept)


def mask_columns(x: Tensor, columns: Tensor, *, kept: bool) -> Tensor:
    """A view of `x` (b, f): a copy with `columns` set to zero, or all but `columns` when they are the `kept` ones."""
    if kept:
        return torch.zeros_like(x).index_copy(1, columns, x.index_select(1, columns))
    return x.index_fill(1, columns, 0.0)


def views_backward(
    encoder: nn.Sequential, x: Tensor, columns: Tensor, anchor: AnchorTerms, pair: PairLoss, *, kept: bool
) -> Tensor:
    """Mean over the views i of pair(anchor(f(x)), f(view i)); its gradients are added to the weights' `.grad`.

    `x` is (b, f); row i of `columns` (n_views, count) are the masked columns of view i, or the `kept` ones. Each
    view is differentiated before the next is encoded, so memory does not grow with their number. What the views
    share is cut out of the graph at two places, the first layer and the anchor's terms of the loss: gradients of
    all views gather there and then go through the encoder once.
    """
    first, rest = encoder[0], encoder[1:]
    assert isinstance(first, nn.Linear)
    hidden = first(x).detach().requires_grad_()  # (b, h)
    terms = anchor(rest(hidden))
    shared = tuple(term.detach().requires_grad_() for term in terms)
    total = x.new_zeros(())
    for picked in columns:
        part = first.weight.detach().index_select(1, picked).requires_grad_()  # (h, count)
        product = x.index_select(1, picked) @ part.T
        view = product + first.bias if kept else hidden - product
        loss = pair(shared, rest(view)) / len(columns)
        loss.backward()  # type: ignore[no-untyped-call]
        grad_of(first.weight).index_add_(1, picked, grad_of(part))
        total += loss.detach()
    _hand_back(terms, [grad_of(term) for term in shared])
    grad_of(first.weight).addmm_(grad_of(hidden).T, x)
    grad_of(first.bias).add_(grad_of(hidden).sum(0))
    return total


class _Handed(torch.autograd.Function):
    """A zero whose gradients with respect to the first half of the arguments are the second half."""

    @staticmethod
    def forward(ctx: Any, *terms_and_grads: Tensor) -> Tensor:
        ctx.save_for_backward(*terms_and_grads[len(terms_and_grads) // 2 :])
        return terms_and_grads[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, *_: Any) -> tuple[Tensor | None, ...]:
        return (*ctx.saved_tensors, *[None] * len(ctx.saved_tensors))


def _hand_back(terms: Sequence[Tensor], grads: Sequence[Tensor]) -> None:
    """torch.autograd.backward(terms, grads), which would load sympy: half a second of a first fit."""
    zero: Tensor = _Handed.apply(*terms, *grads)  # type: ignore[no-untyped-call]
    zero.backward()  # type: ignore[no-untyped-call]


def stacks(x: Tensor, columns: Tensor) -> bool:
    """Whether all views of a batch go through the GPU at once: there small batches wait for launches, not work."""
    return x.is_cuda and columns.numel() > 0 and x.shape[0] * columns.shape[0] <= STACK_LIMIT


def stacked_backward(encoder: nn.Sequential, x: Tensor, columns: Tensor, loss: StackLoss, *, kept: bool) -> Tensor:
    """As `views_backward`, with all views in one stack: a third of the launches, memory that grows with the views."""
    first, rest = encoder[0], encoder[1:]
    assert isinstance(first, nn.Linear)
    (n_views, count), flat = columns.shape, columns.reshape(-1)
    chosen = x.index_select(1, flat).view(-1, n_views, count).transpose(0, 1)  # (v, b, count)
    part = first.weight.index_select(1, flat).view(-1, n_views, count).permute(1, 2, 0)  # (v, count, h)
    hidden, product = first(x), torch.bmm(chosen, part)
    views = product + first.bias if kept else hidden - product  # (v, b, h)
    total = loss(rest(hidden), rest(views))
    total.backward()  # type: ignore[no-untyped-call]
    return total.detach()


def grad_of(tensor: Tensor) -> Tensor:
    """The gradient of `tensor`, made of zeros where there is none yet."""
    if tensor.grad is None:
        tensor.grad = torch.zeros_like(tensor)
    return tensor.grad
