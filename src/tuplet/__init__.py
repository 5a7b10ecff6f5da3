"""tuplet: one vector for each node of an attributed graph, by deep metric learning.

>>> import tuplet
>>> g = tuplet.load_dataset("cora")
>>> g
Graph(cora: 2708 nodes, 5278 edges, 1433 features, 7 classes)

Names load when they are first used, so that `import tuplet` does not wait for torch.
"""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import Any

_HOMES = {
    "InputError": "tuplet._check",
    "Graph": "tuplet.graph",
    "read_graph": "tuplet.io",
    "load_dataset": "tuplet.datasets",
    "GraphFilter": "tuplet.filters",
    "DMT": "tuplet.estimators",
    "DMAT": "tuplet.estimators",
    "DMATi": "tuplet.estimators",
    "SelfDMAT": "tuplet.selfdmat",
    "load": "tuplet.estimators",
    "cluster_nodes": "tuplet.tasks",
    "classify_nodes": "tuplet.tasks",
    "predict_links": "tuplet.tasks",
    "repeat": "tuplet.tasks",
    "split_nodes": "tuplet.splits",
    "split_edges": "tuplet.splits",
    "train": "tuplet.trainer",
    "TrainConfig": "tuplet.trainer",
}
_MODULES = ("baselines", "losses", "metrics", "theory", "weights", "synth")

try:
    __version__ = version("tuplet")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+source"
__all__ = [*_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"tuplet.{name}")
    else:
        raise AttributeError(f"module 'tuplet' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
