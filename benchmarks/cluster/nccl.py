"""Training by NCCL on one GPU: one worker that exchanges with itself, and two that share the GPU by gloo.

python benchmarks/cluster/nccl.py -o nccl.jsonl [--device cpu]

All three losses on filtered rows of an R-MAT graph. Each way is `tuplet train` as a process: plain (no exchange);
under torch.distributed.run with one worker, where every message goes through NCCL; `--workers 2`; plain again. As
many run at once as there are cores. A row has the checksum of the vectors and how far they are at most from the plain
ones (unit vectors).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

METHODS = ("DMAT-i", "DMAT", "DMT")
WAYS = {  # workers, under torch.distributed.run
    "plain": (1, False),
    "one worker, distributed": (1, True),
    "two workers": (2, False),
    "plain, again": (1, False),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--limit", type=float, default=40, help="Seconds of each training.")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        make_rows(Path(place), args.nodes)
        runs = {
            pool.submit(trained, Path(place), method, way, args): (method, way) for way in WAYS for method in METHODS
        }
        plain = {method: run for run, (method, way) in runs.items() if way == "plain"}
        for run in as_completed(runs):
            method, way = runs[run]
            facts = compared(run.result(), plain[method].result().get("made"))
            row = {"bench": "nccl", "method": method, "way": way, "device": args.device, **facts}
            with args.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)


def make_rows(folder: Path, n: int) -> None:
    """Filtered rows and labels: seven groups by the largest of the first columns."""
    from tuplet.filters import GraphFilter
    from tuplet.filters.weights import ppr
    from tuplet.graph.synth import rmat

    x = np.random.default_rng(0).random((n, 64), dtype=np.float32)
    rows = GraphFilter(ppr(0.15), device="cpu").transform(rmat(n, 8, seed=0).with_(x=x))
    np.save(folder / "rows.npy", rows)
    np.save(folder / "labels.npy", rows[:, :7].argmax(1))


def compared(row: dict[str, Any], plain: Any) -> dict[str, Any]:
    """The row with its vectors' checksum and their distance from the plain ones."""
    made = row.get("made")
    facts = {name: value for name, value in row.items() if name != "made"}
    if made is None or plain is None:
        return facts
    same = hashlib.sha256(made.tobytes()).hexdigest()[:16]
    return {**facts, "vectors": same, "difference": float(np.abs(made - plain).max())}


def trained(folder: Path, method: str, way: str, args: argparse.Namespace) -> dict[str, Any]:
    """Train in a process of its own; seconds, NCCL's version where it was used, and the vectors of all rows."""
    workers, distributed = WAYS[way]
    model = folder / re.sub(r"\W", "", f"{method}{way}")
    sets = ["--set", f"max_steps={args.steps}", "--set", "layers=[64, 32]"]
    words = ["tuplet.cli", "train", f"{folder}/rows.npy", "--method", method, "--workers", str(workers)]
    words += ["--device", args.device, *sets, "-o", str(model), "--quiet"]
    words += [] if method == "DMAT-i" else ["--labels", f"{folder}/labels.npy"]
    start_by = ["torch.distributed.run", "--standalone", "--local-addr=127.0.0.1", "--nproc-per-node=1", "-m"]
    start = time.perf_counter()
    code, told = ended([sys.executable, "-m", *(start_by if distributed else []), *words], args.limit)
    row: dict[str, Any] = {"seconds": round(time.perf_counter() - start, 2)}
    version = re.search(r"NCCL version (\S+)", told)
    if version:
        row["nccl"] = version.group(1)
    if code:
        return {**row, "error": told[-2000:] if code > 0 else f"no end after {args.limit} s: {told[-1000:]}"}
    return {**row, "made": vectors(model, folder / "rows.npy")}


def ended(command: list[str], limit: float) -> tuple[int, str]:
    """The exit code (-1: it was ended after `limit` seconds, its workers too) and what it told."""
    env = {**os.environ, "NCCL_DEBUG": "VERSION", "OMP_NUM_THREADS": "1"}
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    try:
        told = run.communicate(timeout=limit)[0]
        return abs(run.returncode), told
    except subprocess.TimeoutExpired:
        run.terminate()  # so that a launcher ends its workers
    try:
        return -1, run.communicate(timeout=8)[0]
    except subprocess.TimeoutExpired:
        run.kill()
        return -1, ""


def vectors(model: Path, rows: Path) -> Any:
    """Unit vectors of the rows by that model, on the CPU."""
    from tuplet.models.saving import load
    from tuplet.rows.unit import scale_rows
    from tuplet.training.encoder import encode

    return scale_rows(encode(load(model).encoder_.cpu(), np.load(rows)))


if __name__ == "__main__":
    main()
