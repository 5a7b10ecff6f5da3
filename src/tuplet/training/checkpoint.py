"""Weights and state on disk: safetensors and JSON, never pickle; written whole or not at all.

A training checkpoint is one safetensors file, its JSON in the file's header. A model is a folder of
`weights.safetensors` and `model.json`.
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
from tuplet._files import new_file, new_folder

CHECKPOINT = "checkpoint.safetensors"
WEIGHTS, MODEL = "weights.safetensors", "model.json"
FORMAT = 1


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


def write_model(folder: str | os.PathLike[str], meta: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write a model folder; an older model there is replaced, anything else is left alone and is an error."""
    from safetensors.torch import save_file

    target = check_out_path(folder)
    if target.exists() and not (target.is_dir() and ((target / MODEL).is_file() or not any(target.iterdir()))):
        raise InputError(f"{target} exists and is not a model folder. Choose another place, or remove it first.")
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with new_folder(target) as partial:
        save_file(plain, partial / WEIGHTS)
        (partial / MODEL).write_text(json.dumps({"format": FORMAT, **meta}, indent=1) + "\n")


def read_model(folder: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The JSON and the tensors of a model folder."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = Path(folder)
    try:
        meta = json.loads((path / MODEL).read_text())
        tensors = load_file(path / WEIGHTS)
    except FileNotFoundError as error:
        raise InputError(f"{path} is not a model folder: {Path(error.filename or path).name} is missing.") from None
    except (SafetensorError, ValueError, OSError) as error:
        raise InputError(f"The model in {path} is damaged ({error}). Save it again.") from None
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        given = meta.get("format") if isinstance(meta, dict) else meta
        raise InputError(f"The model in {path} has format {given!r}, this version reads {FORMAT}. Update tuplet.")
    return meta, tensors


def restore(module: torch.nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Copy `tensors` into the weights of `module`, names and shapes checked."""
    own = module.state_dict()
    if {n: t.shape for n, t in own.items()} != {n: t.shape for n, t in tensors.items()}:
        raise InputError(f"The weights in {where} do not fit the encoder. The files belong to different models.")
    module.load_state_dict(dict(tensors))
