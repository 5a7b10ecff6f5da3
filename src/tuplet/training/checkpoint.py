"""The state of training on disk: safetensors and JSON, never pickle; written whole or not at all.

A training checkpoint is one safetensors file, its JSON in the file's header.
"""

from __future__ import annotations

import hashlib
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
STATE_FORMAT = 2  # of checkpoints; 1 is that of version 0.1, without a number and a checksum in the file


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
    text = json.dumps(meta)
    header = {"tuplet": text, "format": str(STATE_FORMAT), "sum": _content_sum(plain, text)}
    with new_file(file) as partial:
        save_file(plain, partial, metadata=header)


def read_state(file: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and JSON of a file written by `write_state`."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as opened:
            header = opened.metadata() or {}
            _check_format(file, header)
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
            meta = json.loads(header["tuplet"])
        wanted = _content_sum(tensors, header["tuplet"]) if "format" in header else None  # format 1 has no checksum
    except FileNotFoundError:
        raise InputError(f"There is no file {file}. Check the path.") from None
    except (SafetensorError, KeyError, ValueError, RuntimeError, OSError) as error:
        raise InputError(f"{file} is damaged or not from tuplet ({error}). Delete it and start again.") from None
    if not isinstance(meta, dict) or header.get("sum") != wanted:
        raise InputError(f"{file} is damaged: its content does not fit its checksum. Delete it and start again.")
    return tensors, meta


def _check_format(file: Path, header: Mapping[str, str]) -> None:
    given = header.get("format", "1")
    if not given.isdecimal() or not 1 <= int(given) <= STATE_FORMAT:
        raise InputError(
            f"{file} has format {given!r}, this version of tuplet reads formats 1 to {STATE_FORMAT}. "
            "Update tuplet, or delete the file and start again."
        )


def _content_sum(tensors: Mapping[str, Tensor], text: str) -> str:
    """blake2b (16 bytes) of the JSON and of all tensors, in the order of their names."""
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {tuple(tensors[name].shape)}".encode())
        digest.update(tensors[name].numpy().tobytes())
    return digest.hexdigest()


def restore(module: torch.nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Copy `tensors` into the weights of `module`, names and shapes checked."""
    own = module.state_dict()
    if {n: t.shape for n, t in own.items()} != {n: t.shape for n, t in tensors.items()}:
        raise InputError(f"The weights in {where} do not fit the encoder. The files belong to different models.")
    module.load_state_dict(dict(tensors))
