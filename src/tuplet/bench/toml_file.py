"""A TOML file that somebody wrote by hand -> plain data, or one line that says what is wrong with it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, TypeVar

from tuplet._check import InputError

T = TypeVar("T")
KINDS = {str: "text", list: "a list", dict: "a table", bool: "true or false"}


def read_toml(file: Path) -> tuple[dict[str, Any], str]:
    """The data and the text of `file`."""
    try:
        text = file.read_bytes().decode()
        return tomllib.loads(text), text
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file} is not UTF-8 text ({error.reason} at byte {error.start}). Save it as UTF-8."
        ) from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{file} is not valid TOML: {error}.") from None


def check_kind(name: str, value: Any, kind: type[T], example: str) -> T:
    """`value` if it is of `kind`, else an error with an `example` of what to write.

    >>> check_kind("seeds", 3, list, "seeds = [1, 2]")
    Traceback (most recent call last):
    tuplet._check.InputError: seeds must be a list, got 3. Write it like this: seeds = [1, 2]
    """
    if isinstance(value, kind):
        return value
    raise InputError(f"{name} must be {KINDS[kind]}, got {value!r}. Write it like this: {example}")


def check_names(name: str, value: Any, example: str) -> tuple[str, ...]:
    """`value` as a tuple of texts; a text alone is an error, for its letters are no names."""
    found = check_kind(name, value, list, example)
    return tuple(check_kind(f"an entry of {name}", entry, str, example) for entry in found)
