"""How many threads, and one pool of them at a time.

Four pools come with the libraries below (two OpenBLAS, two OpenMP). Their threads wait busily for a while after each
short piece of work, so processes that share a machine keep each other from working. Here work is cut into pieces for
one pool of plain Python threads, which sleep while they wait, and the libraries' own pools are held to one thread
meanwhile. The pieces never depend on the number of threads, nor does the order in which their results are added: the
same bits come out on any machine with the same libraries.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_GROUPS, _OWN_GROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_LIMITS = ("TUPLET_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
_lock = threading.RLock()
_pool: tuple[int, int, ThreadPoolExecutor] | None = None  # process, threads, pool
_inside = threading.local()
_held: list[Any] = []  # what the libraries' pools were before they were held; one entry while they are


def cores() -> int:
    """Threads that this process should use: its CPU affinity, its cgroup's quota, or less where it was told so.

    TUPLET_NUM_THREADS, OMP_NUM_THREADS and NUMBA_NUM_THREADS are read at every call; the smallest counts.
    """
    counts = [_affinity(), _quota(), *(_told(name) for name in _LIMITS)]
    return max(1, min(count for count in counts if count is not None))


def over(
    function: Callable[[T], R], pieces: Iterable[T], *, threads: int | None = None, hold: bool = True
) -> list[R]:
    """`function` of every piece, in order, by at most `threads` threads; the libraries' pools rest meanwhile.

    The caller's thread is one of them. `hold=False` is for pieces that use none of those pools. Called from a thread
    that works on pieces already it goes through its own there.

    >>> over(lambda number: number * number, [1, 2, 3])
    [1, 4, 9]
    """
    todo = list(pieces)
    alone = len(todo) <= 1 or getattr(_inside, "pool", False)  # then nothing is asked of the system: it takes longer
    wanted = 1 if alone else min(cores() if threads is None else threads, len(todo))
    if wanted <= 1:
        return [function(piece) for piece in todo]
    with one_pool() if hold else nullcontext():
        return _shared(function, todo, wanted, hold)


def _shared(function: Callable[[T], R], todo: list[T], threads: int, hold: bool) -> list[R]:
    """The same by threads that each take the next piece: one hand-over for each thread, not for each piece."""
    found: dict[int, R] = {}
    failed: dict[int, Exception] = {}
    left = iter(range(len(todo)))  # one step of it is one step of the interpreter: no two threads take the same
    torch = sys.modules.get("torch") if hold else None
    before = 1 if torch is None else int(torch.get_num_threads())  # of the caller: not 1 where torch came while held

    def work() -> None:
        _inside.pool = True
        try:
            if torch is not None:  # MKL counts threads for each thread that calls it: a new one would use all cores,
                torch.set_num_threads(1)  # and the bits of a product depend on that
            for i in left:
                try:
                    found[i] = function(todo[i])
                except Exception as error:
                    failed[i] = error
                    deque(left, maxlen=0)  # no other piece is begun
        finally:
            _inside.pool = False

    others = [_executor(threads).submit(work) for _ in range(threads - 1)]
    try:
        work()
    except BaseException:  # Ctrl-C: the others end with their piece
        deque(left, maxlen=0)
        raise
    finally:
        if torch is not None and before != 1:
            torch.set_num_threads(before)
    for other in others:
        if not other.cancel():
            other.result()
    if failed:
        raise failed[min(failed)]
    return [found[i] for i in range(len(todo))]


@contextmanager
def one_pool() -> Iterator[None]:
    """Hold the threads of BLAS, OpenMP and torch to one each; nested calls cost nothing."""
    with _lock:
        if not _held:
            _held.append(_hold())
            mine = True
        else:
            mine = False
    try:
        yield
    finally:
        if mine:
            with _lock:
                _release(_held.pop())


def held() -> bool:
    """Whether the pools of the libraries rest, by `one_pool`: what they would share among threads, `over` may."""
    return bool(_held)


def _hold() -> tuple[Any, int | None]:
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    torch = sys.modules.get("torch")
    before = None if torch is None else int(torch.get_num_threads())
    if torch is not None and before != 1:
        torch.set_num_threads(1)
    return threadpool_limits(1), before


def _release(before: tuple[Any, int | None]) -> None:
    limits, torch_threads = before
    limits.restore_original_limits()
    if torch_threads is not None and torch_threads != 1:
        sys.modules["torch"].set_num_threads(torch_threads)


def _executor(threads: int) -> ThreadPoolExecutor:
    """The pool of this process; a forked child has none of its parent's threads and makes its own."""
    global _pool
    with _lock:
        if _pool is None or _pool[0] != os.getpid() or _pool[1] < threads:
            if _pool is not None and _pool[0] == os.getpid():
                _pool[2].shutdown(wait=False)
            size = max(threads, cores())
            _pool = (os.getpid(), size, ThreadPoolExecutor(size, thread_name_prefix="tuplet"))
        return _pool[2]


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quota() -> int | None:
    """Cores that the cgroup of this process, or one around it, may use; None without a limit. Read once a second."""
    return _quota_at(_GROUPS, _OWN_GROUP, int(time.monotonic()))


@lru_cache(maxsize=1)
def _quota_at(groups: Path, own: Path, second: int) -> int | None:
    found = [_limit(folder) for folder in _group_folders(groups, own)]
    return min((limit for limit in found if limit is not None), default=None)


def _group_folders(groups: Path, own: Path) -> list[Path]:
    """Folders of the process' cgroups, of version 2 and of the cpu controller of version 1, and of those around."""
    folders = [groups, groups / "cpu"]
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        lines = []
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if controllers == "" or "cpu" in controllers.split(","):
            inner = (groups / "cpu" if controllers else groups) / path.strip("/")
            folders += [inner, *(above for above in inner.parents if groups in above.parents)]
    return folders


def _limit(folder: Path) -> int | None:
    """Cores by the quota in one cgroup's folder (`cpu.max`, or version 1's two files)."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        return math.ceil(int(quota) / int(period)) if int(quota) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None  # "max", or no such file


def _told(name: str) -> int | None:
    value = os.environ.get(name, "").split(",")[0]
    return int(value) if value.isdigit() and int(value) > 0 else None
