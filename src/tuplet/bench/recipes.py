"""The settings for each dataset and task, from data/recipes.toml, each value with its source.

A block `[cora]` holds what all tasks share; `[cora.links]` what differs for a task; a block named after a method
inside it (`[cora.classification.DMT]`, or `"DMAT-i:train"` with the usage) what differs for that method. A value is
`{ value = 0.1, source = "paper" }`; the sources are `paper` (its table of hyper-parameters), `tuned` (by
scripts/search_recipes.py, with labels) and `guess`. `evaluate` holds what goes to the task function, the rest are
keyword arguments of the estimator.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from tuplet._check import InputError, check_choice
from tuplet.models.registry import default_method

_METHOD = default_method(recipe=True)
SOURCES = ("paper", "tuned", "guess")
RECIPE_TASKS = ("clustering", "classification", "links")


def recipe_names() -> tuple[str, ...]:
    """The datasets that have a recipe.

    >>> "cora" in recipe_names()
    True
    """
    return tuple(_book())


def recipe_settings(
    dataset: str, task: str = "clustering", *, method: str = _METHOD, usage: str = "all"
) -> dict[str, Any]:
    """Plain settings of `dataset` for `task`; the studies (tau0, hardness, ..) take the recipe for clustering.

    >>> recipe_settings("cora")["layers"]
    [256, 256]
    """
    return {name: _plain(entry) for name, entry in _entries(dataset, task, method, usage).items()}


def recipe_sources(
    dataset: str, task: str = "clustering", *, method: str = _METHOD, usage: str = "all"
) -> dict[str, Any]:
    """The source of each value of the same recipe: "paper", "tuned" or "guess"."""
    return {name: _source(entry) for name, entry in _entries(dataset, task, method, usage).items()}


def settings_task(task: str) -> str:
    """The task whose settings `task` takes: the studies (convergence, tau0, hardness, ..) take those for clustering.

    >>> settings_task("links"), settings_task("convergence")
    ('links', 'clustering')
    """
    return task if task in RECIPE_TASKS else "clustering"


def estimator_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` without `evaluate` and `filter`, lists as tuples: keyword arguments for an estimator."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items() if k not in ("evaluate", "filter")}


def merged(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Later parts win, key by key; the nested `evaluate` is merged in the same way."""
    total: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            old = total.get(key)
            both = isinstance(old, Mapping) and isinstance(value, Mapping)
            total[key] = merged(old, value) if both and not _is_entry(value) else value  # type: ignore[arg-type]
    return total


def _entries(dataset: str, task: str, method: str, usage: str) -> dict[str, Any]:
    book = _book()
    if dataset not in book:
        raise InputError(f"There is no recipe for {dataset!r}. There are recipes for: {', '.join(book)}.")
    block = book[dataset]
    inside = block.get(settings_task(task), {})
    shared = {name: value for name, value in block.items() if name not in RECIPE_TASKS}
    own = {name: value for name, value in inside.items() if _is_setting(name, value)}
    return merged(shared, own, inside.get(method, {}), inside.get(f"{method}:{usage}", {}))


def _is_setting(name: str, value: Any) -> bool:
    return name == "evaluate" or _is_entry(value)


def _is_entry(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"value", "source"}


def _plain(entry: Any) -> Any:
    return entry["value"] if _is_entry(entry) else {name: _plain(inner) for name, inner in entry.items()}


def _source(entry: Any) -> Any:
    if _is_entry(entry):
        return check_choice("source", entry["source"], SOURCES)
    return {name: _source(inner) for name, inner in entry.items()}


@cache
def _book() -> dict[str, Any]:
    return tomllib.loads(files("tuplet").joinpath("data/recipes.toml").read_text())
