"""train(): mini-batches of rows -> masked views -> encoder -> loss -> weights. One loop, read top to bottom.

Same seed, machine and thread count: the same bits. A run that is killed and resumed ends with the bits of one that
was not, for what is random is a function of (seed, step) and everything else stands in the checkpoint.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tuplet._check import InputError, check_labels
from tuplet.losses import Objective, objective_of, to_unit
from tuplet.training._cuda_graph import CapturedStep, StepFunction, device_scope
from tuplet.training.batches import (
    Batch,
    block_plan,
    load_rows,
    pick_device,
    prefetch,
    send,
    step_indices,
    steps_per_epoch,
    take_rows,
)
from tuplet.training.checkpoint import Checkpoints
from tuplet.training.config import TrainConfig
from tuplet.training.group import WorkerGroup
from tuplet.training.history import History
from tuplet.training.sharded import check_sharded, own_rows, sharded_step
from tuplet.training.state import State, Watch, deferred_interrupt
from tuplet.training.views import draw_views, stacked_backward, stacks, views_backward

__all__ = ["Checkpoints", "History", "TrainConfig", "train"]
log = logging.getLogger("tuplet")
Progress = Callable[[str, float], None]

_SHARED = "All machines must see the same checkpoint folder, and all run with --resume or none."


def train(
    encoder: nn.Sequential,
    rows: Any,
    config: TrainConfig,
    *,
    labels: NDArray[np.int64] | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | None = None,
    checkpoint: Checkpoints | str | os.PathLike[str] | None = None,
    resume: bool = False,
    edges: NDArray[np.int64] | None = None,
    group: WorkerGroup | None = None,
) -> History:
    """Train `encoder` in place on `rows` (n, f), an array, a memory map or a tensor; what was seen comes back.

    `labels` (n,) are read by the losses that need them (of `tuplet.losses.OBJECTIVES`: "dmt" and "dmat"); these train
    on the rows whose label is not -1. With a `checkpoint` (a folder, or `Checkpoints` for how often) the state is
    written there; `resume` goes on from it.
    `edges` (e, 2) is a sample of edges for the criterion "modularity". Ctrl-C lets the current step end, writes the
    checkpoint and goes on as KeyboardInterrupt, whose text says how to resume: half-trained weights are no result.
    In a `group` this process is one of several workers that call `train` alike (see sharded.py); all end with the
    same weights, and the first one writes the checkpoints.
    """
    objective = objective_of(config.loss)
    if group is not None:
        check_sharded(objective, config)
    index = _training_rows(rows.shape[0], objective, labels)
    n_steps, per_epoch = config.n_steps(len(index)), steps_per_epoch(len(index), config.batch_size)
    every, where = config.steps_a_row(len(index)), pick_device(device)
    state = State(encoder.to(where), config, seed=seed, shape=(*rows.shape, len(index)))
    watch = Watch(rows, config, seed, edges)
    checkpoint = checkpoint if isinstance(checkpoint, Checkpoints | None) else Checkpoints(checkpoint)
    if checkpoint is not None and resume:
        state.load(checkpoint.file)
    if group is not None and group.differ(state.step):
        raise InputError(f"The workers do not go on from one step (this one: {state.step}). {_SHARED}")
    first = group is None or group.rank == 0
    if group is not None:
        take_step = sharded_step(encoder, state.optimizer, objective, config, group)
    else:
        take_step = _step_function(encoder, state.optimizer, objective, config)
    if group is None and where.type == "cuda" and config.capture:
        take_step = CapturedStep(take_step)
    reason = "fixed"

    with device_scope(where, config.tf32), deferred_interrupt() as interrupted:
        try:
            for batch in _feed(rows, index, labels, config, seed, where, range(state.step, n_steps), group):
                if state.exhausted:
                    reason = "auto"
                    break
                state.set_lr(config.lr_at(batch.step, n_steps))
                loss = take_step(batch.x, batch.y, batch.columns, batch.kept)
                state.add(loss)
                if state.step % every == 0 or state.step == n_steps:
                    state.add_row(state.step / per_epoch, lambda: watch(encoder))
                if first and checkpoint is not None and checkpoint.due(state.step, per_epoch, state.saved_at):
                    state.save(checkpoint.file)
                if progress is not None:
                    progress("train", state.step / n_steps)
                if interrupted() if group is None else group.any(interrupted()):
                    raise KeyboardInterrupt
        except KeyboardInterrupt:  # here, or in the progress callback: the step before it is complete
            if checkpoint is not None and first:
                state.save(checkpoint.file)
            raise KeyboardInterrupt(_how_to_resume(state.step, n_steps, checkpoint)) from None

    state.finish(state.step / per_epoch, reason)
    if checkpoint is not None and first:
        state.save(checkpoint.file)
    return state.history


def _how_to_resume(step: int, n_steps: int, checkpoint: Checkpoints | None) -> str:
    kept = "None of them is kept; with checkpoint=FOLDER they would be."
    if checkpoint is not None:
        kept = f"They are kept in {checkpoint.file}; the same call with resume=True goes on from there."
    return f"Training was interrupted after {step} of {n_steps} steps. {kept}"


def _training_rows(n: int, objective: Objective, labels: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Numbers of the rows to train on: all without labels, else those whose label is known."""
    if not objective.needs_labels:
        index = np.arange(n)
    elif labels is None:
        raise InputError(
            f"The loss {objective.name!r} needs labels. Give one a row, -1 for unknown; DMATi needs none."
        )
    else:
        index = np.flatnonzero(check_labels("labels", labels, n) >= 0)
    if len(index) < 2:
        raise InputError(f"There are {len(index)} rows to train on. At least 2 are needed.")
    return index


def _feed(
    rows: Any,
    index: NDArray[np.int64],
    labels: NDArray[np.int64] | None,
    config: TrainConfig,
    seed: int,
    device: torch.device,
    steps: range,
    group: WorkerGroup | None = None,
) -> Iterator[Batch]:
    """The batches of `steps` on `device`: from its memory where the rows fit, else read ahead by a thread.

    A worker of a `group` gets its own rows of the batch and the classes of all; where there are no labels, each row
    is its own class.
    """
    store = load_rows(rows, device)
    objective = objective_of(config.loss)
    classes = torch.from_numpy(np.array(labels, np.int64)) if objective.needs_labels else None
    n_views = config.n_views if objective.views else 0
    order = step_indices(
        len(index), config.batch_size, seed, steps.start, steps.stop, **block_plan(store, config.shuffle)
    )

    def batches(target: torch.device) -> Iterator[Batch]:
        for step, positions in order:
            chosen = index[positions]
            views = draw_views(seed, step, rows.shape[1], n_views, config.mask_fraction)
            y = None if classes is None else send(classes[torch.from_numpy(chosen)], target)
            columns = send(torch.from_numpy(views.columns), target)
            if group is not None:
                y = send(torch.arange(len(chosen)), target) if y is None else y
                chosen = own_rows(chosen, group)
            yield Batch(step, take_rows(store, chosen, target), y, columns, views.kept)

    resident = device.type == "cpu" or (isinstance(store, Tensor) and store.device.type == device.type)
    return batches(device) if resident else prefetch(batches(torch.device("cpu")), device)


def _step_function(
    encoder: nn.Sequential, optimizer: torch.optim.Optimizer, objective: Objective, config: TrainConfig
) -> StepFunction:
    """The training step: (x, y, columns, kept) -> loss. All that outlives it changes in place."""

    def step(x: Tensor, y: Tensor | None, columns: Tensor, kept: bool) -> Tensor:
        optimizer.zero_grad(set_to_none=False)
        x = to_unit(x) if config.unit_rows else x
        loss = _backward(encoder, objective, x, y, columns, kept, config.temperature)
        optimizer.step()
        return loss

    return step


def _backward(
    encoder: nn.Sequential, objective: Objective, x: Tensor, y: Tensor | None, columns: Tensor, kept: bool, t: float
) -> Tensor:
    """The loss of a batch; its gradients are added to the weights' `.grad`."""
    if not objective.views:
        loss = objective.loss(encoder(x), None, y, t)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()
    stack = objective.stack
    if stack is not None and stacks(x, columns):
        return stacked_backward(encoder, x, columns, lambda u, v: stack(u, v, y, t), kept=kept)
    return views_backward(
        encoder,
        x,
        columns,
        lambda u: objective.anchor_terms(u, y, t),
        lambda terms, v: objective.pair_loss(terms, v, y, t),
        kept=kept,
    )
