"""What somebody types who has read nothing: names of other tools, tables in the wrong place, no graph at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.conftest import Run
from tuplet.io.vectors import write_vectors


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with blanks in its name: edges, nodes with a class for some, and vectors of two clear groups."""
    folder = tmp_path / "my data"
    folder.mkdir()
    monkeypatch.chdir(folder)
    names = [f"n {i}" for i in range(40)]
    pairs = [(names[i], names[(i + 2) % 40]) for i in range(40)]
    (folder / "my edges.csv").write_text("from,to\n" + "".join(f"{a},{b}\n" for a, b in pairs))
    rows = "".join(
        f"{name},{100 * (i % 2) + i * 7 % 13},{'' if i % 3 == 0 else 'ab'[i % 2]}\n" for i, name in enumerate(names)
    )
    (folder / "my nodes.csv").write_text("name,size,kind\n" + rows)
    (folder / "strangers.csv").write_text("name,kind\n" + "".join(f"N_{i},{'ab'[i % 2]}\n" for i in range(40)))
    noise = np.random.default_rng(0).normal(0, 0.1, (40, 4))
    write_vectors(folder / "v.parquet", np.eye(2, 4)[np.arange(40) % 2] + noise, np.array(names))
    return folder


def table(path: str) -> dict[str, list[Any]]:
    read: Any = pq.read_table if path.endswith(".parquet") else pyarrow.csv.read_csv
    return read(path).to_pydict()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["info", "my edges.csv", "my nodes.csv"], "--features FILE"),
        (["embed", "my edges.csv", "my nodes.csv"], "--features FILE"),
        (["info", "my edges.csv", "--nodes", "my nodes.csv"], "--features"),
        (["embed", "my edges.csv", "--node_features", "my nodes.csv"], "--features"),
        (["embed", "--edges", "my edges.csv"], "without a flag"),
        (["embed", "my edges.csv", "--output", "v.parquet"], "--out"),
        (["embed", "my edges.csv", "--random-state", "1"], "--seed"),
        (["info", "my edges.csv", "-f", "my nodes.csv", "--label-column", "kind"], "--label?"),
        (["cluster", "v.parquet", "--n-clusters", "2"], "-k"),
        (["cluster", "v.parquet", "--edges", "my edges.csv"], "--graph"),
        (["cluster", "v.parquet", "my edges.csv"], "--graph GRAPH"),
        (["report", "v.parquet"], "the graph that the vectors were made for"),
    ],
)
def test_names_of_other_tools_get_the_flag_of_this_one(run: Run, here: Path, args: list[str], hint: str) -> None:
    code, out, err = run(*args)
    assert code == 2 and out == "" and hint in err.partition("Error:")[2], err


def test_a_flag_that_resembles_ours_is_still_guessed_by_its_spelling(run: Run, here: Path) -> None:
    assert "--features" in run("info", "my edges.csv", "--fetures", "my nodes.csv")[2]
    assert "Did you mean" not in run("info", "my edges.csv", "--qqq")[2]


def test_clusters_need_no_graph_and_say_what_was_left_out(run: Run, here: Path) -> None:
    code, out, err = run("cluster", "v.parquet", "--labels", "my nodes.csv", "--label", "kind", "-o", "c.parquet")
    assert code == 0, err
    told = " ".join(out.split())
    assert "accuracy" in told and "no edges: modularity and conductance are left out" in told
    assert "what marks a cluster is left out" in told and "'kind': 2 classes on 26 of 40 nodes" in told
    found = table("c.parquet")
    assert list(found) == ["id", "cluster", "confidence"] and found["id"] == [f"n {i}" for i in range(40)]
    assert len({c for i, c in enumerate(found["cluster"]) if i % 2}) == 1 and set(found["cluster"]) == {0, 1}


def test_clusters_of_vectors_alone(run: Run, here: Path) -> None:
    code, out, err = run("cluster", "v.parquet", "-k", "2", "-o", "c.csv")
    assert code == 0 and "metric" not in out, err
    told = " ".join(out.split())
    assert "no labels: accuracy" in told and "no edges: modularity" in told
    assert set(table("c.csv")["cluster"]) == {0, 1}


def test_features_without_a_graph_name_what_marks_a_cluster(run: Run, here: Path) -> None:
    code, out, err = run("cluster", "v.parquet", "-f", "my nodes.csv", "--label", "kind", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["mean"]["accuracy"] == 100 and "modularity" not in found["mean"]
    assert all(cluster["inner"] is None for cluster in found["clusters"])
    assert all(cluster["marks"][0]["name"] == "size" for cluster in found["clusters"])


def test_the_same_clusters_with_a_graph_as_without(run: Run, here: Path) -> None:
    assert run("cluster", "v.parquet", "-k", "2", "-o", "a.parquet")[0] == 0
    assert run("cluster", "v.parquet", "-k", "2", "-o", "b.parquet", "-g", "my edges.csv")[0] == 0
    with_graph = dict(zip(table("b.parquet")["id"], table("b.parquet")["cluster"], strict=True))
    assert with_graph == dict(zip(table("a.parquet")["id"], table("a.parquet")["cluster"], strict=True))


def test_predictions_need_no_graph(run: Run, here: Path) -> None:
    args = ["-l", "my nodes.csv", "--label", "kind", "--train", "0.5", "-o", "p.parquet"]
    code, out, err = run("classify", "v.parquet", *args)
    assert code == 0 and "14 nodes predicted from 26" in " ".join(out.split()), err
    assert table("p.parquet")["class"] == ["ab"[i % 2] for i in range(40)]
    code, _, err = run("classify", "v.parquet", "-o", "p.parquet")
    assert code == 1 and "--labels FILE" in err


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["--source", "from"], "--source would not be used without a graph"),
        (["--label", "kind"], "--label would not be used"),
        (["-l", "my nodes.csv"], "Which column of the labels"),
        (["-l", "my nodes.csv", "--label", "knid"], "Did you mean 'kind'"),
        (["-l", "strangers.csv"], "No id of the labels is a node"),
        (["-g", "my edges.csv", "-l", "strangers.csv"], "No id of the labels is a node"),
        (["-f", "strangers.csv"], "of the vectors v.parquet"),
    ],
)
def test_what_does_not_fit_the_vectors_is_one_line(run: Run, here: Path, args: list[str], hint: str) -> None:
    code, out, err = run("cluster", "v.parquet", *args, "-o", "c.parquet")
    assert code == 1 and out == "" and hint in err and len(err.splitlines()) == 1, err
    assert not Path("c.parquet").exists()
