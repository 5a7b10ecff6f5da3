"""Module names of 0.1 and where each lives now: `from tuplet.weights import ppr` keeps working."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, cast

MOVED = {
    "batches": "training.batches",
    "checkpoint": "training.checkpoint",
    "convert": "io.convert",
    "criteria": "training.criteria",
    "doors": "io.libraries",
    "encoder": "training.encoder",
    "estimators": "models.dmat",
    "features": "rows.unit",
    "graph_tables": "io.write",
    "kmeans": "rows.kmeans",
    "links": "evaluation.links",
    "live_rows": "filters.live",
    "methods": "models.registry",
    "neighbors": "rows.neighbors",
    "new_nodes": "io.new_nodes",
    "npz": "io.npz",
    "results": "evaluation.results",
    "selfdmat": "models.selfdmat",
    "splits": "graph.splits",
    "store": "io.folder",
    "svd": "rows.svd",
    "synth": "graph.synth",
    "tasks": "evaluation.tasks",
    "theory": "evaluation.theory",
    "train_config": "training.config",
    "trainer": "training.loop",
    "updates": "models.new_nodes",
    "vectors": "io.vectors",
    "views": "training.views",
    "weights": "filters.weights",
}


class MovedModules:
    """Finds `tuplet.OLD` as the very module that `tuplet.NEW` is.

    A finder and loader by its methods: the classes of importlib.abc would double the time of `import tuplet`.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec for an old name, None for every other."""
        known = fullname.startswith("tuplet.") and fullname.removeprefix("tuplet.") in MOVED
        return ModuleSpec(fullname, cast("Any", self)) if known else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """None: Python makes the module, for a moment."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Put the new module in the old one's place."""
        new = MOVED[module.__name__.removeprefix("tuplet.")]
        sys.modules[module.__name__] = importlib.import_module(f"tuplet.{new}")
