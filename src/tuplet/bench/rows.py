"""Rows on disk: one JSON object a line, appended and synced, so that a kill loses at most the job in flight."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tuplet._check import InputError
from tuplet.bench.spec import Job, digest

Row = dict[str, Any]
IDENTITY = ("task", "dataset", "method", "usage", "seed", "settings")
KEYS = (*IDENTITY, "spec", "commit", "machine", "defaults", "seconds", "peak_mb")


def append_row(path: str | Path, row: Row) -> None:
    """Append `row` and wait until it is on the disk; a torn last line of an earlier run is closed first."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(row, separators=(",", ":"), allow_nan=False).encode() + b"\n"
    with file.open("ab+") as stream:
        if stream.tell():
            stream.seek(-1, os.SEEK_END)
            if stream.read(1) != b"\n":
                line = b"\n" + line
        stream.write(line)
        stream.flush()
        os.fsync(stream.fileno())


def read_rows(paths: str | Path | Iterable[str | Path]) -> list[Row]:
    """All whole rows of one or several files, in order; torn lines are skipped, an absent file has none."""
    several = [paths] if isinstance(paths, str | Path) else list(paths)
    return [row for path in several for row in _lines(Path(path))]


def row_key(row: Row) -> str:
    """The identity of the job that wrote `row`: equal to `Job.key`."""
    absent = [name for name in IDENTITY if name not in row]
    if absent:
        raise InputError(
            f"A row has no {absent[0]!r}, so `tuplet bench` did not write it: {str(row)[:80]}. Remove it."
        )
    words = [row["task"], row["dataset"], row["method"], row["usage"]]
    if not all(isinstance(word, str) for word in words) or not isinstance(row["settings"], dict):
        raise InputError(f"A row is damaged: {str(row)[:80]}. Remove it.")
    return "|".join([*words, str(row["seed"]), digest(row["settings"])])


def done_keys(rows: Iterable[Row], *, errors: bool = True) -> set[str]:
    """Keys of the jobs that need no new run; with `errors=False` a failed job counts as open."""
    return {row_key(row) for row in rows if errors or "error" not in row}


def new_row(job: Job, **measured: Any) -> Row:
    """The row of `job`: who, with what, where; `measured` holds seconds, peak_mb, metrics, error, series."""
    return {
        "task": job.task,
        "dataset": job.dataset,
        "method": job.method,
        "usage": job.usage,
        "seed": job.seed,
        "settings": dict(job.settings),
        "spec": job.spec,
        "commit": commit(),
        "machine": machine(),
        **measured,
    }


@cache
def commit() -> str:
    """The git commit ("+" when sources differ from it), or `TUPLET_COMMIT`, or a hash of the package's sources."""
    given = os.environ.get("TUPLET_COMMIT")
    if given:
        return given
    package = Path(__file__).resolve().parents[1]
    head = _git(package, "rev-parse", "--short=10", "HEAD")
    if head:
        return head + ("+" if _git(package, "status", "--porcelain", "--", str(package)) else "")
    return "sources-" + _source_hash(package)


@cache
def machine() -> str:
    """One line: processor, cores, memory, GPU (and whether its products are TF32 by order) and torch's version."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    parts = [_processor(), f"{cores} cores", f"{gigabytes:.0f} GiB"]
    if torch.cuda.is_available():
        short = os.environ.get("NVIDIA_TF32_OVERRIDE") == "1"
        parts.append(torch.cuda.get_device_name() + (" (TF32)" if short else ""))
    return ", ".join([*parts, f"torch {torch.__version__}"])


def _lines(path: Path) -> Iterator[Row]:
    if not path.is_file():
        return
    for line in path.read_bytes().split(b"\n"):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and "task" in row:
            yield row


def _git(folder: Path, *arguments: str) -> str:
    try:
        out = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return out.stdout.strip()


def _source_hash(package: Path) -> str:
    total = hashlib.blake2b(digest_size=5)
    for file in sorted(package.rglob("*.py")):
        total.update(file.read_bytes())
    return total.hexdigest()


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
