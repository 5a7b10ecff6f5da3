"""The verbs, called as a user calls them; errors are one line and exit code 1."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Run
from tuplet.cli._verbs import run as run_verb

VERBS = ["demo", "embed", "cluster", "classify", "links", "theory", "neighbors", "map", "info", "convert", "bench"]


def test_help_is_quick_and_lists_the_verbs() -> None:
    done = subprocess.run([sys.executable, "-m", "tuplet.cli", "--help"], capture_output=True, text=True, check=True)
    for verb in VERBS:
        assert f"  {verb} " in done.stdout


def test_version(run: Run) -> None:
    assert run("--version")[1].startswith("tuplet 0.")


def test_embed_writes_ids_and_vectors(run: Run, tmp_path: Path) -> None:
    from tuplet import load_dataset
    from tuplet.io.vectors import read_vectors

    out = tmp_path / "v.parquet"
    code, text, _ = run("embed", "cora", "-o", out, "--method", "FilterSVD", "-q", "--json")
    assert code == 0
    assert json.loads(text)["rows"] == 2708
    table = read_vectors(out)
    assert list(table.ids) == list(load_dataset("cora").node_ids)
    assert table.z.shape[0] == 2708


def test_cluster_says_what_the_clusters_are_and_writes_them(run: Run, vectors: Path, tmp_path: Path) -> None:
    from pyarrow import parquet as pq

    out = tmp_path / "clusters.parquet"
    code, text, _ = run("cluster", vectors, "--graph", "cora", "--seeds", 2, "--json", "-o", out, "-q")
    assert code == 0
    found = json.loads(text)
    assert {"accuracy", "nmi", "ari", "f1", "modularity", "conductance"} <= set(found["mean"])
    assert found["mean"]["accuracy"] > 50 and [run["seed"] for run in found["runs"]] == [0, 1]
    assert sum(cluster["size"] for cluster in found["clusters"]) == 2708
    table = pq.read_table(out)
    assert table.column_names == ["id", "cluster", "confidence"] and table.num_rows == 2708
    sizes = {cluster["cluster"]: cluster["size"] for cluster in found["clusters"]}
    assert sizes == {c: table["cluster"].to_pylist().count(c) for c in range(7)}


def test_cluster_prints_k_where_it_came_from_and_no_deviation_for_one_run(run: Run, vectors: Path) -> None:
    code, text, _ = run("cluster", vectors, "--graph", "cora", "-k", 5, "-q")
    assert code == 0 and "k = 5 from -k" in text and "7 classes on 2708 of 2708 nodes" in text
    assert "deviation" not in text and "typical nodes" in text


def test_an_output_that_cannot_be_written_is_said_before_the_work(run: Run, vectors: Path, tmp_path: Path) -> None:
    for verb in ("cluster", "classify"):
        code, _, err = run(verb, vectors, "--graph", "cora", "-o", tmp_path / "no" / "such.parquet")
        assert code == 1 and "does not exist" in err
    code, _, err = run("cluster", vectors, "--graph", "cora", "-o", tmp_path / "clusters.xlsx")
    assert code == 1 and ".xlsx" in err


def test_classify_prints_a_table_and_predicts_unlabelled_nodes(run: Run, vectors: Path, tmp_path: Path) -> None:
    import numpy as np
    from pyarrow import csv

    from tuplet import load_dataset
    from tuplet.io.npz import write_npz

    g = load_dataset("cora")
    hidden = np.random.default_rng(0).random(g.n_nodes) < 0.5
    write_npz(g.with_(y=np.where(hidden, -1, g.y)), tmp_path / "half labelled.npz")
    out = tmp_path / "predictions.csv"
    code, text, _ = run("classify", vectors, "--graph", tmp_path / "half labelled.npz", "-o", out, "-q")
    assert code == 0 and "accuracy" in text and f"{hidden.sum()} nodes predicted" in text
    table = csv.read_csv(out)
    truth = np.asarray(g.label_names)[g.y]
    right = np.asarray(table["class"].to_pylist()) == truth
    known = np.asarray(table["known"])
    assert right[known].all() and 0.7 < right[~known].mean() < 1
    assert np.array_equal(known, ~hidden)


def test_links_proposes_missing_edges_and_none_that_exists(run: Run, tmp_path: Path) -> None:
    from pyarrow import parquet as pq

    from tuplet import load_dataset

    out = tmp_path / "links.parquet"
    code, text, _ = run("links", "cora", "--method", "FilterSVD", "--top", 50, "-o", out, "-q")
    assert code == 0 and "50 likely missing edges" in text
    g = load_dataset("cora")
    edges = {frozenset(pair) for pair in g.node_ids[g.edges()].tolist()}
    table = pq.read_table(out)
    found = {frozenset(pair) for pair in zip(table["source"].to_pylist(), table["target"].to_pylist())}
    assert len(found) == 50 and not found & edges
    assert run("links", "cora", "--top", 5)[0] == 1


def test_links_learns_on_the_training_graph_alone(run: Run) -> None:
    """The very value of vectors of the training graph; those of the whole graph give a higher one."""
    from tuplet import load_dataset, split_edges
    from tuplet.evaluation.links import score_links
    from tuplet.models.registry import make_estimator

    code, text, _ = run("links", "cora", "--method", "FilterSVD", "-q", "--json")
    assert code == 0
    graph = load_dataset("cora")
    split = split_edges(graph, seed=0)
    honest, leaking = (
        score_links(make_estimator("FilterSVD", n_clusters=7).fit_transform(g), split)["auc"]
        for g in (split.graph, graph)
    )
    assert leaking > honest + 1
    assert json.loads(text)["mean"]["auc"] == pytest.approx(honest, abs=1e-3)
    assert json.loads(text)["runs"][0]["sizes"] == {"train": 4486, "val": 264, "test": 528}


def test_theory_gives_tau0(run: Run, vectors: Path) -> None:
    code, text, _ = run("theory", vectors, "--graph", "cora", "--json")
    assert code == 0
    values = json.loads(text)["values"]
    assert values["tau0_median"] > 0
    assert (
        values["hardness_raw"] < values["hardness_filtered"]
    )  # the paper's claim: the filter makes negatives harder


def test_neighbors_leaves_the_node_itself_out(run: Run, vectors: Path) -> None:
    code, text, _ = run("neighbors", vectors, "--id", "31336", "-k", 3, "--json")
    assert code == 0
    found = json.loads(text)["31336"]
    assert len(found) == 3
    assert all(row["id"] != 31336 for row in found)


def test_map_draws_a_picture(run: Run, vectors: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    code, _, _ = run("map", vectors, "-o", tmp_path / "m.png", "--graph", "cora", "--sample", 200, "-q")
    assert code == 0
    assert (tmp_path / "m.png").read_bytes().startswith(b"\x89PNG")


def test_info_counts_and_estimates(run: Run) -> None:
    code, text, _ = run("info", "cora", "--json")
    facts = json.loads(text)
    assert code == 0
    assert (facts["nodes"], facts["edges"], facts["components"], facts["classes"]) == (2708, 5278, 78, 7)
    assert facts["edge homophily"] == pytest.approx(0.81, abs=0.001)
    assert facts["filter"]["products"] > 0
    assert facts["embed"]["disk"] > 4 * 2708 * 256 and "To embed it" in run("info", "cora")[1]


def test_convert_then_info(run: Run, tmp_path: Path) -> None:
    edges = tmp_path / "edges.csv"
    edges.write_text("source,target\na,b\nb,c\nc,a\n")
    assert run("convert", edges, tmp_path / "g", "-q")[0] == 0
    assert json.loads(run("info", tmp_path / "g", "--json")[1])["edges"] == 3


def test_standard_streams_carry_edges_in_and_vectors_out(tmp_path: Path) -> None:
    features = tmp_path / "nodes.csv"
    features.write_text("id,size\na,1\nb,2\nc,3\nd,5\n")
    command = [sys.executable, "-m", "tuplet.cli", "embed", "-", "-f", str(features), "-o", "-", "-q"]
    command += ["--method", "DMAT-i", "--set", "max_steps=2", "--set", "layers=(4, 3)"]
    edges = "source,target\na,b\nb,c\nc,d\n"
    done = subprocess.run(command, input=edges, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 5
    assert [line.split(",")[0].strip('"') for line in lines[1:]] == ["a", "b", "c", "d"]
    assert len(lines[1].split(",")) == 4


def test_datasets_list_and_path(run: Run) -> None:
    assert set(json.loads(run("datasets", "list", "--json")[1])) >= {"cora", "dblp", "coauthor-phy"}
    assert run("datasets", "path", "cora")[1].strip().endswith("cora.npz")


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["info", "coraa"], "Did you mean 'cora'"),
        (["info", "no-such-file.csv"], "no-such-file.csv"),
        (["embed", "cora", "-o", "no/such/folder/v.parquet"], "does not exist"),
        (["embed", "cora", "--method", "DMATI"], "DMAT-i"),
        (["embed", "cora", "--set", "lr"], "name=value"),
        (["embed", "cora", "--method", "FilterSVD", "--set", "nonsense=1"], "no setting 'nonsense'"),
        (["demo", "--out", "/proc/tuplet"], "cannot be written"),
    ],
)
def test_user_errors_are_one_line(run: Run, args: list[str], hint: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*args)
    assert code == 1
    assert out == ""
    assert hint in err
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())  # nothing half-written


def test_wrong_usage_is_exit_code_2(run: Run) -> None:
    assert run("cluster")[0] == 2


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    from tuplet import InputError

    monkeypatch.setattr(sys, "argv", ["tuplet", "--debug", "info", "coraa"])
    with pytest.raises(InputError):
        run_verb()


def test_an_unknown_id_is_named(run: Run, vectors: Path) -> None:
    code, _, err = run("neighbors", vectors, "--id", "nobody")
    assert code == 1
    assert "nobody" in err


def test_vectors_of_another_graph_are_refused(run: Run, vectors: Path, tmp_path: Path) -> None:
    edges = tmp_path / "edges.csv"
    edges.write_text("source,target\na,b\nb,c\n")
    code, _, err = run("cluster", vectors, "--graph", edges, "-k", 2)
    assert code == 1
    assert "No id of the vectors" in err


@pytest.mark.slow
def test_demo_beats_the_papers_accuracy(run: Run, tmp_path: Path) -> None:
    code, text, _ = run("demo", "--out", tmp_path / "demo", "-q", "--json")
    assert code == 0
    assert json.loads(text)["DMAT-i vectors"]["mean"]["accuracy"] >= 70.57
    assert {p.name for p in (tmp_path / "demo").iterdir()} == {"vectors.parquet", "map.png", "model"}
