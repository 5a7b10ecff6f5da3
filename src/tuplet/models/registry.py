"""The registry of methods: names as the paper and the command line write them -> estimators.

A new method is one class under `models/contract.py` and one line here, or `register(name, cls)` from outside. What a
method can do is said by its class: `method_class(name).clusters`, `.inductive`, `.needs_labels`, ..
"""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

from tuplet._check import InputError, check_choice
from tuplet._moved import MOVED

if TYPE_CHECKING:
    from tuplet.models.contract import NodeEstimator

_METHODS: dict[str, str] = {
    "DMAT-i": "tuplet.models.dmat:DMATi",
    "DMAT": "tuplet.models.dmat:DMAT",
    "DMT": "tuplet.models.dmat:DMT",
    "SelfDMAT": "tuplet.models.selfdmat:SelfDMAT",
    "KMeans": "tuplet.baselines.kmeans:KMeansFeatures",
    "DeepWalk": "tuplet.baselines.deepwalk:DeepWalk",
    "SDCN": "tuplet.baselines.sdcn:SDCN",
    "AGC": "tuplet.baselines.agc:AGC",
    "SSGC": "tuplet.baselines.ssgc:SSGC",
    "AGE": "tuplet.baselines.age:AGE",
    "DGI": "tuplet.baselines.dgi:DGI",
    "GCA": "tuplet.baselines.gca:GCA",
    "ProGCL": "tuplet.baselines.progcl:ProGCL",
    "FilterSVD": "tuplet.baselines.filtersvd:FilterSVD",
    "M-S2CAG": "tuplet.baselines.s2cag:MS2CAG",
    "CCA-SSG": "tuplet.baselines.ccassg:CCASSG",
    "BGRL": "tuplet.baselines.bgrl:BGRL",
    "NS4GC": "tuplet.baselines.ns4gc:NS4GC",
    "Dink-Net": "tuplet.baselines.dinknet:DinkNet",
}
_GIVEN: dict[str, type[NodeEstimator]] = {}  # classes by path, of `register`
_DEFAULT, _WITH_LABELS, _ON_ROWS = "SelfDMAT", "DMAT", "DMAT-i"


def method_names() -> list[str]:
    """Every name that `make_estimator` takes: ours first, then the rivals, then what was registered."""
    return list(_METHODS)


def own_methods() -> tuple[str, ...]:
    """The names of our methods, rivals left out; nothing is imported.

    >>> own_methods()
    ('DMAT-i', 'DMAT', 'DMT', 'SelfDMAT')
    """
    return tuple(name for name, path in _METHODS.items() if path.startswith("tuplet.models."))


def class_paths() -> dict[str, str]:
    """Every name with its class as "module:Class"; nothing is imported."""
    return dict(_METHODS)


def register(name: str, cls: type[NodeEstimator]) -> None:
    """Make `cls` known as `name` to `make_estimator`, the command line, the bench and `tuplet.load`."""
    if lacking := [part for part in ("fit", "transform", "save", "passes", "inductive") if not hasattr(cls, part)]:
        raise InputError(f"{cls!r} has no {lacking[0]}. Make it a subclass of tuplet.models.contract.NodeEstimator.")
    if _METHODS.get(name, class_path(cls)) != class_path(cls):
        raise InputError(f"The method {name!r} is {_METHODS[name]} already. Choose another name.")
    _METHODS[name] = class_path(cls)
    _GIVEN[class_path(cls)] = cls


def unregister(name: str) -> None:
    """Forget a method that was registered."""
    _GIVEN.pop(_METHODS.get(name, ""), None)
    _METHODS.pop(check_choice("method", name, _METHODS))


def method_class(method: str) -> type[NodeEstimator]:
    """The estimator's class, whose attributes say what the method can do.

    >>> method_class("DeepWalk").inductive, method_class("SelfDMAT").clusters
    (False, True)
    """
    return _class_at(_METHODS[check_choice("method", method, _METHODS)])


def make_estimator(method: str, **params: Any) -> Any:
    """An unfitted estimator of `method` with `params`; a parameter that it does not have is an error.

    >>> make_estimator("FilterSVD", seed=3).seed
    3
    """
    cls = method_class(method)
    known = defaults(method)
    unknown = sorted(set(params) - set(known))
    if unknown:
        raise InputError(f"{method} has no setting {unknown[0]!r}. It has: {', '.join(sorted(known))}.")
    return cls(**params)


def defaults(method: str) -> dict[str, Any]:
    """The settings of `method` with their defaults: what the constructor's signature says.

    >>> defaults("DMAT-i")["alpha"]
    0.1
    """
    known = inspect.signature(method_class(method)).parameters
    return {name: parameter.default for name, parameter in known.items()}


def dim_settings(method: str, dim: int) -> dict[str, Any]:
    """The setting that makes vectors of `method` have `dim` numbers.

    >>> dim_settings("DMAT-i", 32), dim_settings("DGI", 32)
    ({'layers': 32}, {'hidden': 32})
    """
    name = method_class(method).dim_parameter
    if name is None:
        raise InputError(f"The vectors of {method} are as long as the features. Leave the dimension out.")
    default = defaults(method)[name]
    return {name: (*default[:-1], dim) if isinstance(default, tuple) else dim}


def default_method(*, labels: bool = False, recipe: bool = False, rows: bool = False) -> str:
    """The method where none is named, if labels to learn from, the paper's settings, or filtered rows are given."""
    return _WITH_LABELS if labels else _ON_ROWS if recipe or rows else _DEFAULT


def class_path(cls: type) -> str:
    """What `model.json` calls the class."""
    return f"{cls.__module__}:{cls.__qualname__}"


def saved_class(path: str, where: Any) -> type[NodeEstimator]:
    """The registered class that a saved model names; module names of 0.1 are understood. No other is imported."""
    module, _, name = path.partition(":")
    old = module.removeprefix("tuplet.")
    path = f"tuplet.{MOVED[old]}:{name}" if old in MOVED else path
    if path not in _METHODS.values():
        raise InputError(f"The model in {where} names the class {path!r}, which is not one of tuplet's methods.")
    return _class_at(path)


def _class_at(path: str) -> type[NodeEstimator]:
    if path in _GIVEN:
        return _GIVEN[path]
    module, _, name = path.partition(":")
    cls: type[NodeEstimator] = getattr(importlib.import_module(module), name)
    return cls
