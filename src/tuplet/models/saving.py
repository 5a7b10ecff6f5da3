"""Models on disk: a folder of `weights.safetensors` and `model.json`, with `rows-0.npy`, .. where rows are kept.

Nothing in such a folder is trusted: no pickle, only registered classes, sizes compared before anything is built, and
no parameter that says where files are written. What is damaged is an `InputError`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet import __version__
from tuplet._check import InputError, check_out_path
from tuplet._files import DAMAGE, file_sum, json_sum, locked, new_folder, open_array, save_array
from tuplet._memory import free_memory
from tuplet.graph import Graph
from tuplet.io.remote import check_target, is_remote, local_path, uploaded
from tuplet.models._state import check_kinds, expect, params_from_plain, plain_params
from tuplet.models.registry import class_path, saved_class

WEIGHTS, MODEL, PREPARATION = "weights.safetensors", "model.json", "preparation."
FORMAT = 1
_MOST_JSON = 2**28  # bytes of model.json
_DAMAGE: tuple[type[Exception], ...] = (*DAMAGE, AttributeError, AssertionError, RecursionError)


@dataclass(frozen=True, eq=False)
class SavedRows:
    """Filtered rows, one array (n, c) a pass, of the graph with the fingerprint `graph`."""

    graph: str
    parts: list[NDArray[Any]]


def save(model: Any, folder: str | os.PathLike[str], graph: Graph | None = None) -> None:
    """Write `model` to `folder`, whole or not at all; with `graph`, its filtered rows too."""
    if is_remote(folder):
        with uploaded(str(folder)) as local:
            save(model, local, graph)
        return
    values, arrays = model._state()
    if hasattr(model, "labels_"):
        arrays["labels_"] = model.labels_
    if not model.inductive:
        arrays["embedding_"] = model.embedding_
    meta = {
        "class": class_path(type(model)),
        "version": __version__,
        "params": plain_params(model),
        "n_features": model.n_features_in_,
        "feature_names": list(model.feature_names_in_),
        "n_features_out": model._n_features_out,
        **values,
    }
    prepared: Any = getattr(model, "preparation_", None)
    if hasattr(prepared, "to_saved"):
        meta["preparation"], own = prepared.to_saved()
        arrays |= {f"{PREPARATION}{name}": array for name, array in own.items()}
    write_folder(folder, meta, arrays, _rows_of(model, graph))


def _rows_of(model: Any, graph: Graph | None) -> Callable[[Path], dict[str, Any]] | None:
    """A function that writes the rows of `graph` into a folder and gives what `model.json` says of them."""
    if graph is None:
        return None
    from tuplet.models.new_nodes import check_live

    check_live(model, graph)

    def write(partial: Path) -> dict[str, Any]:
        files = []
        for i, rows in enumerate(model.filtered(model._known_graph(graph))):
            save_array(partial / f"rows-{i}.npy", rows)
            files.append({"shape": list(rows.shape), "sum": file_sum(partial / f"rows-{i}.npy")})
        return {"graph": graph.fingerprint(), "files": files}

    return write


def write_folder(
    folder: str | os.PathLike[str],
    meta: Mapping[str, Any],
    arrays: Mapping[str, Any],
    rows: Callable[[Path], dict[str, Any]] | None = None,
) -> None:
    """Write a model folder; an older model there is replaced, anything else is left alone and is an error."""
    from safetensors.torch import save_file

    target = check_model_folder(folder)
    with locked(target), new_folder(target) as partial:
        save_file({name: _tensor(array) for name, array in arrays.items()}, partial / WEIGHTS)
        known = {"format": FORMAT, **meta, "weights": file_sum(partial / WEIGHTS)}
        if rows is not None:
            known["rows"] = rows(partial)
        text = _json(known)
        (partial / MODEL).write_text(_json({**known, "sum": json_sum(json.loads(text))}), encoding="utf-8")
        (partial / WEIGHTS).chmod((partial / MODEL).stat().st_mode)  # safetensors lets nobody else read its files


def check_model_folder(folder: str | os.PathLike[str]) -> Path:
    """`folder` as a Path where a model may be written: a new place, an empty folder or a model's."""
    if is_remote(folder):
        check_target(str(folder))
        return Path(folder)
    target = check_out_path(folder)
    if target.exists() and not (target.is_dir() and ((target / MODEL).is_file() or not any(target.iterdir()))):
        raise InputError(f"{target} exists and is not a model folder. Choose another place, or remove it first.")
    return target


def _json(meta: Mapping[str, Any]) -> str:
    try:
        return json.dumps(meta, indent=1) + "\n"
    except TypeError as error:
        raise InputError(f"A parameter of the model cannot be saved ({error}). Use plain values.") from None


def load(folder: str | os.PathLike[str]) -> Any:
    """The model that `save` wrote to `folder`, ready for `transform` where its method has one."""
    folder = local_path(folder)
    meta, arrays = read_folder(folder)
    cls = saved_class(str(meta.get("class")), folder)
    try:
        params = params_from_plain(meta["params"], folder)
        check_kinds(cls, params)
        model = cls(**params)
        _restore(model, meta, arrays)
        model.rows_ = _saved_rows(Path(folder), meta["rows"]) if "rows" in meta else None
        return model
    except _DAMAGE as error:
        what = str(error) if isinstance(error, InputError) else repr(error)
        raise InputError(f"The model in {folder} is damaged ({what}). Save it again.") from None


def _restore(model: Any, meta: dict[str, Any], arrays: dict[str, Any]) -> None:
    prepared = {n.removeprefix(PREPARATION): a.numpy() for n, a in arrays.items() if n.startswith(PREPARATION)}
    model.preparation_ = _preparation(meta["preparation"], prepared) if "preparation" in meta else None
    if "n_features" in meta:  # a SelfDMAT of 0.1 has none and knows it otherwise
        model.n_features_in_ = int(meta["n_features"])
    names = meta.get("feature_names", ())
    model.feature_names_in_ = tuple(str(name) for name in names)
    model._restore(meta, {n: a for n, a in arrays.items() if not n.startswith(PREPARATION)})
    for name, kind, shape in (("labels_", torch.int64, 1), ("embedding_", torch.float32, 2)):
        if name in arrays:
            expect(arrays[name].dtype == kind and arrays[name].ndim == shape, f"{name} of the wrong type")
            setattr(model, name, arrays[name].numpy())
    expect(model.inductive or hasattr(model, "embedding_"), "no embedding_")
    expect(model.n_features_in_ >= 0 and len(names) in (0, model.n_features_in_), "names that do not fit")
    if "n_features_out" in meta:
        model._n_features_out = int(meta["n_features_out"])


def _preparation(meta: Any, arrays: dict[str, Any]) -> Any:
    return import_module("tuplet.io.preparation").Preparation.from_saved(meta, arrays)


def read_folder(folder: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """The JSON and the tensors of a model folder."""
    path = Path(folder)
    try:
        meta = json.loads(_text(path / MODEL))
        expect(isinstance(meta, dict), "no table in model.json")
        if meta.get("format") != FORMAT:
            raise InputError(
                f"The model in {path} has format {meta.get('format')!r}, this version reads {FORMAT}. Update tuplet."
            )
        expect("sum" not in meta or meta["sum"] == json_sum(meta), f"{MODEL} is not the file that was saved")
        if "weights" in meta:  # not in those of 0.1, as the sum
            expect(file_sum(path / WEIGHTS) == meta["weights"], f"{WEIGHTS} is not the file that was saved")
        return meta, _tensors(path / WEIGHTS)
    except FileNotFoundError as error:
        raise InputError(f"{path} is not a model folder: {Path(error.filename or path).name} is missing.") from None
    except InputError:
        raise
    except _DAMAGE as error:
        raise InputError(f"The model in {path} is damaged ({error}). Save it again.") from None


def _text(file: Path) -> str:
    expect(file.stat().st_size <= _MOST_JSON, f"{file.name} of {file.stat().st_size} bytes")
    return file.read_text(encoding="utf-8")


def _tensors(file: Path) -> dict[str, torch.Tensor]:
    from safetensors import SafetensorError, safe_open

    size, free = file.stat().st_size, free_memory()
    if size > free:
        raise InputError(f"{file} holds {size / 1e9:.1f} GB, and {free / 1e9:.1f} GB of memory are free.")
    try:
        with safe_open(file, framework="pt") as opened:
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(str(error)) from None
    for name, tensor in tensors.items():
        expect(not tensor.is_floating_point() or bool(torch.isfinite(tensor).all()), f"NaN or infinity in {name}")
    return tensors


def _saved_rows(folder: Path, known: Any) -> SavedRows:
    parts = []
    for i, entry in enumerate(known["files"]):
        file = folder / f"rows-{i}.npy"
        expect(file_sum(file) == entry["sum"], f"{file.name} is not the file that was saved")
        rows = open_array(file)
        expect(rows.dtype == np.float32 and list(rows.shape) == entry["shape"], f"{file.name} of the wrong shape")
        parts.append(rows)
    return SavedRows(str(known["graph"]), parts)


def _tensor(array: Any) -> torch.Tensor:
    if isinstance(array, torch.Tensor):
        return array.detach().cpu().contiguous()
    return torch.from_numpy(np.array(array, order="C"))
