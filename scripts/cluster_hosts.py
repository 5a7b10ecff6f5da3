"""The guide's commands for plain machines on hosts with own addresses, names and processes; equal results.

    python scripts/cluster_hosts.py -o hosts.jsonl             all parts; needs Linux, root, iproute2, tuplet[cluster]
    python scripts/cluster_hosts.py --part plain --part kill

Hosts are network namespaces of this machine (hosts.py): head, node1 and node2 are a Ray cluster of one CPU each, desk
runs the commands. "plain": every verb, and training and groups of rows on two machines; "names": the same training
where each host's own name means 127.0.1.1, as Debian installs it; "kill": a host loses power in the middle of a
filter, of a training; "head": the head of a training does; "cut": a host's cable is pulled in the middle, for good or
for a while; "bad": what is told of an absent head, a host that does not see the folder, another tuplet. What a
command told is kept in --logs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster_kills import file_hash, folder_hash, make_inputs, vectors_hash
from hosts import Hosts

TUPLET = [sys.executable, "-m", "tuplet.cli"]
RAY = str(Path(sys.executable).with_name("ray"))
ENGINE = ["--engine", "ray://head:10001"]
NAMES = ("head", "node1", "node2", "desk")
ENV = {
    "RAY_worker_niceness": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    "OMP_NUM_THREADS": "1",
}
SETS = ["--set", "max_steps=40", "--set", "layers=(64, 32)", "--device", "cpu", "-q"]
STEPS, EVERY = 400, 20
TRAIN_SETS = ["--set", f"max_steps={STEPS}", "--set", "layers=(64, 32)", "--set", "batch_size=256", *SETS[-3:]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--part", action="append", choices=list(PARTS))
    parser.add_argument("--logs", type=Path, default=Path(tempfile.gettempdir()) / "cluster-hosts")
    parser.add_argument("-o", "--out", type=Path)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the hosts end
    args.logs.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="hosts-", dir="/var/tmp"))
    try:
        lab = Lab(folder, args.logs, args.out)
        make_inputs(folder, args.nodes)
        lab.truth()
        for part in args.part or PARTS:
            PARTS[part](lab)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("all as expected" if not lab.wrong else f"NOT AS EXPECTED: {', '.join(lab.wrong)}")
    return bool(lab.wrong)


class Lab:
    """The shared folder, what one process makes of it, and the rows that were told."""

    def __init__(self, folder: Path, logs: Path, out: Path | None) -> None:
        self.folder, self.logs, self.out = folder, logs, out
        self.want: dict[str, str] = {}
        self.wrong: list[str] = []

    def truth(self) -> None:
        """Each verb in one process of this machine."""
        for name, (words, total) in verbs(self.folder, self.folder / "one").items():
            (self.folder / "one").mkdir(exist_ok=True)
            subprocess.run([*TUPLET, *words], check=True, env={**os.environ, **ENV})
            self.want[name] = total()
        self.truth_of_training()

    def truth_of_training(self) -> None:
        """Two workers on the rows of the folder."""
        words = train(self.folder, "one-model", 2)
        subprocess.run([*TUPLET, *words], check=True, env={**os.environ, **ENV})
        self.want["train"] = weights(self.folder, "one-model")

    def tell(self, part: str, what: str, seconds: float, found: str, want: str, **more: Any) -> None:
        """A row: what was found, and whether it is what was wanted."""
        good = found == want if len(want) == 16 and " " not in want else want in found
        row = {
            "bench": "hosts",
            "part": part,
            "what": what,
            "seconds": round(seconds, 1),
            "found": found,
            "equal": good,
        }
        row |= more
        if not good:
            row["wanted"] = want
            self.wrong.append(f"{part}: {what}")
        print(json.dumps(row), flush=True)
        if self.out:
            with self.out.open("a") as file:
                file.write(json.dumps(row) + "\n")

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.txt"


def verbs(folder: Path, out: Path) -> dict[str, tuple[list[str], Callable[[], str]]]:
    """Words of each verb but for its engine, and the sum of what it leaves in `out`."""
    graph, vectors = str(folder / "store"), f"{out}/vectors/"
    embed = ["--method", "DMAT-i", "--cache", f"{out}/cache", "-o", vectors, *SETS]
    return {
        "convert": (["convert", f"{folder}/edges/*.parquet", f"{out}/graph", "-q"],
                    lambda: folder_hash(out / "graph")),
        "filter": (["filter", graph, "-o", f"{out}/rows.npy", "-q"], lambda: file_hash(out / "rows.npy")),
        "embed": (["embed", graph, *embed], lambda: vectors_hash(out / "vectors")),
        "cluster": (["cluster", vectors, "-k", "5", "-o", f"{out}/clustered/", "--engine", "local", "-q"],
                    lambda: clusters_hash(out / "clustered")),
        # of the same vectors, for their settings, which the page tells, name the cache
        "report": (["report", f"{folder}/one/clustered/", "--graph", graph, "-o", f"{out}/r.html", "--sample", "1000",
                    "-q"], lambda: file_hash(out / "r.html")),
    }  # fmt: skip


def clusters_hash(folder: Path) -> str:
    import hashlib

    from tuplet.io.vectors import read_vectors

    return hashlib.blake2b(read_vectors(folder).cluster.tobytes(), digest_size=8).hexdigest()


def train(folder: Path, model: str, workers: int, *more: str) -> list[str]:
    return ["train", f"{folder}/rows.npy", "--workers", str(workers), "-o", f"{folder}/{model}", *TRAIN_SETS, *more]


def weights(folder: Path, model: str) -> str:
    file = folder / model / "weights.safetensors"
    return file_hash(file) if file.exists() else "no model"


def start_ray(hosts: Hosts, lab: Lab, more: Mapping[str, Any] | None = None) -> None:
    """The guide's commands, with one CPU a node."""
    for name in ("head", "node1", "node2"):
        where = ["--head", "--port=6379"] if name == "head" else ["--address=head:6379"]
        words = [RAY, "start", *where, "--num-cpus=1", "--object-store-memory=200000000"]
        if hosts.run(name, words, lab.log(f"ray-{name}"), {**ENV, **(more or {}).get(name, {})}):
            raise RuntimeError(lab.log(f"ray-{name}").read_text())


def told(path: Path) -> str:
    """The last line that a command wrote."""
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""


def lines(path: Path) -> int:
    return sum(bool(line.strip()) for line in path.read_text(errors="replace").splitlines())


def plain(lab: Lab) -> None:
    with Hosts(NAMES, lab.folder) as hosts:
        start_ray(hosts, lab)
        out = lab.folder / "many"
        out.mkdir()
        for name in verbs(lab.folder, out):
            on_engine(lab, hosts, "plain", name, out)
        on_two(lab, hosts, "plain")
        start = time.perf_counter()
        words = ["filter", f"{lab.folder}/store", "-o", f"{lab.folder}/grouped.npy", "--groups", "2", "-q"]
        codes = together(hosts, ("head", "node1"), lab, [*words, "--machines", "2", "--head", "head:29400"], "groups")
        found = file_hash(lab.folder / "grouped.npy") if codes == [0, 0] else told(lab.log("groups-head"))
        lab.tell(
            "plain",
            "filter, two groups of rows on two machines",
            time.perf_counter() - start,
            found,
            lab.want["filter"],
        )


def on_engine(lab: Lab, hosts: Hosts, part: str, name: str, out: Path) -> None:
    """A verb of the desk by the cluster."""
    words, total = verbs(lab.folder, out)[name]
    words = words[:-3] + words[-1:] if name == "cluster" else words  # its engine
    start = time.perf_counter()
    code = hosts.run("desk", [*TUPLET, *words, *ENGINE], lab.log(f"{part}-{name}"), ENV)
    found = total() if code == 0 else told(lab.log(f"{part}-{name}"))
    lab.tell(part, f"{name} on three nodes", time.perf_counter() - start, found, lab.want[name])


def on_two(lab: Lab, hosts: Hosts, part: str) -> None:
    """Training with a launcher on each of two machines."""
    start = time.perf_counter()
    words = train(lab.folder, f"{part}-model", 2, "--machines", "2", "--head", "head:29400")
    codes = together(hosts, ("head", "node1"), lab, words, f"{part}-train")
    found = weights(lab.folder, f"{part}-model") if codes == [0, 0] else told(lab.log(f"{part}-train-head"))
    lab.tell(part, "train, a worker on each of two machines", time.perf_counter() - start, found, lab.want["train"])


def together(hosts: Hosts, names: Sequence[str], lab: Lab, words: Sequence[str], log: str) -> list[int]:
    """Exit codes of the same command on several hosts."""
    started = [hosts.begin(name, [*TUPLET, *words], lab.log(f"{log}-{name}"), ENV) for name in names]
    return [process.wait() for process in started]


def names(lab: Lab) -> None:
    with Hosts(NAMES, lab.folder, loopback_names=True) as hosts:
        on_two(lab, hosts, "names")
        start_ray(hosts, lab)
        out = lab.folder / "names"
        out.mkdir()
        on_engine(lab, hosts, "names", "filter", out)


def kill(lab: Lab) -> None:
    with Hosts(NAMES, lab.folder) as hosts:
        start_ray(hosts, lab)
        filter_while(lab, hosts, "kill", "node2 loses power", lambda: hosts.kill("node2"))
        train_while(
            lab, hosts, "kill", "node1 loses power and is started again", lambda: hosts.kill("node1"), again=True
        )


def cut(lab: Lab) -> None:
    with Hosts(NAMES, lab.folder) as hosts:
        start_ray(hosts, lab)

        def pull(name: str, seconds: float) -> None:
            hosts.link(name, "down")
            time.sleep(seconds)
            hosts.link(name, "up")

        filter_while(lab, hosts, "cut", "node2 without network for 10 s", lambda: pull("node2", 10))
        train_while(lab, hosts, "cut", "node1 without network for 10 s", lambda: pull("node1", 10))
        filter_while(lab, hosts, "cut", "node2 without network for good", lambda: hosts.link("node2", "down"))


def filter_while(lab: Lab, hosts: Hosts, part: str, what: str, strike: Callable[[], None]) -> None:
    """Filter on the nodes, and strike when the first block is done."""
    out, log = lab.folder / f"{part}.npy", lab.log(f"{part}-filter-{what.replace(' ', '-')}")
    out.unlink(missing_ok=True)
    start = time.perf_counter()
    words = ["filter", f"{lab.folder}/store", "-o", str(out), "-q", "--set", "tol=1e-7", *ENGINE]
    process = hosts.begin("desk", [*TUPLET, *words], log, ENV)
    struck = -1.0
    while process.poll() is None:
        if struck < 0 and any((lab.folder / f"{part}.npy.parts").glob("done-*")):
            struck = time.perf_counter() - start
            strike()
        time.sleep(0.02)
    want = exact(lab)
    found = file_hash(out) if out.exists() else told(log)
    lab.tell(part, f"filter; {what}", time.perf_counter() - start, found, want, struck=round(struck, 1))


def exact(lab: Lab) -> str:
    """The sum of the longer filter, in one process."""
    if "exact" not in lab.want:
        words = ["filter", f"{lab.folder}/store", "-o", f"{lab.folder}/exact.npy", "-q", "--set", "tol=1e-7"]
        subprocess.run([*TUPLET, *words], check=True, env={**os.environ, **ENV})
        lab.want["exact"] = file_hash(lab.folder / "exact.npy")
    return lab.want["exact"]


def train_while(
    lab: Lab, hosts: Hosts, part: str, what: str, strike: Callable[[], None], again: bool = False
) -> None:
    """Train on head and node1, strike when the first checkpoint is there, start node1 again where that is asked."""
    model, start, name = f"{part}-trained", time.perf_counter(), f"{part}-train-{what.replace(' ', '-')}"
    meet = [
        "--machines",
        "2",
        "--head",
        "head:29400",
        "--every",
        str(EVERY),
        "--checkpoint",
        f"{lab.folder}/{part}-run",
    ]
    words = [*TUPLET, *train(lab.folder, model, 2, *meet)]
    first, second = (hosts.begin(host, words, lab.log(f"{name}-{host}"), ENV) for host in ("head", "node1"))
    mark, struck = lab.folder / f"{part}-run" / "checkpoint.safetensors", -1.0
    while first.poll() is None or second.poll() is None:
        if struck < 0 and mark.exists():
            struck = time.perf_counter() - start
            strike()
            if again:
                hosts.start("node1")
                second = hosts.begin("node1", [*words, "--resume"], lab.log(f"{name}-again"), ENV)
        if time.perf_counter() - start > 240:
            break
        time.sleep(0.02)
    found = weights(lab.folder, model) if first.poll() == second.poll() == 0 else told(lab.log(f"{name}-head"))
    lab.tell(part, f"train; {what}", time.perf_counter() - start, found, lab.want["train"], struck=round(struck, 1))


def head(lab: Lab) -> None:
    """The head loses power in a training: the other machine ends with a line, and both go on when started again."""
    with Hosts(NAMES, lab.folder) as hosts:
        start, run = time.perf_counter(), lab.folder / "head-run"
        meet = ["--machines", "2", "--head", "head:29400", "--every", str(EVERY), "--checkpoint", str(run)]
        words, logs = train(lab.folder, "head-trained", 2, *meet), [lab.log("head-lost"), lab.log("head-left")]
        started = [hosts.begin(name, [*TUPLET, *words], log, ENV) for name, log in zip(("head", "node1"), logs)]
        while not (run / "checkpoint.safetensors").exists():
            time.sleep(0.02)
        hosts.kill("head")
        code, struck = started[1].wait(), time.perf_counter()
        lab.tell(
            "head", "train, told on node1: the head loses power", struck - start, told(logs[1]), "is gone", code=code
        )
        hosts.start("head")
        codes = together(hosts, ("head", "node1"), lab, [*words, "--resume"], "head-again")
        found = weights(lab.folder, "head-trained") if codes == [0, 0] else told(lab.log("head-again-head"))
        lab.tell(
            "head", "train; the same command with --resume", time.perf_counter() - struck, found, lab.want["train"]
        )


def bad(lab: Lab) -> None:
    other = lab.folder / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("import tuplet\ntuplet.__version__ = '0.0.9'\n")
    versions = {"node1": {"PYTHONPATH": str(other)}}
    with Hosts(NAMES, lab.folder) as hosts:
        refused_training(lab, hosts, ["node1"], "no launcher on the head", "cannot be reached within 60 s")
        refused_training(lab, hosts, ["head", "node1"], "another tuplet on node1", "tuplet=0.0.9", versions)
        hosts.blind("node1")
        refused_training(lab, hosts, ["node1"], "node1 does not see the rows", "No such file")
    with Hosts(NAMES, lab.folder) as hosts:
        refused(lab, hosts, "no head", "cannot be reached")
        start_ray(hosts, lab, more=versions)
        refused(lab, hosts, "another tuplet on node1", "has tuplet 0.0.9")
        hosts.kill("node1")
        time.sleep(40)  # until the head has noticed
        hosts.blind("node2")
        for name in verbs(lab.folder, lab.folder / "bad"):
            refused(lab, hosts, f"node2 does not see the folder: {name}", "does not see", name)
        hosts.link("head", "down")
        refused(lab, hosts, "the head's cable is pulled", "cannot be reached")


def refused_training(
    lab: Lab, hosts: Hosts, names: Sequence[str], what: str, want: str, more: Mapping[str, Any] | None = None
) -> None:
    """A training that must fail with one line, on all of its machines."""
    words = [*TUPLET, *train(lab.folder, "refused", 2, "--machines", "2", "--head", "head:29400")]
    logs = [lab.log(f"bad-train-{what.replace(' ', '-')}-{name}") for name in names]
    start = time.perf_counter()
    started = [hosts.begin(name, words, log, {**ENV, **(more or {}).get(name, {})}) for name, log in zip(names, logs)]
    codes = [process.wait() for process in started]
    for name, log, code in zip(names, logs, codes):
        first = next((line for line in log.read_text().splitlines() if line.startswith("error")), "nothing")
        seconds = time.perf_counter() - start
        lab.tell("bad", f"train, told on {name}: {what}", seconds, first, want, code=code, lines=lines(log))


def refused(lab: Lab, hosts: Hosts, what: str, want: str, verb: str = "filter") -> None:
    """A verb that must fail with one line."""
    out = lab.folder / "bad"
    out.mkdir(exist_ok=True)
    if not (out / "vectors").exists():
        shutil.copytree(lab.folder / "one" / "vectors", out / "vectors")
        shutil.copytree(lab.folder / "one" / "clustered", out / "clustered")
    words = verbs(lab.folder, out)[verb][0]
    words = words[:-3] + words[-1:] if verb == "cluster" else words
    log, start = lab.log(f"bad-{what.replace(' ', '-').replace(':', '')}"), time.perf_counter()
    code = hosts.run("desk", [*TUPLET, *words, *ENGINE], log, ENV)
    lab.tell("bad", what, time.perf_counter() - start, told(log), want, code=code, lines=lines(log))


PARTS: dict[str, Callable[[Lab], None]] = {
    "plain": plain,
    "names": names,
    "kill": kill,
    "head": head,
    "cut": cut,
    "bad": bad,
}

if __name__ == "__main__":
    sys.exit(main())
