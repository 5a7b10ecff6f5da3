"""read_graph: every kind of table, ids of every type, feature kinds, policies for what is missing."""

from __future__ import annotations

import io
import logging
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from tests.conftest import random_graph
from tuplet import InputError, load_dataset, read_graph
from tuplet.io.convert import convert
from tuplet.io.folder import save_graph
from tuplet.io.npz import write_npz
from tuplet.io.write import write_graph_tables

EDGES = "source,target\na,b\nb,c\nc,a\n"
FEATURES = "id,age,city\na,1,Rome\nb,2,Oslo\nc,3,Rome\n"


def put(folder: Path, **files: str | bytes) -> list[Path]:
    """Write each file (edges_csv='..' becomes edges.csv) and return the paths."""
    paths = []
    for name, data in files.items():
        path = folder / name.replace("_", ".")
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        paths.append(path)
    return paths


def same(a: Any, b: Any) -> bool:
    """Whether two graphs have equal arrays, features and labels."""
    equal_y = (a.y is None) == (b.y is None) and (a.y is None or np.array_equal(a.y, b.y))
    return a.fingerprint() == b.fingerprint() and equal_y


@pytest.mark.parametrize(
    "text",
    [
        "source,target\n10,20\n20,30\n",
        "10,20\n20,30\n",
        "# a comment\n10\t20\n# another\n20\t30\n",
        "10   20\n  20\t30  \n",
        "10;20\n20;30\n\n",
        "\ufeffsource,target\n10,20\n20,30\n",
        "u|v\n10|20\n20|30",
        '"from","to"\r\n"10","20"\r\n"20","30"\r\n',
    ],
)
def test_edge_lists_of_every_dress_give_the_same_graph(tmp_path: Path, text: str) -> None:
    (path,) = put(tmp_path, edges_csv=text)
    g = read_graph(path)
    assert g.edges().tolist() == [[0, 1], [1, 2]]
    assert g.ids is not None and g.ids.tolist() == [10, 20, 30]
    assert same(read_graph(io.BytesIO(text.encode())), g)


def test_every_container_gives_the_same_graph(tmp_path: Path) -> None:
    (edges, features) = put(tmp_path, edges_csv=EDGES, nodes_csv=FEATURES)
    expected = read_graph(edges, features)
    e = pd.DataFrame({"source": ["a", "b", "c"], "target": ["b", "c", "a"]})
    f = pd.DataFrame({"id": ["a", "b", "c"], "age": [1, 2, 3], "city": pd.Categorical(["Rome", "Oslo", "Rome"])})
    pq.write_table(pa.Table.from_pandas(e), tmp_path / "e.parquet")
    feather.write_feather(f, str(tmp_path / "f.feather"))
    parts = tmp_path / "parts"
    parts.mkdir()
    pq.write_table(pa.Table.from_pandas(e[:1]), parts / "1.parquet")
    pq.write_table(pa.Table.from_pandas(e[1:]), parts / "2.parquet")
    pairs = [
        (e, f),
        (e, f.set_index("id")),
        (pl.from_pandas(e), pl.from_pandas(f)),
        (pl.from_pandas(e).lazy(), pa.Table.from_pandas(f)),
        (tmp_path / "e.parquet", tmp_path / "f.feather"),
        (parts, f),
        (e.to_numpy(), f.to_dict("list")),
        ({"from": ["a", "b", "c"], "to": ["b", "c", "a"]}, features),
    ]
    for given in pairs:
        assert same(read_graph(*given), expected), given
        assert read_graph(*given).feature_names == ("age", "city=Oslo", "city=Rome")


def test_whole_graph_files_and_folders_open_as_they_are(tmp_path: Path) -> None:
    g = random_graph(weighted=True)
    write_npz(g, tmp_path / "g.npz")
    save_graph(g, tmp_path / "folder")
    sp.save_npz(tmp_path / "scipy.npz", sp.csr_matrix(g.adj))
    assert same(read_graph(tmp_path / "g.npz"), g)
    assert same(read_graph(tmp_path / "folder"), g)
    assert same(read_graph(tmp_path / "scipy.npz"), g.with_(x=None, y=None))
    with pytest.raises(InputError, match="holds a whole graph already"):
        read_graph(tmp_path / "g.npz", {"id": [1], "x": [2]})


@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        (["007", "7", "x"], ["007", "7", "x"]),
        ([2**63 + 5, 2**40, 3], [2**63 + 5, 2**40, 3]),
        ([-4, 10**18, 0], [-4, 10**18, 0]),
        ([3.0, 1.0, 2.0], [3, 1, 2]),
        ([uuid.UUID(int=5), uuid.UUID(int=2**100), uuid.UUID(int=0)], None),
        (["α", "日本", "a b"], ["α", "日本", "a b"]),
        ([b"ab", b"cd", b"ef"], ["ab", "cd", "ef"]),
    ],
)
def test_ids_of_any_type_are_kept(ids: list[Any], kept: list[Any] | None) -> None:
    g = read_graph(
        pd.DataFrame({"source": [ids[0], ids[1]], "target": [ids[1], ids[2]]}),
        pd.DataFrame({"id": ids, "x": [1.0, 2.0, 3.0]}),
    )
    assert g.ids is not None and g.ids.tolist() == (kept or [str(i) for i in ids])
    assert g.edges().tolist() == [[0, 1], [1, 2]]


def test_number_ids_in_one_file_and_text_ids_in_the_other_meet(tmp_path: Path) -> None:
    (edges,) = put(tmp_path, edges_csv="1,2\n2,3\n")
    g = read_graph(edges, {"id": ["3", "2", "1"], "x": [0.5, 1, 2]})
    assert g.ids is not None and g.ids.tolist() == ["3", "2", "1"]
    assert g.edges().tolist() == [[0, 1], [1, 2]]


def test_ids_with_leading_zeros_in_text_files_stay_text(tmp_path: Path) -> None:
    (edges,) = put(tmp_path, edges_csv="01,1\n1,2\n")
    assert read_graph(edges).n_nodes == 3


def test_columns_are_picked_by_name(tmp_path: Path) -> None:
    edges, nodes = put(
        tmp_path, edges_csv="n,w,b,a\n9,0.5,b,a\n9,2,c,b\n", nodes_csv="age,key,z\n1,a,5\n2,b,6\n3,c,7\n"
    )
    g = read_graph(edges, nodes, source="a", target="b", weight="w", id="key", columns=["z"], scale=False)
    assert g.x.tolist() == [[5], [6], [7]] and g.feature_names == ("z",)
    assert g.adj.toarray().tolist() == [[0, 0.5, 0], [0.5, 0, 2], [0, 2, 0]]


def test_feature_kinds_become_the_columns_that_a_loop_would_make() -> None:
    table = {
        "id": [0, 1, 2],
        "age": [1.5, 2, 3],
        "old": [True, False, True],
        "kind": ["b", "a", "b"],
        "code": [7, 9, 7],
        "words": [["x", "y", "x"], [], ["y"]],
        "text": ["p q", "q", "  "],
        "vec": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
    }
    g = read_graph([[0, 1], [1, 2]], table, categorical=["code"], tokens=["text"], missing="zero", scale=False)
    names = ("age", "old", "kind=a", "kind=b", "code=7", "code=9", "words:x", "words:y", "text:p", "text:q")
    assert g.feature_names == (*names, "vec[0]", "vec[1]")
    rows = []
    for i in range(3):
        row = [table["age"][i], float(table["old"][i])]
        row += [float(table["kind"][i] == k) for k in "ab"] + [float(table["code"][i] == c) for c in (7, 9)]
        row += [float(table["words"][i].count(w)) for w in "xy"]
        row += [float(table["text"][i].split().count(w)) for w in "pq"] + table["vec"][i]
        rows.append(row)
    assert np.array_equal(g.x, np.array(rows, np.float32))


def test_tokens_split_at_the_given_separator() -> None:
    table = {"id": [0, 1], "tags": ["a;b c", "b c"]}
    g = read_graph([[0, 1]], table, tokens={"tags": ";"})
    assert g.feature_names == ("tags:a", "tags:b c")


def test_missing_values_are_filled_as_named() -> None:
    edges = [[0, 1], [1, 2], [2, 3], [4, 5]]
    table = {"id": [0, 1, 2, 3, 4, 5], "v": [2.0, None, 6.0, None, None, float("nan")]}
    assert read_graph(edges, table, missing="zero", scale=False).x[:, 0].tolist() == [2, 0, 6, 0, 0, 0]
    assert read_graph(edges, table, missing="mean", scale=False).x[:, 0].tolist() == [2, 4, 6, 4, 4, 4]
    # 1 has neighbours 2.0 and 6.0; 3 has 6.0; 4 and 5 reach nothing known
    assert read_graph(edges, table, missing="propagate", scale=False).x[:, 0].tolist() == [2, 4, 6, 6, 4, 4]
    with pytest.raises(InputError, match=r"Column 'v' of the features misses 4 of 6 values, first in row 2"):
        read_graph(edges, table, missing="error")
    assert read_graph(edges, table, scale=False).x[:, 0].tolist() == [2, 4, 6, 4, 4, 4]  # by its role: the median


def test_neighbours_fill_wave_by_wave_and_categories_too() -> None:
    table = {"id": [0, 1, 2, 3], "c": ["a", None, "", "b"]}
    g = read_graph([[0, 1], [1, 2], [2, 3], [1, 3]], table, missing="propagate", scale=False)
    # node 1: mean of a (0) and b (3); node 2: only 3 is known in the same wave
    assert g.x.tolist() == [[1, 0], [0.5, 0.5], [0, 1], [0, 1]]


def test_nodes_of_one_file_only_follow_the_named_choice() -> None:
    edges, table = [[0, 1], [1, 7]], {"id": [0, 1, 5], "v": [1.0, 2.0, 3.0]}
    with pytest.raises(InputError, match=r"1 of 3 ids in the features are unknown to the edges, for example 5"):
        read_graph(edges, table)
    with pytest.raises(InputError, match=r"1 of 3 nodes in the edges have no feature row, for example 7"):
        read_graph([[0, 1], [1, 7]], {"id": [0, 1], "v": [1.0, 2.0]})

    def nodes(**options: Any) -> list[int]:
        return read_graph(edges, table, **options).node_ids.tolist()  # type: ignore[no-any-return]

    assert nodes(unmatched="keep", missing="zero") == [0, 1, 5, 7]
    assert nodes(unmatched="drop") == [0, 1]
    assert read_graph([[0, 1]], table, unmatched="keep").node_ids.tolist() == [0, 1, 5]
    g = read_graph(edges, {"id": [0, 1], "v": [1.0, 2.0]}, missing="mean", scale=False)
    assert g.x[:, 0].tolist() == [1, 2, 1.5]


def test_a_matrix_of_features_belongs_to_nodes_by_place(tmp_path: Path) -> None:
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    np.save(tmp_path / "x.npy", x)
    for given in (x, sp.csr_array(x), tmp_path / "x.npy"):
        g = read_graph([[2, 0], [0, 1]], given)
        assert g.n_nodes == 4 and g.ids is None
        assert np.array_equal(g.x.toarray() if sp.issparse(g.x) else g.x, x)
    with pytest.raises(InputError, match=r"4 rows, for the nodes 0 to 3, but the edges name 1 others, for example 4"):
        read_graph([[0, 4]], x)


def test_labels_become_classes() -> None:
    edges = [["a", "b"], ["b", "c"]]
    g = read_graph(edges, labels={"id": ["c", "a", "b"], "label": ["red", "", "blue"]})
    assert g.node_ids.tolist() == ["c", "a", "b"] and g.y.tolist() == [1, -1, 0] and g.label_names == ("blue", "red")
    g = read_graph(edges, {"id": ["a", "b", "c"], "v": [1.0, 2, 3], "kind": [2, 0, -1]}, label="kind")
    assert g.y.tolist() == [2, 0, -1] and g.feature_names == ("v",) and g.label_names == ()
    g = read_graph(edges, labels={"id": ["a", "b", "c"], "label": [30, 4, 30]})
    assert g.y.tolist() == [1, 0, 1] and g.label_names == ("4", "30")


def test_repeats_and_loops_are_counted_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tuplet"):
        g = read_graph([[0, 1], [0, 1], [1, 0], [1, 1], [1, 2]])
    assert g.edges().tolist() == [[0, 1], [1, 2]] and g.weights is None
    assert "dropped 1 self loops" in caplog.text and "merged 2 edges" in caplog.text


def test_weights_of_repeats_are_summed_and_directions_kept_apart() -> None:
    edges = {"source": [0, 0, 1, 2], "target": [1, 1, 0, 1], "weight": [1.0, 2.0, 5.0, 1.0]}
    assert read_graph(edges).adj.toarray().tolist() == [[0, 5, 0], [5, 0, 1], [0, 1, 0]]
    assert read_graph(edges, directed=True).adj.toarray().tolist() == [[0, 3, 0], [5, 0, 0], [0, 1, 0]]
    assert read_graph(edges, weight=False).weights is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_cora_written_with_text_ids_comes_back_to_the_bit(tmp_path: Path, kind: str) -> None:
    g = load_dataset("cora")
    ids = np.array([f"paper {i}" for i in g.node_ids])
    rng = np.random.default_rng(0)
    pairs = g.edges()[rng.permutation(g.n_edges)]
    edges = pd.DataFrame({"source": ids[pairs[:, 0]], "target": ids[pairs[:, 1]]})
    x = g.x.toarray()
    if kind == "csv":
        edges.to_csv(tmp_path / "edges.csv", index=False)
        columns = {f"w{i}": x[:, i].astype(np.int8) for i in range(x.shape[1])}
        csv.write_csv(pa.table({"id": ids, **columns}), tmp_path / "nodes.csv")
    else:
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), x.shape[1])
        pq.write_table(pa.Table.from_pandas(edges), tmp_path / "edges.parquet")
        pq.write_table(pa.table({"id": ids, "x": vectors}), tmp_path / "nodes.parquet", row_group_size=500)
    labels = pd.DataFrame({"id": ids, "label": g.y})
    back = read_graph(tmp_path / f"edges.{kind}", tmp_path / f"nodes.{kind}", labels)
    assert same(back, g)
    assert back.ids is not None and np.array_equal(back.ids, ids)
    assert back.x.indices.dtype == g.x.indices.dtype and back.indices.dtype == g.indices.dtype


@pytest.mark.slow
def test_all_datasets_written_with_text_ids_come_back_to_the_bit(tmp_path: Path, data_dir: Path) -> None:
    for name in ("citeseer", "acm", "dblp", "pubmed", "amazon-photo"):
        g = load_dataset(name)
        named = g.with_(ids=np.array([f"n{i:06d}x" for i in range(g.n_nodes)]))
        write_graph_tables(named, tmp_path / "edges.csv", tmp_path / "nodes.parquet")
        back = read_graph(tmp_path / "edges.csv", tmp_path / "nodes.parquet", label="label", unmatched="keep")
        assert same(back, g), name
        assert np.array_equal(back.ids, named.ids)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_spare_column_with_a_name_is_no_weight(tmp_path: Path, ending: str) -> None:
    import pandas as pd

    table = pd.DataFrame({"source": ["a", "b", "c"], "target": ["b", "c", "a"], "since": [1999, 2001, 2005]})
    path = tmp_path / f"edges{ending}"
    table.to_csv(path, index=False) if ending == ".csv" else table.to_parquet(path)
    assert read_graph(path).weights is None
    assert convert(path, tmp_path / "g").weights is None
    assert read_graph(path, weight="since").weights is not None


def test_null_labels_of_a_typed_column_are_unknown_not_a_class(tmp_path: Path) -> None:
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        table = pa.table({"id": [0, 1, 2, 3], "size": [1.0, 5.0, 2.0, 8.0]})
        table = table.append_column("class", pa.array(["a", None, "b", "NA"]).cast(kind))
        pq.write_table(table, tmp_path / "nodes.parquet")
        for given in (table, tmp_path / "nodes.parquet"):
            graph = read_graph([(0, 1), (1, 2), (2, 3)], given)
            assert graph.label_names == ("a", "b") and graph.y is not None
            assert graph.y.tolist() == [0, -1, 1, -1] and graph.label_column == "class"


def test_ids_in_another_column_than_the_first_are_pointed_at(tmp_path: Path) -> None:
    edges = [("x7", "x8"), ("x8", "x9")]
    frame = pd.DataFrame({"number": ["x7", "x8", "x9"], "size": [1.0, 5.0, 2.0]})
    frame.to_csv(tmp_path / "nodes.csv")  # the index comes first
    with pytest.raises(InputError, match=r"Column 'number' holds 3 of 3 ids of the edges: id='number'"):
        read_graph(edges, tmp_path / "nodes.csv")
    assert read_graph(edges, tmp_path / "nodes.csv", id="number").feature_names == ("size",)
    again = pd.DataFrame({"size": [1.0, 1.0, 2.0], "number": ["x7", "x8", "x9"]})
    again.to_parquet(tmp_path / "nodes.parquet")
    with pytest.raises(InputError, match=r"more than once in the features \(column 'size'\).*another id column: id="):
        read_graph(edges, tmp_path / "nodes.parquet")


def test_the_label_column_is_known_wherever_it_was_found(tmp_path: Path) -> None:
    edges, nodes = [(0, 1), (1, 2)], {"id": [0, 1, 2], "size": [1.0, 5.0, 2.0], "y": ["a", "b", "a"]}
    assert read_graph(edges, nodes).label_column == "y"
    assert read_graph(edges, labels={"id": [0, 1, 2], "kind": ["a", "b", "a"]}).label_column == "kind"
    assert read_graph(edges).label_column == ""
    stored = save_graph(read_graph(edges, nodes), tmp_path / "store")
    assert read_graph(stored).label_column == "y"
