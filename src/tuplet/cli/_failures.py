"""What ends a verb: one line on standard error and an exit code.

The traceback of an error is shown with `tuplet --debug` or TUPLET_DEBUG=1.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from tuplet._check import SPELLING, InputError, MissingExtraError
from tuplet.cli._codes import FAILED, INTERRUPTED
from tuplet.cli._hints import add_hint

# What NumPy, torch and the system's loader say.
_NO_MEMORY = ("out of memory", "can't allocate memory", "cannot allocate memory", "failed to map segment")
# What gloo and NCCL say when another process of theirs is gone.
_LOST = ("gloo/transport", "remote process exited")


class Commands(TyperGroup):
    """The verbs, with one place where errors become a line and an exit code."""

    def make_context(self, *args: Any, **more: Any) -> Any:
        """What was typed, parsed; typer would end without a word on Ctrl-C."""
        try:
            return super().make_context(*args, **more)
        except KeyboardInterrupt as stop:
            raise _interrupted(stop) from None

    def invoke(self, ctx: Any) -> Any:
        """Run the verb; hints of the library name flags, not Python's arguments."""
        spelling = SPELLING.set("flags")
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            raise _interrupted(stop) from None
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read has gone; nothing to say
            raise typer.Exit(FAILED) from None
        except Exception as error:
            if hasattr(error, "exit_code"):
                add_hint(error)  # usage and exits are typer's
            if hasattr(error, "exit_code") or isinstance(error, typer.Abort) or debugging():
                raise
            sys.stderr.write(f"error: {one_line(error)}\n")
            if isinstance(error, InputError):
                _tell_launcher()
            raise typer.Exit(FAILED) from None
        finally:
            SPELLING.reset(spelling)


def _interrupted(stop: KeyboardInterrupt) -> typer.Exit:
    """The end after Ctrl-C; its line is written here."""
    sys.stderr.write(f"interrupted: {one_line(InputError(str(stop)))}\n" if str(stop) else "interrupted\n")
    return typer.Exit(INTERRUPTED)


def _in_use() -> str:
    """What this process has, where an error does not say what was asked for."""
    import resource

    from tuplet._memory import address_space

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    told = "" if limit == resource.RLIM_INFINITY else f" of {limit / 1e9:.2f} GB that the system lets it have"
    return f"the process has {address_space() / 1e9:.2f} GB of address space{told}"


def _tell_launcher() -> None:
    """A worker that cannot use what it was given is not started again."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        from tuplet.engines.launch import give_up

        give_up()


def debugging() -> bool:
    """Whether tracebacks are wanted."""
    return "--debug" in sys.argv or os.environ.get("TUPLET_DEBUG", "") not in ("", "0")


def one_line(error: BaseException) -> str:
    """What to tell the user of an error."""
    text = " ".join(str(error).split())
    if isinstance(error, InputError | MissingExtraError):
        return text
    if isinstance(error, MemoryError) or any(words in text.lower() for words in _NO_MEMORY):
        hint = "Give --memory and --cache where the method has them, or a smaller graph."
        return f"Not enough memory ({text or _in_use()}). {hint}"
    if any(words in text for words in _LOST):
        cause = text.rpartition("] ")[2].partition(". ")[0][:200]
        return f"Another worker is gone ({cause}). The launchers start all of them again; run one that is gone again."
    if isinstance(error, OSError):
        return f"{text}. Check the path, its rights and the space on the disk."
    return f"Unexpected {type(error).__name__}: {text[:300]}. Set TUPLET_DEBUG=1 to see where, and please report it."
