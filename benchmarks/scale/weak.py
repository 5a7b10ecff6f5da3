"""Weak scaling on one machine: 1, 2, 4, 8 workers of 2 threads each, the work growing with them.

    python benchmarks/scale/weak.py -o weak.jsonl          two to three minutes on 16 cores; needs no Ray
    python benchmarks/scale/weak.py --workers 1 2 --threads 1 --nodes 50000

Two kinds of workers. "processes": plain processes, as an engine's tasks are; each filters 32 columns of its own of
one R-MAT graph (20 edges a node) on disk. "torch.distributed": training by `tuplet.training.sharded`, 512 rows of the
batch for each worker. Every worker has cores of its own (CPU affinity), as many as threads. Workers meet at
127.0.0.1; a stage that takes longer than --limit seconds ends with a message, and rows that are measured are kept.

A row has the seconds of the slowest worker and the efficiency, seconds of one worker / seconds of so many. In
training every row is compared with the whole batch, so a worker's work grows with their number; "alone" is one worker
with the whole batch of so many, and the speed-up the ratio of the two.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

COLUMNS, BATCH, STEPS, STEPS_ALONE, WARM = 32, 512, 20, 4, 3
THREADS = int(os.environ.get("WEAK_THREADS", "2"))  # of a worker; --threads tells the workers by this


def main() -> None:
    global THREADS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--limit", type=float, default=120, help="seconds for one number of workers")
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--child", choices=["filter", "train"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--number", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child == "filter":
        filter_child(args.folder, args.number)
        return
    if args.child == "train":
        train_child(args.folder)
        return
    THREADS = args.threads
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_store(folder, args.nodes, COLUMNS * max(args.workers))
        rows: list[dict[str, Any]] = []
        for kind, seconds in KINDS.items():
            counts = [count for count in args.workers if kind != "alone" or count > 1]
            for row in scaled(kind, counts, folder, seconds, args.limit):
                rows.append({**row, "nodes": args.nodes, "threads": THREADS, "cores": os.cpu_count(),
                             "machine": machine()})  # fmt: skip
                print(json.dumps(rows[-1]), flush=True)
                if args.out:
                    with args.out.open("a") as file:
                        file.write(json.dumps(rows[-1]) + "\n")
    print(table(rows))


def table(rows: list[dict[str, Any]]) -> str:
    """Seconds and efficiency by number of workers, in Markdown."""
    found = {(row["kind"], row["workers"]): row for row in rows}
    names = ("workers", "filter s", "efficiency", "training step s", "efficiency", "step of one worker s", "speed-up")
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for count in sorted({count for _, count in found}):
        filtering, training, alone = (found.get((kind, count)) for kind in KINDS)
        cells = [*_cells(filtering), *_cells(training), f"{alone['seconds']:.3g}" if alone else ""]
        cells += [f"{alone['seconds'] / training['seconds']:.2f}" if alone and training else ""]
        lines.append(f"| {count} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cells(row: dict[str, Any] | None) -> list[str]:
    return [f"{row['seconds']:.3g}", f"{row['efficiency']:.2f}"] if row else ["", ""]


def scaled(kind: str, counts: list[int], folder: Path, seconds: Any, limit: float) -> Iterator[dict[str, Any]]:
    """A row for each number of workers that the machine has cores for."""
    one: float | None = None
    for count in counts:
        if THREADS * count > max(THREADS, os.cpu_count() or 1):
            print(f"{count} workers of {THREADS} threads: too few cores, left out", file=sys.stderr)
            continue
        try:
            took = seconds(folder, count, limit)
        except (TimeoutError, subprocess.SubprocessError) as error:
            print(f"{kind}, {count} workers: {error}; left out", file=sys.stderr, flush=True)
            continue
        one = one or took
        yield {"bench": "weak", "kind": kind, "workers": count, "seconds": round(took, 4),
               "efficiency": round(one / took, 3)}  # fmt: skip


def make_store(folder: Path, nodes: int, columns: int) -> None:
    import numpy as np

    from tuplet.graph.synth import rmat
    from tuplet.io.folder import save_graph

    x = np.random.default_rng(0).standard_normal((nodes, columns), dtype=np.float32)
    save_graph(rmat(nodes, 20, seed=0).with_(x=x), folder / "graph")
    np.save(folder / "rows.npy", x[:, :COLUMNS])


def filter_seconds(folder: Path, count: int, limit: float) -> float:
    """Seconds from the common start until the last process is done."""
    words = [sys.executable, __file__, "--child", "filter", "--folder", str(folder)]
    started = [subprocess.Popen([*words, "--number", str(100 * count + i)], env=environment()) for i in range(count)]
    try:
        until = time.monotonic() + limit
        while len(list(folder.glob(f"ready-{count}??"))) < count:
            if any(process.poll() for process in started) or time.monotonic() > until:
                raise TimeoutError(f"a worker has failed, or was not ready within {limit:.0f} s")
            time.sleep(0.05)
        start = time.perf_counter()
        (folder / f"go-{count}").touch()
        if any(process.wait(max(1.0, until - time.monotonic())) for process in started):
            raise TimeoutError("a worker has failed")
    finally:
        for process in started:
            process.kill()
            process.wait()
    return max(float((folder / f"done-{100 * count + i}").read_text()) - start for i in range(count))


def filter_child(folder: Path, number: int) -> None:
    """Filter the columns of this worker when told to go. Clocks are one: `perf_counter` is the machine's on Linux."""
    count, i = divmod(number, 100)
    pin(i)
    from tuplet import GraphFilter
    from tuplet.filters.weights import ppr
    from tuplet.io.folder import open_graph

    graph = open_graph(folder / "graph")
    x = graph.x[:, COLUMNS * i : COLUMNS * (i + 1)].copy()
    spec = GraphFilter(ppr(0.1), device="cpu")
    spec.transform(graph, x=x)  # once before the start: kernels are compiled, files are in the page cache
    (folder / f"ready-{number}").touch()
    while not (folder / f"go-{count}").exists():
        time.sleep(0.001)
    spec.transform(graph, x=x)
    (folder / f"done-{number}").write_text(str(time.perf_counter()))


def train_seconds(folder: Path, count: int, limit: float) -> float:
    """Seconds of a training step, of batches that grow with the workers."""
    return step_seconds(folder, count, BATCH * count, STEPS, limit)


def alone_seconds(folder: Path, count: int, limit: float) -> float:
    """Seconds of a training step of one worker, of the batch of `count` workers."""
    return step_seconds(folder, 1, BATCH * count, STEPS_ALONE, limit)


def step_seconds(folder: Path, count: int, batch: int, steps: int, limit: float) -> float:
    (folder / "work.json").write_text(json.dumps({"batch": batch, "steps": steps}))
    where = ["--rdzv-backend=static", "--master-addr=127.0.0.1", f"--master-port={free_port()}", "--node-rank=0"]
    how = ["--nnodes=1", f"--nproc-per-node={count}", "--max-restarts=0", "--local-addr=127.0.0.1"]
    words = [sys.executable, "-m", "torch.distributed.run", *where, *how, __file__, "--child", "train"]
    process = subprocess.Popen([*words, "--folder", str(folder)], env=environment(), start_new_session=True)
    try:
        if process.wait(limit):
            raise TimeoutError(f"torch.distributed.run ended with {process.returncode}")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the launcher's own group: the workers are in it
        process.wait()
    return float((folder / "seconds").read_text()) / steps


KINDS = {"processes": filter_seconds, "torch.distributed": train_seconds, "alone": alone_seconds}


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def train_child(folder: Path) -> None:
    pin(int(os.environ["LOCAL_RANK"]))
    import numpy as np
    import torch

    from tuplet.training.config import TrainConfig
    from tuplet.training.encoder import make_encoder
    from tuplet.training.group import joined_group
    from tuplet.training.loop import train

    rows = np.load(folder / "rows.npy")
    work = json.loads((folder / "work.json").read_text())
    times: list[float] = []
    with joined_group(torch.device("cpu")) as group:
        config = TrainConfig(max_steps=WARM + work["steps"], batch_size=work["batch"])
        train(
            make_encoder(COLUMNS, (256, 256)), rows, config, device="cpu", group=group,
            progress=lambda _, part: times.append(time.perf_counter()),
        )  # fmt: skip
        if group.rank == 0:
            (folder / "seconds").write_text(str(times[-1] - times[WARM - 1]))


def pin(i: int) -> None:
    """THREADS cores for worker `i`."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[(THREADS * i + k) % len(cores)] for k in range(THREADS)})


def environment() -> dict[str, str]:
    """Of a worker. Gloo asks for the address of the machine's name unless it is told the interface."""
    known = {"OMP_NUM_THREADS": str(THREADS), "TUPLET_NUM_THREADS": str(THREADS), "WEAK_THREADS": str(THREADS)}
    known |= {"GLOO_SOCKET_IFNAME": "lo", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "CUDA_VISIBLE_DEVICES": ""}
    return {**os.environ, **known}


def machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


if __name__ == "__main__":
    main()
