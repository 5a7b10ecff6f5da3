"""train(): mini-batches of rows -> masked views -> encoder -> loss -> weights. One loop, read top to bottom."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tuplet._check import InputError, check_choice, check_int, check_labels, check_number
from tuplet._seed import stream
from tuplet.encoder import as_float_tensor
from tuplet.losses import dmat_anchor, dmat_pair, dmati_anchor, dmati_pair, dmt_loss, to_unit
from tuplet.views import draw_columns, picks_kept, views_backward

log = logging.getLogger("tuplet")
Progress = Callable[[str, float], None]
DEFAULT_STEPS = 100


@dataclass(frozen=True)
class TrainConfig:
    """How to train.

    Length: `epochs`, `max_steps`, or whichever of the two ends first. With neither, 100 steps, or one epoch where
    that is longer: quality peaks early and longer training hurts.
    """

    loss: str = "dmati"
    temperature: float = 0.5
    mask_fraction: float = 0.3
    n_views: int = 2
    epochs: int | None = None
    max_steps: int | None = None
    batch_size: int = 512
    lr: float = 1e-3
    weight_decay: float = 0.02
    unit_rows: bool = True

    def __post_init__(self) -> None:
        check_choice("loss", self.loss, ("dmati", "dmat", "dmt"))
        check_number("temperature", self.temperature, low=0, open_low=True)
        check_number("mask_fraction", self.mask_fraction, low=0, high=1, open_high=True)
        check_int("n_views", self.n_views)
        check_int("batch_size", self.batch_size, minimum=2)
        check_number("lr", self.lr, low=0, open_low=True)
        check_number("weight_decay", self.weight_decay, low=0)
        if self.epochs is not None:
            check_int("epochs", self.epochs)
        if self.max_steps is not None:
            check_int("max_steps", self.max_steps)

    def n_steps(self, n_rows: int) -> int:
        """Training steps for `n_rows` rows."""
        per_epoch = steps_per_epoch(n_rows, self.batch_size)
        if self.epochs is None and self.max_steps is None:
            return max(DEFAULT_STEPS, per_epoch)
        limits = [self.max_steps, None if self.epochs is None else self.epochs * per_epoch]
        return min(limit for limit in limits if limit is not None)


@dataclass
class History:
    """What training saw: one row (a dict) an epoch with its step, mean loss and seconds since the start."""

    rows: list[dict[str, float]] = field(default_factory=list)
    stopped: str = "fixed"

    @property
    def loss(self) -> list[float]:
        """Mean loss of each row."""
        return [row["loss"] for row in self.rows]


def steps_per_epoch(n_rows: int, batch_size: int) -> int:
    """Batches an epoch; a last batch of one row is skipped."""
    return n_rows // batch_size + (n_rows % batch_size > 1)


def train(
    encoder: nn.Sequential,
    rows: Any,
    config: TrainConfig,
    *,
    labels: NDArray[np.int64] | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | None = None,
    checkpoint: Any = None,
    resume: bool = False,
) -> History:
    """The history of training `encoder`, in place, on `rows` (n, f)."""
    index = _training_rows(rows.shape[0], config.loss, labels)
    steps = config.n_steps(len(index))
    per_epoch = steps_per_epoch(len(index), config.batch_size)
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=config.lr, weight_decay=config.weight_decay, fused=True)
    history, losses, began = History(), [], time.perf_counter()
    for step in range(steps):
        epoch, k = divmod(step, per_epoch)
        if k == 0:
            order = stream(seed, f"batches {epoch}").permutation(index)
        batch = np.sort(order[k * config.batch_size : (k + 1) * config.batch_size])
        x = as_float_tensor(rows[batch])
        if config.unit_rows:
            x = to_unit(x)
        y = None if labels is None else torch.from_numpy(labels[batch])
        columns = draw_columns(seed, step, x.shape[1], config.n_views, config.mask_fraction)
        optimizer.zero_grad()
        losses.append(_backward(encoder, x, y, torch.from_numpy(columns), config))
        optimizer.step()
        if k == per_epoch - 1 or step == steps - 1:
            mean = float(torch.stack(losses).mean())
            history.rows.append(
                {"epoch": epoch, "step": step + 1, "loss": mean, "seconds": time.perf_counter() - began}
            )
            losses = []
        if progress is not None:
            progress("train", (step + 1) / steps)
    return history


def _training_rows(n: int, loss: str, labels: NDArray[np.int64] | None) -> NDArray[np.int64]:
    if loss == "dmati":
        index = np.arange(n)
    elif labels is None:
        raise InputError(f"The loss {loss!r} needs labels. Give one a row, -1 for unknown; DMATi needs none.")
    else:
        index = np.flatnonzero(check_labels("labels", labels, n) >= 0)
    if len(index) < 2:
        raise InputError(f"There are {len(index)} rows to train on. At least 2 are needed.")
    return index


def _backward(encoder: nn.Sequential, x: Tensor, y: Tensor | None, columns: Tensor, config: TrainConfig) -> Tensor:
    t = config.temperature
    kept = picks_kept(x.shape[1], config.mask_fraction)
    if config.loss == "dmt":
        assert y is not None
        loss = dmt_loss(encoder(x), y, temperature=t)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()
    if config.loss == "dmat":
        assert y is not None
        return views_backward(
            encoder, x, columns, lambda u: dmat_anchor(u, y, t), lambda a, v: dmat_pair(a, v, y, t), kept=kept
        )
    return views_backward(
        encoder, x, columns, lambda u: dmati_anchor(u, t), lambda a, v: dmati_pair(a, v, t), kept=kept
    )
