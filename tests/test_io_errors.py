"""Bad input to the readers: each case has its own message, and nothing but InputError comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tuplet.io._edges
from tuplet import InputError, read_graph

EDGES = "source,target\na,b\nb,c\n"


def put(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


@pytest.mark.parametrize(
    ("edges", "features", "message"),
    [
        pytest.param(
            EDGES, "id,v\na,1\nb,2\nc,3\nzed,4\n", "1 of 4 ids in the features are unknown.*'zed'", id="unknown"
        ),
        pytest.param(EDGES, "id,v\na,1\nb,2\nc,3\nb,4\n", "1 ids come more than once.*'b'", id="duplicate"),
        pytest.param("a,b,-1.5\nb,c,2\n", None, r"negative weight \(-1.5\) in line 1", id="negative weight"),
        pytest.param(
            "a,b,1\nb,c,heavy\n", None, "weight column 'c3' holds 'heavy', not a number, in line 2", id="text weight"
        ),
        pytest.param("a,b,1\nb,c,\n", None, "weight column 'c3' holds no weight in line 2", id="empty weight"),
        pytest.param(
            EDGES, "id,v\na,1\nb,two\nc,3\n", "'v' holds text in 1 of 3 values, first 'two' in row 2", id="text"
        ),
        pytest.param("", None, "is empty", id="empty"),
        pytest.param("# nothing\n\n", None, "is empty", id="comments only"),
        pytest.param("source,target\n", None, "hold no rows", id="header only"),
        pytest.param(EDGES, "id,v\n", "The features hold no rows", id="no features"),
        pytest.param(EDGES, "id\na\nb\nc\n", "one column only", id="one column"),
        pytest.param("author,coauthor\nann,bob\nbob,cy\ncy,ann\n", None, "may be a header mistaken", id="header"),
        pytest.param(b"source,target\nJos\xe9,b\n", None, "not UTF-8", id="latin1"),
        pytest.param(b"a,b\n" * 40000 + b"b,\xff\xfe\n", None, "not UTF-8", id="late latin1"),
        pytest.param("source,target\na,b\n".encode("utf-16"), None, "not UTF-8", id="utf-16"),
        pytest.param("a,b\nb,c,d\n", None, "Line 2 of .*Expected 2 columns, got 3", id="ragged"),
        pytest.param(
            "a,\nb,c\n", None, "1 rows have no id in column 'c2' of the edges, first in line 1", id="empty id"
        ),
        pytest.param("source,source\na,b\n", None, "names a column twice", id="twice"),
        pytest.param(EDGES, "id,v\na,1\nb,2\nc,inf\n", "infinity in row 3", id="infinite"),
        pytest.param("a,a\n", None, "1 nodes", id="one node"),
    ],
)
def test_bad_text_files(tmp_path: Path, edges: Any, features: str | None, message: str) -> None:
    paths = [put(tmp_path / "edges.csv", edges)]
    if features is not None:
        paths.append(put(tmp_path / "nodes.csv", features))
    with pytest.raises(InputError, match=message):
        read_graph(*paths)


def test_header_declared_as_data_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path / "edges.csv", "author,paper\n1,2\n2,3\n")
    with pytest.raises(InputError, match="looks like a header, but header=False"):
        read_graph(path, header=False)
    ambiguous = put(tmp_path / "text.csv", "author,paper\nx,y\ny,z\n")
    assert read_graph(ambiguous, header=True).n_nodes == 3
    assert read_graph(ambiguous, header=False).n_nodes == 5


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_truncated_parquet(tmp_path: Path, share: float) -> None:
    path = tmp_path / "edges.parquet"
    pq.write_table(pa.table({"source": np.arange(1000), "target": np.arange(1000)[::-1]}), path)
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(InputError, match=r"is not a readable parquet file|is empty"):
        read_graph(path)


def test_too_many_edges_point_to_convert(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tuplet.io._edges.MAX_ROWS == 2**31
    monkeypatch.setattr(tuplet.io._edges, "MAX_ROWS", 3)
    with pytest.raises(InputError, match=r"have 3 rows.*tuplet convert"):
        read_graph([[0, 1], [1, 2], [2, 3]])


def test_absent_things_are_named(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", EDGES)
    for call, message in [
        (lambda: read_graph(tmp_path / "no.csv"), "There is no file or folder"),
        (lambda: read_graph(tmp_path / "a.csv", source="x"), "no column 'x'. Their columns are: source, target"),
        (lambda: read_graph(tmp_path / "a.csv", weight="w"), "no weight column 'w'"),
        (lambda: read_graph([[0, 1]], {"id": [0, 1], "v": [1, 2]}, columns=["w"]), "no column 'w'"),
        (lambda: read_graph([[0, 1]], {"id": [0, 1], "v": [1, 2]}, id="key"), "no id column 'key'"),
        (lambda: read_graph([[0, 1]], {"id": [0, 1], "v": [1, 2]}, label="y"), "no label column 'y'"),
        (lambda: read_graph([[0, 1]], {"id": [0, 1]}), "no columns besides the ids"),
        (lambda: read_graph([[0, 1]], missing="guess"), "missing 'guess' is not known"),
        (lambda: read_graph([[0, 1]], unmatched="most"), "unmatched 'most' is not known"),
        (
            lambda: read_graph([[0, 1]], labels={"id": [0, 9], "label": [0, 1]}),
            "1 of 2 ids in the labels are no nodes",
        ),
        (lambda: read_graph([[0.5, 1]]), "cannot be node ids"),
        (lambda: read_graph({"source": [0, 1], "target": [1, None]}), "1 rows have no id"),
        (lambda: read_graph(pd.DataFrame({"source": [1]})), "one column only"),
        (lambda: read_graph(np.zeros((2, 2, 2))), "cannot be read"),
        (lambda: read_graph(7), "cannot be read"),
    ]:
        with pytest.raises(InputError, match=message):
            call()


def test_a_folder_of_several_kinds_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", EDGES)
    with pytest.raises(InputError, match="holds no data files"):
        (tmp_path / "empty").mkdir()
        read_graph(tmp_path / "empty")
    pq.write_table(pa.table({"source": [1], "target": [2]}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match="files of several kinds"):
        read_graph(tmp_path)


def test_names_are_no_categories_unless_asked_for() -> None:
    n = 1500
    table = {"id": np.arange(n), "name": [f"person{i}" for i in range(n)]}
    edges = np.column_stack([np.arange(n - 1), np.arange(1, n)])
    with pytest.raises(InputError, match=r"No column can be used as a feature .*name: left out: one word, different"):
        read_graph(edges, table)
    assert read_graph(edges, table, categorical=["name"], scale=False).n_features == n
    assert read_graph(edges, table, categorical=["name"]).n_features == 256


def test_the_ids_cannot_be_the_label() -> None:
    nodes = {"id": ["a", "b", "c"], "v": [1, 2, 3]}
    with pytest.raises(InputError, match="Column 'id' holds the ids, so it cannot be the label"):
        read_graph([("a", "b"), ("b", "c")], nodes, label="id")
