"""read_graph and convert are one reader: the same graph, or the same refusal, from the same files and options."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import tuplet.io._tables
import tuplet.io._text
from tuplet import Graph, InputError, read_graph
from tuplet.io.convert import convert

KINDS = ["csv", "tsv", "parquet", "feather"]
WHOLE = st.sampled_from([0, 1, 2, 3, 5, 11, 40])
ID_KINDS: dict[str, st.SearchStrategy[Any]] = {
    "int": WHOLE,
    "text": WHOLE.map(lambda i: f"n{i}"),
    "mixed": st.one_of(WHOLE.map(str), WHOLE.map(lambda i: f"n{i}")),
    "zeros": st.one_of(WHOLE.map(str), WHOLE.map(lambda i: f"0{i}")),
    "blank": st.one_of(WHOLE.map(lambda i: f"n{i}"), WHOLE.map(lambda i: f" n{i}")),
}
CELLS: dict[str, st.SearchStrategy[Any]] = {
    "float": st.sampled_from([0.0, 0.5, -2.0, 3.0, 1e-3]),
    "int": st.sampled_from([0, 1, 7, -3]),
    "float+": st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    "int+": st.sampled_from([1, 2, 0]),
    "bool": st.booleans(),
    "text": st.sampled_from(["red", "blue", "a b", "x,y", 'q"q', ""]),
    "gaps": st.sampled_from([1.5, None, 2.0]),
    "odd": st.sampled_from(["1", "2.5", "3,5", "two", "10%"]),
    "null": st.none(),
}
PAIRS = [("source", "target"), ("from", "to"), ("author", "coauthor"), ("b", "a")]


@contextmanager
def small_chunks(rows: int = 2, text: int = 24) -> Iterator[None]:
    """Columnar files in chunks of 2 rows, text files in blocks of 24 bytes."""
    before = tuplet.io._tables.ROWS, tuplet.io._text.BLOCK
    tuplet.io._tables.ROWS, tuplet.io._text.BLOCK = rows, text
    try:
        yield
    finally:
        tuplet.io._tables.ROWS, tuplet.io._text.BLOCK = before


def write(path: Path, columns: dict[str, list[Any]], header: bool) -> Path:
    """The table as the ending of `path` says."""
    if path.suffix in (".csv", ".tsv"):
        with path.open("w", newline="") as file:
            writer = csv.writer(file, delimiter="," if path.suffix == ".csv" else "\t")
            if header:
                writer.writerow(columns)
            writer.writerows(zip(*columns.values()))
        return path
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    pq.write_table(table, path) if path.suffix == ".parquet" else feather.write_feather(table, str(path), chunksize=2)
    return path


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tables (columns, kind of file, header) by role, and options."""
    ids, m = ID_KINDS[draw(st.sampled_from(sorted(ID_KINDS)))], draw(st.integers(2, 9))
    names = draw(st.sampled_from([*PAIRS[:2], *PAIRS]))
    edges = {name: draw(st.lists(ids, min_size=m, max_size=m)) for name in names}
    third = draw(st.sampled_from([None, None, "weight", "since", "w"]))
    if third:
        values = draw(st.sampled_from(["float+", "int+", "float+", "text", "gaps"]))
        edges[third] = draw(st.lists(CELLS[values], min_size=m, max_size=m))
    header = draw(st.integers(0, 3)) > 0
    tables: dict[str, Any] = {"edges": (edges, draw(st.sampled_from(KINDS)), header)}
    likely: dict[str, list[Any]] = {"directed": [True], "weight": [False], "header": [header]}
    wild = {"weight": [True, "weight", "since"], "header": [True, False], "source": ["a", "to"], "id": ["key"],
            "label": ["label", "kind"], "columns": [["f0"], ["label"]], "missing": ["mean"]}  # fmt: skip
    for role in ("features", "labels"):
        if draw(st.booleans()):
            tables[role] = (
                draw(node_tables(role, ids, edges[names[0]] + edges[names[1]])),
                draw(st.sampled_from(KINDS)),
                True,
            )
    if "features" in tables:
        likely |= {"missing": ["zero", "mean", "zero"], "columns": [["f0"]], "categorical": [["f0"]]}
        wild |= {"tokens": [["f0"]], "categorical": [["f1"]]}
    options: dict[str, Any] = {}
    if len(tables) > 1:
        options["unmatched"] = draw(st.sampled_from(["keep", "drop", "keep", "error"]))
    if "features" in tables and draw(st.integers(0, 4)):
        options["missing"] = draw(st.sampled_from(["zero", "mean"]))
    for choices, often in ((likely, 3), (wild, 24)):
        for name, values in choices.items():
            if draw(st.integers(1, often)) == 1:
                options[name] = draw(st.sampled_from(values))
    return tables, options


@st.composite
def node_tables(draw: st.DrawFn, role: str, ids: st.SearchStrategy[Any], ends: list[Any]) -> dict[str, list[Any]]:
    """Features or labels of some ends of the edges, and of other nodes."""
    known = draw(st.lists(ids, max_size=3))
    known = list({str(i): i for i in [*known, *ends[draw(st.integers(0, len(ends) - 1)) :], ends[0]]}.values())
    n = len(known)
    table: dict[str, Any] = {draw(st.sampled_from(["id", "key", "id"])): known}
    often = ["float", "int", "bool", "text", "gaps", "text"]
    cells = draw(st.lists(st.sampled_from([*often, *often, "odd", "null"]), min_size=1, max_size=3))
    for i, kind in enumerate(cells if role == "features" else []):
        table[f"f{i}"] = draw(st.lists(CELLS[kind], min_size=n, max_size=n))
    if role == "labels" or draw(st.booleans()):
        name = draw(st.sampled_from(["label", "class", "kind"]))
        table[name] = draw(st.lists(st.sampled_from(["a", "b", "0", "1"]), min_size=n, max_size=n))
    return table


def outcome(call: Any) -> tuple[Graph | None, str]:
    try:
        return call(), ""
    except InputError as error:
        return None, str(error)


def dense(x: Any) -> Any:
    return x.toarray() if sp.issparse(x) else x


def assert_same(one: Graph, two: Graph) -> None:
    assert one.directed == two.directed and one.node_ids.tolist() == two.node_ids.tolist()
    assert (one.ids is None) == (two.ids is None) and one.node_ids.dtype.kind == two.node_ids.dtype.kind
    assert np.array_equal(one.indptr, two.indptr) and np.array_equal(one.indices, two.indices)
    assert (one.weights is None) == (two.weights is None)
    assert one.weights is None or np.array_equal(one.weights, two.weights)
    assert (one.x is None) == (two.x is None) and sp.issparse(one.x) == sp.issparse(two.x)
    assert one.x is None or np.allclose(dense(one.x), dense(two.x), rtol=1e-6, atol=0)
    assert (one.y is None) == (two.y is None) and (one.y is None or one.y.tolist() == two.y.tolist())
    assert (one.feature_names, one.label_names) == (two.feature_names, two.label_names)


def compare(tables: dict[str, Any], options: dict[str, Any]) -> str:
    """Read both ways; "graph", "refused", or "unwritten" where such a file cannot be."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for role, (columns, kind, header) in tables.items():
            try:
                paths[role] = write(Path(folder) / f"{role}.{kind}", columns, header)
            except (pa.ArrowException, ValueError):  # a column of numbers and texts has no place in Parquet
                return "unwritten"
        memory, why = outcome(lambda: read_graph(**paths, **options))
        with small_chunks():
            disk, reason = outcome(lambda: convert(out=Path(folder) / "g", **paths, **options))
        assert (memory is None) == (disk is None), (why, reason)
        if memory is not None and disk is not None:
            assert_same(memory, disk)
        assert sorted(p.name for p in Path(folder).iterdir() if p.name.startswith(".")) == []
        return "graph" if memory is not None else "refused"


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(cases())
def test_both_ways_give_the_same_graph_or_both_refuse(case: tuple[dict[str, Any], dict[str, Any]]) -> None:
    event(compare(*case))


E2 = {"source": [0, 1, 2, 0], "target": [1, 2, 0, 1]}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("edges", "options"),
    [
        pytest.param(E2 | {"c3": [1.0, 2.0, 3.0, 4.0]}, {}, id="third column"),
        pytest.param({"c1": [0, 1], "c2": [1, 2], "c3": [2.0, 5.0]}, {}, id="c1 c2 c3"),
        pytest.param(E2, {"weight": True}, id="weight=True without one"),
        pytest.param({"author": ["x", "y"], "coauthor": ["y", "z"]}, {}, id="unknown header"),
        pytest.param(E2 | {"weight": ["1", "x", "2", "3"]}, {}, id="text weights"),
        pytest.param(E2 | {"weight": ["1", "1", "2", "3"]}, {}, id="numbers as text"),
        pytest.param(E2 | {"weight": [1e38] * 4}, {}, id="large weights"),
        pytest.param({"source": [0, 1] * 6, "target": [1, 0] * 6, "weight": [3e38] * 12}, {}, id="sum too large"),
    ],
)
def test_cases_that_once_differed(kind: str, edges: dict[str, Any], options: dict[str, Any]) -> None:
    compare({"edges": (edges, kind, True)}, options)


def test_wide_features_become_csr_in_both(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ids = rng.permutation(60)
    edges = {"source": rng.integers(60, size=300).tolist(), "target": rng.integers(60, size=300).tolist()}
    words = [f"w{i}" for i in rng.integers(40, size=60)]
    text = [" ".join(f"t{j}" for j in rng.integers(30, size=5)) for _ in ids]
    late = [0.0] * 30 + [1.0] * 30  # sparse at first, dense at the end: the form changes
    many = {f"v{i}": late for i in range(20)}
    for features, options in [
        ({"id": ids.tolist(), "word": words, "text": text}, {"tokens": ["text"]}),
        ({"id": ids.tolist(), **many}, {}),
        ({"id": ids.tolist(), **{f"v{i}": late[::-1] for i in range(20)}, "word": words}, {}),
    ]:
        compare({"edges": (edges, "parquet", True), "features": (features, "csv", True)},
                {"unmatched": "keep", **options})  # fmt: skip
