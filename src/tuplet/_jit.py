"""The one wrapper over numba.njit: cached on disk, releases the GIL, no signature (compiles on first call).

numba numbers the files of compiled code as it finds numbers free. Processes that compile at once for different types
take the same number, and a third one then runs the code of other types: crashes and wrong numbers. Here a file is
named by what it was compiled for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F | None = None, *, parallel: bool = False, fastmath: bool = False) -> Any:
    """Compile `function` with numba. `fastmath` only where the order of additions is free."""
    import numba

    def wrap(f: F) -> Any:
        made = numba.njit(cache=True, nogil=True, parallel=parallel, fastmath=fastmath)(f)
        file = getattr(getattr(made, "_cache", None), "_cache_file", None)
        if file is not None:  # none where NUMBA_DISABLE_JIT is set
            file._source_stamp = source_stamp()
            file.__class__ = code_files()
        return made

    return wrap if function is None else wrap(function)


@cache
def code_files() -> Any:
    """numba's files of compiled code and their index, safe for processes that start together."""
    from numba.core.caching import IndexDataCacheFile

    class CodeFiles(IndexDataCacheFile):  # type: ignore[misc]
        def save(self, key: Any, data: Any) -> None:
            """Write the code, then its place in the index; an entry lost to another process is compiled again."""
            digest = hashlib.sha256(repr((key, self._source_stamp)).encode()).hexdigest()
            name = self._index_name.removesuffix("nbi") + digest[:24] + ".nbc"
            self._save_data(name, data)
            self._save_index({**self._load_index(), key: name})

    return CodeFiles


@cache
def source_stamp() -> tuple[tuple[str, int, int], ...]:
    """Name, time and size of every kernel's file and this one: compiled code holds functions of other files."""
    files = [Path(__file__), *sorted((Path(__file__).parent / "kernels").glob("*.py"))]
    return tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files)
