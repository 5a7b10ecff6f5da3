"""The commands that kill.py kills, and their inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Job:
    """`words(folder)`: the command line; `outputs`: what it leaves there; `keeps`: what may lie there besides.

    `share`: how many processes of a team kill this job, beside the others.
    """

    name: str
    words: Callable[[Path], list[str]]
    outputs: tuple[str, ...]
    keeps: tuple[str, ...] = ()
    share: int = 2


def resume(folder: Path) -> list[str]:
    """--resume where a killed run has left its state."""
    return ["--resume"] if (folder / "checkpoint.safetensors").exists() else []


def begun(folder: Path) -> list[str]:
    """--resume where a killed run of SelfDMAT has left its steps."""
    return ["--resume"] if any(folder.glob("*/job.json")) else []


def jobs(inputs: Path) -> list[Job]:
    """All jobs, over the small files in `inputs`."""
    edges, nodes, graph = inputs / "edges.csv", inputs / "nodes.csv", inputs / "graph"
    vectors, model = inputs / "vectors.parquet", inputs / "model"
    few, seen, rows, parts = inputs / "few", inputs / "few.parquet", inputs / "rows.npy", inputs / "parts"
    quick = ["-q", "--device", "cpu", "--set", "n_init=3", "--set", "max_steps=20"]
    short = ["-q", "--device", "cpu", "--set", "batch_size=64"]
    return [
        Job("convert", lambda f: ["convert", str(edges), str(f / "g"), "-f", str(nodes), "-q", "--overwrite"],
            ("g",)),
        Job("filter", lambda f: ["embed", str(graph), "-o", str(f / "v.parquet"), "--method", "DMAT-i", *short,
                                 "--cache", str(f / "rows"), "--set", "max_steps=2"], ("v.parquet",), ("rows",)),
        Job("train", lambda f: ["embed", str(graph), "-o", str(f / "v.parquet"), "--method", "DMAT-i", *short,
                                "--set", "max_steps=100", "--checkpoint", str(f / "run"), *resume(f / "run")],
            ("v.parquet",), ("run",)),
        Job("embed", lambda f: ["embed", str(graph), "-o", f"{f}/parts/", "-k", "4", *quick], ("parts",)),
        Job("model", lambda f: ["embed", str(graph), "-o", str(f / "v.parquet"), "-k", "4", *quick,
                                "--save-model", str(f / "m")], ("v.parquet", "m")),
        Job("apply", lambda f: ["embed", str(graph), "-o", str(f / "v.npy"), "--model", str(model), "-q",
                                "--device", "cpu"], ("v.npy",)),
        Job("cluster", lambda f: ["cluster", str(vectors), "-g", str(graph), "-k", "4", "-o", str(f / "c.parquet"),
                                  "-q"], ("c.parquet",)),
        Job("filter rows", lambda f: ["filter", str(graph), "-o", str(f / "rows.npy"), "-q"], ("rows.npy",)),
        Job("train rows", lambda f: ["train", str(rows), "-o", str(f / "m"), *short, "--set", "max_steps=30",
                                     "--every", "4", *resume(f / "m.training")], ("m",)),
        Job("steps", lambda f: ["embed", str(graph), "-o", str(f / "v.parquet"), "-k", "4", *quick,
                                "--checkpoint", str(f / "run"), *begun(f / "run")], ("v.parquet",), ("run",)),
        Job("cluster parts", lambda f: ["cluster", str(parts), "-k", "4", "-o", f"{f}/c/", "-q", "--engine", "local"],
            ("c",)),
        Job("report", lambda f: ["report", str(seen), "-g", str(few), "-o", str(f / "r.html"), "-q"],
            ("r.html",), share=4),
    ]  # fmt: skip


def write_graph(folder: Path) -> None:
    """A block model of 400 nodes as CSV and as a graph folder, and a small one for pages."""
    from tuplet.graph.synth import block_model
    from tuplet.io.folder import save_graph

    graph = block_model([150, 120, 80, 50], seed=0)
    ends = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))
    pairs = np.column_stack([ends, graph.indices])
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in pairs if a < b))
    dense = graph.x.toarray() if hasattr(graph.x, "toarray") else np.asarray(graph.x)
    names = ",".join(f"f{i}" for i in range(dense.shape[1]))
    rows = "".join(f"{i},{','.join(f'{value:g}' for value in row)}\n" for i, row in enumerate(dense))
    (folder / "nodes.csv").write_text(f"id,{names}\n{rows}")
    save_graph(graph.with_(y=None), folder / "graph")
    save_graph(block_model([60, 40], seed=0), folder / "few")
