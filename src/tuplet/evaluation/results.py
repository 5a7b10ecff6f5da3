"""What a task returns: Result for one run, Summary for the same run under many seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet._html import table


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """One measured run.

    `values` are in percent (accuracy 70.6 means 0.706) unless the name says otherwise; `sizes` counts what was
    measured on; `settings` says what was given and what was chosen; `notes` are things that the reader should
    know before believing the values. `labels` (n,) are the clusters or predicted classes, where there are any.
    """

    task: str
    values: dict[str, float]
    seed: int
    sizes: dict[str, int]
    seconds: float
    settings: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    labels: NDArray[np.int64] | None = None

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    def to_dict(self) -> dict[str, Any]:
        """All but `labels`, as plain Python values that JSON can hold."""
        return {
            "task": self.task,
            "values": dict(self.values),
            "seed": self.seed,
            "sizes": dict(self.sizes),
            "seconds": self.seconds,
            "settings": dict(self.settings),
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        facts = [f"{size} {name.replace('_', ' ')}" for name, size in self.sizes.items()]
        facts += [f"{name} {value}" for name, value in self.settings.items()]
        head = f"{self.task}, seed {self.seed}, {self.seconds:.2f} s: {', '.join(facts)}"
        width = max(map(len, self.values), default=0)
        rows = [f"  {name:<{width}}  {_short(value):>7}" for name, value in self.values.items()]
        return "\n".join([head, *rows, *(f"  note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        facts = [f"{size:,} {name.replace('_', ' ')}" for name, size in self.sizes.items()]
        facts += [f"{name} {value}" for name, value in self.settings.items()]
        notes = [", ".join(facts), *self.notes]
        rows = [[name, _short(value)] for name, value in self.values.items()]
        return table(f"{self.task}, seed {self.seed}, {self.seconds:.2f} s", rows, notes=filter(None, notes))


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """Mean and standard deviation (over n, as the paper's tables) of each value of some results."""

    results: tuple[Result, ...]

    @property
    def mean(self) -> dict[str, float]:
        """Mean of each value that all runs have."""
        return {name: float(column.mean()) for name, column in self._columns().items()}

    @property
    def deviation(self) -> dict[str, float]:
        """Standard deviation of each value that all runs have; 0 for one run."""
        return {name: float(column.std()) for name, column in self._columns().items()}

    def _columns(self) -> dict[str, NDArray[np.float64]]:
        names = [n for n in self.results[0].values if all(n in r.values for r in self.results)]
        return {name: np.array([r.values[name] for r in self.results]) for name in names}

    def to_dict(self) -> dict[str, Any]:
        """Mean, deviation and each run, as plain Python values that JSON can hold."""
        runs = [r.to_dict() for r in self.results]
        return {"task": self.results[0].task, "mean": self.mean, "deviation": self.deviation, "runs": runs}

    def __repr__(self) -> str:
        seconds = sum(r.seconds for r in self.results)
        head = f"{self.results[0].task}, {len(self.results)} runs, {seconds:.2f} s"
        mean, deviation = self.mean, self.deviation
        width = max(map(len, mean), default=0)
        rows = [f"  {name:<{width}}  {_short(mean[name]):>7} ± {_short(deviation[name])}" for name in mean]
        notes = dict.fromkeys(note for r in self.results for note in r.notes)
        return "\n".join([head, *rows, *(f"  note: {note}" for note in notes)])

    def _repr_html_(self) -> str:
        mean, deviation = self.mean, self.deviation
        rows = [[name, _short(mean[name]), f"± {_short(deviation[name])}"] for name in mean]
        notes = dict.fromkeys(note for r in self.results for note in r.notes)
        seconds = sum(r.seconds for r in self.results)
        return table(f"{self.results[0].task}, {len(self.results)} runs, {seconds:.2f} s", rows, notes=notes)


def _short(value: float) -> str:
    return f"{value:.2f}" if value == 0 or abs(value) >= 0.1 else f"{value:.2g}"


def repeat(function: Callable[[int], Result], seeds: int | Iterable[int] = 10) -> Summary:
    """`function(seed)` for each seed (0..seeds-1 for a number), summed up.

    >>> repeat(lambda seed: Result("toy", {"accuracy": 70.0 + seed}, seed, {}, 0.0), seeds=[0, 2])
    toy, 2 runs, 0.00 s
      accuracy    71.00 ± 1.00
    """
    results = tuple(function(seed) for seed in (range(seeds) if isinstance(seeds, int) else seeds))
    if not results:
        raise InputError(f"seeds is {seeds!r}, so nothing would run. Give at least one seed.")
    return Summary(results)
