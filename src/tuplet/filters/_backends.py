"""The table of backends: where the exact filter can run. A new one is one `Backend` and one `register_backend` call.

A backend that runs out of its memory raises MemoryError, and the CPU goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from numpy.typing import NDArray

from tuplet._check import check_choice
from tuplet.engines import Tick
from tuplet.filters import _gpu
from tuplet.filters._cpu import Engine, exact_engine
from tuplet.filters._operator import Operator, Plan
from tuplet.filters._read import Reader
from tuplet.graph import Features

MakeEngine: TypeAlias = Callable[[Operator, Plan, float, Reader, Features, int, str], Engine]
Whole: TypeAlias = Callable[[Operator, Plan, float, Reader, NDArray[Any], str, Tick], None]


def _nothing(device: str) -> None:
    pass


@dataclass(frozen=True)
class Backend:
    """A kind of device, by the name that stands before a colon in `device` ("cuda:1").

    `engine(op, plan, r, read, x, columns, device)` filters block by block (see `_cpu.py`). `whole(op, plan, r, read,
    out, device, tick)`, if there is one, fills all of `out` (n, f) at once and is tried first. `takes(work)`: whether
    device="auto" should choose it for so many multiply-adds. `check(device)` raises where there is no such device.
    """

    name: str
    engine: MakeEngine
    whole: Whole | None = None
    takes: Callable[[float], bool] = lambda work: False
    check: Callable[[str], None] = _nothing


BACKENDS: dict[str, Backend] = {}


def register_backend(backend: Backend) -> Backend:
    """Put `backend` into the table; from then on `GraphFilter(device=backend.name)` runs there."""
    BACKENDS[backend.name] = backend
    return backend


def backend_of(device: str) -> Backend:
    """The backend of a device such as "cuda:1"."""
    return BACKENDS[device.partition(":")[0]]


def choose_device(device: str, work: float) -> str:
    """The device for `work` multiply-adds; "auto" is the first backend that takes them, else the CPU."""
    if device == "auto":
        return next((name for name, backend in BACKENDS.items() if backend.takes(work)), "cpu")
    check_choice("device", str(device).partition(":")[0], ["auto", *BACKENDS])
    backend_of(device).check(device)
    return device


register_backend(
    Backend("cpu", lambda op, plan, r, read, x, columns, device: exact_engine(op, plan, r, read, x, columns))
)
register_backend(
    Backend("cuda", _gpu.device_engine, whole=_gpu.filter_whole, takes=_gpu.is_worth, check=_gpu.check_device)
)
