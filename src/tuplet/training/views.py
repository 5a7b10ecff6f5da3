"""Views: random columns of a batch set to zero. A view costs only the columns that it masks.

Masking columns of the batch equals leaving out columns of the first weight matrix. So a view's first layer is the
anchor's product minus the masked columns' (or the kept columns' alone, where those are fewer), and the gradient of
the first layer is one product for all views together plus one small product for each view's columns.
"""

from __future__ import annotations

from collections.abc import Callable

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


def picks_kept(n_features: int, fraction: float) -> bool:
    """Whether a view is cheaper to compute from its kept columns than from its masked ones."""
    return 2 * n_masked(n_features, fraction) > n_features


def draw_columns(seed: int, step: int, n_features: int, n_views: int, fraction: float) -> NDArray[np.int64]:
    """The columns that define each view of training step `step`: (n_views, count), each row sorted.

    They are the masked columns, or the kept ones where those are fewer (`picks_kept`). A pure function of seed and
    step: a resumed run needs no generator state, a worker thread no order.
    """
    rng = np.random.Generator(np.random.Philox(key=seed_of(seed, "views"), counter=[0, 0, 0, step]))
    count = n_masked(n_features, fraction)
    if picks_kept(n_features, fraction):
        count = n_features - count
    scores = rng.random((n_views, n_features), dtype=np.float32)
    picked = np.argpartition(scores, count, axis=1)[:, :count]
    return np.sort(picked, axis=1).astype(np.int64)


def mask_columns(x: Tensor, columns: Tensor, *, kept: bool = False) -> Tensor:
    """A view of `x` (b, f): a copy with `columns` set to zero, or all but `columns` when they are the `kept` ones."""
    if kept:
        return torch.zeros_like(x).index_copy(1, columns, x.index_select(1, columns))
    return x.index_fill(1, columns, 0.0)


def views_backward(
    encoder: nn.Sequential, x: Tensor, columns: Tensor, anchor: AnchorTerms, pair: PairLoss, *, kept: bool = False
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
    torch.autograd.backward(terms, [grad_of(term) for term in shared])
    grad_of(first.weight).addmm_(grad_of(hidden).T, x)
    grad_of(first.bias).add_(grad_of(hidden).sum(0))
    return total


def stacks(x: Tensor, columns: Tensor) -> bool:
    """Whether all views of a batch go through the GPU at once: there small batches wait for launches, not work."""
    return x.is_cuda and columns.numel() > 0 and x.shape[0] * columns.shape[0] <= STACK_LIMIT


def stacked_backward(
    encoder: nn.Sequential, x: Tensor, columns: Tensor, loss: StackLoss, *, kept: bool = False
) -> Tensor:
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
