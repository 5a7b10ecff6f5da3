"""The same bits whoever works: this process, Ray with 1, 2 and 3 raylets, 1, 2 and 4 training workers.

    python scripts/cluster_bits.py -o bits.jsonl       R-MAT 10^5 nodes x 128, 10^6 edges; needs tuplet[cluster]

Raylets are processes of this machine, of two CPUs each. Printed are the tables of docs/cluster.md: checksums of the
filtered rows, of the vectors in Parquet parts, and of all files of the converted graph; how many tasks of each kind
began on each raylet; checksums of the weights that `tuplet train --workers N` leaves.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import cluster_count
import numpy as np
from cluster_kills import file_hash, folder_hash, make_inputs, vectors_hash

TRAINED = {"DMAT-i": [], "DMAT": ["--labels", "labels.npy"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--raylets", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("-o", "--out", type=Path)
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="bits-") as name:
        folder = Path(name)
        make_inputs(folder, args.nodes)
        np.save(folder / "labels.npy", np.random.default_rng(1).integers(-1, 7, args.nodes))
        add(rows, {"where": "local", **sums(folder, "local")})
        with_raylets(folder, args.raylets, rows)
        for workers in args.workers:
            found = {method: weights_hash(folder, method, workers) for method in TRAINED}
            add(rows, {"where": f"{workers} training workers", **found})
    if args.out:
        args.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    same = all(len({row[key] for row in rows if key in row}) == 1 for key in ("rows", "vectors", "graph", *TRAINED))
    print("all equal" if same else "NOT EQUAL")
    return not same


def add(rows: list[dict[str, Any]], row: dict[str, Any]) -> None:
    rows.append({"bench": "bits", **row})
    cells = [f"`{value}`" if key != "tasks" else tasks_text(value) for key, value in row.items() if key != "where"]
    print("| " + " | ".join([row["where"], *cells]) + " |", flush=True)


def tasks_text(tasks: dict[str, list[int]]) -> str:
    return ", ".join(f"{name} {'+'.join(map(str, counts))}" for name, counts in tasks.items())


def with_raylets(folder: Path, counts: list[int], rows: list[dict[str, Any]]) -> None:
    """A row for each number of raylets, of one cluster that grows."""
    os.environ |= {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    os.environ["TASK_LOG"] = str(folder / "tasks")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    os.environ["RAY_ADDRESS"], up = cluster.address, 1
    try:
        cluster_count.patch()
        for count in counts:
            for _ in range(up, count):
                cluster.add_node(num_cpus=2)
            up = max(up, count)
            (folder / "tasks").unlink(missing_ok=True)
            found = sums(folder, "ray")
            tasks = cluster_count.nodes_in(folder / "tasks")
            add(rows, {"where": f"Ray, {up} raylets", **found, "tasks": tasks})
    finally:
        cluster.shutdown()


def sums(folder: Path, engine: str) -> dict[str, str]:
    """Checksums of rows, vectors and graph as the engine makes them."""
    from tuplet import DMATi, GraphFilter
    from tuplet.io.convert import convert
    from tuplet.io.folder import open_graph
    from tuplet.io.vectors import write_vectors

    with tempfile.TemporaryDirectory(prefix="bits-out-") as name:
        out, graph = Path(name), open_graph(folder / "store")
        GraphFilter(device="cpu").transform(graph, out=out / "rows.npy", engine=engine)
        model = DMATi(max_steps=5, device="cpu", cache=out / "cache", engine=engine).fit(graph)
        write_vectors(f"{out}/vectors/", model.embedding_, graph, engine=engine)
        convert(f"{folder}/edges/*.parquet", out / "graph", memory="70MB", engine=engine)
        found = {"rows": file_hash(out / "rows.npy"), "vectors": vectors_hash(out / "vectors")}
        return {**found, "graph": folder_hash(out / "graph")}


def weights_hash(folder: Path, method: str, workers: int) -> str:
    """The checksum of the weights that so many workers train, each with one thread."""
    words = [sys.executable, "-m", "tuplet.cli", "train", "rows.npy", "--method", method, *TRAINED[method]]
    words += ["--workers", str(workers), "--device", "cpu", "-q", "-o", f"model-{method}-{workers}"]
    words += ["--set", "max_steps=100", "--set", "batch_size=512", "--set", "layers=(64, 32)"]
    subprocess.run(words, check=True, cwd=folder, stdout=subprocess.DEVNULL)
    return file_hash(folder / f"model-{method}-{workers}" / "weights.safetensors")


if __name__ == "__main__":
    sys.exit(main())
