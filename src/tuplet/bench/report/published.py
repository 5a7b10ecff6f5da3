"""The paper's numbers: benchmarks/paper/published/*.csv with task, dataset, method, usage, metric, mean, std."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from tuplet._check import InputError

Cell = tuple[str, str, str, str, str]  # task, dataset, method, usage, metric


@dataclass(frozen=True)
class Number:
    """A mean and its standard deviation over `n` runs (the paper's has ten); `note` is the paper's remark, such as
    "did not converge".
    """

    mean: float
    std: float = 0.0
    note: str = ""
    n: int = 10


def read_published(folder: str | Path | None = None) -> dict[Cell, Number]:
    """Every published number by its cell. Without `folder`, of the repository around here; none outside of one."""
    place = find_published() if folder is None else Path(folder)
    if place is None:
        return {}
    if not place.is_dir():
        raise InputError(f"There is no folder {place} with published numbers.")
    found: dict[Cell, Number] = {}
    for file in sorted(place.glob("*.csv")):
        with file.open(newline="") as lines:
            for row in csv.DictReader(lines):
                cell = (row["task"], row["dataset"], row["method"], row.get("usage") or "all", row["metric"])
                found[cell] = Number(float(row["mean"]), float(row["std"] or 0), row.get("note") or "")
    return found


def find_published() -> Path | None:
    """benchmarks/paper/published of the nearest folder upwards from the working folder, or from this file."""
    for start in (Path.cwd(), Path(__file__).resolve().parent):
        for folder in (start, *start.parents):
            if (folder / "benchmarks" / "paper" / "published").is_dir():
                return folder / "benchmarks" / "paper" / "published"
    return None
