"""Damaged files of every kind, in processes whose crash is seen: a reader succeeds or says in one line what is wrong.

    python scripts/fuzz.py                             100,000 cases, seed 0; a table of counts by kind
    python scripts/fuzz.py --cases 1000 --seed 1       what .ci/run does
    python scripts/fuzz.py --kind store --only 4711    one case again, with its traceback

A case is a number: it chooses the kind of file and the damage. Cases run in forked processes with bounded memory and
time; one that dies is a crash of the case it was at. Everything but success and a one-line InputError is bad.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import select
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
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fuzz_kinds import KINDS, Kind
from fuzz_mutations import damage

from tuplet import InputError

SECONDS = 30  # for one case
MEMORY = 6 * 2**30  # address space of a process, beyond what it has at the start
BATCH = 500  # cases of one process


@dataclass(frozen=True)
class Outcome:
    """What became of a case: "read", "refused", or what went wrong."""

    case: int
    kind: str
    word: str

    @property
    def bad(self) -> bool:
        return self.word not in ("read", "refused")


def kind_of(case: int, kinds: list[Kind]) -> Kind:
    """The kind of file of a case."""
    return kinds[case % len(kinds)]


def run_case(seed: int, case: int, kind: Kind, originals: Path, scratch: Path) -> str:
    """Damage a copy of the kind's files and read it: the outcome in a word."""
    rng = random.Random(f"{seed} {kind.name} {case}")
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(originals / kind.name, scratch)
    damage(rng, scratch, kind)
    try:
        kind.read(scratch / kind.path)
    except InputError as error:
        text = str(error)
        return "refused" if text.strip() and "\n" not in text else f"an error of {text.count(chr(10)) + 1} lines"
    return "read"


def work(seed: int, cases: list[tuple[int, Kind]], originals: Path, pipe: int) -> None:
    """Run cases in this process; a line before each one and a line after it."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    with tempfile.TemporaryDirectory() as folder:
        for case, kind in cases:
            os.write(pipe, f"start {case}\n".encode())
            try:
                word = run_case(seed, case, kind, originals, Path(folder) / "case")
            except BaseException as error:
                word = f"{type(error).__name__}: {error}".splitlines()[0][:160]
            os.write(pipe, f"end {case} {word}\n".encode())


def lines_of(pipe: int, pid: int) -> tuple[list[str], str]:
    """What a process said, and how it ended: "" or what killed it. One that says nothing for long is killed."""
    said, hung = b"", False
    while True:
        ready, _, _ = select.select([pipe], [], [], SECONDS)
        if not ready:
            os.kill(pid, signal.SIGKILL)
            hung = True
            continue
        block = os.read(pipe, 2**16)
        if not block:
            break
        said += block
    _, status = os.waitpid(pid, 0)
    end = "" if status == 0 else f"hung for {SECONDS} s" if hung else f"died (status {status})"
    return said.decode(errors="replace").splitlines(), end


def run_batch(seed: int, cases: list[tuple[int, Kind]], originals: Path) -> list[Outcome]:
    """All outcomes of some cases; after a crash a new process goes on behind the case that crashed."""
    found: list[Outcome] = []
    while cases:
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(reading)
            try:
                work(seed, cases, originals, writing)
            finally:
                os._exit(0)
        os.close(writing)
        lines, end = lines_of(reading, pid)
        os.close(reading)
        names = {case: kind.name for case, kind in cases}
        ended = [line.split(" ", 2) for line in lines if line.startswith("end ")]
        found += [Outcome(int(case), names[int(case)], word) for _, case, word in ended]
        if len(ended) == len(cases):
            break
        started = [int(line.split()[1]) for line in lines if line.startswith("start ")]
        crashed = started[-1] if len(started) > len(ended) else cases[len(ended)][0]
        found.append(Outcome(crashed, names[crashed], end or "ended without a word"))
        cases = [(case, kind) for case, kind in cases if case > crashed]
    return found


def make_originals(kinds: list[Kind], folder: Path) -> None:
    """Write good files of each kind, in a process of its own: this one must own no threads when it forks."""
    pid = os.fork()
    if not pid:
        try:
            for kind in kinds:
                (folder / kind.name).mkdir()
                kind.make(folder / kind.name)
                shutil.copytree(folder / kind.name, folder / "whole" / kind.name)
                kind.read(folder / "whole" / kind.name / kind.path)  # what is damaged later must be good now
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    if os.waitpid(pid, 0)[1]:
        sys.exit("the good files could not be made")


def run(seed: int, cases: range, kinds: list[Kind], tell: Callable[[str], None] = print) -> list[Outcome]:
    """The outcomes of all cases."""
    found: list[Outcome] = []
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        make_originals(kinds, Path(folder))
        todo = [(case, kind_of(case, kinds)) for case in cases]
        for at in range(0, len(todo), BATCH):
            batch = run_batch(seed, todo[at : at + BATCH], Path(folder))
            found += batch
            for outcome in batch:
                if outcome.bad:
                    tell(f"case {outcome.case} ({outcome.kind}): {outcome.word}")
            if at // BATCH % 20 == 0:
                tell(f"{len(found)} of {len(todo)} cases, {time.monotonic() - start:.0f} s")
    return found


def table(found: list[Outcome]) -> str:
    """Counts by kind, as Markdown."""
    lines = ["| kind | cases | read | refused in one line | bad |", "|---|--:|--:|--:|--:|"]
    for name in dict.fromkeys(outcome.kind for outcome in found):
        own = [outcome for outcome in found if outcome.kind == name]
        count: Any = Counter(outcome.word for outcome in own)
        bad = sum(outcome.bad for outcome in own)
        lines.append(f"| {name} | {len(own)} | {count['read']} | {count['refused']} | {bad} |")
    words = [outcome.word for outcome in found]
    bad = sum(outcome.bad for outcome in found)
    return "\n".join([*lines, f"| all | {len(found)} | {words.count('read')} | {words.count('refused')} | {bad} |"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", default="", help=f"one of: {', '.join(kind.name for kind in KINDS)}")
    parser.add_argument("--only", type=int, help="run this case alone, in this process, and show its traceback")
    parser.add_argument("--json", type=Path, help="write the counts here")
    options = parser.parse_args()
    kinds = [kind for kind in KINDS if options.kind in ("", kind.name)]
    if options.only is not None:
        again(options.seed, options.only, kind_of(options.only, kinds))
        return
    found = run(options.seed, range(options.cases), kinds)
    print(table(found))
    bad = sum(outcome.bad for outcome in found)
    if options.json is not None:
        options.json.write_text(json.dumps({"cases": len(found), "bad": bad}))
    sys.exit(1 if bad else 0)


def again(seed: int, case: int, kind: Kind) -> None:
    """One case in this process; its files stay for a look."""
    folder = Path(tempfile.mkdtemp())
    (folder / kind.name).mkdir()
    kind.make(folder / kind.name)
    try:
        print(run_case(seed, case, kind, folder, folder / "case"), folder / "case")
    except Exception:
        traceback.print_exc()
        print(folder / "case")


if __name__ == "__main__":
    main()
