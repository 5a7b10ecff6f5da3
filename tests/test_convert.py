"""convert: the same graph as read_graph, in small memory, after interruptions, and never half-written."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import tuplet.io._external_sort
import tuplet.io._id_maps
import tuplet.io._tables
import tuplet.io.convert as module
from tuplet import Graph, InputError, read_graph
from tuplet.io._external_sort import Buckets
from tuplet.io._id_maps import BitmapMap, Collector, SortedMap, TextMap
from tuplet.io.convert import convert
from tuplet.io.folder import open_graph


def same(a: Graph, b: Graph) -> bool:
    equal_y = (a.y is None) == (b.y is None) and (a.y is None or np.array_equal(a.y, b.y))
    return a.fingerprint() == b.fingerprint() and np.array_equal(a.node_ids, b.node_ids) and equal_y


def random_edges(m: int = 3000, n: int = 400, seed: int = 0) -> pa.Table:
    """Edges with repeats, both directions, self loops, a hub, and weights that add up exactly."""
    rng = np.random.default_rng(seed)
    source, target = rng.integers(n, size=(2, m))
    source[: m // 4] = 7
    weights = rng.integers(1, 8, m) / 4
    return pa.table({"source": source, "target": target, "weight": weights})


@pytest.fixture
def tiny_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of 500 edges, and buckets that hold 1024 entries: the hub's bucket is split again."""
    monkeypatch.setattr(tuplet.io._tables, "ROWS", 500)
    make = Buckets.make.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(Buckets, "make", classmethod(lambda cls, *a, **k: make(cls, *a, **{**k, "memory": 1})))


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weight", [False, "weight"])
@pytest.mark.parametrize("ids", ["numbers", "sparse", "text"])
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_convert_equals_read_graph(
    tmp_path: Path, tiny_buckets: None, directed: bool, weight: Any, ids: str, kind: str
) -> None:
    table = random_edges()
    if ids != "numbers":
        names = {"sparse": lambda i: i * 10**15 + 3, "text": lambda i: f"node {i}"}[ids]
        for i, column in enumerate(("source", "target")):
            table = table.set_column(i, column, pa.array([names(v) for v in table.column(column).to_pylist()]))
    path = tmp_path / f"e.{kind}"
    pa.csv.write_csv(table, path) if kind == "csv" else pq.write_table(table, path)
    expected = read_graph(path, weight=weight, directed=directed)
    g = convert(path, tmp_path / "g", weight=weight, directed=directed)
    assert same(g, expected)
    assert same(open_graph(tmp_path / "g", check=True), expected)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"e.{kind}", "g"]


def test_folders_of_parts_and_arrow_files(tmp_path: Path) -> None:
    table = random_edges()
    parts = tmp_path / "parts"
    parts.mkdir()
    for i in range(3):
        feather.write_feather(table.slice(i * 1000, 1000), str(parts / f"{i}.feather"), chunksize=100)
    pq.write_table(table, tmp_path / "e.parquet")
    assert same(convert(parts, tmp_path / "g"), read_graph(tmp_path / "e.parquet"))


def test_features_and_labels_go_with_the_nodes(tmp_path: Path) -> None:
    pq.write_table(random_edges(), tmp_path / "e.parquet")
    rng = np.random.default_rng(0)
    ids = rng.permutation(450)  # 50 nodes without an edge
    table = pa.table({"id": ids, "a": rng.normal(size=450), "b": rng.integers(2, size=450) > 0,
                      "v": pa.FixedSizeListArray.from_arrays(pa.array(rng.normal(size=900)), 2),
                      "label": rng.integers(3, size=450)})  # fmt: skip
    pq.write_table(table, tmp_path / "n.parquet", row_group_size=100)
    options: dict[str, Any] = {"label": "label", "unmatched": "keep"}
    expected = read_graph(tmp_path / "e.parquet", tmp_path / "n.parquet", **options)
    g = convert(tmp_path / "e.parquet", tmp_path / "g", features=tmp_path / "n.parquet", **options)
    assert same(g, expected) and g.feature_names == ("a", "b", "v[0]", "v[1]") and isinstance(g.x, np.memmap)
    labels = pa.table({"id": ids, "label": [f"class {i % 4}" for i in ids]})
    g = convert(
        tmp_path / "e.parquet", tmp_path / "g2", features=tmp_path / "n.parquet", labels=labels, columns=["a"],
        unmatched="keep",
    )  # fmt: skip
    assert g.y.tolist() == (ids % 4).tolist() and g.label_names[1] == "class 1" and g.n_features == 1


def test_text_features_and_text_ids(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("a,b\nb,c\nc,zed\n")
    (tmp_path / "n.csv").write_text("id,v,w\nc,1,2.5\na,3,4\nb,5,6\n")
    with pytest.raises(InputError, match=r"1 of 4 nodes in the edges have no feature row, for example .*zed"):
        convert(tmp_path / "e.csv", tmp_path / "g", features=tmp_path / "n.csv")
    g = convert(tmp_path / "e.csv", tmp_path / "zero", features=tmp_path / "n.csv", missing="zero", scale=False)
    assert g.ids.tolist() == ["c", "a", "b", "zed"] and g.x.tolist() == [[1, 2.5], [3, 4], [5, 6], [0, 0]]
    assert g.edges().tolist() == [[0, 2], [0, 3], [1, 2]]
    g = convert(tmp_path / "e.csv", tmp_path / "drop", features=tmp_path / "n.csv", unmatched="drop")
    assert g.ids.tolist() == ["c", "a", "b"] and g.edges().tolist() == [[0, 2], [1, 2]]
    (tmp_path / "n.csv").write_text("id,v\nc,red\na,blue\nb,red\nzed,red\n")
    g = convert(tmp_path / "e.csv", tmp_path / "g", features=tmp_path / "n.csv")
    assert g.feature_names == ("v=blue", "v=red") and g.x.tolist() == [[0, 1], [1, 0], [0, 1], [0, 1]]


@pytest.mark.parametrize("stage", ["ids", "edges", "rows"])
def test_an_interrupted_run_goes_on(
    tmp_path: Path, tiny_buckets: None, stage: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(random_edges(), path)
    expected = read_graph(path)
    calls = 0

    def interrupt(phase: str, fraction: float) -> None:
        nonlocal calls
        calls += phase == stage
        if calls == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(path, tmp_path / "g", progress=interrupt)
    assert not (tmp_path / "g").exists() and (tmp_path / ".g.work").exists()
    phases: list[str] = []
    with caplog.at_level(logging.INFO, "tuplet"):
        g = convert(path, tmp_path / "g", progress=lambda phase, fraction: phases.append(phase))
    assert same(g, expected)
    assert not (tmp_path / ".g.work").exists()
    done = {"ids": set(), "edges": {"ids"}, "rows": {"ids", "edges"}}[stage]
    assert not done & set(phases)
    assert (stage == "ids") != ("going on with the conversion" in caplog.text)


def test_other_input_starts_afresh(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(random_edges(seed=0), path)

    def interrupt(phase: str, fraction: float) -> None:
        if phase == "rows":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(path, tmp_path / "g", progress=interrupt)
    pq.write_table(random_edges(seed=1), path)
    assert same(convert(path, tmp_path / "g"), read_graph(path))


def test_counts_are_logged_and_progress_runs_to_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "e.csv").write_text("0,1\n1,0\n0,1\n2,2\n1,2\n")
    seen: dict[str, float] = {}
    with caplog.at_level(logging.INFO, "tuplet"):
        g = convert(tmp_path / "e.csv", tmp_path / "g", progress=seen.__setitem__)
    assert g.edges().tolist() == [[0, 1], [1, 2]] and g.ids is None
    assert "dropped 1 self loops" in caplog.text and "merged 4 stored edges" in caplog.text
    assert list(seen) == ["ids", "edges", "rows"] and seen["rows"] == 1.0


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a,b,-1\n", {}, r"negative weight \(-1\) in line 1"),
        ("a,b,x\n", {"weight": "c3"}, "holds 'x', not a number, in line 1"),
        ("", {}, "is empty"),
        ("source,target\n", {}, "hold no rows"),
        ("a,b\n", {"memory": "1MB"}, "too little"),
        ("a,b\n", {"memory": "much"}, "is not a size"),
        ("a,b\n", {"source": "x"}, "no column 'x'"),
        ("a,b\n", {"missing": "drop"}, "missing 'drop' is not known"),
        ("a,b\n", {"missing": "propagate"}, "needs the whole graph in memory"),
        ("a,b\n", {"missing": "mean"}, "no table of features is given"),
        ("5,5\n", {}, "1 nodes"),
    ],
)
def test_bad_input_leaves_nothing(tmp_path: Path, text: str, options: dict[str, Any], message: str) -> None:
    (tmp_path / "e.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        convert(tmp_path / "e.csv", tmp_path / "g", **options)
    assert [p.name for p in tmp_path.iterdir()] == ["e.csv"]


def test_truncated_parquet_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(random_edges(), path)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(InputError, match="is not a readable parquet"):
        convert(path, tmp_path / "g")
    assert [p.name for p in tmp_path.iterdir()] == ["e.parquet"]


def test_maps_agree_with_a_dictionary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuplet.io._id_maps, "_PENDING", 40)
    rng = np.random.default_rng(0)
    asked = rng.integers(-5, 4000, 500)
    for scale, kind in ((1, BitmapMap), (10**14, SortedMap), (None, TextMap)):
        values = rng.integers(0, 3000, 600) if scale is None else rng.integers(0, 3000, 600) * scale
        query = asked if scale is None else asked * scale
        arrays = [pa.array([str(v) for v in a], pa.large_string()) if scale is None else pa.array(a)
                  for a in (values, query)]  # fmt: skip
        collector = Collector(2**26)
        for start in range(0, 600, 50):
            collector.add(arrays[0][start : start + 50])
        found = collector.finish()
        assert isinstance(found, kind)
        ordered = sorted(set(arrays[0].to_pylist()))
        place = {value: i for i, value in enumerate(ordered)}
        assert found.ids is not None and found.ids.tolist() == ordered and found.n == len(ordered)
        assert found.look_up(arrays[1]).tolist() == [place.get(v, -1) for v in arrays[1].to_pylist()]


def test_ids_beyond_the_budget_are_an_error() -> None:
    collector = Collector(1000)
    with pytest.raises(InputError, match=r"ids of .* nodes need"):
        collector.add(pa.array(np.arange(100) * 10**9))
        collector.finish()


def test_state_of_another_version_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("0,1\n")
    (tmp_path / ".g.work").mkdir()
    (tmp_path / ".g.work" / "state.json").write_text("[1")
    assert convert(tmp_path / "e.csv", tmp_path / "g").n_edges == 1
    assert module.MAX_NODES == 2**31
