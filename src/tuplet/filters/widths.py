"""How many columns of the features are filtered at a time."""

from __future__ import annotations

WORK = 2**25  # multiply-adds of a hop over one block, some 20 ms: enough to wake the threads for
LEAST_COLUMNS = 16  # of a task: with fewer, reading the edges costs more than the products


def free_width(n: int, stored: int, f: int) -> int:
    """Columns of a block where memory does not matter: 64 or 128, more only where a hop is too little work.

    Narrow blocks lie close in memory: 128 columns take 3/4 of the time that they take as a part of 1024. Of middling
    graphs (128 columns are 16 to 256 MB) the caches hold more rows of 64 columns: a tenth faster.
    """
    columns = 64 if 2**15 < n <= 2**19 else 128
    return min(f, columns * -(-WORK // (columns * (stored + n))))


def task_width(f: int, columns: int, places: int) -> int:
    """Columns of a task: no more than `columns`, so few that all places have work, and at least 16.

    >>> task_width(256, 128, 3), task_width(256, 128, 100), task_width(256, 64, 1)
    (96, 16, 64)
    """
    share = -(-f // places)
    return min(columns, max(LEAST_COLUMNS, -(-share // LEAST_COLUMNS) * LEAST_COLUMNS))


def device_width(n: int, stored: int, f: int, free: float) -> int:
    """Columns of a block such that the graph and five blocks fit `free` bytes of a device; at most 128, 0 for none.

    >>> device_width(10**8, 2 * 10**9, 128, 140e9), device_width(10**7, 2 * 10**8, 100, 140e9)
    (32, 100)
    """
    room = 0.9 * free - stored * 24 - n * 64  # 24: indices, values and the temporaries that make them
    columns = max(0, int(min(128, room // (5 * 4 * n))))
    return min(f, columns if columns < 16 else columns // 16 * 16)  # rows of whole cache lines
