"""tuplet in PyTorch Geometric: a transform that adds vectors to a `Data` object (extra [baselines])."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

from tuplet._check import InputError, need_extra
from tuplet.io.libraries import from_pyg
from tuplet.models.registry import make_estimator

with warnings.catch_warnings():  # what its import warns of is not the caller's to mend
    warnings.simplefilter("ignore", DeprecationWarning)
    BaseTransform: Any = need_extra("torch_geometric.transforms", "baselines", "tuplet.pyg").BaseTransform

__all__ = ["AddVectors"]


class AddVectors(BaseTransform):  # type: ignore[misc]
    """Adds one vector a node, float32 (n, d), to the data under `attr`.

    `model` is the name of a method with its `settings`, or an estimator: one that is fitted is applied as it is,
    any other is fitted to each graph that comes. Labels are used only by methods that need them, and of a graph with
    a split then only those of its train part.

    >>> AddVectors("SelfDMAT", n_clusters=7, seed=0)
    AddVectors('SelfDMAT', n_clusters=7, seed=0)
    """

    def __init__(self, model: Any = "SelfDMAT", *, attr: str = "z", **settings: Any) -> None:
        if not isinstance(model, str) and settings:
            raise InputError("Settings belong to a method's name; an estimator has its own. Leave one of them out.")
        self.model, self.attr, self.settings = model, attr, settings

    def forward(self, data: Any) -> Any:
        """The data with its vectors."""
        graph = from_pyg(data)
        if graph.x is None:
            raise InputError("The PyG data has no features x. Vectors are made from features and edges.")
        if graph.split is not None and graph.y is not None:
            seen = np.full(graph.n_nodes, -1, dtype=np.int64)
            seen[graph.split[0]] = graph.y[graph.split[0]]
            graph = graph.with_(y=seen)
        data[self.attr] = torch.from_numpy(np.array(self._vectors(graph), dtype=np.float32))
        return data

    def _vectors(self, graph: Any) -> Any:
        if isinstance(self.model, str):
            return make_estimator(self.model, **self.settings).fit(graph).embedding_
        if hasattr(self.model, "embedding_"):
            return self.model.transform(graph)
        from sklearn.base import clone

        return clone(self.model).fit(graph).embedding_

    def __repr__(self) -> str:
        given = [repr(self.model), *(f"{name}={value!r}" for name, value in self.settings.items())]
        given += [] if self.attr == "z" else [f"attr={self.attr!r}"]
        return f"AddVectors({', '.join(given)})"
