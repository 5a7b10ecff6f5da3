"""A model's parameters and fitted attributes <-> the plain values and arrays of a saved model."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from tuplet.filters import GraphFilter
from tuplet.training.encoder import make_encoder

log = logging.getLogger("tuplet")
_MOST_ITEMS = 1000  # of a list among the parameters
_PLACES = {"cache": None, "engine": "local"}  # parameters that name a place: neither written nor read


def expect(right: bool, wrong: str) -> None:
    """Raise ValueError, which `load` reports as damage."""
    if not right:
        raise ValueError(wrong)


def plain_params(model: Any) -> dict[str, Any]:
    """Constructor parameters in JSON's types, without those that name a place on this machine."""
    params = model.get_params(deep=False)
    return {name: _PLACES[name] if name in _PLACES else _plain(value) for name, value in params.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, GraphFilter):
        return value.to_dict()
    if isinstance(value, np.generic):
        return value.item()
    return [_plain(item) for item in value] if isinstance(value, tuple | list | np.ndarray) else value


def params_from_plain(params: dict[str, Any], folder: Any) -> dict[str, Any]:
    """What `plain_params` gave, as parameters: lists as tuples, the filter as one. Places are dropped."""
    read = {}
    for name, value in params.items():
        if name in _PLACES and value != _PLACES[name]:
            log.info(
                "the model in %s names %s=%r: not used, a model does not say where to write or work",
                folder,
                name,
                value,
            )
            value = _PLACES[name]
        if isinstance(value, list):
            expect(len(value) <= _MOST_ITEMS, f"{len(value)} entries in {name}")
            value = tuple(value)
        read[name] = GraphFilter.from_dict(value) if name == "graph_filter" and value is not None else value
    return read


def check_kinds(cls: type, params: Mapping[str, Any]) -> None:
    """Raise where a parameter is of another kind than its default: a number, a text, a list of numbers.

    A number may be a list of some where the signature says so (`int | Sequence[int]`).
    """
    for name, parameter in inspect.signature(cls).parameters.items():
        value, default = params.get(name, parameter.default), parameter.default
        if default is None or default is inspect.Parameter.empty:
            kinds: tuple[type, ...] = (type(None), int, float, str, tuple, GraphFilter)
        else:
            kinds = (int, float) if isinstance(default, int | float) else (type(default),)
            kinds += (tuple,) if "Sequence" in str(parameter.annotation) else ()
        expect(isinstance(value, kinds), f"{name}={value!r:.40}")
        if isinstance(value, tuple) and _of_numbers(default):
            expect(_of_numbers(value), f"{name}={value!r:.40}")


def _of_numbers(value: Any) -> bool:
    items = value if isinstance(value, tuple) else (value,)
    return bool(items) and all(isinstance(item, int | float) for item in items)


def split_state(state: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Plain values, and arrays with the weights of modules as NAME.WEIGHT, of fitted attributes by name."""
    values: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    for name, value in state.items():
        if isinstance(value, torch.nn.Module):
            arrays |= {f"{name}.{part}": weight for part, weight in value.state_dict().items()}
        else:
            (arrays if isinstance(value, np.ndarray) else values)[name] = value
    return values, arrays


def joined_state(
    name: str, values: Mapping[str, Any], arrays: Mapping[str, Any], blank: Callable[[str], torch.nn.Module]
) -> Any:
    """The attribute `name` of what `split_state` gave. `blank(name)` makes the module that the weights go into."""
    if name in values:
        return values[name]
    if name in arrays:
        return arrays[name].numpy()
    weights = {n.removeprefix(f"{name}."): t for n, t in arrays.items() if n.startswith(f"{name}.")}
    return with_weights(lambda: blank(name), weights)


def filled_encoder(sizes: list[int], weights: Mapping[str, torch.Tensor]) -> torch.nn.Sequential:
    """The encoder of these layer sizes, with `weights` in it."""
    expect(len(sizes) <= len(weights), "more layers than weights")
    encoder: torch.nn.Sequential = with_weights(
        lambda: make_encoder(int(sizes[0]), [int(s) for s in sizes[1:]]), weights
    )
    return encoder


def with_weights(make: Callable[[], torch.nn.Module], weights: Mapping[str, torch.Tensor]) -> Any:
    """The module that `make` makes, with `weights` in it; it is made on no device first, to compare sizes."""
    with torch.device("meta"):
        sizes = {name: (part.shape, part.dtype) for name, part in make().state_dict().items()}
    if sizes != {name: (part.shape, part.dtype) for name, part in weights.items()}:
        raise ValueError("weights that do not fit the settings: the files belong to different models")
    module = make()
    module.load_state_dict(dict(weights))
    return module
