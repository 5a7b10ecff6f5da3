"""A training step on many workers: the loss over the whole batch, and the same bits for 1, 2, 4 and 8 of them.

A batch is cut into 8 shards, whatever the number of workers. A worker encodes its shards, all workers exchange the
unit vectors (b, d), then the log sums of their own rows (2 numbers a row). With these each has the whole gradient of
its own rows: similarity is symmetric, so gradients of vectors never travel. The weights' gradients of the shards are
added along one binary tree. No shape and no order depends on the number of workers; inside a worker shards are worked
on side by side, each by one thread.

The three losses are one: -log(sum of h over the class of x / sum of h over all), where DMAT-i has one class a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tuplet._check import InputError
from tuplet._threads import one_pool, over
from tuplet.losses import Objective, to_unit
from tuplet.training._cuda_graph import StepFunction
from tuplet.training.config import TrainConfig
from tuplet.training.group import SHARDS, WorkerGroup


def check_sharded(objective: Objective, config: TrainConfig) -> None:
    """Raise unless this training can be sharded."""
    if not objective.of_classes:
        raise InputError(f"The loss {objective.name!r} has no form for several workers. Train it by one process.")
    if config.watched:
        raise InputError(
            f"Criteria ({', '.join(config.watched)}) are measured by one process. With workers, leave criteria out "
            'and set stop="fixed".'
        )


def shard_bounds(size: int) -> list[int]:
    """Where the shards of a batch of `size` rows begin and end.

    >>> shard_bounds(10)
    [0, 1, 2, 3, 5, 6, 7, 8, 10]
    """
    return [i * size // SHARDS for i in range(SHARDS + 1)]


def own_rows(positions: NDArray[np.int64], group: WorkerGroup) -> NDArray[np.int64]:
    """Those of a batch's rows that this worker reads."""
    bounds = shard_bounds(len(positions))
    return positions[bounds[group.mine.start] : bounds[group.mine.stop]]


def sharded_step(
    encoder: nn.Sequential,
    optimizer: torch.optim.Optimizer,
    objective: Objective,
    config: TrainConfig,
    group: WorkerGroup,
) -> StepFunction:
    """The training step of one worker: (its own rows, classes of the whole batch, columns, kept) -> loss of all."""

    def step(x: Tensor, y: Tensor | None, columns: Tensor, kept: bool) -> Tensor:
        assert y is not None
        loss, flat = batch_gradient(
            encoder, x, y, columns, kept, config.temperature, objective.views, group, unit_rows=config.unit_rows
        )
        at = 0
        for weights in encoder.parameters():
            weights.grad = flat[at : at + weights.numel()].view_as(weights)
            at += weights.numel()
        optimizer.step()
        return loss

    return step


def batch_gradient(
    encoder: nn.Sequential,
    x: Tensor,
    y: Tensor,
    columns: Tensor,
    kept: bool,
    t: float,
    pairs: bool,
    group: WorkerGroup,
    *,
    unit_rows: bool = False,
) -> tuple[Tensor, Tensor]:
    """(loss of the batch, its gradient by all weights in one row). `x`: the rows of this worker's shards, `y` (b,).

    With `pairs` the loss is the mean over the views of that of the rows and one view, a row's own copy left out;
    without, that of the rows alone, each its own neighbour too.
    """
    bounds = shard_bounds(len(y))
    spans = [slice(bounds[i], bounds[i + 1]) for i in group.mine]
    first = bounds[group.mine.start]
    shards = [x[span.start - first : span.stop - first].clone() for span in spans]  # a product's bits depend on where
    shards = [to_unit(shard) for shard in shards] if unit_rows else shards  # in memory its rows begin
    encoded = _over(lambda shard: _encode(encoder, shard, columns, kept), shards, x)
    every = _gathered([torch.stack([z.detach() for z in views]) for views in encoded], bounds, group)  # (1+v, b, d)
    pulls = [[torch.zeros_like(z) for z in views] for views in encoded]
    losses = []
    for other in range(1, len(every)) if pairs else [0]:
        members = [0, other] if pairs else [0]
        losses.append(_one_loss(every, members, spans, bounds, y, t, pulls, len(every) - 1 if pairs else 1, group))
    flats = _over(lambda i: _weights_gradient(encoder, encoded[i], pulls[i]), range(len(spans)), x)
    own = _tree(flats)
    total = _tree(list(group.gather(own[None])))
    return torch.stack(losses).mean(), total


def _encode(encoder: nn.Sequential, x: Tensor, columns: Tensor, kept: bool) -> list[Tensor]:
    """Unit vectors of a shard's rows and of each of their views (see views.py), ready for autograd."""
    first, rest = encoder[0], encoder[1:]
    assert isinstance(first, nn.Linear)
    hidden = first(x)
    found = [to_unit(rest(hidden))]
    for picked in columns:
        product = x.index_select(1, picked) @ first.weight.index_select(1, picked).T
        found.append(to_unit(rest(product + first.bias if kept else hidden - product)))
    return found


def _one_loss(
    every: Tensor,
    members: list[int],
    spans: Sequence[slice],
    bounds: list[int],
    y: Tensor,
    t: float,
    pulls: list[list[Tensor]],
    count: int,
    group: WorkerGroup,
) -> Tensor:
    """The loss of the views `members` of the batch; the gradients of own vectors, over `count`, go to `pulls`."""
    w, classes = every[members].flatten(0, 1), y.repeat(len(members))  # (m b, d), (m b,)
    b, alone = len(y), len(members) == 1

    def sums(span: slice) -> Tensor:
        return torch.stack([_log_sums(w, classes, _rows(span, i, b), t, alone) for i in range(len(members))])

    found = _gathered(_over(sums, spans, every), bounds, group)  # (members, b, 2)
    logs = found.flatten(0, 1)  # (m b, 2): over all rows, over the class

    def pull(i: int) -> None:
        for k, member in enumerate(members):
            pulls[i][member] += _pull(w, classes, logs, _rows(spans[i], k, b), t, alone) / count

    _over(pull, range(len(spans)), every)
    return (logs[:, 0] - logs[:, 1]).mean()


def _rows(span: slice, member: int, b: int) -> slice:
    """A shard's rows of a view among the rows of all views."""
    return slice(member * b + span.start, member * b + span.stop)


def _similar(w: Tensor, classes: Tensor, rows: slice, t: float, alone: bool) -> tuple[Tensor, Tensor]:
    """Similarities / t of some rows to all, -inf to themselves unless `alone`; and who is of another class."""
    logits = w[rows] @ w.T / t
    if not alone:
        own = torch.arange(rows.start, rows.stop, device=w.device)
        logits[own - rows.start, own] = -torch.inf
    return logits, classes[rows][:, None] != classes[None, :]


def _log_sums(w: Tensor, classes: Tensor, rows: slice, t: float, alone: bool) -> Tensor:
    """(k, 2): the log of the sum of h over all rows, and over those of the row's class."""
    logits, strange = _similar(w, classes, rows, t, alone)
    everything = torch.logsumexp(logits, 1)
    return torch.stack([everything, torch.logsumexp(logits.masked_fill(strange, -torch.inf), 1)], 1)


def _pull(w: Tensor, classes: Tensor, logs: Tensor, rows: slice, t: float, alone: bool) -> Tensor:
    """The gradient of the loss by some rows of `w`: each pair counts once for either of its ends."""
    logits, strange = _similar(w, classes, rows, t, alone)
    weights = torch.exp(logits - logs[rows, :1]) + torch.exp(logits - logs[:, 0])
    same = torch.exp(logits - logs[rows, 1:]) + torch.exp(logits - logs[:, 1])
    weights -= same.masked_fill_(strange, 0)
    return weights @ w / (t * len(w))


def _weights_gradient(encoder: nn.Sequential, vectors: list[Tensor], pulls: list[Tensor]) -> Tensor:
    parts = torch.autograd.grad(vectors, list(encoder.parameters()), grad_outputs=pulls)
    return torch.cat([part.reshape(-1) for part in parts])


def _gathered(own: list[Tensor], bounds: list[int], group: WorkerGroup) -> Tensor:
    """(v, k, d) of each own shard -> (v, b, d) of the whole batch; shards travel filled up to equal size."""
    if not group.joined:
        return torch.cat(own, dim=1)
    most = -(-bounds[-1] // SHARDS)
    padded = [nn.functional.pad(one, (0, 0, 0, most - one.shape[1])) for one in own]
    found = group.gather(torch.stack(padded))
    return torch.cat([found[i, :, : bounds[i + 1] - bounds[i]] for i in range(SHARDS)], dim=1)


def _tree(parts: list[Tensor]) -> Tensor:
    """The sum along a binary tree: of 8 leaves, or of the nodes that workers have summed up to."""
    while len(parts) > 1:
        parts = [parts[i] + parts[i + 1] for i in range(0, len(parts), 2)]
    return parts[0]


def _over(function: Any, pieces: Iterable[Any], like: Tensor) -> list[Any]:
    """`function` of every piece: on a CPU side by side, one thread each, on a GPU one after the other."""
    if like.is_cuda:
        return [function(piece) for piece in pieces]
    with one_pool():
        return over(function, pieces)
