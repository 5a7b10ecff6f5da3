"""From what was typed to an estimator: the method, its settings, and what of its extras it has."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuplet._check import InputError

if TYPE_CHECKING:
    from tuplet.graph import Graph


def chosen_method(method: str | None, *, labelled: bool, recipe: str | None) -> str:
    """The method that was typed, or the default."""
    from tuplet.models.registry import default_method

    return method or default_method(labels=labelled, recipe=recipe is not None)


def for_links() -> str:
    """The method that `tuplet links` measures where none is typed: the paper's."""
    from tuplet.models.registry import default_method

    return default_method(recipe=True)


def typed_params(
    method: str,
    *,
    recipe: str | None = None,
    dim: int | None = None,
    clusters: int | None = None,
    settings: list[str] | None = None,
    extras: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Constructor parameters: the recipe's first, then what was typed; each checked before anything is read."""
    from tuplet.models.registry import dim_settings, make_estimator, method_class

    defaults = make_estimator(method).get_params(deep=False)
    params: dict[str, Any] = {}
    if recipe is not None:
        from tuplet.bench.recipes import estimator_settings, recipe_settings

        params |= estimator_settings(recipe_settings(recipe, method=method))
    if dim is not None:
        params |= dim_settings(method, dim)
    if clusters is not None:
        params["n_clusters"] = clusters
    known = inspect.signature(method_class(method)).parameters
    for name, value in (_setting(text) for text in settings or ()):
        if name in defaults:
            _check_kind(name, value, defaults[name], str(known[name].annotation))
        params[name] = value
    for name, value in (extras or {}).items():
        if value is not None and name not in defaults:
            raise InputError(f"--{name} would not be used: {method} has no {name}. {_who(name, 'have it')}")
        params |= {} if value is None else {name: value}
    make_estimator(method, **params)
    return params


def build(method: str, params: dict[str, Any], graph: Graph, *, seed: int, device: str) -> Any:
    """The estimator; where it wants the number of clusters and none was typed, the number of classes."""
    from tuplet.models.registry import make_estimator, method_class

    if method_class(method).clusters and "n_clusters" not in params and graph.n_classes > 1:
        params = {**params, "n_clusters": graph.n_classes}
    return make_estimator(method, **{"seed": seed, "device": device} | params)


def fit(estimator: Any, graph: Graph, *, progress: Any = None, **options: Any) -> Any:
    """`estimator.fit` with those `options` that were given; Ctrl-C in it is a KeyboardInterrupt."""
    estimator.fit(graph, progress=progress, **{name: value for name, value in options.items() if value})
    if getattr(getattr(estimator, "history_", None), "stopped", "") == "interrupted":
        raise KeyboardInterrupt
    return estimator


def check_resumable(method: str, checkpoint: Path | None, resume: bool) -> None:
    """Raise unless `method` can write checkpoints, their folder can be made, and what is there fits --resume."""
    from tuplet._check import check_out_path
    from tuplet.models.registry import make_estimator

    if checkpoint is None:
        if resume:
            raise InputError("--resume needs --checkpoint DIR, the folder in which an earlier run left its state.")
        return
    if "checkpoint" not in inspect.signature(make_estimator(method).fit).parameters:
        raise InputError(f"--checkpoint would not be used: {method} keeps no state. {_who('checkpoint', 'do')}")
    check_out_path(checkpoint)
    if checkpoint.exists() and not checkpoint.is_dir():
        raise InputError(f"{checkpoint} is a file. Give a folder for the checkpoint.")
    check_state(checkpoint, resume)


def check_state(folder: Path, resume: bool) -> None:
    """Raise where --resume finds no state of training in `folder`, or where one would be lost without it."""
    from tuplet.training.checkpoint import CHECKPOINT

    there = (folder / CHECKPOINT).is_file() or any(folder.glob("*/job.json"))  # of training; of SelfDMAT's steps
    if resume and not there:
        raise InputError(f"There is no checkpoint in {folder}. Leave --resume out to start anew.")
    if there and not resume:
        raise InputError(
            f"{folder} holds the state of an earlier run. Go on from it with --resume; to start anew, delete it or "
            "give another --checkpoint."
        )


def check_has(estimator: Any, name: str) -> None:
    """Raise unless the estimator has a parameter `name`."""
    if name not in estimator.get_params(deep=False):
        method = type(estimator).__name__
        raise InputError(f"--{name} would not be used: {method} has no {name}. {_who(name, 'have it')}")


def check_with_rows(method: str) -> None:
    """Raise unless models of `method` can keep filtered rows."""
    from tuplet.models.new_nodes import check_keeps_rows
    from tuplet.models.registry import method_class

    check_keeps_rows(method_class(method))


def _who(name: str, do: str) -> str:
    """The methods that have a parameter `name`, of the constructor or of `fit`."""
    from tuplet._check import MissingExtraError
    from tuplet.models.registry import make_estimator, method_names

    found = []
    for method in method_names():
        try:
            estimator = make_estimator(method)
        except MissingExtraError:
            continue
        if name in {**inspect.signature(type(estimator)).parameters, **inspect.signature(estimator.fit).parameters}:
            found.append(method)
    return f"Those that {do}: {', '.join(found)}."


def _setting(text: str) -> tuple[str, Any]:
    """("lr", 0.001) from "lr=1e-3"; values are read as Python literals, else kept as text."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InputError(f"--set {text!r} has no value. Write it as name=value, for example --set epochs=20.")
    try:
        return name.strip(), ast.literal_eval(value.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return name.strip(), value


def _check_kind(name: str, value: Any, default: Any, annotation: str) -> None:
    """Raise where `value` is of another kind than the default of the setting, or than its annotation."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(default, bool):
        right, wanted = isinstance(value, bool), "True or False"
    elif isinstance(default, int | float):
        right, wanted = number or (value is None), "a number"
        if "Sequence" in annotation:
            several = isinstance(value, tuple | list) and bool(value)
            right, wanted = (
                right or (several and all(_alike(item, type(default)) for item in value)),
                "a number or a list",
            )
    elif isinstance(default, str):
        right, wanted = isinstance(value, str), "text"
    elif isinstance(default, tuple | list):
        inner = type(default[0]) if default else str
        items = value if isinstance(value, tuple | list) else ()
        right = bool(items or value in ((), [])) and all(_alike(item, inner) for item in items)
        word = "numbers" if inner in (int, float) else "texts"
        wanted = f"a list of {word}, for example {tuple(default) or ('a', 'b')}"
    else:
        kinds = {"a number": number and ("int" in annotation or "float" in annotation)}
        kinds["text"] = isinstance(value, str) and "str" in annotation
        right = value is None or any(kinds.values())
        wanted = "None" if "Filter" in annotation else annotation
    if not right:
        raise InputError(f"--set {name}={value!r} is of the wrong kind. Give {wanted}.")


def _alike(item: Any, kind: type) -> bool:
    if kind in (int, float):
        return isinstance(item, int if kind is int else int | float) and not isinstance(item, bool)
    return isinstance(item, kind)
