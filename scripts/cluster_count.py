"""Tasks that write down what they do, for cluster_kills.py and cluster_bits.py: which block began on which raylet.

    python -c "import cluster_count; cluster_count.patch(); .."     in the driver, with this folder in PYTHONPATH

Tasks travel by name. The driver names each one as an attribute of this module; a worker that looks it up gets the
task with a line in the file TASK_LOG for every block that is really worked on: one that is there already has none.
"""

from __future__ import annotations

import importlib
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

# What a task calls when it works; tasks that only copy ranges to their places are not counted.
WORK = {"filter_block": "cpu_engine", "encode_rows": "encode", "deal_part": "_new", "sort_one": "_new",
        "write_part": "write_parquet"}  # fmt: skip

NAMES = ("number", "first", "start", "part")  # of a block, in the items of the tasks


def patch() -> None:
    """In the driver: every task is sent by a name of this module, and the filter has many small ones."""
    import tuplet.engines._ray as ray_engine
    import tuplet.filters._run as filter_run

    ray_engine._name = lambda task: f"{__name__}:{task.__module__}.{task.__qualname__}"
    filter_run.WORK = 1
    filter_run.free_width = lambda n, stored, f: 16


def __getattr__(name: str) -> Callable[[Any], Any]:
    module, dot, function = name.rpartition(".")
    if not dot:
        raise AttributeError(name)
    return lambda item: _counted(importlib.import_module(module), function, item)


def _counted(module: Any, function: str, item: Any) -> Any:
    work = WORK.get(function)
    if work is None:
        return getattr(module, function)(item)
    real = getattr(module, work)

    def begun(*args: Any, **named: Any) -> Any:
        with Path(os.environ["TASK_LOG"]).open("a") as file:
            file.write(f"{function} {next(item[name] for name in NAMES if name in item)} {_node()}\n")
        return real(*args, **named)

    with mock.patch.object(module, work, begun):
        return getattr(module, function)(item)


def begun_in(log: Path) -> int:
    """How many blocks were begun, by the lines of the log; one that was begun twice counts twice."""
    return log.read_bytes().count(b"\n") if log.exists() else 0


def again_in(log: Path) -> int:
    """How many blocks were begun when they had been begun before."""
    begun = [words[:2] for words in _lines(log)]
    return len(begun) - len({tuple(words) for words in begun})


def nodes_in(log: Path) -> dict[str, list[int]]:
    """How many blocks of each kind of task each raylet has begun."""
    found: dict[str, Counter[str]] = {}
    for function, _, node in _lines(log):
        found.setdefault(function, Counter())[node] += 1
    return {function: sorted(count.values(), reverse=True) for function, count in sorted(found.items())}


def _lines(log: Path) -> list[list[str]]:
    return [line.split() for line in log.read_text().splitlines()] if log.exists() else []


def _node() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())[:8]
