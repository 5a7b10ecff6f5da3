"""The one interface: `with connected("ray") as engine: engine.map(task, items)`.

A task is a function at the top level of a module of tuplet, an item what it is called with, a result what it returns;
items and results are small plain values, for data travel as files on storage that all nodes share. A task may run
twice (its worker was killed), even at the same time: it writes under a name of its own and renames, and leaves alone
what is finished already. Then the same bits come out, and a driver that was killed and started again goes on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from tuplet._check import InputError

Task: TypeAlias = Callable[[Any], Any]
Tick: TypeAlias = Callable[[float], None]
_CLUSTER = re.compile(r"ray://[^\s/:]+:\d{1,5}")


class Engine(Protocol):
    """Runs tasks. `places`: how many run at a time, each with all threads of its node."""

    places: int

    def map(self, task: Task, items: Iterable[Any], tick: Tick | None = None) -> list[Any]:
        """`task(item)` of every item, in order; `tick` is told the fraction that is done."""

    def everywhere(self, task: Task, item: Any) -> list[Any]:
        """`task(item)` once on each node."""

    def check_sees(self, paths: Sequence[Path]) -> None:
        """Raise, naming the node, where one of the nodes does not see one of the files."""

    def close(self) -> None:
        """Let go of the cluster."""


class Local:
    """This process: one task after the other, each with all threads."""

    places = 1

    def map(self, task: Task, items: Iterable[Any], tick: Tick | None = None) -> list[Any]:
        """`task(item)` of every item, in order."""
        todo, results = list(items), []
        for item in todo:
            results.append(task(item))
            if tick is not None:
                tick(len(results) / len(todo))
        return results

    def everywhere(self, task: Task, item: Any) -> list[Any]:
        """`task(item)`, once."""
        return [task(item)]

    def check_sees(self, paths: Sequence[Path]) -> None:
        """What the driver has written, this process sees."""

    def close(self) -> None:
        """Nothing is held."""


_open: dict[str, tuple[Engine, int]] = {}  # what is connected now, and how many `connected` blocks use it


def check_engine(name: str) -> str:
    """`name` if it is "local", "ray" or "ray://host:port".

    >>> check_engine("ray://head:10001")
    'ray://head:10001'
    """
    if isinstance(name, str) and (name in ("local", "ray") or _CLUSTER.fullmatch(name)):
        return name
    raise InputError(
        f'engine {name!r} is not known. Write "local", "ray" (the cluster of this machine, else one that is started '
        'here), or "ray://host:10001".'
    )


@contextmanager
def connected(name: str) -> Iterator[Engine]:
    """The engine of that name; blocks inside one another share one connection.

    >>> with connected("local") as engine:
    ...     engine.map(abs, [-1, 2])
    [1, 2]
    """
    check_engine(name)
    if name not in _open:
        _open[name] = (_connect(name), 0)
    engine, users = _open[name]
    _open[name] = (engine, users + 1)
    try:
        yield engine
    finally:
        users = _open[name][1] - 1
        _open[name] = (engine, users)
        if not users:
            del _open[name]
            engine.close()


def _connect(name: str) -> Engine:
    if name == "local":
        return Local()
    from tuplet.engines._ray import RayEngine

    return RayEngine(name)
