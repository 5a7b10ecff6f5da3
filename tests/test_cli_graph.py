"""How a graph is named on the command line: one table of flags for all verbs, TOML files, and nothing ignored."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest
import typer.main

from tests.conftest import Run
from tuplet.cli import app
from tuplet.cli._console import label_fact
from tuplet.cli._graph import FLAGS
from tuplet.io import read_graph
from tuplet.io.convert import convert

VERBS = ("embed", "cluster", "classify", "links", "info", "map", "convert", "neighbors", "report", "theory")


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """A folder with blanks in its name: edges with odd column names, nodes with a label, a number and a kind."""
    folder = tmp_path / "my tables"
    folder.mkdir()
    (folder / "edges.csv").write_text("kind;one;two\nx;a;b\nx;b;c\nx;c;d\nx;d;a\nx;e;f\nx;f;g\nx;g;e\n")
    rows = "".join(f"{id};{i};{'red' if i < 4 else 'blue'};{i * i}\n" for i, id in enumerate("abcdefg"))
    (folder / "nodes.csv").write_text("key;size;colour;junk\n" + rows)
    (folder / "graph.toml").write_text(
        'edges = "edges.csv"\nfeatures = "nodes.csv"\nsource = "one"\ntarget = "two"\nheader = true\nid = "key"\n'
        'label = "colour"\ncolumns = ["size"]\n'
    )
    return folder


def test_each_option_of_read_graph_is_a_flag_and_no_other() -> None:
    options = set(inspect.signature(read_graph).parameters) - {"edges"}
    assert set(FLAGS) == options
    assert options <= set(inspect.signature(convert).parameters)


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_each_flag(verb: str) -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    spelled = {text for option in commands[verb].params for text in (*option.opts, *option.secondary_opts)}
    for name, flag in FLAGS.items():
        for text in ("/".join(flag.names_of(name))).split("/"):
            assert text in spelled, (verb, text)


def test_flags_and_toml_give_the_same_graph(run: Run, tables: Path) -> None:
    flags = [
        "-f",
        tables / "nodes.csv",
        "--header",
        "--source",
        "one",
        "--target",
        "two",
        "--id",
        "key",
        "--label",
        "colour",
    ]
    code, typed, err = run("info", tables / "edges.csv", *flags, "--columns", "size", "--json")
    assert code == 0, err
    code, filed, err = run("info", tables / "graph.toml", "--json")
    assert code == 0, err
    assert json.loads(typed) == json.loads(filed)
    assert (json.loads(typed)["classes"], json.loads(typed)["features"]) == (2, 1)
    code, _, err = run("info", tables / "graph.toml", "--columns", "size,junk", "--json")  # a flag takes its place
    assert code == 0, err


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("lable = 'colour'", "Did you mean 'label'"),
        ("directed = 'yes'", "true or false"),
        ("columns = 'size'", "a list of texts"),
        ("columns = [1]", "a list of texts"),
        ("edges = 3", "text"),
        ("= 3", "not a TOML file"),
    ],
)
def test_a_wrong_toml_file_is_one_line(run: Run, tables: Path, line: str, hint: str) -> None:
    (tables / "bad.toml").write_text(("" if line.startswith("edges") else 'edges = "edges.csv"\n') + line + "\n")
    code, out, err = run("embed", tables / "bad.toml")
    assert code == 1 and out == "" and hint in err and len(err.splitlines()) == 1


def test_toml_without_edges_or_not_utf8_or_absent(run: Run, tables: Path) -> None:
    for content in (b'features = "nodes.csv"\n', b"\xff\xfe"):
        (tables / "bad.toml").write_bytes(content)
        code, _, err = run("info", tables / "bad.toml")
        assert code == 1 and "bad.toml" in err and len(err.splitlines()) == 1
    assert run("info", tables / "absent.toml")[0] == 1


@pytest.mark.parametrize(
    ("args", "flag"),
    [
        (["info", "cora", "-f", "does-not-exist.csv", "--directed"], "--features and --directed"),
        (["embed", "cora", "-l", "labels.csv"], "--labels"),
        (["links", "cora", "--columns", "a"], "--columns"),
        (["info", "E", "--columns", "a"], "--columns"),
        (["info", "E", "--label", "a"], "--label"),
        (["info", "E", "--missing", "zero"], "--missing"),
        (["info", "E", "--roles", "a=number"], "--roles"),
        (["neighbors", "V", "--id", "31336", "--label", "x"], "--label"),
        (["map", "V", "-l", "x.csv"], "--labels"),
        (["embed", "cora", "--resume"], "--resume"),
        (["embed", "cora", "--model", "m", "--method", "DMAT"], "--method"),
        (["embed", "cora", "--model", "m", "--memory", "1GB"], "--memory"),
        (["embed", "cora", "--method", "FilterSVD", "--memory", "1GB"], "--memory"),
        (["embed", "cora", "--method", "FilterSVD", "--checkpoint", "c"], "--checkpoint"),
        (["embed", "cora", "--method", "KMeans", "--dim", "8"], "dimension"),
        (["links", "cora", "--top", "3", "-o", "l.csv", "--val", "0.1"], "--val"),
        (["links", "cora", "--vectors", "V"], "--vectors"),
        (["embed", "cora", "-o", "-", "--dtype", "float16"], "--dtype"),
    ],
)
def test_what_would_not_be_used_is_refused(
    run: Run,
    tables: Path,
    vectors: Path,
    args: list[str],
    flag: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tables)
    places = {"E": "edges.csv", "V": str(vectors)}
    code, out, err = run(*(places.get(arg, arg) for arg in args))
    assert code == 1 and out == "" and flag in err and len(err.splitlines()) == 1, err


def test_a_stored_graph_takes_no_tables(run: Run, tables: Path) -> None:
    folder = tables / "graph"
    edges = [tables / "edges.csv", "--header", "--source", "one", "--target", "two"]
    assert run("convert", edges[0], folder, *edges[1:], "-q")[0] == 0
    assert run("info", folder)[0] == 0
    code, _, err = run("info", folder, "-f", tables / "nodes.csv")
    assert code == 1 and "whole graph" in err
    code, _, err = run("info", folder, "--directed")
    assert code == 1 and "--directed" in err


def test_convert_takes_the_same_toml(run: Run, tables: Path) -> None:
    code, text, err = run("convert", tables / "graph.toml", tables / "g", "-q")
    assert code == 0 and "7 nodes" in text, err


def test_vectors_are_no_edges(run: Run, vectors: Path) -> None:
    code, _, err = run("links", vectors)
    assert code == 1 and "holds vectors" in err


def test_info_shows_gaps_instead_of_refusing_them(run: Run, tables: Path) -> None:
    (tables / "gaps.csv").write_text("id,size,age\na,1,\nb,,3\nz,5,6\n")
    args = ["--header", "--source", "one", "--target", "two", "-f", tables / "gaps.csv"]
    code, text, err = run("info", tables / "edges.csv", *args)
    assert code == 0 and "8" in text, err
    assert run("embed", tables / "edges.csv", *args, "--missing", "error", "-o", tables / "v.csv")[0] == 1


def test_labels_of_nodes_without_an_edge_count(run: Run, tables: Path) -> None:
    """The vectors know these nodes."""
    import numpy as np

    from tuplet.io.vectors import write_vectors

    z = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    write_vectors(tables / "v.parquet", z, list("abcdefghi"))
    rows = "".join(f"{c},{'xy'[i % 2]}\n" for i, c in enumerate("abcdefghi"))
    (tables / "labels.csv").write_text("id,label\n" + rows)
    args = [
        "-g",
        tables / "edges.csv",
        "--header",
        "--source",
        "one",
        "--target",
        "two",
        "-l",
        tables / "labels.csv",
        "-q",
    ]
    code, text, err = run("cluster", tables / "v.parquet", *args)
    assert code == 0 and "2 classes on 9 of 9 nodes" in text, err


def test_the_label_column_is_named_wherever_it_was_found(run: Run, tables: Path) -> None:
    (tables / "kinds.csv").write_text(
        "key;kind\n" + "".join(f"{id};{'xy'[i % 2]}\n" for i, id in enumerate("abcdefg"))
    )
    options = ["--source", "one", "--target", "two", "--header", "--labels", str(tables / "kinds.csv")]
    code, out, _ = run("info", str(tables / "edges.csv"), *options)
    assert code == 0 and "label column" in out and "kind" in out
    graph = read_graph(tables / "edges.csv", labels=tables / "kinds.csv", source="one", target="two", header=True)
    assert label_fact(graph) == "; labels in column 'kind': 2 classes on 7 of 7 nodes"


def test_the_checksums_of_a_large_graph_folder_are_told(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tuplet.graph.synth import block_model
    from tuplet.io.folder import save_graph

    place = save_graph(block_model([30, 20], seed=0), tmp_path / "a graph")
    assert "checksums" not in run("info", place)[2]
    monkeypatch.setattr("tuplet.cli._graph.LARGE", 1000)
    assert "checksums: 100%" in run("info", place)[2]
    assert "checksums" not in run("info", place, "-q")[2]
