"""The one wrapper over numba.njit: cached on disk, releases the GIL, no signature (compiles on first call)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F | None = None, *, parallel: bool = False, fastmath: bool = False) -> Any:
    """Compile `function` with numba. `fastmath` only where the order of additions is free."""
    import numba

    def wrap(f: F) -> Any:
        return numba.njit(cache=True, nogil=True, parallel=parallel, fastmath=fastmath)(f)

    return wrap if function is None else wrap(function)
