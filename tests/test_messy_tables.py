"""Tables as other programs write them: what is read, what is refused, and that a model takes them again."""

from __future__ import annotations

import io
import logging
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.conftest import Run
from tuplet import InputError, read_graph
from tuplet.io.convert import convert

N = 40
EDGES = [(i, (i + 1) % N) for i in range(N)]


def frame() -> pd.DataFrame:
    return pd.DataFrame({"id": range(N), "size": [i * 7 % 13 + 0.5 for i in range(N)], "kind": ["a", "b"] * (N // 2)})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with edges.csv, and Nodes.csv whose prices are written with a comma; a graph.toml leaves them out."""
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(EDGES, columns=["source", "target"]).to_csv("edges.csv", index=False)
    frame().assign(price=[f"{i},5" for i in range(N)]).to_csv("Nodes.csv", sep=";", index=False)
    (tmp_path / "graph.toml").write_text(
        'edges = "edges.csv"\nfeatures = "Nodes.csv"\nlabel = "kind"\nexclude = ["price"]\n'
    )
    return tmp_path


def test_an_error_names_the_file_as_it_is_spelt(here: Path) -> None:
    with pytest.raises(InputError, match=r"^Line 2 of Nodes\.csv, column 'price', holds '0,5'"):
        read_graph("edges.csv", "Nodes.csv")


@pytest.mark.parametrize("form", ["1.{i}.3", "10.0.{i}.1", "{i}.2.{i}-beta"])
def test_versions_and_addresses_are_no_numbers(here: Path, form: str) -> None:
    frame().assign(odd=[form.format(i=i % 5) for i in range(N)]).to_csv("n.csv", index=False)
    graph = read_graph("edges.csv", "n.csv", label="kind")
    assert graph.preparation is not None
    assert {line.name: line.role for line in graph.preparation.lines()}["odd"] == "category"


@pytest.mark.parametrize("cell", ["1\u202f234,5", "1\u00a0234", "1'234.5", "1,00,000", "1.234.567"])
def test_thousands_in_every_writing_are_refused(here: Path, cell: str) -> None:
    frame().assign(odd=cell).to_csv("n.csv", index=False, sep=";")
    with pytest.raises(InputError, match="a number in a form that is not read"):
        read_graph("edges.csv", "n.csv", label="kind")


def test_a_matrix_is_no_edge_list(here: Path) -> None:
    matrix = np.eye(6, k=1, dtype=int)
    np.savetxt("matrix.csv", matrix, fmt="%d", delimiter=",")
    for given in ("matrix.csv", matrix):
        with pytest.raises(InputError, match=r"6 columns without names.*adjacency matrix"):
            read_graph(given)
    assert read_graph("matrix.csv", source="c1", target="c2").n_nodes == 2
    assert read_graph(np.array([(a, b, 1, 2) for a, b in EDGES])).n_nodes == N  # ends, weight, time


def test_ends_found_by_their_place_among_others_are_told(caplog: pytest.LogCaptureFixture) -> None:
    one, two = zip(*EDGES)
    with caplog.at_level(logging.WARNING, "tuplet"):
        read_graph({"one": one, "two": two, "weight": [1] * N})
    assert not caplog.text
    with caplog.at_level(logging.WARNING, "tuplet"):
        read_graph({"one": one, "two": two, "when": one, "weight": [1] * N})
    assert "the first two columns, 'one' and 'two'; not used: when" in caplog.text


def test_an_index_that_a_selection_left_is_no_id() -> None:
    nodes, edges = frame(), pd.DataFrame(EDGES, columns=["one", "two"])
    shuffled = nodes.sample(frac=1, random_state=0)
    shuffled["id"] = nodes["id"].to_numpy()  # the index says something else now
    graph = read_graph(edges.sample(frac=1, random_state=0), shuffled, label="kind")
    assert graph.node_ids.tolist() == list(range(N)) and graph.n_edges == N
    named = nodes.drop(columns="id").set_index(pd.Index([f"n{i}" for i in range(N)]))
    graph = read_graph([(f"n{a}", f"n{b}") for a, b in EDGES], named, label="kind")
    assert graph.node_ids[0] == "n0"
    numbers = nodes.drop(columns="id").set_index(pd.Index([7 * i % N + 100 for i in range(N)]))  # no column of ids
    assert read_graph([(a + 100, b + 100) for a, b in EDGES], numbers, label="kind").node_ids[1] == 107


def test_lines_of_json_are_a_table(here: Path, tmp_path: Path) -> None:
    table = frame().assign(tags=[["x", "y"] if i % 2 else ["z"] for i in range(N)])
    table.to_json("nodes.jsonl", orient="records", lines=True)
    graph = read_graph("edges.csv", "nodes.jsonl", label="kind")
    assert graph.fingerprint() == read_graph("edges.csv", table, label="kind").fingerprint()
    stored = convert("edges.csv", tmp_path / "store", features="nodes.jsonl", label="kind")
    assert stored.with_(name="").fingerprint() == graph.fingerprint()
    Path("nodes.jsonl").write_text('{"id": 1, "size"')
    with pytest.raises(InputError, match="not a readable jsonl file"):
        read_graph("edges.csv", "nodes.jsonl")


@pytest.mark.parametrize(
    ("name", "hint"), [("a.xlsx", "as CSV"), ("a.json", ".jsonl"), ("a.graphml", "NetworkX"), ("a.mtx", "SciPy")]
)
def test_other_kinds_of_file_are_refused_with_the_way_in(here: Path, name: str, hint: str) -> None:
    Path(name).write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=hint):
        read_graph("edges.csv", name)
    with pytest.raises(InputError, match=hint):
        read_graph(name)


def test_nodes_without_a_row_are_told(here: Path, run: Run, caplog: pytest.LogCaptureFixture) -> None:
    frame()[: N // 2].to_csv("half.csv", index=False)
    code, _, err = run("embed", "edges.csv", "-f", "half.csv", "-o", "v.npy")
    assert code == 1 and "--missing mean or --missing propagate" in err
    with caplog.at_level(logging.WARNING, "tuplet"):
        assert run("info", "edges.csv", "-f", "half.csv")[0] == 0
    assert "20 of 40 nodes have no feature row" in caplog.text


def test_standard_input_is_one_table_of_any_kind(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def typed(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    typed(frame().to_csv(index=False))
    code, out, err = run("info", "edges.csv", "-f", "-", "--label", "kind")
    assert code == 0 and "2 classes" in out, err
    typed(Path("edges.csv").read_text())
    assert run("convert", "-", tmp_path / "store", "-q")[0] == 0
    assert read_graph(tmp_path / "store").n_edges == N
    code, _, err = run("info", "-", "-f", "-")
    assert code == 1 and "Standard input (-) is one table" in err


def test_a_model_takes_the_file_that_it_was_made_with(here: Path, run: Run) -> None:
    settings = ["--method", "FilterSVD", "--dim", "2", "-q", "-o", "v.npy", "--save-model", "model"]
    assert run("embed", "graph.toml", *settings)[0] == 0
    for given in (["graph.toml"], ["edges.csv", "-f", "Nodes.csv"]):  # exclude, and the odd prices, are of no account
        code, _, err = run("embed", *given, "--model", "model", "-q", "-o", "w.npy")
        assert code == 0, err
        np.testing.assert_array_equal(np.load("v.npy"), np.load("w.npy"))
    code, _, err = run("embed", "graph.toml", "--exclude", "price", "--model", "model", "-o", "w.npy")
    assert code == 1 and "--exclude price has nothing to work on" in err
    Path("new.csv").write_text('id;size;kind;price\n100;3;a;"7,5"\n')
    Path("new-edges.csv").write_text("source,target\n100,0\n100,3\n")
    code, _, err = run("embed", "graph.toml", "--model", "model", "--new", "new-edges.csv", "new.csv", "-o", "n.npy")
    assert code == 0 and np.load("n.npy").shape == (1, 1), err
    Path("new-edges.csv").write_text("source,target\n100,0\n100,03\n")
    code, _, err = run("embed", "graph.toml", "--model", "model", "--new", "new-edges.csv", "new.csv", "-o", "n.npy")
    assert code == 1 and "would match as whole numbers" in err


def test_lists_written_as_text_are_refused(here: Path) -> None:
    for cell in ("[0.13, {i}.25]", "['a', 'b{i}']"):
        frame().assign(odd=[cell.format(i=i % 7) for i in range(N)]).to_csv("n.csv", index=False)
        with pytest.raises(InputError, match=r"'odd' holds lists written as text.*Parquet.*roles=\{'odd': 'text'\}"):
            read_graph("edges.csv", "n.csv", label="kind")
        assert read_graph("edges.csv", "n.csv", label="kind", roles={"odd": "text"}).n_features > 1


def test_ids_in_quotes_say_how_they_would_match(here: Path) -> None:
    frame().assign(id=[f"'{i}'" for i in range(N)]).to_csv("n.csv", index=False)
    with pytest.raises(InputError, match="40 of them would match without the quotes around them"):
        read_graph("edges.csv", "n.csv", label="kind")


def test_labels_that_name_no_classes_are_told(here: Path, run: Run, caplog: pytest.LogCaptureFixture) -> None:
    frame().assign(label=np.arange(N) / 7).to_csv("many.csv", index=False)
    with caplog.at_level(logging.WARNING, "tuplet"):
        assert read_graph("edges.csv", "many.csv").n_classes == N
    assert "label column 'label' has 40 classes on 40 nodes" in caplog.text
    frame().assign(label="only").to_csv("one.csv", index=False)
    code, _, err = run("embed", "edges.csv", "-f", "one.csv", "-q", "-o", "v.parquet")
    assert code == 0, err  # the number of groups is found, as without labels
    code, out, err = run("cluster", "v.parquet", "-f", "one.csv", "-k", "2")  # ids 0, 1, .. and no graph
    assert code == 0 and "marked by" in out, err
    frame().assign(label="").to_csv("none.csv", index=False)
    code, _, err = run("classify", "v.parquet", "-g", "edges.csv", "-f", "none.csv")
    assert code == 1 and "the label column holds none" in err
