"""Random kills of everything that writes, then the same command again: the bits of a run that nobody killed.

    python scripts/kill.py                      400 kills over all jobs; a table of counts
    python scripts/kill.py --workers 16         the same by sixteen processes
    python scripts/kill.py --job convert --kills 20 --seed 7 --keep    the folder of a bad case stays

A job is a command line (kill_jobs.py). It runs once to the end; that is the truth, and its time says when to kill.
Then it is started again and again in a folder that is empty or holds an older output, killed after a random time by
SIGKILL, SIGTERM or SIGINT, up to three times in a row, and started a last time. Bad is: an output that is neither the
old nor the new one after a kill, another result at the end, or a stray file.
Jobs run in processes forked from this one, so that a kill costs no start of the interpreter.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}  # a worker has one core
sys.path.insert(0, str(Path(__file__).resolve().parent))

from kill_jobs import Job, jobs, write_graph

SIGNALS = [signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT]
LOADED = ["pyarrow.parquet", "torch", "sklearn.cluster", "safetensors.torch", "tuplet.cli", "tuplet.models.dmat"]
LOADED += ["tuplet.models.selfdmat", "tuplet.io.convert", "tuplet.io.vectors", "tuplet.kernels.spmm", "tuplet.pages"]
LOADED += [
    "tuplet.kernels.csr",
    "tuplet.kernels.assign",
    "tuplet.datasets",
    "tuplet.evaluation.tasks",
    "rich.progress",
]
LONGEST, HUNG = 300.0, 124  # seconds of one command, and what stands for its exit code then
Contents = dict[str, str]


def make_inputs(folder: Path) -> None:
    """The inputs of all jobs, made in processes of their own: this one must own no threads when it forks."""
    pid = os.fork()
    if not pid:
        try:
            write_graph(folder)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    words = ["embed", str(folder / "graph"), "-o", str(folder / "vectors.parquet"), "-k", "4", "-q"]
    words += ["--device", "cpu", "--save-model", str(folder / "model")]
    few = ["embed", str(folder / "few"), "-o", str(folder / "few.parquet"), "--method", "FilterSVD", "-q"]
    rows = ["filter", str(folder / "graph"), "-o", str(folder / "rows.npy"), "-q"]
    parts = ["embed", str(folder / "graph"), "-o", f"{folder}/parts/", "-k", "4", "-q", "--method", "FilterSVD"]
    if os.waitpid(pid, 0)[1] or any(run_to_the_end(line) for line in (words, few, rows, parts)):
        sys.exit("the inputs could not be made")


def fork_command(words: list[str]) -> int:
    """Start the command line in a forked process; its process id."""
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        os.setpgid(0, 0)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
        from tuplet.cli import main
        from tuplet.training.checkpoint import Checkpoints

        Checkpoints.__init__.__defaults__ = (0.001, None, None)  # minutes: kills find one written, or half-written
        sys.argv = ["tuplet", *words]
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as Python itself does before a command begins
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def run_to_the_end(words: list[str]) -> int:
    """The exit code of a command that nobody kills; HUNG where it does not end."""
    killed, code = run_and_kill(words, LONGEST, signal.SIGKILL)
    return HUNG if killed else code


def run_and_kill(words: list[str], after: float, how: signal.Signals) -> tuple[bool, int]:
    """Whether the command was still running `after` seconds later, and its exit code."""
    pid = fork_command(words)
    end = time.monotonic() + after
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return False, os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, how)
    _, status = os.waitpid(pid, 0)
    return True, os.waitstatus_to_exitcode(status)


def content(file: Path) -> str:
    """The checksum of a file; of a model's JSON without the seconds that training took, and its sum."""
    data = file.read_bytes()
    if file.name == "model.json":
        meta = {name: value for name, value in json.loads(data).items() if name != "sum"}
        meta["history"]["rows"] = [{**row, "seconds": 0} for row in meta["history"]["rows"]]
        data = json.dumps(meta).encode() + data[len(data.rstrip()) :]
    return hashlib.blake2b(data).hexdigest()


def contents(top: Path) -> Contents:
    """Relative path -> checksum of every file of an output, a folder or a file; empty where there is none."""
    files = sorted(top.rglob("*")) if top.is_dir() else [top]
    return {str(file.relative_to(top.parent)): content(file) for file in files if file.is_file()}


def names(folder: Path, job: Job) -> list[str]:
    """Every name in the folder, but those inside of the outputs, which are compared by content."""
    inside = [path.relative_to(folder) for path in folder.rglob("*")]
    return sorted(str(path) for path in inside if path.parts[0] not in job.outputs or len(path.parts) == 1)


class Truth:
    """A run to its end: its time, outputs and the names it left; `old` is a folder with outputs of other bytes."""

    def __init__(self, job: Job, folder: Path, old: Path) -> None:
        if run_to_the_end(job.words(folder)) != 0:  # compiles what is compiled once
            raise RuntimeError("the job does not run")
        emptied(folder)
        start = time.monotonic()
        run_to_the_end(job.words(folder))
        self.seconds = time.monotonic() - start
        self.job, self.folder, self.names = job, folder, names(folder, job)
        for output in job.outputs:
            _copy(folder / output, old / output)
        for file in sorted(old.rglob("*")):
            if file.is_file():
                file.write_bytes(file.read_bytes() + b"\n")
        self.new = {output: contents(folder / output) for output in job.outputs}
        self.old = {output: contents(old / output) for output in job.outputs}
        self.old_folder = old

    def half(self, *, before: dict[str, Contents]) -> str:
        """The first output that is neither what it was `before` nor new."""
        for output, new in self.new.items():
            if contents(self.folder / output) not in (new, before[output]):
                return output
        return ""

    def prepare(self, rng: random.Random) -> dict[str, Contents]:
        """Empty the folder, or put the older outputs there: what lies there now."""
        emptied(self.folder)
        if rng.random() < 0.5:
            return {output: {} for output in self.new}
        for output in self.new:
            _copy(self.old_folder / output, self.folder / output)
        return self.old


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)


def emptied(folder: Path) -> None:
    """Remove all that lies in the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()


def one_case(truth: Truth, rng: random.Random, count: Counter[str]) -> str:
    """Kill the job up to three times, then let it end: what was bad, or nothing."""
    job, before = truth.job, truth.prepare(rng)
    for _ in range(rng.choice([1, 1, 2, 3])):
        how = rng.choice(SIGNALS)
        killed, code = run_and_kill(job.words(truth.folder), rng.uniform(0, 1.05 * truth.seconds), how)
        count.update({how.name: killed, "kills": killed})
        if not killed and code != 0:
            return f"ended with {code} though nobody killed it"
        if killed and code not in (-how, 128 + how, 0, 130):
            return f"ended with {code} after {how.name}"
        if half := truth.half(before=before):
            return f"{half} is neither the old nor the new one after {how.name}"
        before = {output: contents(truth.folder / output) for output in truth.new}
    code = run_to_the_end(job.words(truth.folder))
    if code != 0:
        return f"the last run ended with {code}"
    if truth.half(before=truth.new):
        return "another result than the run that nobody killed"
    left = [name for name in names(truth.folder, job) if name not in truth.names]
    return f"stray files: {left[:3]}" if left else ""


def run_job(job: Job, kills: int, seed: str, keep: bool, until: float) -> dict[str, Any]:
    """Counts of runs and kills, and what was bad, for one job; no new run begins after the time `until`."""
    rng, bad, count = random.Random(seed), [], Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        work, old = (
            Path(name) / "work",
            Path(name) / "old",
        )  # one place: vectors keep the settings, and with them paths
        work.mkdir()
        old.mkdir()
        truth = Truth(job, work, old)
        while count["kills"] < kills and time.monotonic() < until:
            wrong = one_case(truth, rng, count)
            count["runs"] += 1
            if wrong:
                kept = Path(tempfile.mkdtemp()) / "case"
                bad.append(
                    f"{job.name}, seed {seed!r}, run {count['runs']}: {wrong}" + (f" ({kept})" if keep else "")
                )
                if keep:
                    shutil.copytree(work, kept)
            if len(bad) > 5:
                break
    return {"job": job.name, "seconds": round(truth.seconds, 2), **count, "bad": bad}


def run_alone(file: Path, job: Job, *how: Any) -> int:
    """`run_job` in a forked process that writes its result to `file`; its process id."""
    pid = os.fork()
    if pid:
        return pid
    try:
        found = run_job(job, *how)
        file.write_text(json.dumps(found))
        print(file.stem, {name: value for name, value in found.items() if name != "job"}, flush=True)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def run_team(chosen: list[Job], options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """The results of all jobs, each by `share` processes, so many at a time as there are workers."""
    shares = {job: job.share if options.workers > len(chosen) else 1 for job in chosen}
    todo = [(job, i, folder / f"{job.name}-{i}.json") for job in chosen for i in range(shares[job])]
    until, running = time.monotonic() + options.seconds, 0
    for job, i, file in todo:
        if running >= options.workers:
            os.wait()
            running -= 1
        each = -(-options.kills // (len(chosen) * shares[job]))
        run_alone(file, job, each, f"{options.seed} {job.name} {i}", options.keep, until)
        running += 1
    for _ in range(running):
        os.wait()
    return [json.loads(f.read_text()) if f.exists() else {"job": j.name, "bad": ["did not run"]} for j, _, f in todo]


COLUMNS = ("runs", "kills", "SIGKILL", "SIGTERM", "SIGINT")


def table(found: list[dict[str, Any]]) -> str:
    """Counts by job, as Markdown."""
    lines = [f"| job | seconds | {' | '.join(COLUMNS)} | bad |", "|---|" + "--:|" * (len(COLUMNS) + 2)]
    for name in [*dict.fromkeys(row["job"] for row in found), "all"]:
        own = [row for row in found if name in (row["job"], "all")]
        cells = [sum(row.get(column, 0) for row in own) for column in COLUMNS]
        seconds = "" if name == "all" else str(max(row.get("seconds", 0) for row in own))
        lines.append(
            f"| {name} | {seconds} | {' | '.join(map(str, cells))} | {sum(len(row['bad']) for row in own)} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=400, help="over all jobs together")
    parser.add_argument("--job", default="", help="this job alone")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=86400, help="begin no new run after so many")
    parser.add_argument("--keep", action="store_true", help="keep the folder of a bad case")
    parser.add_argument("--out", type=Path, help="a folder for kill.md, the table, and kill.json, what was bad")
    options = parser.parse_args()
    for name in LOADED:
        importlib.import_module(name)

    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        make_inputs(Path(name))
        chosen = [job for job in jobs(Path(name)) if options.job in ("", job.name)]
        results = Path(name) / "results"
        results.mkdir()
        found = run_team(chosen, options, results)
    bad = [line for row in found for line in row["bad"]]
    print(table(found), *bad, f"{time.monotonic() - start:.0f} s", sep="\n", flush=True)
    if options.out is not None:
        (options.out / "kill.md").write_text(table(found) + "\n")
        (options.out / "kill.json").write_text(json.dumps({"seed": options.seed, "bad": bad}, indent=1) + "\n")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
