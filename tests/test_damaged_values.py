"""Files that are whole and say something odd: values of another kind, names twice, names that no file can have."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import tuplet
from tests.conftest import write_json
from tuplet import InputError
from tuplet.bench.rows import done_keys, read_rows
from tuplet.graph.synth import block_model
from tuplet.io.folder import open_graph, save_graph
from tuplet.io.npz import write_npz
from tuplet.io.vectors import read_vectors
from tuplet.training.checkpoint import read_state, write_state

EDGES = "source,target\n" + "".join(f"{i},{(i + 1) % 12}\n" for i in range(12))
NODES = "id,size,colour,day,words\n" + "".join(
    f"{i},{i * 1.5},{'red' if i % 3 else 'blue'},2024-01-{i + 1:02},big word{i % 3}\n" for i in range(12)
)


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    """A folder with tables, and a stored graph that knows how they were prepared."""
    (tmp_path / "edges.csv").write_text(EDGES)
    (tmp_path / "nodes.csv").write_text(NODES)
    graph = tuplet.read_graph(tmp_path / "edges.csv", tmp_path / "nodes.csv", roles={"words": "text", "day": "date"})
    save_graph(graph, tmp_path / "g")
    return tmp_path


def use(folder: Path) -> Any:
    """Prepare the tables again, as the stored graph says."""
    known = open_graph(folder / "g").preparation
    return tuplet.read_graph(folder / "edges.csv", folder / "nodes.csv", preparation=known).x


def test_a_stored_preparation_prepares_the_tables_again(prepared: Path) -> None:
    again = use(prepared)
    assert again.shape[0] == 12


@pytest.mark.parametrize(
    "where, value",
    [
        (("columns", 0, "encoder", "name"), {"a": 1}),
        (("columns", 0, "encoder", "centre"), {}),
        (("columns", 0, "encoder", "centre"), "1"),
        (("columns", 0, "encoder", "scale"), 0),
        (("columns", 0, "encoder", "scale"), float("nan")),
        (("columns", 0, "encoder", "gaps"), 1.5),
        (("columns", 0, "factor"), "../.."),
        (("columns", 0, "factor"), float("inf")),
        (("columns", 0, "role"), None),
        (("columns", 1, "encoder", "levels"), True),
        (("columns", 1, "encoder", "levels"), [1, None]),
        (("columns", 1, "encoder", "buckets"), 10**9),
        (("columns", 3, "encoder", "vocabulary"), 1.5),
        (("columns", 3, "encoder", "vocabulary"), ["a"]),
        (("columns", 3, "encoder", "separator"), 3),
        (("arrays",), None),
        (("arrays", "3.idf"), [1.0]),
        (("arrays", "3.idf"), "x"),
        (("label",), 7),
        (("scaled",), "yes"),
        (("warnings",), [[]]),
        (("left_out",), [[1, 2, 3, 4, 5]]),
    ],
)
def test_a_preparation_of_odd_values_is_refused(prepared: Path, where: tuple[Any, ...], value: Any) -> None:
    file = prepared / "g" / "meta.json"
    meta = json.loads(file.read_text())
    holder = meta["preparation"]
    for key in where[:-1]:
        holder = holder[key]
    assert where[-1] in holder or isinstance(holder, list)
    holder[where[-1]] = value
    write_json(file, meta)
    with pytest.raises(InputError) as caught:
        use(prepared)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name, value", [("version", float("inf")), ("nodes", float("inf")), ("x_shape", [12, 2**70])]
)
def test_a_graph_of_odd_sizes_is_refused(tmp_path: Path, name: str, value: Any) -> None:
    x = sp.csr_array(np.eye(12, dtype=np.float32))
    folder = save_graph(tuplet.Graph.from_scipy(sp.csr_array(np.ones((12, 12))), x), tmp_path / "g")
    meta = json.loads((folder / "meta.json").read_text())
    write_json(folder / "meta.json", {**meta, name: value})
    with pytest.raises(InputError, match="damaged"):
        open_graph(folder)


def test_a_preparation_without_columns_is_refused_where_it_is_used(prepared: Path) -> None:
    file = prepared / "g" / "meta.json"
    meta = json.loads(file.read_text())
    meta["preparation"]["columns"] = []
    write_json(file, meta)
    with pytest.raises(InputError, match="no column"):
        use(prepared)


@pytest.mark.parametrize("value", [None, "a", [], {"a": 1}, float("inf")])
def test_a_model_of_odd_numbers_is_refused(tmp_path: Path, value: Any) -> None:
    graph = block_model([12, 12], seed=0)
    tuplet.SelfDMAT(2, max_steps=1, layers=(4, 2), n_init=1).fit(graph).save(tmp_path / "m")
    meta = json.loads((tmp_path / "m" / "model.json").read_text())
    meta["numbers"] = dict.fromkeys(meta["numbers"], value)
    write_json(tmp_path / "m" / "model.json", meta)
    with pytest.raises(InputError, match="damaged"):
        tuplet.load(tmp_path / "m").transform(graph)


@pytest.mark.parametrize("name", ["step", "loss_count", "rows_since_best"])
def test_a_checkpoint_of_odd_numbers_is_refused(tmp_path: Path, name: str) -> None:
    graph, file = block_model([12, 12], seed=0), tmp_path / "run" / "checkpoint.safetensors"
    model = tuplet.DMATi((4, 2), max_steps=2, batch_size=8, device="cpu").fit(graph, checkpoint=tmp_path / "run")
    tensors, meta = read_state(file)
    write_state(file, tensors, {**meta, name: float("inf")})
    with pytest.raises(InputError, match="damaged"):
        model.fit(graph, checkpoint=tmp_path / "run", resume=True)


def test_a_checkpoint_whose_history_is_no_list_is_refused(tmp_path: Path) -> None:
    graph = block_model([20, 20], seed=0)
    model = tuplet.DMATi((4, 2), max_steps=2, batch_size=8, device="cpu").fit(graph, checkpoint=tmp_path)
    tensors, meta = read_state(tmp_path / "checkpoint.safetensors")
    meta["history"]["rows"] = True
    write_state(tmp_path / "checkpoint.safetensors", tensors, meta)
    with pytest.raises(InputError, match="damaged"):
        model.fit(graph, checkpoint=tmp_path, resume=True)


def test_a_member_of_an_npz_that_is_no_array_is_refused(tmp_path: Path) -> None:
    write_npz(block_model([20, 20], seed=0), tmp_path / "g.npz")
    with zipfile.ZipFile(tmp_path / "g.npz", "a") as archive:
        archive.writestr("feature_names", b"no array")
    with pytest.raises(InputError, match="feature_names is no array"):
        tuplet.read_graph(tmp_path / "g.npz")


@pytest.mark.parametrize("change", [{"method": ["a"]}, {"task": None}, {"usage": 3}, {"settings": [1]}])
def test_a_row_of_odd_values_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    row = {"task": "t", "dataset": "d", "method": "m", "usage": "u", "seed": 0, "settings": {}}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n" + json.dumps({**row, **change}) + "\n")
    with pytest.raises(InputError, match="damaged"):
        done_keys(read_rows(tmp_path / "rows.jsonl"))


@pytest.mark.parametrize("names", [["id", "id", "vector"], ["id", "vector", "vector"]])
def test_vectors_with_a_name_twice_are_refused(tmp_path: Path, names: list[str]) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(4, np.float32)), 2)
    columns = [vectors if name == "vector" else pa.array([1, 2]) for name in names]
    pq.write_table(pa.table(columns, names=names), tmp_path / "v.parquet")
    with pytest.raises(InputError, match="not one `id`"):
        read_vectors(tmp_path / "v.parquet")


def test_a_column_whose_name_is_no_text_is_refused(tmp_path: Path) -> None:
    feather.write_feather(
        pa.table({"source": [1], "targ": [2]}), str(tmp_path / "e.feather"), compression="uncompressed"
    )
    data = (tmp_path / "e.feather").read_bytes()
    (tmp_path / "e.feather").write_bytes(data.replace(b"targ", b"ta\xf2g"))
    with pytest.raises(InputError, match="no text"):
        tuplet.read_graph(tmp_path / "e.feather")


def test_a_name_that_no_file_can_have_is_an_input_error() -> None:
    for read in (tuplet.read_graph, tuplet.load, read_vectors, open_graph):
        with pytest.raises(InputError) as caught:
            read("x" * 5000)
        assert "\n" not in str(caught.value)


def test_columns_beyond_all_memory_are_told() -> None:
    graph = block_model([20, 20], seed=0)
    wide = sp.csr_array((40, 10**13), dtype=np.float32)
    with pytest.raises(InputError, match=r"\(40 x 10+\) take 1.6e\+06 GB, more than there is. Filter into a file"):
        tuplet.GraphFilter().transform(graph, x=wide)


def test_json_lines_that_are_not_utf_8_are_refused(tmp_path: Path) -> None:
    (tmp_path / "e.jsonl").write_bytes(b'{"source": "a", "target": "b\xff"}\n')
    with pytest.raises(InputError, match=r"e\.jsonl"):
        tuplet.read_graph(tmp_path / "e.jsonl")
