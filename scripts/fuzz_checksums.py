"""Checksums that fit damaged files again: what fuzz.py damages must be refused by its content as well."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from tuplet import InputError
from tuplet._files import DAMAGE, file_sum, json_sum
from tuplet.filters.content import keep
from tuplet.training.checkpoint import _content_sum


def fit_checksums(folder: Path) -> None:
    """Make the sizes and checksums of graph folders, models, checkpoints and cached rows fit their files."""
    for file in sorted(folder.rglob("*")):
        fit = _rows if file.name.startswith("filtered-") and file.suffix == ".npy" else _FITS.get(file.name)
        if fit is not None:
            with suppress(*_UNFIT):
                fit(file)


def _graph(meta: Path) -> None:
    value = json.loads(meta.read_text())
    for name, entry in value["arrays"].items():
        path = meta.parent / f"{name}.npy"
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        entry |= {"blake2b": file_sum(path), "dtype": array.dtype.str, "shape": list(array.shape)}
    meta.write_text(json.dumps({**value, "sum": json_sum(value)}))


def _model(meta: Path) -> None:
    value = json.loads(meta.read_text())
    value["weights"] = file_sum(meta.parent / "weights.safetensors")
    meta.write_text(json.dumps({**value, "sum": json_sum(value)}))


def _checkpoint(file: Path) -> None:
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    with safe_open(file, framework="pt") as opened:
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    header["__metadata__"]["sum"] = _content_sum(tensors, header["__metadata__"]["tuplet"])
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])


def _rows(file: Path) -> None:
    keep(file, np.load(file, mmap_mode="r", allow_pickle=False))


_UNFIT = (*DAMAGE, AttributeError, SafetensorError, RecursionError, InputError)
_FITS = {"meta.json": _graph, "model.json": _model, "checkpoint.safetensors": _checkpoint}
