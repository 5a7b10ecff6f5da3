"""TrainConfig: how to train, checked once."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tuplet._check import InputError, check_choice, check_int, check_number
from tuplet.losses import objective_of
from tuplet.training.batches import steps_per_epoch
from tuplet.training.criteria import CRITERIA

DEFAULT_STEPS = 150
DEFAULT_CHECKS = 20  # rows of the history, where `check_every` is not given and criteria are measured


@dataclass(frozen=True)
class TrainConfig:
    """How to train. Every field is checked here, once.

    Length: `epochs` or `max_steps`, or whichever ends first; with neither, 150 steps, or one epoch where that is
    longer, for quality peaks early and longer training hurts. `optimizer`: "adamw" shrinks the weights apart from the
    gradient by `weight_decay`; "adam" adds `weight_decay` times the weights to the gradient, which at 1e-4 to 1e-3
    lets training go on for longer before it hurts. `schedule` "cosine" lets the learning rate fall to 0;
    `warmup` steps raise it from 0. `shuffle`: "full" permutes all rows, "blocks" keeps the reads of a memory map
    near sequential, "auto" chooses. The history gets a row every `check_every` steps (by default every epoch), with
    the label-free `criteria` on a fixed sample of rows in `n_clusters` clusters. `stop="auto"` ends after `patience`
    rows without a better `criterion`, and goes back to the weights of the best row. On a GPU, `capture` records the
    step as a CUDA graph, and `tf32` allows faster, rounder products.

    >>> TrainConfig(max_steps=300).n_steps(10_000), TrainConfig(epochs=2).n_steps(10_000)
    (300, 40)
    """

    loss: str = "dmati"
    temperature: float = 1.0
    mask_fraction: float = 0.6
    n_views: int = 2
    epochs: int | None = None
    max_steps: int | None = None
    batch_size: int = 512
    lr: float = 3e-4
    optimizer: str = "adamw"
    weight_decay: float = 0.02
    schedule: str = "constant"
    warmup: int = 0
    unit_rows: bool = True
    shuffle: str = "auto"
    stop: str = "fixed"
    criterion: str = "davies_bouldin"
    criteria: tuple[str, ...] = ()
    patience: int = 3
    check_every: int | None = None
    n_clusters: int = 10
    tf32: bool = False
    capture: bool = True

    def __post_init__(self) -> None:
        objective_of(self.loss)
        check_number("temperature", self.temperature, low=0, open_low=True)
        check_number("mask_fraction", self.mask_fraction, low=0, high=1, open_high=True)
        check_number("lr", self.lr, low=0, open_low=True)
        check_choice("optimizer", self.optimizer, ("adamw", "adam"))
        check_number("weight_decay", self.weight_decay, low=0)
        check_int("n_views", self.n_views)
        check_int("batch_size", self.batch_size, minimum=2)
        check_int("warmup", self.warmup, minimum=0)
        check_int("patience", self.patience)
        check_int("n_clusters", self.n_clusters, minimum=2)
        for name in ("epochs", "max_steps", "check_every"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name))
        check_choice("schedule", self.schedule, ("constant", "cosine"))
        check_choice("shuffle", self.shuffle, ("auto", "full", "blocks"))
        check_choice("stop", self.stop, ("fixed", "auto"))
        if isinstance(self.criteria, str):
            raise InputError(f"criteria must be a tuple of names, got {self.criteria!r}. Write ({self.criteria!r},).")
        for name in (self.criterion, *self.criteria):
            check_choice("criterion", name, CRITERIA)

    def n_steps(self, n_rows: int) -> int:
        """Training steps for `n_rows` rows."""
        per_epoch = steps_per_epoch(n_rows, self.batch_size)
        if self.epochs is None and self.max_steps is None:
            return max(DEFAULT_STEPS, per_epoch)
        limits = [self.max_steps, None if self.epochs is None else self.epochs * per_epoch]
        return min(limit for limit in limits if limit is not None)

    def steps_a_row(self, n_rows: int) -> int:
        """Steps between two rows of the history."""
        if self.check_every is not None:
            return self.check_every
        if self.watched:
            return max(1, self.n_steps(n_rows) // DEFAULT_CHECKS)
        return steps_per_epoch(n_rows, self.batch_size)

    @property
    def watched(self) -> tuple[str, ...]:
        """The criteria to measure: those asked for, and the one that stops training."""
        names = (*self.criteria, self.criterion) if self.stop == "auto" else self.criteria
        return tuple(dict.fromkeys(names))

    def lr_at(self, step: int, n_steps: int) -> float:
        """The learning rate of step `step` of `n_steps`."""
        rate = self.lr * min(1.0, (step + 1) / self.warmup) if self.warmup else self.lr
        return rate * (1 + math.cos(math.pi * step / n_steps)) / 2 if self.schedule == "cosine" else rate
