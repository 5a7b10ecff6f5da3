"""What can be a table, which column is the label, which options go with what, and ids that do not meet."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import random_graph
from tuplet import Graph, InputError, load_dataset, read_graph
from tuplet._check import SPELLING, option
from tuplet.io.convert import convert
from tuplet.io.folder import save_graph
from tuplet.io.npz import read_npz, write_npz
from tuplet.io.write import write_graph_tables

EDGES = [("a", "b"), ("b", "c"), ("c", "a")]
TABLE = {"source": ["a", "b", "c"], "target": ["b", "c", "a"]}


class Streamed:
    """Only the Arrow C stream, as a DuckDB relation has it."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


def test_lists_globs_folders_and_streams(tmp_path: Path) -> None:
    expected = read_graph(TABLE)
    folder = tmp_path / "with blanks"
    folder.mkdir()
    for i in range(3):
        (folder / f"part {i}.csv").write_text(f"source,target\n{TABLE['source'][i]},{TABLE['target'][i]}\n")
    files = sorted(folder.iterdir())
    table = pa.table(TABLE)
    given = [files, tuple(map(str, files)), str(folder / "*.csv"), folder, Streamed(table), table.to_reader()]
    given += [pl.DataFrame(TABLE), pd.DataFrame(TABLE), table, table.to_batches()[0], pl.DataFrame(TABLE).lazy()]
    given += [io.BytesIO(b"source,target\na,b\nb,c\nc,a\n"), io.StringIO("source,target\na,b\nb,c\nc,a\n")]
    for i, edges in enumerate(given):
        if not isinstance(edges, pa.RecordBatchReader | io.IOBase):
            assert read_graph(edges).fingerprint() == expected.fingerprint(), edges
        assert convert(edges, tmp_path / f"g{i}").fingerprint() == expected.fingerprint(), edges
    features = pa.table({"id": ["a", "b", "c"], "v": [1.0, 2.0, 3.0]})
    labels = Streamed(pa.table({"id": ["a", "b", "c"], "label": [0, 1, 0]}))
    for i, make in enumerate((read_graph, lambda *a: convert(a[0], tmp_path / "all", features=a[1], labels=a[2]))):
        g = make(table, Streamed(features), labels)
        assert np.allclose(g.x[:, 0], [-(1.5**0.5), 0, 1.5**0.5]) and g.y.tolist() == [0, 1, 0], i


def test_parts_that_do_not_fit_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("source,target\na,b\n")
    (tmp_path / "b.csv").write_text("from,to\nb,c\n")
    with pytest.raises(InputError, match=r"b\.csv has the columns from, to, .*a\.csv has source, target"):
        read_graph([tmp_path / "a.csv", tmp_path / "b.csv"])
    pq.write_table(pa.table({"source": [1], "target": [2]}), tmp_path / "c.parquet")
    with pytest.raises(InputError, match="files of several kinds"):
        read_graph([tmp_path / "a.csv", tmp_path / "c.parquet"])
    with pytest.raises(InputError, match="No file matches"):
        read_graph(str(tmp_path / "*.tsv"))


@pytest.mark.parametrize("name", ["label", "class", "Y", "target"])
def test_a_column_named_like_a_label_is_the_label_and_no_feature(tmp_path: Path, name: str) -> None:
    nodes = {"id": ["a", "b", "c"], "v": [1.0, 2.0, 3.0], name: [0, 1, 0]}
    g = read_graph(EDGES, nodes)
    assert g.feature_names == ("v",) and g.y.tolist() == [0, 1, 0]
    g = read_graph(EDGES, nodes, columns=["v", name])
    assert g.feature_names == ("v", name) and g.y is None
    g = read_graph(EDGES, nodes, {"id": ["a", "b", "c"], "kind": ["x", "y", "y"]})
    assert g.feature_names == ("v",) and g.label_names == ("x", "y")


def test_a_label_is_asked_for_where_it_is_not_obvious() -> None:
    nodes = {"id": ["a", "b", "c"], "v": [1.0, 2, 3], "label": [0, 1, 0], "class": [1, 1, 0]}
    with pytest.raises(InputError, match=r"Several columns of the features could be the label: 'label', 'class'"):
        read_graph(EDGES, nodes)
    assert read_graph(EDGES, nodes, label="class").y.tolist() == [1, 1, 0]
    labels = {"id": ["a", "b", "c"], "age": [7, 8, 9], "section": ["x", "y", "x"]}
    with pytest.raises(InputError, match=r"Which column of the labels is the label\? There are: age, section"):
        read_graph(EDGES, labels=labels)
    assert read_graph(EDGES, labels=labels, label="section").label_names == ("x", "y")
    with pytest.raises(InputError, match=r"no label column 'sektion'\. Did you mean 'section'"):
        read_graph(EDGES, labels=labels, label="sektion")
    assert read_graph(EDGES, labels={"id": ["a", "b", "c"], "s": ["x", "y", "x"]}).label_names == ("x", "y")


def test_cora_as_tables_comes_back_with_features_and_labels(tmp_path: Path) -> None:
    g = load_dataset("cora")
    write_graph_tables(g, tmp_path / "edges.csv", tmp_path / "nodes.parquet")
    back = read_graph(tmp_path / "edges.csv", tmp_path / "nodes.parquet")
    disk = convert(tmp_path / "edges.csv", tmp_path / "g", features=tmp_path / "nodes.parquet")
    for other in (back, disk):
        assert other.fingerprint() == g.fingerprint() and np.array_equal(other.y, g.y)
        assert other.n_features == g.n_features and np.array_equal(other.ids, g.ids)


@pytest.mark.parametrize(
    ("ids", "way"),
    [
        (["a ", " b", "c"], "without the blanks"),
        (["A", "B", "C"], "in lower case"),
    ],
)
def test_ids_that_match_nowhere_say_how_they_would(tmp_path: Path, ids: list[str], way: str) -> None:
    nodes = {"id": [i if i.strip() != i or i != "c" else "c " for i in ids], "v": [1.0, 2, 3]}
    for options in ({}, {"unmatched": "keep", "missing": "zero"}, {"unmatched": "drop"}):
        with pytest.raises(
            InputError, match=rf"No id of the features is an id of the edges: .*'b'.* would match {way}"
        ):
            read_graph(EDGES, nodes, **options)
        with pytest.raises(InputError, match=rf"No id of the features is an id of the edges.* would match {way}"):
            convert(pa.table(TABLE), tmp_path / "g", features=nodes, **options)


def test_numbers_written_as_text_say_how_they_would_match() -> None:
    with pytest.raises(InputError, match=r"'001', '002'.* 2 of them would match as whole numbers"):
        read_graph([[1, 2]], {"id": ["001", "002"], "v": [1.0, 2.0]})
    with pytest.raises(InputError, match=r"3 of them would match without the blanks"):
        read_graph(EDGES, labels={"id": ["a ", "b ", "c "], "label": [0, 1, 0]})


def test_every_option_is_used_or_refused(tmp_path: Path) -> None:
    g = random_graph()
    write_npz(g, tmp_path / "g.npz")
    save_graph(g, tmp_path / "folder")
    for whole in (tmp_path / "g.npz", tmp_path / "folder", g):
        for options in (
            {"features": "no.csv"}, {"labels": "no.csv"}, {"directed": True}, {"weight": False}, {"columns": ["a"]},
            {"label": "y"}, {"missing": "zero"}, {"unmatched": "keep"}, {"header": True}, {"source": "a"},
            {"tokens": ["a"]}, {"separator": ";"}, {"comment": "%"}, {"id": "a"},
        ):  # fmt: skip
            with pytest.raises(InputError, match=f"holds a whole graph already, which {next(iter(options))}"):
                read_graph(whole, **options)
        assert read_graph(whole, name="n").name == "n"
        with pytest.raises(InputError, match="holds a whole graph already"):
            convert(whole, tmp_path / "out")
    x = np.eye(3)
    for args, options in [
        ((EDGES,), {"columns": ["a"]}), ((EDGES,), {"missing": "zero"}), ((EDGES,), {"label": "a"}),
        ((EDGES,), {"unmatched": "drop"}), (([[0, 1], [1, 2]], x), {"columns": ["a"]}), ((EDGES,), {"id": "a"}),
        (([[0, 1], [1, 2]], x), {"missing": "mean"}), ((TABLE,), {"separator": ";"}), ((TABLE,), {"header": True}),
    ]:  # fmt: skip
        with pytest.raises(InputError, match="has nothing to work on"):
            read_graph(*args, **options)


def test_object_arrays_in_an_npz_are_refused_by_name(tmp_path: Path) -> None:
    g = random_graph()
    write_npz(g, tmp_path / "g.npz")
    arrays = dict(np.load(tmp_path / "g.npz"))
    np.savez(tmp_path / "o.npz", **arrays, ids=np.array([f"n{i}" for i in range(30)], dtype=object))
    with pytest.raises(InputError, match=r"holds Python objects in 'ids', which are never unpickled"):
        read_npz(tmp_path / "o.npz")
    np.savez(tmp_path / "n.npz", **arrays, node_names=np.array([f"n{i}" for i in range(30)], dtype=object))
    assert read_npz(tmp_path / "n.npz").fingerprint() == g.fingerprint()


def test_bad_tables_are_one_line(tmp_path: Path) -> None:
    frame = pd.DataFrame([["a", "b", 1]], columns=["source", "target", "source"])
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]), tmp_path / "t.parquet")
    for call, message in [
        (lambda: read_graph(frame), "The edges names a column twice: 'source'"),
        (lambda: read_graph(tmp_path / "t.parquet"), "names a column twice: 'a'"),
        (lambda: read_graph({name: pa.array([], pa.int64()) for name in ("source", "target")}), "no rows"),
        (lambda: read_graph(EDGES, {"id": pa.array([], pa.string()), "v": pa.array([], pa.float64())}), "no rows"),
        (lambda: read_graph(TABLE, source="target"), "cannot be both ends"),
    ]:  # fmt: skip
        with pytest.raises(InputError, match=message) as error:
            call()
        assert "\n" not in str(error.value)


def test_hints_are_spelt_as_the_user_writes_options() -> None:
    assert option("unmatched", "keep") == "unmatched='keep'"
    token = SPELLING.set("flags")
    try:
        with pytest.raises(InputError, match="Say --unmatched keep"):
            read_graph(EDGES, {"id": ["a", "b", "c", "d"], "v": [1.0, 2, 3, 4]})
    finally:
        SPELLING.reset(token)


def test_graph_is_a_type() -> None:
    assert isinstance(read_graph(EDGES), Graph)
