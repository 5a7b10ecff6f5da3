"""New nodes from files: ids, columns by name, edges to old nodes; and what does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tuplet
from tuplet import InputError, read_graph
from tuplet.cli import app
from tuplet.io.new_nodes import read_new_nodes

EDGES = [("a", "b"), ("b", "c")]
TABLE = {"id": ["a", "b", "c"], "age": [1, 2, 3], "kind": ["x", "y", "x"], "words": [["p"], ["q", "p"], []]}


def test_new_nodes_come_in_the_columns_of_the_graph(tmp_path: Path) -> None:
    g = read_graph(EDGES, TABLE, scale=False)
    (tmp_path / "e.csv").write_text("source,target,weight\nd,a,0.5\nd,e,2\ne,c,1\n")
    new = read_new_nodes(
        g, tmp_path / "e.csv", {"id": ["d", "e"], "words": [["q"], ["q", "q"]], "kind": ["y", "y"], "age": [8, 9]}
    )
    assert g.feature_names == ("age", "kind=x", "kind=y", "words:p", "words:q")
    assert new.ids.tolist() == ["d", "e"] and new.x.tolist() == [[8, 0, 1, 0, 1], [9, 0, 1, 0, 2]]
    assert new.edges.tolist() == [[3, 0], [3, 4], [4, 2]] and new.weights.tolist() == [0.5, 2, 1]


def test_number_ids_and_unnamed_columns() -> None:
    g = read_graph([[0, 1], [1, 2]], np.arange(6.0).reshape(3, 2))
    new = read_new_nodes(g, [[7, 1]], {"id": [7], "a": [1.0], "b": [2.0]})
    assert new.ids.tolist() == [7] and new.x.tolist() == [[1, 2]] and new.edges.tolist() == [[3, 1]]
    with pytest.raises(InputError, match="1 columns but the graph has 2"):
        read_new_nodes(g, [[7, 1]], {"id": [7], "a": [1.0]})


@pytest.mark.parametrize(
    ("edges", "table", "message"),
    [
        ([("d", "a")], {"id": ["d"], "height": [1], "kind": ["x"], "words": [["p"]]}, "column 'age' is missing"),
        ([("d", "a")], {**TABLE, "id": ["d", "b", "e"]}, "1 of 3 new ids are nodes of the graph already.*'b'"),
        ([("d", "zed")], {"id": ["d"], "age": [1], "kind": ["x"], "words": [["p"]]}, "neither nodes .*'zed'"),
        (
            [("d", "a")],
            {"id": ["d"], "age": [None], "kind": ["x"], "words": [["p"]]},
            "'age' of the new features misses",
        ),
        ([("d", "a")], np.ones((1, 5)), "need an id column"),
    ],
)
def test_what_does_not_fit_is_refused(edges: Any, table: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_new_nodes(read_graph(EDGES, TABLE), edges, table, missing="error")


@pytest.mark.parametrize("method", ["SelfDMAT", "FilterSVD", "DMAT-i"])
@pytest.mark.parametrize("rows", [["--with-rows"], []])
def test_the_command_line_embeds_new_nodes_by_any_saved_model(method: str, rows: list[str], tmp_path: Path) -> None:
    g = tuplet.synth.block_model([20, 20], seed=0)
    x, pairs = np.asarray(g.x.toarray() if hasattr(g.x, "toarray") else g.x), g.edges()
    names = [f"w{i}" for i in range(x.shape[1])]
    for name, chosen, nodes in (
        ("old", (pairs < 38).all(axis=1), range(38)),
        ("new", (pairs >= 38).any(axis=1), [38, 39]),
    ):
        edges = "".join(f"n{u},n{v}\n" for u, v in pairs[chosen])
        table = "".join(",".join([f"n{i}", *(f"{value:g}" for value in x[i])]) + "\n" for i in nodes)
        (tmp_path / f"{name} edges.csv").write_text(f"source,target\n{edges}")
        (tmp_path / f"{name} nodes.csv").write_text(f"{','.join(['id', *names])}\n{table}")

    def run(*args: str) -> None:
        graph = [str(tmp_path / "old edges.csv"), "-f", str(tmp_path / "old nodes.csv"), "--unmatched", "keep", "-q"]
        found = CliRunner().invoke(app, ["embed", *graph, *args], catch_exceptions=False)
        assert found.exit_code == 0, found.output

    clusters = [] if method == "DMAT-i" else ["-k", "2"]
    steps = [] if method == "FilterSVD" else ["--set", "max_steps=2"]
    model, out = str(tmp_path / "a model"), tmp_path / "v.npy"
    run("--method", method, *clusters, *steps, "--save-model", model, *rows, "-o", str(out))
    new = ["--new", str(tmp_path / "new edges.csv"), str(tmp_path / "new nodes.csv")]
    run("--model", model, *new, "-o", str(out))
    assert np.load(out).shape[0] == 2 and (tmp_path / "a model" / "rows-0.npy").exists() == bool(rows)


def test_new_nodes_pass_the_way_of_the_graphs_table(caplog: pytest.LogCaptureFixture) -> None:
    g = read_graph(EDGES, TABLE)
    again = {"id": ["d", "e", "f"], **{name: TABLE[name] for name in ("age", "kind", "words")}}
    assert np.array_equal(read_new_nodes(g, [("d", "a"), ("e", "f")], again).x, g.x)
    new = read_new_nodes(g, [("d", "a")], {"id": ["d"], "age": [None], "kind": ["z"], "words": [["p"]]})
    assert new.x[0, :3].tolist() == [0, 0, 0] and new.x[0, 3] > 0
    assert "'kind': 1 of 1 values are not known and are ignored" in caplog.text


def test_a_graph_without_preparation_takes_columns_by_name() -> None:
    g = read_graph(EDGES, TABLE, scale=False).with_(preparation=None)
    new = read_new_nodes(g, [("d", "a")], {"id": ["d"], "words": [["q"]], "kind": ["y"], "age": [8]})
    assert new.x.tolist() == [[8, 0, 1, 0, 1]]
    with pytest.raises(InputError, match="unknown: 'kind=z'"):
        read_new_nodes(g, [("d", "a")], {"id": ["d"], "age": [1], "kind": ["z"], "words": [["p"]]})
