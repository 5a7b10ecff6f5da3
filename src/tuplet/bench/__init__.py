"""Benchmarks: a TOML spec in, one JSON row a job out, tables and figures beside the published ones.

`run_spec` runs, `report.report` makes Markdown of rows, `recipe_settings` gives a dataset's settings. Names load when
they are first used.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "Job": "spec",
    "Spec": "spec",
    "load_spec": "spec",
    "RunState": "run",
    "run_spec": "run",
    "run_jobs": "run",
    "LiveTable": "live",
    "read_rows": "rows",
    "update_readme": "report",
    "scale_jobs": "tasks.scale",
    "readme_table": "report",
    "draw_figures": "report",
    "recipe_names": "recipes",
    "recipe_settings": "recipes",
    "recipe_sources": "recipes",
    "estimator_settings": "recipes",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tuplet.bench' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"tuplet.bench.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
