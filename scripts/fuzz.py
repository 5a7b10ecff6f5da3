"""Damaged files of every kind, in processes whose crash is seen: a reader succeeds or says in one line what is wrong.

    python scripts/fuzz.py --workers 16                   100,000 cases, seed 0; a table of counts by kind
    python scripts/fuzz.py --cases 10000 --seed 1 --workers 2     what .ci/run does
    python scripts/fuzz.py --seed 1 --only 4711           one case again, with its traceback

A case is a number: it chooses the kind of file and the damage, whatever the number of workers. Cases run in forked
processes with bounded memory and time (fuzz_workers.py), over files in memory where the system has a place for them;
a process that dies is a crash of the case it was at. Everything but success and a one-line InputError is bad.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}  # the inputs are small, and a worker has one core
sys.path.insert(0, str(Path(__file__).resolve().parent))

from fuzz_graph import Kind
from fuzz_kinds import KINDS
from fuzz_mutations import damage
from fuzz_workers import Outcome, run_all

from tuplet import InputError


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


def run(seed: int, cases: range, kinds: list[Kind], workers: int = 1) -> list[Outcome]:
    """The outcomes of all cases, in their order."""
    quick = Path("/dev/shm")
    place = quick if os.access(quick, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as name:
        folder = Path(name)
        make_originals(kinds, folder)

        def one(case: int, scratch: Path) -> str:
            return run_case(seed, case, kind_of(case, kinds), folder, scratch)

        words = run_all(one, cases, workers, folder, lambda line: print(line, flush=True))
    return [Outcome(case, kind_of(case, kinds).name, words[case]) for case in cases]


def table(found: list[Outcome]) -> str:
    """Counts by kind, as Markdown."""
    lines = ["| kind | cases | read | refused in one line | bad |", "|---|--:|--:|--:|--:|"]
    names = list(dict.fromkeys(outcome.kind for outcome in found))
    for name in [*names, "all"]:
        own = [outcome for outcome in found if name in (outcome.kind, "all")]
        count = Counter("bad" if outcome.bad else outcome.word for outcome in own)
        lines.append(f"| {name} | {len(own)} | {count['read']} | {count['refused']} | {count['bad']} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--kind",
        default="",
        help=f"a kind, or several with + between them: of {', '.join(kind.name for kind in KINDS)}",
    )
    parser.add_argument("--only", type=int, help="run this case alone, in this process, and show its traceback")
    parser.add_argument("--out", type=Path, help="a folder for fuzz.md, the table, and fuzz.json, what was bad")
    options = parser.parse_args()
    kinds = [kind for kind in KINDS if options.kind == "" or kind.name in options.kind.split("+")]
    if options.only is not None:
        again(options.seed, options.only, kind_of(options.only, kinds))
        return
    start = time.monotonic()
    found = run(options.seed, range(options.cases), kinds, options.workers)
    seconds = time.monotonic() - start
    print(table(found), f"\n{seconds:.0f} s", flush=True)
    bad = [f"case {outcome.case} ({outcome.kind}): {outcome.word}" for outcome in found if outcome.bad]
    if options.out is not None:
        facts = {"cases": len(found), "seed": options.seed, "workers": options.workers, "seconds": round(seconds)}
        (options.out / "fuzz.json").write_text(json.dumps({**facts, "bad": bad}, indent=1) + "\n")
        (options.out / "fuzz.md").write_text(table(found) + "\n")
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
