"""What changes while training: weights, optimizer, running loss, history, best weights; saved and resumed."""

from __future__ import annotations

import inspect
import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tuplet._check import InputError
from tuplet.training.batches import take_rows
from tuplet.training.checkpoint import read_state, restore, write_state
from tuplet.training.config import TrainConfig
from tuplet.training.criteria import CRITERIA, criterion_values, sample_rows
from tuplet.training.encoder import encode
from tuplet.training.history import History

log = logging.getLogger("tuplet")
_MOMENTS = {"step", "exp_avg", "exp_avg_sq"}  # what Adam keeps of each parameter


class State:
    """The state of one training run. `train` reads like a list of its methods."""

    def __init__(self, encoder: nn.Sequential, config: TrainConfig, *, seed: int, shape: tuple[int, ...]) -> None:
        self.encoder, self.config = encoder, config
        self.identity = {**asdict(config), "criteria": list(config.criteria), "seed": seed, "shape": list(shape)}
        self.device = next(encoder.parameters()).device
        self.optimizer = _optimizer(encoder, config, self.device)
        self.history = History()
        self.step = 0
        self._loss_sum = torch.zeros((), device=self.device)
        self._loss_count = 0
        self._best: float | None = None
        self._best_weights: dict[str, Tensor] = {}
        self._rows_since_best = 0
        self._seconds, self._began = 0.0, time.perf_counter()
        self.saved_at = time.monotonic()

    def set_lr(self, lr: float) -> None:
        """Set the learning rate of the next step."""
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lr)  # in place: a recorded step reads this tensor
            else:
                group["lr"] = lr

    def add(self, loss: Tensor) -> None:
        """Count a step with its loss. Nothing waits for the GPU here."""
        self._loss_sum += loss
        self._loss_count += 1
        self.step += 1

    def add_row(self, epoch: float, vectors: Callable[[], dict[str, float]]) -> None:
        """Close a row of the history; `vectors` measures the label-free criteria."""
        loss = float(self._loss_sum) / max(1, self._loss_count)
        if not math.isfinite(loss):
            raise InputError(
                f"The loss is {loss} at step {self.step}. Lower lr ({self.config.lr:g}) or raise temperature "
                f"({self.config.temperature:g}), and look for extreme values in the rows."
            )
        self._loss_sum.zero_()
        self._loss_count = 0
        row = {"step": self.step, "epoch": epoch, "loss": loss, "seconds": self.seconds, **vectors()}
        self.history.rows.append(row)
        if self.config.stop == "auto":
            self._compare(row[self.config.criterion])

    def _compare(self, value: float) -> None:
        sign = CRITERIA[self.config.criterion]
        self._rows_since_best += 1
        if not math.isnan(value) and (self._best is None or sign * (value - self._best) > 0):
            self._best, self._rows_since_best = value, 0
            self._best_weights = {name: tensor.clone() for name, tensor in self.encoder.state_dict().items()}
            self.history.best_step = self.step

    @property
    def seconds(self) -> float:
        """Seconds of training, earlier parts of a resumed run included."""
        return self._seconds + time.perf_counter() - self._began

    @property
    def exhausted(self) -> bool:
        """Whether the criterion has not improved for `patience` rows."""
        return self.config.stop == "auto" and self._rows_since_best >= self.config.patience

    def finish(self, epoch: float, reason: str) -> None:
        """Close the history and, where a criterion chose, go back to the best weights."""
        if self._loss_count:
            loss = float(self._loss_sum) / self._loss_count
            self.history.rows.append({"step": self.step, "epoch": epoch, "loss": loss, "seconds": self.seconds})
        self.history.stopped = reason
        if self._best_weights:
            self.encoder.load_state_dict(self._best_weights)

    def save(self, file: Path) -> None:
        """Write a checkpoint, whole or not at all."""
        tensors = {f"weights.{name}": tensor for name, tensor in self.encoder.state_dict().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self._best_weights.items()}
        for i, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"adam.{i}.{name}": tensor for name, tensor in moments.items()}
        meta = {
            "identity": self.identity,
            "step": self.step,
            "loss_count": self._loss_count,
            "history": self.history.to_dict(),
            "best": self._best,
            "rows_since_best": self._rows_since_best,
            "seconds": self.seconds,
        }
        write_state(file, {**tensors, "loss_sum": self._loss_sum}, meta)
        self.saved_at = time.monotonic()

    def load(self, file: Path) -> None:
        """Go on from a checkpoint; from the beginning where there is none yet."""
        if not file.exists():
            log.info("no checkpoint at %s yet, training starts from the beginning", file)
            return
        tensors, meta = read_state(file)
        try:
            self._check_identity(meta["identity"], file)
            self._take_over(tensors, meta, file)
        except (KeyError, TypeError, AttributeError, IndexError, ValueError, RuntimeError, OverflowError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"The checkpoint {file} is damaged ({error!r}). Delete it and start again.") from None
        log.info("training goes on from step %d of %s", self.step, file)

    def _take_over(self, tensors: dict[str, Tensor], meta: dict[str, Any], file: Path) -> None:
        restore(self.encoder, _named(tensors, "weights."), str(file))
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in _named(tensors, "adam.").items():
            i, key = name.split(".")
            moments.setdefault(int(i), {})[key] = tensor
        if any(moments.get(i, {}).keys() != _MOMENTS for i, _ in enumerate(self.encoder.parameters())):
            raise KeyError("moments of the optimizer")
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})
        self._best_weights = {n: t.to(self.device) for n, t in _named(tensors, "best.").items()}
        self._best, self._rows_since_best = meta["best"], int(meta["rows_since_best"])
        self._loss_sum.copy_(tensors["loss_sum"])
        self._loss_count, self.step = int(meta["loss_count"]), int(meta["step"])
        self._seconds = float(meta["seconds"])
        self.history = History.from_dict(meta["history"])

    def _check_identity(self, saved: dict[str, Any], file: Path) -> None:
        """A checkpoint fits a run with the same settings, seed and rows; a plain run may be made longer."""
        free = (
            {"epochs", "max_steps"} if self.config.schedule == "constant" and self.config.stop == "fixed" else set()
        )
        differ = [n for n in self.identity if n not in free and saved.get(n) != self.identity[n]]
        if differ:
            name = differ[0]
            raise InputError(
                f"The checkpoint {file} was written with {name} = {saved.get(name)!r}, but now it is "
                f"{self.identity[name]!r}. Resume with the same settings and rows, or choose another folder."
            )


class Watch:
    """Measures the label-free criteria of the encoder on a fixed sample of rows and edges."""

    def __init__(self, rows: Any, config: TrainConfig, seed: int, edges: NDArray[np.int64] | None) -> None:
        self.rows, self.config, self.seed = rows, config, seed
        self.sample = sample_rows(rows.shape[0], seed)
        self.edges = edges

    def __call__(self, encoder: nn.Sequential) -> dict[str, float]:
        """The watched criteria, by name."""
        if not self.config.watched:
            return {}
        ends = None
        if self.edges is not None and "modularity" in self.config.watched:
            nodes, places = np.unique(self.edges, return_inverse=True)
            z, places = self._vectors(encoder, nodes), places.reshape(self.edges.shape)
            ends = (z[places[:, 0]], z[places[:, 1]])
        z = self._vectors(encoder, self.sample)
        return criterion_values(z, self.config.watched, k=self.config.n_clusters, seed=self.seed, ends=ends)

    def _vectors(self, encoder: nn.Sequential, index: NDArray[np.int64]) -> NDArray[np.float32]:
        chosen = take_rows(self.rows, index, torch.device("cpu"))
        return encode(encoder, chosen, unit_rows=self.config.unit_rows)


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Ctrl-C sets a flag instead of breaking into a step; a second Ctrl-C breaks in. Yields the flag's reader.

    Only where Python's own handler is in place, and in the main thread; else nothing is changed.
    """
    hits: list[int] = []

    def handler(number: int, frame: Any) -> None:
        if hits:
            raise KeyboardInterrupt
        hits.append(number)

    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: False
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield lambda: bool(hits)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class _Adam(torch.optim.Adam):
    """torch's Adam, called past the wrappers that load torch's compiler: some 3 s before the first step."""

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)
    step = torch.no_grad()(inspect.unwrap(torch.optim.Adam.step))


class _AdamW(torch.optim.AdamW):
    """The same of AdamW."""

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)
    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))


def _optimizer(encoder: nn.Sequential, config: TrainConfig, device: torch.device) -> torch.optim.Adam:
    """Adam or AdamW; on a GPU with its state and learning rate in tensors, so that a step can be recorded."""
    make: type[torch.optim.Adam] = _Adam if config.optimizer == "adam" else _AdamW
    shared: dict[str, Any] = {"weight_decay": config.weight_decay, "fused": True}
    if device.type != "cuda":
        return make(encoder.parameters(), lr=config.lr, **shared)
    return make(encoder.parameters(), lr=torch.tensor(config.lr, device=device), capturable=True, **shared)


def _named(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
