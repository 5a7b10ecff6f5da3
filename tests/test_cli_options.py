"""Odd values of every option: an answer or one line, never a traceback."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Run
from tuplet.graph.synth import block_model
from tuplet.io.npz import write_npz
from tuplet.io.vectors import write_vectors

QUICK = ["--method", "DMAT-i", "--set", "max_steps=1", "--set", "layers=(4, 2)", "-q", "-o", "out.npy"]
SETTINGS = [
    "layers=5",
    "layers=()",
    "layers=[]",
    "layers=(0,)",
    "layers=(-3, 2)",
    "layers=('a',)",
    "layers={1: 2}",
    "layers=abc",
    "criteria=3",
    "criteria=(3,)",
    "criteria=('none',)",
    "lr={[]:1}",
    "lr=None",
    "lr=nan",
    "lr=-1",
    "lr=1e400",
    "lr=1" + "0" * 400,
    "alpha=0",
    "alpha=2",
    "alpha=True",
    "r=abc",
    "tol=0",
    "temperature=0",
    "mask_fraction=1.5",
    "n_views=0",
    "epochs=-1",
    "max_steps=0",
    "max_steps=1.5",
    "batch_size=0",
    "batch_size=1e9",
    "optimizer=sgdd",
    "optimizer=3",
    "schedule=3",
    "stop=maybe",
    "patience=x",
    "n_clusters=0",
    "memory=-5",
    "memory=1e400GB",
    "cache=3",
    "unit_rows=7",
    "graph_filter=5",
    "graph_filter=ppr",
    "device=tpu",
    "seed=-1",
    "seed=1.5",
    "seed=" + "9" * 40,
    "=3",
    "x",
    "nothing=1",
    "__class__=1",
]
OTHERS = {
    "embed": [
        "--method SelfDMAT --set part_weights=abc",
        "--method SelfDMAT --set part_weights=(1,2)",
        "--method SelfDMAT --set part_weights=(1,2,'x')",
        "--method SelfDMAT -k 1000",
        "--method SelfDMAT --dim 100000",
        "--dim 0",
        "--dim x",
        "--dim 99999999999999999999",
        "--method ''",
        "--recipe nowhere",
        "--recipe cora --method KMeans",
        "--device tpu",
        "--seed -1",
        "--seed 99999999999999999999999",
        "--memory 1e400GB",
        "--memory -1",
        "--memory nanGB",
        "--dtype int8",
        "--model /dev/null",
        "--model .",
        "--new a b",
        "-o ''",
        "-o /dev/full",
        "--with-rows",
    ],
    "cluster": ["-k 0", "-k 1000", "-k x", "--seeds 0", "--seeds x", "-o /", "-o .csv", "--seed -1", "--plain-rows"],
    "classify": ["--train 0", "--train 2", "--train nan", "--val -1", "--val 1", "--train x", "--seeds 0", "-o /x/y"],
    "links": [
        "--val 0",
        "--test 1",
        "--test nan",
        "--val x",
        "--top 0",
        "--top 10",
        "-o l.csv",
        "--method no",
        "--top 99999999 -o l.csv --method KMeans",
        "--set x",
        "--seeds 0",
    ],
    "theory": ["--temperature 0", "--temperature nan", "--temperature x", "--seed -1"],
    "info": ["--columns ''", "--roles x", "--separator ''", "--label x", "-f x", "--missing x", "--comment ''"],
    "neighbors": ["--id 0 -k 0", "--id 0 -k 1000", "--id x", "--id ''", "--id 0 --method x", "", "--id 0 -o x.y"],
    "map": ["-o m.html", "-o m.svg", "-o ''", "--sample 1", "--sample x", "--seed -1"],
    "convert": ["--memory 1e400GB", "--memory 1", "--memory x", "--roles a", "--missing x", "--columns a,,b"],
    "report": ["-k 0", "-k 100000", "-o ''", "-o x.pdf", "--sample 1", "--seed -1", "--like /dev/null"],
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small graph, its vectors and an edge list."""
    monkeypatch.chdir(tmp_path)
    graph = block_model([12, 12, 12], seed=0)
    write_npz(graph, "g.npz")
    write_vectors("v.parquet", np.random.default_rng(0).normal(size=(36, 4)), graph.node_ids)
    Path("e.csv").write_text("source,target\na,b\nb,c\n")
    return tmp_path


def check(code: int, err: str, args: object) -> None:
    """One line and no traceback; wrong usage may show how the verb is called. Nothing unexpected."""
    assert code in (0, 1, 2), (args, code)
    assert "Traceback" not in err and "Unexpected" not in err, (args, err)
    if code == 1:
        assert len(err.splitlines()) == 1 and err.startswith("error: "), (args, err)


def test_odd_settings(run: Run, here: Path) -> None:
    for text in SETTINGS:
        code, _, err = run("embed", "g.npz", *QUICK, "--set", text)
        check(code, err, text)


@pytest.mark.parametrize("verb", list(OTHERS))
def test_odd_options(run: Run, here: Path, verb: str) -> None:
    import shlex

    start = {
        "embed": ["g.npz", *QUICK],
        "links": ["g.npz", "-q"],
        "info": ["e.csv"],
        "neighbors": ["v.parquet"],
        "map": ["v.parquet", "-q"],
        "convert": ["e.csv", "store", "-q"],
    }
    for text in OTHERS[verb]:
        typed = shlex.split(text)
        first = start.get(verb, ["v.parquet", "--graph", "g.npz", "-q"])
        if "--method" in typed or ("--model" in typed and verb == "embed"):
            first = [first[0], "-q", *(["-o", "out.npy"] if verb == "embed" else [])]
        code, _, err = run(verb, *first, *typed)
        check(code, err, (verb, text))


def test_two_nodes_without_k(run: Run, here: Path) -> None:
    Path("two.csv").write_text("source,target\na,b\n")
    Path("nodes.csv").write_text("id,size\na,1\nb,2\n")
    code, _, err = run("embed", "two.csv", "-f", "nodes.csv", "-q", "-o", "v2.npy")
    check(code, err, "two nodes")
