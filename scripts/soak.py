"""Mixed work for a long time: memory, open files and threads stay flat, and every result keeps its bits.

    python scripts/soak.py --minutes 60                 one process
    python scripts/soak.py --minutes 60 --processes 4   four at once, which also write into one shared folder

A round takes the next of eight inputs (soak_work.py), reads and converts tables, fits, embeds, saves, loads, resumes
from a checkpoint, clusters, classifies, writes vectors, runs the command line and meets damaged files; each 40th
writes a report. Every result must have the bits that the same input gave before. A process measures itself after each
round. Bad is: another result, any error, files left over, or a last quarter above the second quarter by more than
16 MB (medians of the resident memory), 3 open files or 3 threads. Processes are held to one thread a pool.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

LIMITS = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
GROWTH = {"MB": 16, "files": 3, "threads": 3}  # of the last quarter over the second one
sys.path.insert(0, str(Path(__file__).resolve().parent))


def measure() -> dict[str, float]:
    """Resident memory, open files and threads of this process, after it gave back what is free."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    files = sum(1 for _ in Path("/proc/self/fd").iterdir())
    return {"MB": int(status["VmRSS"].split()[0]) / 1024, "files": files, "threads": int(status["Threads"])}


def soak(minutes: float, number: int, shared: str, series: str) -> dict[str, Any]:
    """Rounds for so many minutes in this process: what was seen."""
    from soak_work import INPUTS, left_over, one_round

    rows: list[dict[str, float]] = []
    truth: dict[int, dict[str, str]] = {}
    bad: list[str] = []
    results = 0
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as own:
        while (time.monotonic() < end or len(rows) < 2 * INPUTS) and len(bad) < 20:
            which = len(rows) % INPUTS
            try:
                found = one_round(len(rows), Path(own), Path(shared))
            except Exception as error:
                traceback.print_exc()
                bad.append(f"round {len(rows)}: {type(error).__name__}: {error}"[:200])
                found = {}
            wrong = [name for name, sum_ in found.items() if truth.setdefault(which, found).get(name) != sum_]
            bad += [f"round {len(rows)}: another result: {wrong}"] if wrong else []
            bad += [f"round {len(rows)}: left over: {names}" for names in [left_over(Path(own))] if names]
            results += len(found)
            rows.append({"round": len(rows), "seconds": round(time.monotonic() - end + 60 * minutes, 1), **measure()})
            if series:
                Path(f"{series}-{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return judged(number, rows, results, bad)


def judged(number: int, rows: list[dict[str, float]], results: int, bad: list[str]) -> dict[str, Any]:
    """The row of the table: medians of the second and the last quarter, and what was bad."""
    quarter = len(rows) // 4
    facts: dict[str, Any] = {"process": number, "rounds": len(rows), "results": results}
    for name, most in GROWTH.items():
        early, late = (statistics.median(row[name] for row in rows[i * quarter :][:quarter]) for i in (1, 3))
        facts |= {f"{name}, second quarter": round(early), f"{name}, last quarter": round(late)}
        bad += [f"{name} grew by {late - early:.0f}"] if late - early > most else []
    return {**facts, "bad": "; ".join(bad[:5])}


def table(rows: list[dict[str, Any]]) -> str:
    """Rows of equal names, as Markdown."""
    lines = [list(rows[0]), ["--:"] * len(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--series", default="", help="write what was measured to SERIES-NUMBER.jsonl")
    options = parser.parse_args()
    os.environ |= dict.fromkeys(LIMITS, "1")
    from soak_work import prepare

    with tempfile.TemporaryDirectory() as shared:
        prepare(Path(shared))
        work = [(options.minutes, i, shared, options.series) for i in range(options.processes)]
        with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
            seen = pool.starmap(soak, work, chunksize=1)
    print(table(seen))
    sys.exit(1 if any(row["bad"] for row in seen) else 0)


if __name__ == "__main__":
    main()
