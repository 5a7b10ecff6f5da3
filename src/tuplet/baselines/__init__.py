"""The rivals of the paper's comparison and newer ones, under the same contract as DMATi.

Each is one file, written from its paper. `fit(graph)` leaves `embedding_` (n, d) float32; a method that assigns
clusters itself leaves `labels_` (n,) too. Names load when they are first used.

>>> from tuplet import baselines
>>> baselines.NAMES["KMeans"]
'KMeansFeatures'
>>> baselines.registry["KMeans"](n_clusters=3)
KMeansFeatures(n_clusters=3)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tuplet.models.registry import class_paths, method_class

if TYPE_CHECKING:
    from tuplet.baselines.agc import AGC as AGC
    from tuplet.baselines.age import AGE as AGE
    from tuplet.baselines.bgrl import BGRL as BGRL
    from tuplet.baselines.ccassg import CCASSG as CCASSG
    from tuplet.baselines.deepwalk import DeepWalk as DeepWalk
    from tuplet.baselines.dgi import DGI as DGI
    from tuplet.baselines.dinknet import DinkNet as DinkNet
    from tuplet.baselines.filtersvd import FilterSVD as FilterSVD
    from tuplet.baselines.gca import GCA as GCA
    from tuplet.baselines.kmeans import KMeansFeatures as KMeansFeatures
    from tuplet.baselines.ns4gc import NS4GC as NS4GC
    from tuplet.baselines.progcl import ProGCL as ProGCL
    from tuplet.baselines.s2cag import MS2CAG as MS2CAG
    from tuplet.baselines.sdcn import SDCN as SDCN
    from tuplet.baselines.ssgc import SSGC as SSGC
    from tuplet.models.contract import NodeEstimator

    registry: dict[str, type[NodeEstimator]]

# the class here -> its module; the name in the paper's tables -> the class here
_HOMES = dict(path.split(":")[::-1] for path in class_paths().values() if path.startswith("tuplet.baselines."))
NAMES = {name: path.split(":")[1] for name, path in class_paths().items() if path.startswith("tuplet.baselines.")}

__all__ = ["NAMES", "registry", *_HOMES]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            value = getattr(import_module(_HOMES[name]), name)
        elif name == "registry":
            value = {paper: method_class(paper) for paper in NAMES}
        else:
            raise AttributeError(f"module 'tuplet.baselines' has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
