"""What a setting does on the whole, read off the trials: the draws are random, so the mean over all trials with a
value is that value's effect, whatever the other settings were.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from tuplet.bench.protocol import FIRST_TRIAL_SEED
from tuplet.bench.report.legend import BLOCKS, OURS
from tuplet.bench.report.tables import markdown_table, spec_name
from tuplet.bench.rows import Row
from tuplet.bench.tune import OBJECTIVES
from tuplet.models.registry import default_method

Effect = tuple[float, float, int]  # mean difference from the graph's mean, its standard error, trials


def effects(rows: Iterable[Row], task: str, method: str, spec: str) -> dict[str, dict[str, Effect]]:
    """Setting -> value -> its effect on the objective in points, over the first trials of a spec on all graphs.

    A score counts as its difference from the mean of its graph's trials. Settings with one value are left out.
    """
    by_graph: dict[str, list[tuple[Mapping[str, Any], float]]] = {}
    for row in rows:
        job = (row["task"], row["method"], row["usage"], spec_name(row), int(row["seed"]))
        wanted = job == (task, method, "all", spec, FIRST_TRIAL_SEED)
        value = row.get("metrics", {}).get(OBJECTIVES[task]) if wanted else None
        if value is not None:
            by_graph.setdefault(row["dataset"], []).append((_flat(row["settings"]), float(value)))
    found: dict[str, dict[str, list[float]]] = {}
    for trials in by_graph.values():
        middle = fmean(score for _, score in trials)
        for settings, score in trials:
            for name, value in settings.items():
                found.setdefault(name, {}).setdefault(str(value), []).append(score - middle)
    several = {name: values for name, values in found.items() if len(values) > 1}
    return {name: {v: _effect(gaps) for v, gaps in values.items()} for name, values in several.items()}


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    inner = {f"evaluate.{name}": value for name, value in settings.get("evaluate", {}).items()}
    return {name: value for name, value in settings.items() if not isinstance(value, Mapping)} | inner


def _effect(gaps: Sequence[float]) -> Effect:
    error = stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else math.inf
    return fmean(gaps), error, len(gaps)


def sensitivity_section(rows: Sequence[Row]) -> list[str]:
    """A table of settings and values by tasks for each of our tuned lines, from its trials."""
    parts = []
    for spec in OURS:
        lines = effect_lines(rows, spec)
        tasks = list(dict.fromkeys(task for line in lines.values() for task in line))
        table = [[name, *(_cell(line.get(task)) for task in tasks)] for name, line in lines.items()]
        title = f"**{default_method(recipe=True)}{BLOCKS[spec][1]}**"
        parts += [title, markdown_table(["setting", *tasks], table)] if lines else []
    about = (
        "From the trials of block (b): each value's mean difference from the mean of its graph's trials, "
        "in points on the validation part, ± its standard error; the other settings were drawn at random. Where a "
        "value is less than two errors from 0, the trials do not tell it from the others."
    )
    return ["## Sensitivity, from the trials", about, *parts] if parts else []


def effect_lines(rows: Sequence[Row], spec: str) -> dict[str, dict[str, Effect]]:
    """ "setting = value" -> task -> effect, for our method as tuned by `spec`; values in order."""
    tasks = {task: effects(rows, task, default_method(recipe=True), spec) for task in OBJECTIVES}
    lines = {}
    for name in dict.fromkeys(name for found in tasks.values() for name in found):
        values = {value for found in tasks.values() for value in found.get(name, {})}
        for value in sorted(values, key=_order):
            lines[f"{name} = {value}"] = {t: found[name][value] for t, found in tasks.items() if name in found}
    return lines


def _order(value: str) -> tuple[float, str]:
    try:
        return float(value), value
    except ValueError:
        return math.inf, value


def _cell(effect: Effect | None) -> str:
    if effect is None:
        return "-"
    mean, error, _ = effect
    text = f"{mean:+.1f} ±{error:.1f}"
    return f"**{text}**" if abs(mean) > 2 * error else text
