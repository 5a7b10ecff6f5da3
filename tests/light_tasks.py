"""Tasks for the tests of engines; a node imports this file, so it imports little."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tuplet._check import InputError


def once_killed(folder: str) -> str:
    """A task whose worker is killed the first time."""
    mark = Path(folder) / "tried"
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def refused(text: str) -> None:
    """A task that cannot use what it is given."""
    raise InputError(text)
