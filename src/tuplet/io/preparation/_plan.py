"""From a sample and what the user said to an encoder, a role and a block for each column."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tuplet._check import InputError, check_choice
from tuplet.io.preparation._encoders import Categories, Dates, Encoder, Numbers, Plain, Vectors, Words
from tuplet.io.preparation._roles import LABEL_NAMES, ROLES, find_role, like_numbers
from tuplet.io.preparation._values import missing_of

if TYPE_CHECKING:
    import pyarrow as pa

Planned = tuple[Encoder, str, str, str]  # encoder, role, block, note
Left = tuple[str, str, int, float, str]  # name, role, width 0, missing, note
_SCALARS = ("number", "boolean", "date")


@dataclass(frozen=True)
class Plan:
    """What was asked for; see `Preparation.fit`."""

    id: str | None
    label: str | None
    columns: tuple[str, ...] | None
    exclude: tuple[str, ...]
    roles: dict[str, str]
    separators: dict[str, str | None]
    scale: bool
    gaps: bool


def plan_columns(sample: pa.Table, plan: Plan) -> tuple[list[Planned], list[Left]]:
    """The columns in use, and those left out with the reason."""
    names = _checked_names(sample, plan)
    asked = {*(plan.columns or ()), *plan.roles, *plan.separators}
    roles, left = {}, []
    for name in names:
        reason = _left_by_name(name, plan, asked)
        found = reason or plan.roles.get(name) or ("tokens" if name in plan.separators else None)
        roles[name], note = (found, "") if found else find_role(name, sample.column(name))
        if roles[name].startswith("out:") and name in asked and not reason:
            roles[name] = _natural(roles[name], sample.column(name), name)
        if roles[name].startswith("out:"):
            note = note or _REASONS[roles[name]]
            left.append((name, roles[name][4:], 0, float(missing_of(sample.column(name)).mean()), note))
    alike = like_numbers(sample, {name: role for name, role in roles.items() if name not in plan.roles})
    used = [_planned(name, roles[name], sample, plan, name in alike) for name in names
            if not roles[name].startswith("out:") or name in alike]  # fmt: skip
    left = [line for line in left if line[0] not in alike]
    if not used:
        raise InputError(f"No column can be used as a feature. {_why(left)} Give other columns, or name one in columns=.")
    ordered = list(plan.columns) if plan.columns is not None else names
    return sorted(used, key=lambda found: ordered.index(found[0].name)), left


_REASONS = {
    "out:id": "the ids of the nodes",
    "out:label": "left out: a label is no feature",
    "out:excluded": "left out as asked",
}


def _checked_names(sample: pa.Table, plan: Plan) -> list[str]:
    names: list[str] = sample.column_names
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise InputError(f"Two columns have the name {twice!r}. Rename one of them.")
    for name in (*(plan.columns or ()), *plan.exclude, *plan.roles, *plan.separators):
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise InputError(f"There is no column {name!r}. The columns are: {', '.join(names)}.{hint}")
    for role in plan.roles.values():
        check_choice("role", role, ROLES)
    return names


def _left_by_name(name: str, plan: Plan, asked: set[str]) -> str | None:
    if name == plan.id:
        return "out:id"
    if name in plan.exclude or (plan.columns is not None and name not in plan.columns):
        return "out:excluded"
    if name == plan.label or (name.lower() in LABEL_NAMES and name not in asked):
        return "out:label"
    return None


def _natural(role: str, column: Any, name: str) -> str:
    """The role of a column that was asked for though it would be left out."""
    from tuplet.io.preparation._values import is_number

    if role == "out:empty":
        raise InputError(f"Column {name!r} has no value at all. Leave it out.")
    return "number" if is_number(column.type) else "category"


def _planned(name: str, role: str, sample: pa.Table, plan: Plan, alike: bool) -> Planned:
    column = sample.column(name)
    if missing_of(column).all() and not alike:
        raise InputError(f"Column {name!r} has no value at all. Leave it out.")
    if alike:
        return Plain.fit(name, column, gaps=False), "plain", "plain", "one of many like numbers, as they are"
    role, _, mark = role.partition(":")
    separator = plan.separators.get(name, mark or None)
    return _fitted(name, role, column, separator, plan), role, _block_of(name, role), ""


def _fitted(name: str, role: str, column: Any, separator: str | None, plan: Plan) -> Encoder:
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


def _why(left: list[Left]) -> str:
    return "; ".join(f"{name}: {note}" for name, _, _, _, note in left[:5]) + "." if left else "There is none."
