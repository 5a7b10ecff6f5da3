"""What ends a command: one line on standard error and an exit code.

0 done; 1 something given cannot be used, or a failure; 2 wrong usage; 130 interrupted. The traceback of an error is
shown with `tuplet --debug` or TUPLET_DEBUG=1.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from tuplet._check import SPELLING, InputError, MissingExtraError

FAILED, INTERRUPTED = 1, 130


class Commands(TyperGroup):
    """The verbs, with one place where errors become a line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the verb; hints of the library name flags, not Python's arguments."""
        spelling = SPELLING.set("flags")
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            sys.stderr.write(f"interrupted: {one_line(InputError(str(stop)))}\n" if str(stop) else "interrupted\n")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read has gone; nothing to say
            raise typer.Exit(FAILED) from None
        except Exception as error:
            if hasattr(error, "exit_code") or isinstance(error, typer.Abort) or debugging():
                raise  # usage and exits are typer's
            sys.stderr.write(f"error: {one_line(error)}\n")
            raise typer.Exit(FAILED) from None
        finally:
            SPELLING.reset(spelling)


def debugging() -> bool:
    """Whether tracebacks are wanted."""
    return "--debug" in sys.argv or os.environ.get("TUPLET_DEBUG", "") not in ("", "0")


def one_line(error: BaseException) -> str:
    """What to tell the user of an error."""
    text = " ".join(str(error).split())
    if isinstance(error, InputError | MissingExtraError):
        return text
    if isinstance(error, MemoryError) or "out of memory" in text.lower() or "can't allocate memory" in text:
        asked = f" ({text})" if text else ""
        return f"Not enough memory{asked}. Give --memory and --cache where the method has them, or a smaller graph."
    if isinstance(error, OSError):
        return f"{text}. Check the path, its rights and the space on the disk."
    return f"Unexpected {type(error).__name__}: {text[:300]}. Set TUPLET_DEBUG=1 to see where, and please report it."
