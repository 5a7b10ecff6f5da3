"""Run a spec: jobs one by one or in several processes, one synced row each, done jobs skipped.

A kill loses the job in flight and nothing else; the same call again goes on where it stopped. A job that fails
(no memory, a baseline's own refusal, a bad setting) leaves a row with `error` and the run goes on.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tuplet._check import InputError, check_int
from tuplet.bench.rows import Row, append_row, done_keys, new_row, read_rows
from tuplet.bench.spec import Job, load_spec

log = logging.getLogger("tuplet")


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
    on_row: Callable[[Row], None] | None = None,
    on_state: Callable[[RunState], None] | None = None,
) -> RunState:
    """Run the jobs of the spec `path` that `out` does not hold yet, and append their rows to `out`.

    `only` keeps jobs by "key=value" (dataset, method, usage, task, seed); `seeds` replaces the spec's number;
    `jobs` processes share the work, each with its share of the cores.
    """
    todo = load_spec(path).jobs(only=only, seeds=seeds)
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
) -> RunState:
    """As `run_spec`, for a list of jobs."""
    workers = check_int("jobs", jobs)
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
        append_row(out, row)
        state._finish(job, row)
        if on_row is not None:
            on_row(row)
        if on_state is not None:
            on_state(state)

    groups = _groups(fresh, workers)
    if workers == 1:
        _run_here(groups, device, started, ended)
    else:
        _run_apart(groups, device, workers, started, ended)
    return state


def _groups(jobs: Sequence[Job], workers: int) -> list[list[Job]]:
    """Jobs that share a graph and its rows, together; the largest groups are halved until every worker has one.

    The tasks of one seed follow each other, because they may share a fit.
    """
    by_group: dict[str, list[Job]] = {}
    for job in jobs:
        by_group.setdefault(job.group, []).append(job)
    groups = [sorted(group, key=lambda job: job.seed) for group in by_group.values()]
    while groups and len(groups) < workers:
        largest = max(range(len(groups)), key=lambda i: len(groups[i]))
        group = groups[largest]
        if len(group) == 1:
            break
        groups[largest : largest + 1] = [group[: len(group) // 2], group[len(group) // 2 :]]
    return groups


Started = Callable[[Job], None]
Ended = Callable[[Job, Row], None]


def _run_here(groups: Sequence[Sequence[Job]], device: str, started: Started, ended: Ended) -> None:
    from tuplet.bench.fitting import Bench

    bench = Bench(device=device)
    for group in groups:
        for job in group:
            started(job)
            ended(job, bench.run(job))


def _run_apart(groups: list[list[Job]], device: str, workers: int, started: Started, ended: Ended) -> None:
    """One process a group, `workers` at a time. A process that dies costs its job in flight; the rest goes on."""
    context = multiprocessing.get_context("spawn")
    threads = max(1, len(os.sched_getaffinity(0)) // workers)
    pending = deque(groups)
    active: dict[Any, tuple[Any, deque[Job]]] = {}
    try:
        while pending or active:
            while pending and len(active) < workers:
                here, there = context.Pipe(duplex=False)
                group = pending.popleft()
                process = context.Process(target=_worker, args=(group, device, threads, there), daemon=True)
                process.start()
                there.close()
                active[here] = (process, deque(group))
                started(group[0])
            for pipe in wait(list(active)):
                process, left = active[pipe]
                row = _received(pipe)
                if row is not None:
                    ended(left.popleft(), row)
                    if left:
                        started(left[0])
                    continue
                del active[pipe]
                process.join()
                if left:
                    job = left.popleft()
                    text = f"the process ended with code {process.exitcode} (killed for memory, or crashed)"
                    ended(job, new_row(job, seconds={}, peak_mb=0.0, metrics={}, error=text))
                if left:
                    pending.append(list(left))
    finally:
        for process, _ in active.values():
            process.terminate()


def _received(pipe: Any) -> Row | None:
    try:
        row: Row = pipe.recv()
    except (EOFError, OSError):
        return None
    return row


def _worker(group: Sequence[Job], device: str, threads: int, pipe: Connection[Any, Any]) -> None:
    os.environ.setdefault("NUMBA_NUM_THREADS", str(threads))
    os.environ["OMP_NUM_THREADS"] = str(threads)
    import torch

    from tuplet.bench.fitting import Bench

    torch.set_num_threads(threads)
    bench = Bench(device=device)
    for job in group:
        pipe.send(bench.run(job))
    pipe.close()
