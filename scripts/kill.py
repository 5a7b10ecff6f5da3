"""Random kills of everything that writes, then the same command again: the bits of a run that nobody killed.

    python scripts/kill.py                      400 kills over all jobs; a table of counts
    python scripts/kill.py --kills 20 --job train
    python scripts/kill.py --job convert --seed 7 --keep    the folder of a bad case stays

A job is a command line. It runs once to the end; that is the truth, and its time says when to kill. Then it is
started again and again in an empty folder, killed after a random time by SIGKILL, SIGTERM or SIGINT, up to three
times in a row, and started a last time. Bad is: an output half-written after a kill, another result at the end, or a
stray file.
Jobs run in processes forked from this one, so that a kill costs no start of the interpreter.
"""

from __future__ import annotations

import argparse
import hashlib
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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SIGNALS = [signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT]
ALLOWED = (0, 1, 130)  # exit codes of a run that nobody killed, or that noticed its signal


@dataclass(frozen=True)
class Job:
    """`words(folder)`: the command line; `outputs`: what it leaves there; `keeps`: what may lie there besides."""

    name: str
    words: Callable[[Path], list[str]]
    outputs: tuple[str, ...]
    keeps: tuple[str, ...] = ()


def resume(folder: Path) -> list[str]:
    """--resume where a killed run has left its state."""
    return ["--resume"] if (folder / "checkpoint.safetensors").exists() else []


def jobs(inputs: Path) -> list[Job]:
    """All jobs, over the small files in `inputs`."""
    edges, nodes, graph = inputs / "edges.csv", inputs / "nodes.csv", inputs / "graph"
    vectors, model = inputs / "vectors.parquet", inputs / "model"
    short = ["-q", "--device", "cpu", "--set", "batch_size=64"]
    return [
        Job("convert", lambda f: ["convert", str(edges), str(f / "g"), "-f", str(nodes), "-q"], ("g",)),
        Job("filter", lambda f: ["embed", str(graph), "-o", str(f / "v.parquet"), "--method", "DMAT-i", *short,
                                 "--cache", str(f / "rows"), "--set", "max_steps=2"], ("v.parquet",), ("rows",)),
        Job("train", lambda f: ["embed", str(graph), "-o", str(f / "v.parquet"), "--method", "DMAT-i", *short,
                                "--set", "max_steps=300", "--checkpoint", str(f / "run"), *resume(f / "run")],
            ("v.parquet",), ("run",)),
        Job("embed", lambda f: ["embed", str(graph), "-o", f"{f}/parts/", "-k", "4", "-q", "--device", "cpu"],
            ("parts",)),
        Job("model", lambda f: ["embed", str(graph), "-o", str(f / "v.parquet"), "-k", "4", "-q", "--device", "cpu",
                                "--save-model", str(f / "m")], ("v.parquet", "m")),
        Job("apply", lambda f: ["embed", str(graph), "-o", str(f / "v.npy"), "--model", str(model), "-q",
                                "--device", "cpu"], ("v.npy",)),
        Job("cluster", lambda f: ["cluster", str(vectors), "-g", str(graph), "-k", "4", "-o", str(f / "c.parquet"),
                                  "-q"], ("c.parquet",)),
        Job("report", lambda f: ["report", str(vectors), "-g", str(graph), "-o", str(f / "r.html"), "-q"],
            ("r.html",)),
    ]  # fmt: skip


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
    if os.waitpid(pid, 0)[1] or run_to_the_end(words) != 0:
        sys.exit("the inputs could not be made")


def write_graph(folder: Path) -> None:
    """A block model of 4,000 nodes as CSV and as a graph folder."""
    from tuplet.graph.synth import block_model
    from tuplet.io.folder import save_graph

    graph = block_model([1500, 1200, 800, 500], seed=0)
    ends = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))
    pairs = np.column_stack([ends, graph.indices])
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in pairs if a < b))
    dense = graph.x.toarray() if hasattr(graph.x, "toarray") else np.asarray(graph.x)
    names = ",".join(f"f{i}" for i in range(dense.shape[1]))
    rows = "".join(f"{i},{','.join(f'{value:g}' for value in row)}\n" for i, row in enumerate(dense))
    (folder / "nodes.csv").write_text(f"id,{names}\n{rows}")
    save_graph(graph.with_(y=None), folder / "graph")


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
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from tuplet.cli import main

        sys.argv = ["tuplet", *words]
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def run_to_the_end(words: list[str]) -> int:
    """The exit code of a command that nobody kills."""
    _, status = os.waitpid(fork_command(words), 0)
    return os.waitstatus_to_exitcode(status)


def run_and_kill(words: list[str], after: float, how: signal.Signals) -> tuple[bool, int]:
    """Whether the command was still running `after` seconds later, and its exit code."""
    pid = fork_command(words)
    end = time.monotonic() + after
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return False, os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(pid, how)
    _, status = os.waitpid(pid, 0)
    return True, os.waitstatus_to_exitcode(status)


def content(file: Path) -> str:
    """The checksum of a file; of a model's JSON without the seconds that training took."""
    if file.name == "model.json":
        meta = json.loads(file.read_text())
        meta["history"]["rows"] = [{**row, "seconds": 0} for row in meta["history"]["rows"]]
        return hashlib.blake2b(json.dumps(meta).encode()).hexdigest()
    return hashlib.blake2b(file.read_bytes()).hexdigest()


def contents(folder: Path, outputs: tuple[str, ...]) -> dict[str, str]:
    """Relative path -> checksum of every file that belongs to the outputs."""
    found = {}
    for name in outputs:
        top = folder / name
        files = sorted(top.rglob("*")) if top.is_dir() else [top] if top.exists() else []
        for file in files:
            if file.is_file():
                found[str(file.relative_to(folder))] = content(file)
    return found


def strays(folder: Path, job: Job) -> list[str]:
    """Names in the folder that are neither an output nor what the job may keep."""
    return sorted(path.name for path in folder.iterdir() if path.name not in (*job.outputs, *job.keeps))


def one_case(job: Job, truth: dict[str, str], seconds: float, rng: random.Random, folder: Path) -> tuple[int, str]:
    """Kill the job up to three times, then let it end: the number of kills, and what was bad, or nothing."""
    kills = 0
    for _ in range(rng.choice([1, 1, 2, 3])):
        how = rng.choice(SIGNALS)
        words = job.words(folder)
        killed, code = run_and_kill(words, rng.uniform(0, 1.05 * seconds), how)
        kills += killed
        if not killed and code != 0:
            return kills, f"ended with {code} though nobody killed it"
        if killed and code not in (-how, 128 + how, 0, 130, 1):
            return kills, f"ended with {code} after {how.name}"
        half = {name: sum_ for name, sum_ in contents(folder, job.outputs).items() if truth.get(name) != sum_}
        if half:
            return kills, f"half-written after {how.name}: {sorted(half)[:3]}"
        if not killed:
            shutil.rmtree(folder)
            folder.mkdir()
        elif job.name == "convert" and (folder / "g").exists():
            shutil.rmtree(folder / "g")  # it was ready before the signal came; convert refuses a target that exists
    code = run_to_the_end(job.words(folder))
    if code != 0:
        return kills, f"the last run ended with {code}"
    if contents(folder, job.outputs) != truth:
        return kills, "another result than the run that nobody killed"
    left = strays(folder, job)
    return kills, f"stray files: {left[:3]}" if left else ""


def run_job(job: Job, kills: int, seed: int, keep: bool) -> tuple[int, int, list[str]]:
    """Cases, kills and what was bad, for one job."""
    rng, bad, done, cases = random.Random(f"{seed} {job.name}"), [], 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "work"  # the same place for all runs: vectors keep the settings, and with them paths
        folder.mkdir()
        run_to_the_end(job.words(folder))  # compiles what is compiled once
        shutil.rmtree(folder)
        folder.mkdir()
        start = time.monotonic()
        if run_to_the_end(job.words(folder)) != 0:
            return 0, 0, ["the job does not run"]
        seconds, truth = time.monotonic() - start, contents(folder, job.outputs)
        while done < kills:
            place = folder
            shutil.rmtree(place)
            place.mkdir()
            found, wrong = one_case(job, truth, seconds, rng, place)
            done, cases = done + found, cases + 1
            if wrong:
                bad.append(f"case {cases - 1}: {wrong}")
                if keep:
                    shutil.copytree(place, Path(tempfile.mkdtemp()) / "case")
    return cases, done, bad


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=400, help="over all jobs together")
    parser.add_argument("--job", default="", help="this job alone")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true", help="keep the folder of a bad case")
    options = parser.parse_args()
    import pyarrow.parquet  # noqa: F401
    import torch  # noqa: F401

    import tuplet.cli  # noqa: F401

    total: Counter[str] = Counter()
    print("| job | runs | kills | bad |\n|---|--:|--:|--:|", flush=True)
    with tempfile.TemporaryDirectory() as name:
        make_inputs(Path(name))
        chosen = [job for job in jobs(Path(name)) if options.job in ("", job.name)]
        for job in chosen:
            cases, kills, bad = run_job(job, -(-options.kills // len(chosen)), options.seed, options.keep)
            total.update(runs=cases, kills=kills, bad=len(bad))
            print(f"| {job.name} | {cases} | {kills} | {len(bad)} |", flush=True)
            for line in bad:
                print(f"{job.name}, {line}", file=sys.stderr, flush=True)
    print(f"| all | {total['runs']} | {total['kills']} | {total['bad']} |")
    sys.exit(1 if total["bad"] else 0)


if __name__ == "__main__":
    main()
