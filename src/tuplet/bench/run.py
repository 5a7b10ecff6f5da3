"""Run a spec: jobs one by one or in several processes, one synced row each, done jobs skipped.

A kill loses the job in flight and nothing else; the same call again goes on where it stopped. A job that fails
(no memory, a baseline's own refusal, a bad setting) leaves a row with `error` and the run goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from tuplet._check import InputError, check_int, check_number
from tuplet.bench.rows import Row, append_row, done_keys, read_rows
from tuplet.bench.spec import Job, load_spec
from tuplet.bench.workers import Ended, OutOfTime, Started, Workers

log = logging.getLogger("tuplet")
SHARE = 3  # groups for each worker: with one, the slowest group would be waited for


@dataclass
class RunState:
    """How far a run has come; handed to `on_state` at every change and returned at the end."""

    total: int
    skipped: int = 0
    done: int = 0
    failed: int = 0
    failed_before: int = 0  # of the skipped ones
    workers: int = 1
    running: dict[str, Job] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)  # by "dataset method"
    open_jobs: dict[str, int] = field(default_factory=dict)
    start: float = field(default_factory=time.monotonic)

    def seconds_left(self) -> float | None:
        """Expected seconds until the end; None until the first job is done. An unseen kind costs the mean job."""
        spent = [s for times in self.seconds.values() for s in times]
        if not spent:
            return None
        mean = sum(spent) / len(spent)
        cost = 0.0
        for kind, count in self.open_jobs.items():
            times = self.seconds.get(kind)
            cost += count * (sum(times) / len(times) if times else mean)
        return cost / self.workers

    def _finish(self, job: Job, row: Row) -> None:
        kind = f"{job.dataset} {job.method}"
        self.running.pop(job.key, None)
        self.done += 1
        self.failed += "error" in row
        self.open_jobs[kind] -= 1
        self.seconds.setdefault(kind, []).append(sum(row["seconds"].values()))


def run_spec(
    path: str | Path,
    *,
    only: Sequence[str] = (),
    seeds: int | None = None,
    device: str = "auto",
    out: str | Path = "rows.jsonl",
    jobs: int = 1,
    retry_errors: bool = False,
    limit: float | None = None,
    on_row: Callable[[Row], None] | None = None,
    on_state: Callable[[RunState], None] | None = None,
) -> RunState:
    """Run the jobs of the spec `path` that `out` does not hold yet, and append their rows to `out`.

    `only` keeps jobs by "key=value" (dataset, method, usage, task, seed); `seeds` replaces the spec's number, `limit`
    its limit_s, in seconds; `jobs` processes share the work, each with its share of the cores.
    """
    todo = load_spec(path).jobs(only=only, seeds=seeds)
    if limit is not None:
        todo = [replace(job, limit_s=check_number("limit", limit, low=0, open_low=True)) for job in todo]
    if not todo:
        raise InputError(
            f"No job of {path} fits {', '.join(only) or 'it'}. Its jobs differ in task, dataset, method, .."
        )
    return run_jobs(
        todo, device=device, out=out, jobs=jobs, retry_errors=retry_errors, on_row=on_row, on_state=on_state
    )


def run_jobs(
    todo: Sequence[Job],
    *,
    device: str = "auto",
    out: str | Path = "rows.jsonl",
    jobs: int = 1,
    retry_errors: bool = False,
    on_row: Callable[[Row], None] | None = None,
    on_state: Callable[[RunState], None] | None = None,
    edit: Callable[[Row], Row] | None = None,
    pool: Workers | None = None,
    deadline: float | None = None,
) -> RunState:
    """As `run_spec`, for a list of jobs. `edit` says what of a row is written; `pool` takes the place of `jobs` new
    processes; past `deadline` (of time.monotonic) OutOfTime is raised, and what was done is kept.
    """
    workers = check_int("jobs", jobs) if pool is None else pool.count
    rows = read_rows(out)
    good = done_keys(rows, errors=False)
    finished = good if retry_errors else done_keys(rows)
    fresh = [job for job in todo if job.key not in finished]
    state = RunState(total=len(todo), skipped=len(todo) - len(fresh), workers=workers)
    state.failed_before = sum(job.key in finished - good for job in todo)
    for job in fresh:
        kind = f"{job.dataset} {job.method}"
        state.open_jobs[kind] = state.open_jobs.get(kind, 0) + 1

    def started(job: Job) -> None:
        state.running[job.key] = job
        if on_state is not None:
            on_state(state)

    def ended(job: Job, row: Row) -> None:
        row["workers"] = workers
        append_row(out, row if edit is None else edit(row))
        state._finish(job, row)
        if on_row is not None:
            on_row(row)
        if on_state is not None:
            on_state(state)

    groups = _groups(fresh, workers)
    if workers == 1:
        _run_here(groups, device, started, ended, deadline)
    else:
        with nullcontext(pool) if pool is not None else Workers(workers, device) as processes:
            processes.run(groups, started, ended, deadline=deadline)
    return state


def _groups(jobs: Sequence[Job], workers: int) -> list[list[Job]]:
    """Jobs that share a graph and its rows, together; the largest groups are halved until every worker has `SHARE`.

    The tasks of one seed follow each other, because they may share a fit.
    """
    by_group: dict[str, list[Job]] = {}
    for job in jobs:
        by_group.setdefault(job.group, []).append(job)
    groups = [sorted(group, key=lambda job: job.seed) for group in by_group.values()]
    while groups and workers > 1 and len(groups) < SHARE * workers:
        largest = max(range(len(groups)), key=lambda i: len(groups[i]))
        group = groups[largest]
        if len(group) == 1:
            break
        groups[largest : largest + 1] = [group[: len(group) // 2], group[len(group) // 2 :]]
    return groups


def _run_here(
    groups: Sequence[Sequence[Job]], device: str, started: Started, ended: Ended, deadline: float | None
) -> None:
    from tuplet.bench.fitting import Bench

    bench = Bench(device=device)
    for job in (job for group in groups for job in group):
        if deadline is not None and time.monotonic() > deadline:
            raise OutOfTime
        started(job)
        ended(job, bench.run(job))
