"""From a sample and what the user said to an encoder, a role and a block for each column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tuplet._check import InputError, check_choice, did_you_mean, option
from tuplet.io.preparation._encoders import Categories, Dates, Encoder, Numbers, Plain, Vectors, Words
from tuplet.io.preparation._roles import LABEL_NAMES, ROLES, find_role, like_numbers
from tuplet.io.preparation.values import is_number, missing_of

if TYPE_CHECKING:
    import pyarrow as pa

Left = tuple[str, str, int, float, str]  # name, role, width 0, missing, note
_SCALARS = ("number", "boolean", "date")


@dataclass(frozen=True)
class Column:
    """A column in use: its encoder, the role it plays, the block that it weighs with, and its factor."""

    encoder: Encoder
    role: str
    block: str
    factor: float = 1.0
    missing: float = 0.0
    note: str = ""


@dataclass(frozen=True)
class ColumnPlan:
    """What was asked for; see `Preparation.fit`."""

    id: str | None
    label: str | None
    columns: tuple[str, ...] | None
    exclude: tuple[str, ...]
    roles: dict[str, str]
    separators: dict[str, str | None]
    scale: bool
    gaps: bool


def plan_columns(sample: pa.Table, plan: ColumnPlan) -> tuple[tuple[Column, ...], list[Left]]:
    """The columns in use, in the order asked for, and those left out with the reason."""
    names = _checked_names(sample, plan)
    asked = {*(plan.columns or ()), *plan.roles, *plan.separators}
    found = {name: _role(name, sample, plan, asked) for name in names}
    alike = like_numbers(sample, {name: role for name, (role, _) in found.items() if name not in plan.roles})
    out = [name for name, (role, _) in found.items() if role.startswith("out:") and name not in alike]
    left = [_left(name, *found[name], sample) for name in out]
    order = [name for name in plan.columns or names if name not in set(out)]
    if not order:
        why = "; ".join(f"{line[0]}: {line[-1]}" for line in left[:5]) or "there is none"
        raise InputError(f"No column can be used as a feature ({why}). Give others, or name one: {option('columns')}")
    return tuple(_planned(name, found[name][0], sample, plan, name in alike) for name in order), left


def _left(name: str, role: str, note: str, sample: pa.Table) -> Left:
    return name, role.removeprefix("out:"), 0, float(missing_of(sample.column(name)).mean()), note


def _role(name: str, sample: pa.Table, plan: ColumnPlan, asked: set[str]) -> tuple[str, str]:
    """The role of a column and a note: as asked for, else by its name, else by its values."""
    reason = _left_by_name(name, plan, asked)
    if reason is not None:
        return reason, _REASONS[reason]
    if name in plan.roles or name in plan.separators:
        return plan.roles.get(name, "tokens"), ""
    role, note = find_role(name, sample.column(name))
    return (
        (_natural(role, sample.column(name), name), "") if role.startswith("out:") and name in asked else (role, note)
    )


_REASONS = {
    "out:id": "the ids of the nodes",
    "out:label": "left out: a label is no feature",
    "out:excluded": "left out as asked",
}


def _checked_names(sample: pa.Table, plan: ColumnPlan) -> list[str]:
    names: list[str] = sample.column_names
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise InputError(f"Two columns have the name {twice!r}. Rename one of them.")
    for name in (*(plan.columns or ()), *plan.exclude, *plan.roles, *plan.separators):
        if name not in names:
            raise InputError(
                f"There is no column {name!r}.{did_you_mean(name, names)} The columns are: {', '.join(names)}."
            )
    for role in plan.roles.values():
        check_choice("role", role, ROLES)
    return names


def _left_by_name(name: str, plan: ColumnPlan, asked: set[str]) -> str | None:
    if name == plan.id:
        return "out:id"
    if name in plan.exclude or (plan.columns is not None and name not in plan.columns):
        return "out:excluded"
    if name == plan.label or (name.lower() in LABEL_NAMES and name not in asked):
        return "out:label"
    return None


def _natural(role: str, column: Any, name: str) -> str:
    """The role of a column that was asked for though it would be left out."""
    if role == "out:empty":
        raise InputError(f"Column {name!r} has no value at all. Leave it out: {option('exclude', [name])}.")
    return "number" if is_number(column.type) else "category"


def _planned(name: str, role: str, sample: pa.Table, plan: ColumnPlan, alike: bool) -> Column:
    column = sample.column(name)
    if missing_of(column).all() and not alike:
        raise InputError(f"Column {name!r} has no value at all. Leave it out: {option('exclude', [name])}.")
    if alike:
        return Column(
            Plain.fit(name, column, gaps=False), "plain", "plain", note="one of many like numbers, as it is"
        )
    role, _, mark = role.partition(":")
    separator = plan.separators.get(name, mark or None)
    return Column(_fitted(name, role, column, separator, plan), role, _block_of(name, role))


def _fitted(name: str, role: str, column: Any, separator: str | None, plan: ColumnPlan) -> Encoder:
    if role in ("boolean", "plain") or (role == "number" and not plan.scale):
        return Plain.fit(name, column, gaps=plan.gaps and role != "plain")
    if role == "number":
        return Numbers.fit(name, column, gaps=plan.gaps)
    if role == "date":
        return Dates.fit(name, column, gaps=plan.gaps)
    if role == "category":
        return Categories.fit(name, column, gaps=plan.gaps, merge=plan.scale)
    if role == "vector":
        return Vectors.fit(name, column)
    return Words.fit(name, column, split=role == "text", separator=separator, weighted=plan.scale)


def _block_of(name: str, role: str) -> str:
    """Numbers, booleans and dates weigh together, and so do categories; every other column is a block."""
    if role in _SCALARS:
        return "numbers"
    return "categories" if role == "category" else "plain" if role == "plain" else f"column {name}"
