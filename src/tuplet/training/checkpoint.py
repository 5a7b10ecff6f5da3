"""The state of training on disk: safetensors and JSON, never pickle; written whole or not at all.

A training checkpoint is one safetensors file, its JSON in the file's header.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tuplet._check import InputError, check_int, check_number, check_out_path
from tuplet._files import new_file

CHECKPOINT = "checkpoint.safetensors"


@dataclass(frozen=True)
class Checkpoints:
    """Where and how often `train` writes its state: every so many minutes, epochs or steps, and at the end."""

    folder: str | os.PathLike[str]
    minutes: float | None = 10.0
    epochs: int | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        if self.minutes is not None:
            check_number("minutes", self.minutes, low=0)
        for name in ("epochs", "steps"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name))

    @property
    def file(self) -> Path:
        """The checkpoint file."""
        return Path(self.folder) / CHECKPOINT

    def due(self, step: int, per_epoch: int, last_time: float) -> bool:
        """Whether a checkpoint is to be written after `step` steps."""
        return (
            (self.minutes is not None and time.monotonic() - last_time >= 60 * self.minutes)
            or (self.epochs is not None and step % (self.epochs * per_epoch) == 0)
            or (self.steps is not None and step % self.steps == 0)
        )


def write_state(file: Path, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> None:
    """Write tensors and JSON to `file` in one atomic step: a reader sees the old file or the new one, whole."""
    from safetensors.torch import save_file

    check_out_path(file.parent)
    file.parent.mkdir(exist_ok=True)
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with new_file(file) as partial:
        save_file(plain, partial, metadata={"tuplet": json.dumps(meta)})


def read_state(file: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and JSON of a file written by `write_state`."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as opened:
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
            meta = json.loads((opened.metadata() or {})["tuplet"])
    except FileNotFoundError:
        raise InputError(f"There is no file {file}. Check the path.") from None
    except (SafetensorError, KeyError, json.JSONDecodeError, OSError) as error:
        raise InputError(f"{file} is damaged or not from tuplet ({error}). Delete it and start again.") from None
    return tensors, meta


def restore(module: torch.nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Copy `tensors` into the weights of `module`, names and shapes checked."""
    own = module.state_dict()
    if {n: t.shape for n, t in own.items()} != {n: t.shape for n, t in tensors.items()}:
        raise InputError(f"The weights in {where} do not fit the encoder. The files belong to different models.")
    module.load_state_dict(dict(tensors))
