"""Checks of what a file says about a preparation: each value is of the kind that its field asks for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

MOST_WIDTH = 10**6  # columns of one encoder


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_WIDTH


def _are_texts(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, str) for item in value)


_KINDS: dict[str, Callable[[Any], bool]] = {
    "str": lambda value: isinstance(value, str),
    "str | None": lambda value: value is None or isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "int": _is_count,
    "float": _is_number,
    "tuple[str, ...]": _are_texts,
}


def check_fields(kind: type, values: Mapping[str, Any]) -> None:
    """Raise ValueError where a value does not fit its field of the dataclass `kind`; other fields are left alone."""
    for part in fields(kind):
        if part.name in values:
            check_value(part.name, str(part.type), values[part.name])
    if values.get("scale") == 0:
        raise ValueError("scale is 0")


def check_value(name: str, kind: str, value: Any) -> None:
    """Raise ValueError where `value` is not of the `kind` of a type hint."""
    fits = _KINDS.get(kind)
    if fits is not None and not fits(value):
        raise ValueError(f"{name} is {str(value)[:40]!r}")
