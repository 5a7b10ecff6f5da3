"""Which processes a launcher has started, by what /proc tells."""

from __future__ import annotations

from pathlib import Path


def processes() -> dict[int, int]:
    """The parent of each process that is no zombie."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:2]
            except OSError:
                continue
            if state != "Z":
                found[int(entry.name)] = int(parent)
    return found


def below(pid: int) -> set[int]:
    """All processes that a process and those below it have started."""
    parents = processes()
    found: set[int] = set()
    last = {pid}
    while last:
        last = {child for child, parent in parents.items() if parent in last}
        found |= last
    return found


def workers_of(launcher: int) -> list[int]:
    """What the process that a launcher has started has started itself: the workers."""
    parents = processes()
    return sorted(pid for pid, parent in parents.items() if parents.get(parent) == launcher)
