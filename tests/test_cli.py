"""The verbs, called as a user calls them; errors are one line and exit code 1."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tuplet.cli import main

VERBS = ["demo", "embed", "cluster", "classify", "links", "theory", "neighbors", "map", "info", "convert", "bench"]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Call `tuplet ARGS`; gives the exit code, standard output and standard error."""

    def call(*args: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tuplet", *map(str, args)])
        code: object = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        out = capsys.readouterr()
        return int(str(code)), out.out, out.err

    return call


@pytest.fixture(scope="session")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors of Cora by a training-free method: quick and good enough to measure."""
    from tuplet import load_dataset
    from tuplet.io.vectors import write_vectors
    from tuplet.models.registry import make_estimator

    graph = load_dataset("cora")
    path = tmp_path_factory.mktemp("cli") / "vectors.parquet"
    write_vectors(path, make_estimator("FilterSVD").fit_transform(graph), graph.node_ids)
    return path


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


def test_cluster_prints_the_six_metrics(run: Run, vectors: Path, tmp_path: Path) -> None:
    from tuplet.io.vectors import read_vectors

    out = tmp_path / "clustered.parquet"
    code, text, _ = run("cluster", vectors, "--graph", "cora", "--seeds", 2, "--json", "-o", out)
    assert code == 0
    assert {"accuracy", "nmi", "ari", "f1", "modularity", "conductance"} <= set(json.loads(text)["mean"])
    assert json.loads(text)["mean"]["accuracy"] > 50
    assert set(read_vectors(out).cluster) == set(range(7))


def test_classify_prints_a_table(run: Run, vectors: Path) -> None:
    code, text, _ = run("classify", vectors, "--graph", "cora")
    assert code == 0
    assert "accuracy" in text


def test_links_learns_on_the_training_graph(run: Run) -> None:
    code, text, _ = run("links", "cora", "--method", "FilterSVD", "-q", "--json")
    assert code == 0
    assert json.loads(text)["mean"]["auc"] > 85


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
        main()


def test_an_unknown_id_is_named(run: Run, vectors: Path) -> None:
    code, _, err = run("neighbors", vectors, "--id", "nobody")
    assert code == 1
    assert "nobody" in err


def test_vectors_of_another_graph_are_refused(run: Run, vectors: Path, tmp_path: Path) -> None:
    edges = tmp_path / "edges.csv"
    edges.write_text("source,target\na,b\nb,c\n")
    code, _, err = run("cluster", vectors, "--graph", edges, "-k", 2)
    assert code == 1
    assert "ids" in err


@pytest.mark.slow
def test_demo_beats_the_papers_accuracy(run: Run, tmp_path: Path) -> None:
    code, text, _ = run("demo", "--out", tmp_path / "demo", "-q", "--json")
    assert code == 0
    assert json.loads(text)["DMAT-i vectors"]["mean"]["accuracy"] >= 70.57
    assert {p.name for p in (tmp_path / "demo").iterdir()} == {"vectors.parquet", "map.png", "model"}
