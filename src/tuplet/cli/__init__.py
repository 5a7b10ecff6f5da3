"""The command line: parses, calls the library, draws progress, prints. The verbs are put together in `_verbs`.

This file loads nothing: Ctrl-C is answered in one line from here on, also while the rest is loaded.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from tuplet.cli._codes import INTERRUPTED


def main() -> None:
    """Entry point of the `tuplet` command, for a process of its own: `_verbs.run` is the call for inside of others.

    Ctrl-C at any moment ends in one line and exit code 130; once the verb is over it is not heard any more.
    """
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a job in the background ignores it
    if heard:
        signal.signal(signal.SIGINT, _leave)  # an exception inside of an import may be swallowed, or become another
    from tuplet.cli._verbs import run

    try:
        if heard:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:  # before a verb had begun, or a second one while the first was answered
        sys.stderr.write("interrupted\n")
        _end(INTERRUPTED)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            _end(INTERRUPTED)
        raise
    finally:
        if heard:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end(code: int) -> None:
    """End with that code. All is cleaned up; what Ray does while Python ends may crash after an interruption."""
    if "ray" not in sys.modules:
        sys.exit(code)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _leave(number: int, frame: Any) -> None:
    """End at once: nothing has been begun."""
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


def __getattr__(name: str) -> Any:
    if name == "app":
        from tuplet.cli._verbs import app

        return app
    raise AttributeError(f"module 'tuplet.cli' has no attribute {name!r}")
