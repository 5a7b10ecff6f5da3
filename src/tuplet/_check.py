"""Argument checks for the public edge: one error type, three-part texts.

Every message says what happened, what was given and what to do. Inner code trusts its arguments.
"""

from __future__ import annotations

import difflib
import math
import operator
import os
import tempfile
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:  # the command line's help does not wait for NumPy
    import numpy as np

T = TypeVar("T")


class InputError(ValueError):
    """The user gave something that cannot be used; the text, always one line, says what, and what to do instead."""

    def __init__(self, text: str) -> None:
        super().__init__(" ".join(text.split("\n")) if "\n" in text else text)


SPELLING: ContextVar[str] = ContextVar("SPELLING", default="python")  # or "flags": how hints name options


def option(name: str, value: Any = None) -> str:
    """An option as the user would write it: a Python argument, or a flag where SPELLING says "flags".

    >>> option("unmatched", "keep"), option("header", False), option("columns", ["a", "b"]), option("label")
    ("unmatched='keep'", 'header=False', "columns=['a', 'b']", 'label=..')
    >>> token = SPELLING.set("flags")
    >>> option("unmatched", "keep"), option("header", False), option("columns", ["a", "b"]), option("label")
    ('--unmatched keep', '--no-header', '--columns a,b', '--label ..')
    >>> option("roles", {"size": "number", "my kind": "category"})
    '--roles "size=number,my kind=category"'
    >>> SPELLING.reset(token)
    """
    if SPELLING.get() != "flags":
        return f"{name}={'..' if value is None else repr(value)}"
    flag = name.removeprefix("n_").replace("_", "-")  # n_clusters is --clusters
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    if isinstance(value, str) or value is None:
        text = ".." if value is None else f'"{value}"' if " " in value else value
        return f"--{flag} {text}"
    if isinstance(value, Mapping):
        value = [f"{key}={one}" for key, one in value.items()]
    text = ",".join(map(str, value)) if isinstance(value, Iterable) else str(value)
    return f'--{flag} "{text}"' if " " in text else f"--{flag} {text}"


def did_you_mean(value: Any, known: Iterable[Any]) -> str:
    """ " Did you mean 'x'?" for the known name that is most like `value`; nothing if none is."""
    near = difflib.get_close_matches(str(value), [str(name) for name in known], n=1, cutoff=0.4)
    return f" Did you mean {near[0]!r}?" if near else ""


class MissingExtraError(ImportError):
    """An optional dependency is not installed; the text holds the pip command."""


def check_int(name: str, value: Any, *, minimum: int = 1, maximum: int | None = None) -> int:
    """`value` as a Python int within [minimum, maximum]."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{name} must be a whole number, got {value!r}.") from None
    if number < minimum or (maximum is not None and number > maximum):
        upper = "" if maximum is None else f" and at most {maximum}"
        raise InputError(f"{name} must be at least {minimum}{upper}, got {number}.")
    return number


def check_number(
    name: str,
    value: Any,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """`value` as a finite float within the interval; `open_*` leaves the end point out."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be a number, got {str(value)[:80]!r}.") from None
    too_low = number <= low if open_low else number < low
    too_high = number >= high if open_high else number > high
    if not math.isfinite(number) or too_low or too_high:
        left, right = ("(" if open_low else "["), (")" if open_high else "]")
        raise InputError(f"{name} must lie in {left}{low:g}, {high:g}{right}, got {value!r}.")
    return number


def check_choice(name: str, value: T, choices: Iterable[T]) -> T:
    """`value` if it is one of `choices`; else an error that lists them and suggests the nearest."""
    known = list(choices)
    if value in known:
        return value
    raise InputError(
        f"{name} {value!r} is not known.{did_you_mean(value, known)} Choose one of: {', '.join(map(str, known))}."
    )


def all_finite(values: np.ndarray[Any, Any]) -> bool:
    """Whether no value is NaN or infinite; float16 by its bits, with which NumPy is five times as fast."""
    import numpy as np

    if values.dtype != np.float16:
        return bool(np.isfinite(values).all())
    exponent = np.uint16(0x7C00)
    return bool(((values.view(np.uint16) & exponent) != exponent).all())


def check_finite(
    name: str, values: np.ndarray[Any, Any], hint: str = "Remove or replace these values first."
) -> None:
    """Raise if `values` holds NaN or infinity, with the count and the first place. Blockwise: no n x f mask."""
    import numpy as np

    from tuplet._memory import forget_pages

    if values.dtype.kind not in "fc":
        return
    rows = max(1, 2**22 // max(1, int(np.prod(values.shape[1:]))))
    for start in range(0, values.shape[0], rows):
        block = values[start : start + rows]
        finite = all_finite(block)
        forget_pages(values)
        if finite:
            continue
        bad = np.argwhere(~np.isfinite(block))
        where = bad[0] + np.r_[start, np.zeros(values.ndim - 1, dtype=int)]
        place = tuple(int(i) for i in where)
        raise InputError(f"{name} holds NaN or infinity, first at {place}. {hint}")


def check_labels(name: str, y: Any, n: int) -> np.ndarray[Any, Any]:
    """`y` as int64 (n,), classes 0.. and -1 for unknown."""
    import numpy as np

    labels = np.asarray(y)
    if labels.shape != (n,):
        raise InputError(
            f"{name} has shape {labels.shape} but there are {n} nodes. Give one label a node, -1 for unknown."
        )
    if labels.dtype.kind not in "iub":
        raise InputError(f"{name} must hold integers (0, 1, .., and -1 for unknown), got {labels.dtype}.")
    labels = labels.astype(np.int64)
    if labels.size and labels.min() < -1:
        raise InputError(f"{name} holds {labels.min()}. Labels are 0, 1, .. and -1 for unknown.")
    return labels


def is_there(path: str | os.PathLike[str]) -> bool:
    """Whether there is a file or folder of that name; False also for names that no file can have.

    >>> is_there("x" * 5000)
    False
    """
    return os.path.exists(path)  # noqa: PTH110 (Path.exists raises where the name is too long)


def check_out_path(path: str | os.PathLike[str]) -> Path:
    """`path` as a Path whose parent exists and can be written to."""
    target = Path(path)
    parent = target.parent
    if not parent.is_dir():
        raise InputError(
            f"The folder {parent} does not exist. Make it first, or choose another place for {target.name}."
        )
    try:
        with tempfile.TemporaryFile(dir=parent):  # rights alone do not tell: full, read-only, of the system
            pass
    except OSError as error:
        why = f"cannot be written to ({error.strerror})"
        raise InputError(f"The folder {parent} {why}. Choose another place for {target.name}.") from None
    return target


def parse_bytes(size: int | str, what: str = "memory") -> int:
    """Bytes from 2_000_000_000, "2GB", "512MB" or "1.5GiB".

    >>> parse_bytes("2GB"), parse_bytes("1KiB"), parse_bytes(7)
    (2000000000, 1024, 7)
    """
    if isinstance(size, int):
        return check_int(what, size)
    units = {"": 1, "B": 1}
    for power, letter in enumerate("KMGT", start=1):
        units |= {letter: 1000**power, f"{letter}B": 1000**power, f"{letter}IB": 1024**power}
    text = str(size).strip().upper().replace(" ", "")
    digits = text.rstrip("BIKMGT")
    try:
        return check_int(what, int(float(digits) * units[text[len(digits) :]]))
    except InputError:
        raise
    except (ValueError, KeyError, OverflowError):
        raise InputError(f'{what} {size!r} is not a size. Write it like "2GB", "512MB" or as bytes.') from None


def need_extra(module: str, extra: str, what: str) -> Any:
    """The imported optional `module`, or an error with the pip command that installs it."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{what} needs {module}, which is not installed. Run: pip install 'tuplet[{extra}]'"
        ) from error
