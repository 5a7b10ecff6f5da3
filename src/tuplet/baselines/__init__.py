"""The rivals of the paper's comparison, under the same contract as DMATi.

Each is one file, written from its paper. `fit(graph)` leaves `embedding_` (n, d) float32; a method that assigns
clusters itself leaves `labels_` (n,) too. Names load when they are first used.

>>> from tuplet import baselines
>>> baselines.NAMES["KMeans"]
'KMeansFeatures'
>>> baselines.registry["KMeans"](n_clusters=3)
KMeansFeatures(n_clusters=3)
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "KMeansFeatures": "kmeans",
    "DeepWalk": "deepwalk",
    "SDCN": "sdcn",
    "AGC": "agc",
    "SSGC": "ssgc",
    "AGE": "age",
    "DGI": "dgi",
    "GCA": "gca",
    "ProGCL": "progcl",
    "FilterSVD": "filtersvd",
}
# the name in the paper's tables -> the class here
NAMES = {("KMeans" if name == "KMeansFeatures" else name): name for name in _HOMES}

__all__ = ["NAMES", "registry", *_HOMES]


def __getattr__(name: str) -> Any:
    value: Any
    if name in _HOMES:
        value = getattr(importlib.import_module(f"tuplet.baselines.{_HOMES[name]}"), name)
    elif name == "registry":
        value = {paper: __getattr__(home) for paper, home in NAMES.items()}
    else:
        raise AttributeError(f"module 'tuplet.baselines' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
