"""Method names as the paper and the command line write them -> estimators."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from tuplet._check import InputError, check_choice

OURS = {
    "DMAT-i": "tuplet.models.dmat:DMATi",
    "DMAT": "tuplet.models.dmat:DMAT",
    "DMT": "tuplet.models.dmat:DMT",
    "SelfDMAT": "tuplet.models.selfdmat:SelfDMAT",
}
RIVALS = {
    "KMeans": "KMeansFeatures",
    **{name: name for name in ("DeepWalk", "SDCN", "AGC", "SSGC", "AGE", "DGI", "GCA", "ProGCL", "FilterSVD")},
}


def method_names() -> list[str]:
    """Every name that `make_estimator` takes: ours first, then the rivals."""
    return [*OURS, *RIVALS]


def make_estimator(method: str, **params: Any) -> Any:
    """An unfitted estimator of `method` with `params`; a parameter that it does not have is an error.

    >>> make_estimator("FilterSVD", seed=3).seed
    3
    """
    check_choice("method", method, method_names())
    if method in OURS:
        module, name = OURS[method].split(":")
    else:
        module, name = "tuplet.baselines", RIVALS[method]
    cls = getattr(importlib.import_module(module), name)
    known = set(inspect.signature(cls.__init__).parameters) - {"self"}
    unknown = sorted(set(params) - known)
    if unknown:
        raise InputError(f"{method} has no setting {unknown[0]!r}. It has: {', '.join(sorted(known))}.")
    return cls(**params)
