"""The one wrapper over numba.njit: cached on disk, releases the GIL, no signature (compiles on first call)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F | None = None, *, parallel: bool = False, fastmath: bool = False) -> Any:
    """Compile `function` with numba. `fastmath` only where the order of additions is free."""
    import numba

    def wrap(f: F) -> Any:
        made = numba.njit(cache=True, nogil=True, parallel=parallel, fastmath=fastmath)(f)
        with suppress(AttributeError):  # numba's own place for it; without it the cache knows one file only
            made._cache._cache_file._source_stamp = source_stamp()
        return made

    return wrap if function is None else wrap(function)


@cache
def source_stamp() -> tuple[tuple[str, int, int], ...]:
    """Name, time and size of every kernel's file: compiled code holds functions of other files than its own."""
    files = sorted((Path(__file__).parent / "kernels").glob("*.py"))
    return tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files)
