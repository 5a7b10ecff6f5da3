"""`tuplet bench tune`: settings chosen by random search under docs/protocol.md, the same for ours and for rivals.

A [[methods]] block of a spec with a `space` is tuned, cell by cell (dataset, task): `SETTINGS` drawn from the space
are tried with the first trial seed, the best `FINALISTS` again with two more, and the best mean is written to the
file that the block's `settings_from` names, where `tuplet bench run` finds it. Rows of trials hold validation scores
only; their seeds start at 100.

```toml
[[methods]]
name = "DMAT-i"
settings_from = "chosen.toml"
settings = { n_views = 2 }       # held fixed
[methods.space]                  # lists of values, drawn from independently
alpha = [0.05, 0.1, 0.3]
[methods.space.clustering]       # for one task; a dot goes into a table
"evaluate.unit_rows" = [true, false]
```
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from tuplet._check import InputError
from tuplet._files import new_file
from tuplet._seed import stream
from tuplet.bench.protocol import FIRST_TRIAL_SEED
from tuplet.bench.recipes import merged
from tuplet.bench.rows import Row, read_rows
from tuplet.bench.run import RunState, run_jobs
from tuplet.bench.spec import Job, Spec, chosen_name, digest, matches
from tuplet.bench.workers import Workers

SETTINGS, FINALISTS, SEEDS_EACH = 30, 5, 3  # 30 + 5 * 2 = 40 fits
OBJECTIVES = {"clustering": "val_accuracy", "classification": "val_accuracy", "links": "val_auc"}
PROTOCOL = {"evaluate": {"split": "protocol"}}
Cell = tuple[str, str, str, str]  # task, dataset, method, usage


def tune(
    spec: Spec,
    *,
    out: str | Path,
    only: Sequence[str] = (),
    device: str = "auto",
    jobs: int = 1,
    pool: Workers | None = None,
    deadline: float | None = None,
    on_row: Callable[[Row], None] | None = None,
    on_state: Callable[[RunState], None] | None = None,
) -> Path:
    """Run the trials that `out` does not hold yet, or holds as failed, and write the choices; the file of those."""
    cells = tuned_cells(spec, only)
    if not cells:
        raise InputError(f"{spec.name} has no [[methods]] block with a `space` that fits {', '.join(only) or 'it'}.")
    how: Any = {"device": device, "out": out, "jobs": jobs, "pool": pool, "deadline": deadline}
    how |= {"on_row": on_row, "on_state": on_state, "edit": validation_only, "retry_errors": True}
    run_jobs([trial for first in cells.values() for trial in first], **how)
    rows = read_rows(out)
    again = [job for first in cells.values() for job in finalists(first, rows)]
    run_jobs(again, **how)
    return write_choices(spec, read_rows(out))


def tune_and_test(
    spec: Spec, *, trials: str | Path, tests: str | Path, only: Sequence[str] = (), **how: Any
) -> list[RunState]:
    """`tune` and then the test runs of what it chose, one task after the other; how the test runs ended."""
    states = []
    for task in dict.fromkeys(task for task, *_ in tuned_cells(spec, only)):
        narrowed = [*(text for text in only if not text.startswith("task=")), f"task={task}"]
        tune(spec, out=trials, only=narrowed, **how)
        states.append(run_jobs(chosen_jobs(spec, read_rows(trials), narrowed), out=tests, **how))
    return states


def chosen_jobs(spec: Spec, rows: Sequence[Row], only: Sequence[str] = ()) -> list[Job]:
    """The test runs of the cells whose settings are chosen; a cell whose trials failed has none."""
    jobs = []
    for (task, dataset, method, usage), trials in tuned_cells(spec, only).items():
        if choose(trials, rows) is not None:
            cell = {"task": task, "dataset": dataset, "method": method, "usage": usage}
            jobs += spec.jobs(only=[f"{key}={value}" for key, value in cell.items()])
    return jobs


def tuned_cells(spec: Spec, only: Sequence[str] = ()) -> dict[Cell, list[Job]]:
    """The first trials of each cell of `spec` that is tuned."""
    cells: dict[Cell, list[Job]] = {}
    for (task, datasets), method in product(spec.datasets.items(), spec.methods):
        for dataset in datasets if "space" in method and task in OBJECTIVES else ():
            usage = method.get("usage", "all")
            bare = Job(task, dataset, method["name"], usage, FIRST_TRIAL_SEED, {}, spec.label, method.get("limit_s"))
            if matches(bare, only) and dataset not in method.get("skip", ()):
                own = method.get("per_dataset", {}).get(dataset, {})
                fixed = merged(PROTOCOL, spec.settings, method.get("settings", {}), own)
                drawn = draw_settings(method["space"], task, f"{task}|{dataset}|{method['name']}|{usage}")
                trials = [replace(bare, settings=merged(fixed, settings)) for settings in drawn]
                cells[task, dataset, method["name"], usage] = trials
    return cells


def draw_settings(space: Mapping[str, Any], task: str, name: str, count: int = SETTINGS) -> list[dict[str, Any]]:
    """`count` different settings from the space of `task`, by a stream of `name`; all of them where there are fewer.

    >>> draw_settings({"a": [1, 2], "links": {"b.c": [3]}}, "links", "x")
    [{'a': 1, 'b': {'c': 3}}, {'a': 2, 'b': {'c': 3}}]
    """
    lists = {key: values for key, values in space.items() if isinstance(values, list)} | space.get(task, {})
    total = 1
    for values in lists.values():
        total *= len(values)
    if total <= count:
        return [_nested(dict(zip(lists, values))) for values in product(*lists.values())]
    rng = stream(0, f"trials of {name}")
    found: dict[str, dict[str, Any]] = {}
    while len(found) < count:
        one = _nested({key: values[int(rng.integers(len(values)))] for key, values in lists.items()})
        found[digest(one)] = one
    return list(found.values())


def _nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys as tables: {"evaluate.unit_rows": True} -> {"evaluate": {"unit_rows": True}}."""
    parts: list[dict[str, Any]] = []
    for key, value in settings.items():
        head, _, tail = key.partition(".")
        parts.append({head: {tail: value} if tail else value})
    return merged(*parts)


def validation_only(row: Row) -> Row:
    """The row of a trial as it is kept: no score but those of the validation part."""
    kept = {name: value for name, value in row["metrics"].items() if name.startswith("val_")}
    return {key: value for key, value in row.items() if key != "kmeans_on_vectors"} | {"metrics": kept}


def finalists(first: Sequence[Job], rows: Iterable[Row]) -> list[Job]:
    """The jobs of the second round of a cell: its best settings with the other trial seeds."""
    scores = _scores(rows, first)
    order = sorted((job for job in first if digest(job.settings) in scores), key=lambda job: -_first(scores, job))
    seeds = range(FIRST_TRIAL_SEED + 1, FIRST_TRIAL_SEED + SEEDS_EACH)
    return [replace(job, seed=seed) for job in order[:FINALISTS] for seed in seeds]


def _first(scores: Mapping[str, Mapping[int, float]], job: Job) -> float:
    return scores[digest(job.settings)].get(FIRST_TRIAL_SEED, float("-inf"))


def _scores(rows: Iterable[Row], trials: Sequence[Job]) -> dict[str, dict[int, float]]:
    """For the settings of a cell's trials, by digest: seed -> objective."""
    cell = _cell(trials[0])
    known = {digest(job.settings) for job in trials}
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        value = row["metrics"].get(OBJECTIVES.get(row["task"], ""))
        name = digest(row["settings"])
        if value is not None and name in known and (row["task"], row["dataset"], row["method"], row["usage"]) == cell:
            found.setdefault(name, {})[int(row["seed"])] = float(value)
    return found


def _cell(job: Job) -> Cell:
    return job.task, job.dataset, job.method, job.usage


def choose(trials: Sequence[Job], rows: Iterable[Row]) -> tuple[dict[str, Any], float] | None:
    """The settings with the best mean objective among those that ran with all trial seeds, and that mean; None
    before the second round of the cell is done.
    """
    scores = _scores(rows, trials)
    whole = {name: fmean(by_seed.values()) for name, by_seed in scores.items() if len(by_seed) == SEEDS_EACH}
    wanted = min(FINALISTS, len(trials))
    if len(whole) < wanted:
        return None
    best = max(trials, key=lambda job: whole.get(digest(job.settings), float("-inf")))
    return dict(best.settings), whole[digest(best.settings)]


def write_choices(spec: Spec, rows: Sequence[Row]) -> Path:
    """The choices of all cells whose trials are done, as TOML where `settings_from` looks for them."""
    files = {method["settings_from"] for method in spec.methods if "space" in method}
    if len(files) != 1:
        raise InputError(f"{spec.name}: blocks with a `space` must name one file in `settings_from`, found {files}.")
    lines = ["# Written by `tuplet bench tune`: chosen on the validation part by docs/protocol.md."]
    for (task, dataset, method, usage), trials in tuned_cells(spec).items():
        found = choose(trials, rows)
        if found is not None:
            settings, score = found
            place = f'["{chosen_name(method, usage)}".{dataset}.{task}]'
            lines += ["", f"# {OBJECTIVES[task]} {score:.2f}", place, *_toml(settings)]
    path = spec.folder / str(files.pop())
    with new_file(path) as partial:
        partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _toml(settings: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in settings.items()]


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_toml(value)) + " }"
    return json.dumps(value)  # texts, numbers, lists, true and false are written alike in both
