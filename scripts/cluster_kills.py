"""Kills on a cluster of raylets on this machine: workers, raylets, drivers and training workers; equal results.

    python scripts/cluster_kills.py -o kills.jsonl         30 kills; needs tuplet[cluster]
    python scripts/cluster_kills.py --kills 4 --job filter

Each case runs a command of its own process on a cluster of three raylets (training: two workers), kills one process
of a kind when a random one of its blocks was begun (training: when a random one of its checkpoints was written, or
half a second after its workers began), starts a killed driver again, and compares the result with that of a run
without a kill: all bytes of rows, vectors and graph, all weights of a model. Only processes that this script has
started are killed. "agents" trains by two launchers with one worker each, as two machines would. What a case that
failed said is kept.

"again" is the number of blocks (of columns, of vectors, of edges) that were begun more than once: a killed worker or
raylet had one task, a killed driver has one on each of the three raylets, and what was finished is not made again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cluster_count
import numpy as np

COUNTED = "import cluster_count; cluster_count.patch()\n"
CLI = COUNTED + "from tuplet.cli import main; main()"
FILTER = (
    COUNTED
    + """
from tuplet import GraphFilter
from tuplet.io.folder import open_graph
GraphFilter(device="cpu").transform(open_graph(r"{store}"), out=r"{out}/rows.npy", engine="ray")
"""
)
KINDS = {"filter": ["worker", "raylet", "driver"], "embed": ["worker", "raylet", "driver"],
         "convert": ["worker", "raylet", "driver"], "train": ["rank", "launcher"], "agents": ["rank"]}  # fmt: skip
STEPS, EVERY = 300, 20  # of training, and between checkpoints
WRITTEN = STEPS // EVERY


@dataclass(frozen=True)
class Job:
    """`words(out)`: the command; `result(out)`: a sum of what it leaves."""

    name: str
    words: Callable[[Path], list[str]]
    result: Callable[[Path], str]
    launchers: int = 1


def jobs(folder: Path) -> dict[str, Job]:
    store, cli = folder / "store", [sys.executable, "-m", "tuplet.cli"]
    counted = [sys.executable, "-c", CLI]
    embed = ["embed", str(store), "--engine", "ray", "--method", "DMAT-i", "--device", "cpu", "-q",
             "--set", "max_steps=5"]  # fmt: skip
    train = ["train", str(folder / "rows.npy"), "--workers", "2", "--every", str(EVERY), "--device", "cpu", "-q",
             "--set", f"max_steps={STEPS}", "--set", "batch_size=256", "--set", "layers=(64, 32)"]  # fmt: skip
    return {
        "filter": Job(
            "filter",
            lambda out: [sys.executable, "-c", FILTER.format(store=store, out=out)],
            lambda out: file_hash(out / "rows.npy"),
        ),
        "embed": Job(
            "embed",
            lambda out: [*counted, *embed, "--cache", str(out / "cache"), "-o", f"{out}/vectors/"],
            lambda out: vectors_hash(out / "vectors"),
        ),
        "convert": Job(
            "convert",
            lambda out: [*counted, "convert", f"{folder}/edges/*.parquet", str(out / "g"), "--engine", "ray", "-q"],
            lambda out: folder_hash(out / "g"),
        ),
        "train": Job(
            "train",
            lambda out: [*cli, *train, "-o", str(out / "model"), "--checkpoint", str(out / "run"), *resume(out)],
            lambda out: file_hash(out / "model" / "weights.safetensors"),
        ),
        "agents": Job(
            "agents",
            lambda out: [
                *cli,
                *train,
                "-o",
                str(out / "model"),
                "--checkpoint",
                str(out / "run"),
                "--machines",
                "2",
                "--head",
                f"localhost:{port_of(out)}",
            ],
            lambda out: file_hash(out / "model" / "weights.safetensors"),
            launchers=2,
        ),
    }


def port_of(out: Path) -> int:
    """A port for this case, the same for both launchers."""
    return 20_000 + int(hashlib.blake2b(str(out).encode(), digest_size=2).hexdigest(), 16) % 20_000


def resume(out: Path) -> list[str]:
    return ["--resume"] if (out / "run" / "checkpoint.safetensors").exists() else []


def file_hash(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()


def folder_hash(folder: Path) -> str:
    """A sum of all files of a graph."""
    sums = "".join(file_hash(path) for path in sorted(folder.iterdir()))
    return hashlib.blake2b(sums.encode(), digest_size=8).hexdigest()


def vectors_hash(folder: Path) -> str:
    from tuplet.io.vectors import read_vectors

    found = read_vectors(folder)
    return hashlib.blake2b(found.z.tobytes() + found.ids.tobytes(), digest_size=8).hexdigest()


def make_inputs(folder: Path, nodes: int) -> None:
    import pyarrow as pa
    from pyarrow import parquet as pq

    from tuplet.graph.synth import rmat
    from tuplet.io.folder import save_graph

    graph = rmat(nodes, 10, seed=0)
    x = np.random.default_rng(0).standard_normal((nodes, 128), dtype=np.float32)
    save_graph(graph.with_(x=x), folder / "store")
    np.save(folder / "rows.npy", x[:, :64])
    (folder / "edges").mkdir()
    ends = np.column_stack([np.repeat(np.arange(nodes), np.diff(graph.indptr)), graph.indices])
    for i, part in enumerate(np.array_split(ends[ends[:, 0] < ends[:, 1]], 6)):
        pq.write_table(pa.table({"source": part[:, 0], "target": part[:, 1]}), folder / "edges" / f"{i}.parquet")


class Raylets:
    """Three raylets of two CPUs; one that is killed is replaced before the next case."""

    def __init__(self) -> None:
        os.environ |= {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
        from ray.cluster_utils import Cluster

        self.cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
        self.nodes = [self.cluster.add_node(num_cpus=2) for _ in range(2)]
        os.environ["RAY_ADDRESS"] = self.cluster.address

    def kill(self, rng: random.Random) -> None:
        self.cluster.remove_node(self.nodes.pop(rng.randrange(len(self.nodes))), allow_graceful=False)

    def refill(self) -> None:
        while len(self.nodes) < 2:
            self.nodes.append(self.cluster.add_node(num_cpus=2))

    def close(self) -> None:
        self.cluster.shutdown()


def below(pid: int) -> list[int]:
    """All processes below `pid`, by what /proc tells."""
    try:
        own = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [one for child in own for one in (child, *below(child))]


def busy_workers() -> list[int]:
    """Ray workers below this script that run a task now: their title names it."""
    found = []
    for pid in below(os.getpid()):
        try:
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::_call"):
                found.append(pid)
        except OSError:
            continue
    return found


def ranks(launcher: int) -> list[int]:
    """Training workers below a launcher: they, and not the launchers, have a rank."""
    found = []
    for pid in below(launcher):
        try:
            words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.startswith(b"LOCAL_RANK=") for word in words):
            found.append(pid)
    return found


def strike(kind: str, process: subprocess.Popen[bytes], raylets: Raylets | None, rng: random.Random) -> bool:
    """Kill one process of that kind; False where there is none (yet)."""
    if kind == "raylet":
        assert raylets is not None
        if not busy_workers():
            return False
        raylets.kill(rng)
        return True
    if kind in ("driver", "launcher"):
        os.kill(process.pid, signal.SIGKILL)
        return True
    found = busy_workers() if kind == "worker" else ranks(process.pid)
    if found:
        os.kill(rng.choice(found), signal.SIGKILL)
    return bool(found)


class Checkpoints:
    """How often a file was seen to be another one than before."""

    def __init__(self, path: Path) -> None:
        self.path, self.last, self.count = path, 0, 0

    def seen(self) -> int:
        now = self.path.stat().st_mtime_ns if self.path.exists() else 0
        self.count += now != self.last
        self.last = now
        return self.count


def _working(process: subprocess.Popen[bytes]) -> bool:
    """Whether the workers below have begun; then half a second has passed since."""
    found = bool(ranks(process.pid))
    time.sleep(0.5 if found else 0)
    return found


def one_case(
    job: Job, kind: str, truth: str, blocks: int, raylets: Raylets | None, rng: random.Random
) -> dict[str, Any]:
    """Run, kill, start again where the driver was killed, compare."""
    out, log = Path(tempfile.mkdtemp(prefix="kills-")), Path(os.environ["TASK_LOG"])
    log.unlink(missing_ok=True)
    marks = Checkpoints(out / "run" / "checkpoint.safetensors")
    wait, struck = rng.randint(1, blocks) if blocks else rng.randint(0, WRITTEN - 2), False
    words = [out / f"told-{i}" for i in range(job.launchers)]
    process, *others = [_started(job, out, path) for path in words]
    while process.poll() is None:
        passed = cluster_count.begun_in(log) if blocks else marks.seen()
        if not struck and passed >= wait and (blocks or wait or _working(process)):
            struck = strike(kind, process, raylets, rng)
        time.sleep(0.02)
    code = max([process.returncode, *(other.wait() for other in others)], key=abs)
    told = "\n".join(path.read_text(errors="replace") for path in words)
    if kind in ("driver", "launcher") and struck:
        time.sleep(1)
        again = subprocess.run(job.words(out), capture_output=True, text=True)
        code, told = again.returncode, again.stderr
    good = code == 0 and job.result(out) == truth
    if good:
        shutil.rmtree(out, ignore_errors=True)
    row = {"bench": "kills", "job": job.name, "kind": kind, "struck": struck, "at": round(wait, 2), "equal": good}
    if blocks:
        row |= {"blocks": blocks, "again": cluster_count.again_in(log)}
    return row | ({} if good else {"code": code, "told": told[-2000:], "kept": str(out)})


def _started(job: Job, out: Path, told: Path) -> subprocess.Popen[bytes]:
    """The command, with what it says on standard error in a file."""
    with told.open("wb") as file:
        environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}
        return subprocess.Popen(job.words(out), stdout=subprocess.DEVNULL, stderr=file, env=environment)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--job", choices=KINDS)
    parser.add_argument("--nodes", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--out", type=Path)
    args = parser.parse_args()
    rng, rows, raylets = random.Random(args.seed), [], None
    wanted = [args.job] if args.job else [job for job in KINDS if job != "agents"]
    pairs = [(job, kind) for job in wanted for kind in KINDS[job]]
    with tempfile.TemporaryDirectory(prefix="kills-in-") as name:
        os.environ["TASK_LOG"] = f"{name}/calls"
        os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        make_inputs(Path(name), args.nodes)
        known, truths = jobs(Path(name)), {}
        try:
            raylets = Raylets() if any(job not in ("train", "agents") for job, _ in pairs) else None
            count = tries = 0
            while count < args.kills and tries < 2 * args.kills:
                job, kind = pairs[tries % len(pairs)]
                tries += 1
                if job not in truths:
                    truths[job] = undisturbed(known[job])
                row = one_case(known[job], kind, *truths[job], raylets, rng)
                count += row["struck"]
                rows.append(row)
                print(json.dumps(row), flush=True)
                if raylets is not None:
                    raylets.refill()
        finally:
            if raylets is not None:
                raylets.close()
            if args.out:
                args.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    bad = [row for row in rows if not row["equal"]]
    again = max((row.get("again", 0) for row in rows), default=0)
    kills = sum(row["struck"] for row in rows)
    print(f"{kills} kills in {len(rows)} cases, {len(bad)} unequal results; at most {again} blocks begun again")
    return bool(bad)


def undisturbed(job: Job) -> tuple[str, int]:
    """The result of a run that nobody kills, and its blocks."""
    out, log = Path(tempfile.mkdtemp(prefix="kills-")), Path(os.environ["TASK_LOG"])
    log.unlink(missing_ok=True)
    start = time.perf_counter()
    started = [subprocess.Popen(job.words(out), stdout=subprocess.DEVNULL) for _ in range(job.launchers)]
    if any(process.wait() for process in started):
        raise SystemExit(f"{job.name} fails without any kill")
    took, found = time.perf_counter() - start, job.result(out)
    shutil.rmtree(out, ignore_errors=True)
    blocks = cluster_count.begun_in(log)
    print(f"{job.name}: {took:.1f} s, {blocks} blocks, {found}", flush=True)
    return found, blocks


if __name__ == "__main__":
    sys.exit(main())
