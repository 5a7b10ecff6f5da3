"""The guide's Slurm job, as it stands in docs/cluster.md, by a real slurmctld and two slurmd; equal results.

    python scripts/cluster_slurm.py -o hosts.jsonl      Linux, root, iproute2, slurm, munge, tuplet[cluster]

The two nodes are hosts of hosts.py, network namespaces of this machine, with an own munged and slurmd each; a third
host submits. The job's text is the guide's with other paths, 2 nodes for 8, and small training.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from cluster_hosts import ENV, SETS, TRAIN_SETS, Lab, told
from cluster_kills import file_hash, make_inputs, vectors_hash
from hosts import Hosts

GUIDE = Path(__file__).parents[1] / "docs" / "cluster.md"
CONF = """
ClusterName=lab
SlurmctldHost=node1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=/tmp/munge/munge.sock
CredType=cred/munge
SlurmctldPidFile=/tmp/slurmctld.pid
SlurmdPidFile=/tmp/slurmd.pid
StateSaveLocation=/tmp/slurmctld
SlurmdSpoolDir=/tmp/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
NodeName=node1 CPUs=2 RealMemory=4000 State=UNKNOWN
NodeName=node2 CPUs=2 RealMemory=4000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--logs", type=Path, default=Path(tempfile.gettempdir()) / "cluster-slurm")
    parser.add_argument("-o", "--out", type=Path)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the hosts end
    args.logs.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/var/tmp"))
    try:
        lab = Lab(folder, args.logs, args.out)
        make_inputs(folder, args.nodes)
        (folder / "store").rename(folder / "graph")
        (folder / "store").symlink_to("graph")
        lab.truth()
        shutil.copy(folder / "one" / "rows.npy", folder / "rows.npy")
        shutil.rmtree(folder / "one-model")
        lab.truth_of_training()
        (folder / "rows.npy").unlink()  # the job makes its own
        with Hosts(("node1", "node2", "desk"), folder) as hosts:
            run_job(lab, hosts)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("all as expected" if not lab.wrong else f"NOT AS EXPECTED: {', '.join(lab.wrong)}")
    return bool(lab.wrong)


def run_job(lab: Lab, hosts: Hosts) -> None:
    """Start Slurm, submit the job, wait for it, tell what it left."""
    folder, start = lab.folder, time.perf_counter()
    (folder / "slurm.conf").write_text(CONF)
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # loads, uses none; version 2 wants a mounted one
    (folder / "munge.key").write_bytes(b"k" * 64)
    (folder / "munge.key").chmod(0o600)
    (folder / "job.sh").write_text(job(folder))
    env = {
        **ENV,
        "SLURM_CONF": str(folder / "slurm.conf"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    for name in hosts.names:
        munge = (
            "mkdir -p /tmp/munge /tmp/slurmctld /tmp/slurmd; chmod 0755 /tmp/munge; munged --force "
            f"--key-file={folder}/munge.key --socket=/tmp/munge/munge.sock --pid-file=/tmp/munge/pid "
            "--log-file=/tmp/munge/log --seed-file=/tmp/munge/seed"
        )
        begin = munge + {"node1": "; slurmctld; slurmd -N node1", "node2": "; slurmd -N node2"}.get(name, "")
        hosts.run(name, ["sh", "-c", begin], lab.log(f"slurm-{name}"), env)
    words = ["sbatch", "--wait", f"--output={folder}/job.txt", "--chdir=/", str(folder / "job.sh")]
    code = hosts.run("desk", words, lab.log("sbatch"), env)
    seconds = time.perf_counter() - start
    if (folder / "job.txt").exists():
        shutil.copy(folder / "job.txt", lab.log("job"))
    hosts.run("desk", ["sh", "-c", "sinfo; squeue; sinfo --version"], lab.log("sinfo"), env)
    for what, file, total, want in (
        ("vectors", folder / "vectors", vectors_hash, lab.want["embed"]),
        ("rows", folder / "rows.npy", file_hash, lab.want["filter"]),
        ("model", folder / "model" / "weights.safetensors", file_hash, lab.want["train"]),
    ):
        found = (
            total(file) if file.exists() else told(lab.log("job") if lab.log("job").exists() else lab.log("sbatch"))
        )
        lab.tell("slurm", f"the guide's job on two nodes: {what}", seconds, found, want, code=code)


def job(folder: Path) -> str:
    """The guide's script for this folder and two nodes."""
    block = re.search(r"\*\*Slurm\*\*.*?```text\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert block is not None
    text = block.group(1).replace("/shared", str(folder)).replace("--nodes=8", "--nodes=2")
    text = text.replace("--workers 8 --machines 8", "--workers 2 --machines 2")
    text = text.replace("tuplet embed", f"tuplet embed --method DMAT-i {shlex.join(SETS)}")
    return text.replace("tuplet train", f"tuplet train {shlex.join(TRAIN_SETS)}")


if __name__ == "__main__":
    sys.exit(main())
