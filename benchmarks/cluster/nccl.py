"""Training by NCCL on one GPU: one worker that exchanges with itself, and two that share the GPU by gloo.

python benchmarks/cluster/nccl.py -o nccl.jsonl [--device cpu]

All three losses on filtered rows of an R-MAT graph. Each way is `tuplet train` as a process: plain (no exchange);
under torch.distributed.run with one worker, where every message goes through NCCL; `--workers 2`; plain on the CPU. A
row has the checksum of the vectors and how far they are at most from the plain ones (unit vectors).
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
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

METHODS = ("DMAT-i", "DMAT", "DMT")
LIMIT_S = 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_rows(folder, args.nodes)
        lock = threading.Lock()

        def tell(row: dict[str, Any]) -> None:
            with lock, args.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
                print(json.dumps(row), flush=True)

        with ThreadPoolExecutor(len(METHODS)) as pool:
            list(pool.map(lambda method: ways(folder, method, args.device, args.steps, tell), METHODS))


def make_rows(folder: Path, n: int) -> None:
    """Filtered rows and labels: seven groups by the largest of the first columns."""
    from tuplet.filters import GraphFilter
    from tuplet.filters.weights import ppr
    from tuplet.graph.synth import rmat

    x = np.random.default_rng(0).random((n, 64), dtype=np.float32)
    rows = GraphFilter(ppr(0.15), device="cpu").transform(rmat(n, 8, seed=0).with_(x=x))
    np.save(folder / "rows.npy", rows)
    np.save(folder / "labels.npy", rows[:, :7].argmax(1))


def ways(folder: Path, method: str, device: str, steps: int, tell: Callable[[dict[str, Any]], None]) -> None:
    """Train by that method in each way, and tell a row of each."""
    plain = None
    for way, how in {
        "plain": (1, device, False),
        "one worker, distributed": (1, device, True),
        "plain, again": (1, device, False),
        "two workers": (2, device, False),
        "plain, cpu": (1, "cpu", False),
    }.items():
        row = trained(folder, method, way, steps, *how)
        plain = row.get("made") if way == "plain" else plain
        tell({"bench": "nccl", "method": method, "way": way, "device": device, **facts(row, plain)})


def facts(row: dict[str, Any], plain: Any) -> dict[str, Any]:
    """The row with its vectors' checksum and their distance from the plain ones."""
    made = row.pop("made", None)
    if made is None or plain is None:
        return row
    same = hashlib.sha256(made.tobytes()).hexdigest()[:16]
    return {**row, "vectors": same, "difference": float(np.abs(made - plain).max())}


def trained(folder: Path, method: str, way: str, steps: int, workers: int, device: str, distributed: bool) -> Any:
    """Train in a process of its own; seconds, NCCL's version where it was used, and the vectors of all rows."""
    model = folder / re.sub(r"\W", "", f"{method}{way}")
    words = ["tuplet.cli", "train", f"{folder}/rows.npy", "--method", method, "--workers", str(workers)]
    words += [
        "--device",
        device,
        "--set",
        f"max_steps={steps}",
        "--set",
        "layers=[64, 32]",
        "-o",
        str(model),
        "--quiet",
    ]
    words += [] if method == "DMAT-i" else ["--labels", f"{folder}/labels.npy"]
    start_by = ["torch.distributed.run", "--standalone", "--local-addr=127.0.0.1", "--nproc-per-node=1", "-m"]
    command = [sys.executable, "-m", *(start_by if distributed else []), *words]
    start = time.perf_counter()
    try:
        told = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT_S, env={**os.environ, "NCCL_DEBUG": "VERSION"}
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no end after {LIMIT_S} s"}
    row: dict[str, Any] = {"seconds": round(time.perf_counter() - start, 2)}
    version = re.search(r"NCCL version (\S+)", told.stdout + told.stderr)
    if version:
        row["nccl"] = version.group(1)
    if told.returncode:
        return {**row, "error": (told.stderr or told.stdout)[-2000:]}
    return {**row, "made": vectors(model, folder / "rows.npy")}


def vectors(model: Path, rows: Path) -> Any:
    """Unit vectors of the rows by that model, on the CPU."""
    from tuplet.models.saving import load
    from tuplet.rows.unit import scale_rows
    from tuplet.training.encoder import encode

    return scale_rows(encode(load(model).encoder_.cpu(), np.load(rows)))


if __name__ == "__main__":
    main()
