"""The tasks that a spec can name. A new one is a function (job, bench, meter) -> measured, and a line here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

TASKS = {
    "clustering": "tuplet.bench.tasks.clustering:clustering",
    "classification": "tuplet.bench.tasks.classification:classification",
    "links": "tuplet.bench.tasks.links:links",
    "convergence": "tuplet.bench.tasks.convergence:convergence",
    "tau0": "tuplet.bench.tasks.pairs:tau0",
    "hardness": "tuplet.bench.tasks.pairs:hardness",
    "theory": "tuplet.bench.tasks.pairs:theory",
    "complexity": "tuplet.bench.tasks.complexity:complexity",
    "scale": "tuplet.bench.tasks.scale:rung",
}


def task_function(name: str) -> Callable[..., dict[str, Any]]:
    """The function of a task; its module is loaded now, when the first job of its kind runs."""
    module, _, function = TASKS[name].partition(":")
    found: Callable[..., dict[str, Any]] = getattr(importlib.import_module(module), function)
    return found
