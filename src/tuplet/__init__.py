"""tuplet: one vector for each node of an attributed graph, by deep metric learning.

>>> import tuplet
>>> g = tuplet.load_dataset("cora")
>>> g
Graph(cora: 2708 nodes, 5278 edges, 1433 features, 7 classes)

Names load when they are first used, so that `import tuplet` does not wait for torch.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from tuplet._moved import MovedModules

if TYPE_CHECKING:  # the same names as below, for type checkers
    __version__: str
    from tuplet import baselines as baselines
    from tuplet import losses as losses
    from tuplet import metrics as metrics
    from tuplet._check import InputError as InputError
    from tuplet._progress import progress_bars as progress_bars
    from tuplet.datasets import load_dataset as load_dataset
    from tuplet.evaluation import theory as theory
    from tuplet.evaluation.tasks import classify_nodes as classify_nodes
    from tuplet.evaluation.tasks import cluster_nodes as cluster_nodes
    from tuplet.evaluation.tasks import predict_links as predict_links
    from tuplet.evaluation.tasks import repeat as repeat
    from tuplet.filters import GraphFilter as GraphFilter
    from tuplet.filters import weights as weights
    from tuplet.graph import Graph as Graph
    from tuplet.graph import synth as synth
    from tuplet.graph.splits import split_edges as split_edges
    from tuplet.graph.splits import split_nodes as split_nodes
    from tuplet.io import read_graph as read_graph
    from tuplet.models.dmat import DMAT as DMAT
    from tuplet.models.dmat import DMT as DMT
    from tuplet.models.dmat import DMATi as DMATi
    from tuplet.models.saving import load as load
    from tuplet.models.selfdmat import SelfDMAT as SelfDMAT
    from tuplet.pages import report as report
    from tuplet.training.config import TrainConfig as TrainConfig
    from tuplet.training.loop import train as train

_HOMES = {
    "InputError": "tuplet._check",
    "Graph": "tuplet.graph",
    "read_graph": "tuplet.io",
    "load_dataset": "tuplet.datasets",
    "GraphFilter": "tuplet.filters",
    "DMT": "tuplet.models.dmat",
    "DMAT": "tuplet.models.dmat",
    "DMATi": "tuplet.models.dmat",
    "SelfDMAT": "tuplet.models.selfdmat",
    "load": "tuplet.models.saving",
    "cluster_nodes": "tuplet.evaluation.tasks",
    "classify_nodes": "tuplet.evaluation.tasks",
    "predict_links": "tuplet.evaluation.tasks",
    "repeat": "tuplet.evaluation.tasks",
    "split_nodes": "tuplet.graph.splits",
    "split_edges": "tuplet.graph.splits",
    "train": "tuplet.training.loop",
    "TrainConfig": "tuplet.training.config",
    "report": "tuplet.pages",
    "progress_bars": "tuplet._progress",
}
_MODULES = {
    "baselines": "tuplet.baselines",
    "losses": "tuplet.losses",
    "metrics": "tuplet.metrics",
    "theory": "tuplet.evaluation.theory",
    "weights": "tuplet.filters.weights",
    "synth": "tuplet.graph.synth",
}

sys.meta_path.append(MovedModules())
# OpenMP reads it when it is loaded. Threads that spin while they wait keep each other from working where processes
# share a machine: training was seven times slower there.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
__all__ = [*_HOMES, *_MODULES]


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("tuplet")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "0+source"


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            value = _version()
        elif name in _HOMES:
            value = getattr(importlib.import_module(_HOMES[name]), name)
        elif name in _MODULES:
            value = importlib.import_module(_MODULES[name])
        elif name == "__version__":
            value = _version()
        else:
            raise AttributeError(f"module 'tuplet' has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
