"""A bench spec (TOML) -> the jobs that it stands for: datasets x methods x seeds, settings resolved.

```toml
task = "clustering"              # or several: ["clustering", "links"]
datasets = ["cora", "acm"]       # or for each task its own: { clustering = ["cora", "acm"], links = ["cora"] }
seeds = 10

[[methods]]
name = "DMAT-i"
recipe = true                    # start from the dataset's recipe for this task
settings_from = "baselines.toml" # or from a table of another file: [METHOD], then [METHOD.dataset], [METHOD.task],
                                 # [METHOD.dataset.task]; with usage "train", of ["METHOD:train"] if it is there;
                                 # a study such as "convergence" takes what is there for clustering
settings = { epochs = 5 }        # then these
limit_s = 3600                   # a job that takes longer ends with an error
[methods.per_dataset.acm]        # then these, for one dataset
alpha = 0.4
```
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from tuplet._check import InputError, check_choice, check_int, check_number, is_there
from tuplet.bench.recipes import merged, recipe_settings, settings_task
from tuplet.bench.tasks import TASKS
from tuplet.bench.toml_file import check_kind, check_names, read_toml
from tuplet.models.registry import method_names

METHOD_KEYS = (
    *("name", "usage", "recipe", "settings", "settings_from", "per_dataset", "seeds", "skip", "limit_s", "space"),
)
METHOD_KINDS: Mapping[str, tuple[type, str]] = {
    "name": (str, 'name = "DMAT-i"'),
    "usage": (str, 'usage = "train"'),
    "recipe": (bool, "recipe = true"),
    "settings_from": (str, 'settings_from = "baselines.toml"'),
    "per_dataset": (dict, "[methods.per_dataset.acm]"),
    "space": (dict, "space = { alpha = [0.1, 0.3] }"),
}
MOST_SEEDS = 10_000
FILTER_KEYS = ("alpha", "r", "tol", "filter")


@dataclass(frozen=True)
class Job:
    """One run: what to fit, on what, how to measure it. `settings` is plain data, ready for JSON."""

    task: str
    dataset: str
    method: str
    usage: str
    seed: int
    settings: Mapping[str, Any] = field(hash=False)
    spec: str = ""
    limit_s: float | None = None  # not part of the identity

    @property
    def key(self) -> str:
        """Identity: task, dataset, method, usage, seed and the hash of the settings, the same in every process."""
        return "|".join((self.task, self.dataset, self.method, self.usage, str(self.seed), digest(self.settings)))

    @property
    def group(self) -> str:
        """Jobs of one group share a graph, its filtered rows, and perhaps the fit: they run in one process."""
        shared = {name: self.settings[name] for name in FILTER_KEYS if name in self.settings}
        kind = "links" if self.task == "links" else "whole graph"
        return f"{kind}|{self.dataset}|{self.method}|{self.usage}|{digest(shared)}"


@dataclass(frozen=True)
class Spec:
    """A parsed spec file: `jobs()` expands it."""

    name: str
    datasets: Mapping[str, tuple[str, ...]]  # of each task
    seeds: int
    methods: tuple[Mapping[str, Any], ...]
    settings: Mapping[str, Any]
    label: str  # name and hash of the file's text, written to every row
    folder: Path  # where `settings_from` is looked for

    def jobs(self, *, only: Sequence[str] = (), seeds: int | None = None) -> list[Job]:
        """All jobs in order task, dataset, method, seed; `only` as in `matches`."""
        count = self.seeds if seeds is None else check_int("seeds", seeds, maximum=MOST_SEEDS)
        return list(self._expand(count, only))

    def _expand(self, count: int, only: Sequence[str]) -> Iterator[Job]:
        pairs = [(task, dataset) for task, datasets in self.datasets.items() for dataset in datasets]
        for (task, dataset), method in product(pairs, self.methods):
            usage, limit = method.get("usage", "all"), method.get("limit_s")
            seeds = 0 if dataset in method.get("skip", ()) else min(count, method.get("seeds", count))
            bare = [Job(task, dataset, method["name"], usage, s, {}, self.label, limit) for s in range(seeds)]
            wanted = [job for job in bare if matches(job, only)]
            settings = self._settings(task, dataset, method) if wanted else {}
            yield from (replace(job, settings=settings) for job in wanted)

    def _settings(self, task: str, dataset: str, method: Mapping[str, Any]) -> dict[str, Any]:
        parts: list[Mapping[str, Any]] = []
        if method.get("recipe", False):
            parts.append(recipe_settings(dataset, task, method=method["name"], usage=method.get("usage", "all")))
        if "settings_from" in method:
            parts += self._settings_from(task, dataset, method)
        parts += [self.settings, method.get("settings", {}), method.get("per_dataset", {}).get(dataset, {})]
        return merged(*parts)

    def _settings_from(self, task: str, dataset: str, method: Mapping[str, Any]) -> list[dict[str, Any]]:
        file = self.folder / method["settings_from"]
        table = _settings_table(file, method["name"], method.get("usage", "all"))
        of_dataset = check_kind(
            f"{file.name}: {dataset}", table.get(dataset, {}), dict, f"[{method['name']}.{dataset}]"
        )
        task = settings_task(task)
        inner = of_dataset.get(task, {})
        if "space" in method and not inner:
            raise InputError(
                f"{method['name']} has no chosen settings for {task} on {dataset} in {file}. "
                f"Run `tuplet bench tune` first, or keep it out with --only."
            )
        tables = (table, of_dataset, table.get(task, {}), inner)
        return [values_of(one) for one in tables]


def load_spec(path: str | Path) -> Spec:
    """The spec in the TOML file `path`; an unknown key or task is an error that names it."""
    file = Path(path)
    if not (is_there(file) and file.is_file()):
        raise InputError(f"There is no spec {file}. The paper's specs lie in benchmarks/paper/.")
    data, text = read_toml(file)
    for key in data:
        check_choice(f"{file.name}: key", key, ("task", "datasets", "seeds", "methods", "settings", "about"))
    given = data.get("task")
    several: list[Any] = given if isinstance(given, list) else [given]
    tasks: list[str] = [check_choice(f"{file.name}: task", task, list(TASKS)) for task in several]
    blocks = check_kind(f"{file.name}: methods", data.get("methods", []), list, "[[methods]]")
    methods = tuple(_checked_method(file.name, block) for block in blocks)
    if not methods or not data.get("datasets"):
        raise InputError(f"{file.name} needs `datasets` and at least one [[methods]] block.")
    return Spec(
        name=file.stem,
        datasets=_datasets_by_task(file.name, tasks, data["datasets"]),
        seeds=check_int("seeds", data.get("seeds", 10), maximum=MOST_SEEDS),
        methods=methods,
        settings=_checked_settings(f"{file.name}: settings", data.get("settings", {})),
        folder=file.parent,
        label=f"{file.stem}:{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}",
    )


def _datasets_by_task(file: str, tasks: Sequence[str], datasets: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(datasets, Mapping):
        datasets = dict.fromkeys(tasks, datasets)
    if set(datasets) != set(tasks):
        raise InputError(f"{file}: the tasks are {tasks} but `datasets` has lists for {list(datasets)}.")
    return {t: check_names(f"{file}: datasets", datasets[t], 'datasets = ["cora", "acm"]') for t in tasks}


def matches(job: Job, only: Sequence[str]) -> bool:
    """Whether `job` meets every "key=value": several values of one key are alternatives.

    >>> job = Job("links", "cora", "DMAT-i", "all", 0, {})
    >>> matches(job, ["dataset=cora", "dataset=acm"]), matches(job, ["dataset=cora", "method=AGE"])
    (True, False)
    """
    wanted: dict[str, set[str]] = {}
    for text in only:
        key, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"only {text!r} has no value. Write it as key=value, for example dataset=cora.")
        check_choice("only", key.strip(), ("task", "dataset", "method", "usage", "seed"))
        wanted.setdefault(key.strip(), set()).add(value.strip().lower())
    return all(str(getattr(job, key)).lower() in values for key, values in wanted.items())


def digest(settings: Mapping[str, Any]) -> str:
    """Eight hex digits of the settings, independent of the order of keys and of tuple or list.

    >>> digest({"a": (1, 2), "b": 0.5}) == digest({"b": 0.5, "a": [1, 2]})
    True
    """
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


def values_of(table: Any) -> dict[str, Any]:
    """The settings of a table: plain values, those written as { value = .., source = ".." }, and the inner tables
    `evaluate` and `filter`; no others.
    """
    table = check_kind("a table of settings", table, dict, "lr = 1e-3")
    entries = {k: v["value"] if isinstance(v, Mapping) and "value" in v else v for k, v in table.items()}
    plain = {k: v for k, v in entries.items() if k in ("evaluate", "filter") or not isinstance(v, Mapping)}
    return {k: v for k, v in plain.items() if k not in ("source", "note")}


def chosen_name(method: str, usage: str) -> str:
    """The name of a method's table in a file of settings: with the usage where that is not "all"."""
    return method if usage == "all" else f"{method}:{usage}"


def _settings_table(file: Path, method: str, usage: str) -> Mapping[str, Any]:
    if not (is_there(file) and file.is_file()):
        raise InputError(f"There is no {file}, from which the settings of {method} should come.")
    tables = read_toml(file)[0]
    found = tables.get(chosen_name(method, usage), tables.get(method, {}))
    return check_kind(f"{file.name}: {method}", found, dict, f"[{method}]")


def _checked_method(file: str, block: Any) -> Mapping[str, Any]:
    """A [[methods]] block whose every value is of the kind that its key asks for."""
    where = f"{file}: [[methods]]"
    method: dict[str, Any] = check_kind(
        f"an entry of {file}: methods", block, dict, '[[methods]], then name = "DMAT-i"'
    )
    for key in method:
        check_choice(f"{file}: key of [[methods]]", key, METHOD_KEYS)
    if "name" not in method:
        raise InputError(f'{file}: a [[methods]] block has no name. Give one, such as name = "DMAT-i".')
    for key, (kind, example) in METHOD_KINDS.items():
        if key in method:
            check_kind(f"{where} {key}", method[key], kind, example)
    check_choice(f"{where} name", method["name"], method_names())
    if "seeds" in method:
        check_int(f"{where} seeds", method["seeds"], maximum=MOST_SEEDS)
    if "limit_s" in method:
        check_number(f"{where} limit_s", method["limit_s"], low=0, open_low=True)
    check_names(f"{where} skip", method.get("skip", []), 'skip = ["acm"]')
    for key, values in method.get("space", {}).items():
        for name, entry in values.items() if isinstance(values, dict) else [(key, values)]:
            if not check_kind(f"{where} space: {name}", entry, list, "alpha = [0.1, 0.3]"):
                raise InputError(f"{where} space: {name} has no value. Write some: alpha = [0.1, 0.3]")
    for settings in (method.get("settings", {}), *method.get("per_dataset", {}).values()):
        _checked_settings(f"{where} settings", settings)
    return method


def _checked_settings(name: str, given: Any) -> Mapping[str, Any]:
    """The table `given` if a row can keep it: no date, no infinity; `evaluate` in it is a table too."""
    settings: dict[str, Any] = check_kind(name, given, dict, "settings = { epochs = 5 }")
    check_kind(f"{name}: evaluate", settings.get("evaluate", {}), dict, "evaluate = { n_init = 10 }")
    try:
        json.dumps(settings, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} cannot be kept in a row: {error}. Give numbers, texts, lists and tables.") from None
    return settings
