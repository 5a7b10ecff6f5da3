"""Vectors files: round trips, blockwise writing, atomicity, and vectors of another graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import tuplet.io._vector_parts as parts
import tuplet.io.vectors as module
from tests.conftest import random_graph
from tuplet import InputError, load_dataset
from tuplet.io.vectors import Vectors, align, read_vectors, write_vectors

Z = np.random.default_rng(0).normal(size=(11, 3)).astype(np.float32)


@pytest.mark.parametrize(
    "ids", [None, np.arange(11) * 7, np.array([f"n{i}" for i in range(11)]), list("abcdefghijk")]
)
@pytest.mark.parametrize("ending", [".parquet", ".csv", ".npy"])
def test_vectors_come_back_to_the_bit(tmp_path: Path, ids: Any, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "ROW_GROUP_BYTES", 50)  # 4 rows a block
    groups = np.arange(11) % 3
    path = write_vectors(tmp_path / f"v{ending}", Z, ids, cluster=groups)
    back = read_vectors(path)
    assert back.z.dtype == np.float32 and np.array_equal(back.z, Z)
    if ending != ".npy":
        expected = np.arange(11) if ids is None else np.asarray(ids)
        assert back.ids.tolist() == expected.tolist()
        assert back.cluster is not None and back.cluster.tolist() == groups.tolist()


def test_parquet_has_a_fixed_size_list_and_says_what_made_it(tmp_path: Path) -> None:
    g = random_graph(11)
    path = write_vectors(tmp_path / "v.parquet", Z, g, metadata={"model": "abc", "settings": {"alpha": 0.1}})
    schema = pq.read_schema(path)
    assert str(schema.field("vector").type).startswith("fixed_size_list<") and schema.names == ["id", "vector"]
    info = json.loads(schema.metadata[b"tuplet"])
    assert info["model"] == "abc" and info["settings"] == {"alpha": 0.1} and info["graph"] == g.fingerprint()
    assert read_vectors(path).metadata["model"] == "abc"


def test_memory_maps_are_written_block_by_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = np.lib.format.open_memmap(tmp_path / "z.npy", "w+", np.float32, (11, 3))
    store[:] = Z
    largest = 0

    class Watched(np.memmap):  # type: ignore[type-arg]
        def __getitem__(self, key: Any) -> Any:
            nonlocal largest
            part = super().__getitem__(key)
            largest = max(largest, getattr(part, "shape", (0,))[0] if getattr(part, "ndim", 0) == 2 else 0)
            return part

    monkeypatch.setattr(parts, "ROW_GROUP_BYTES", 50)
    monkeypatch.setattr(module, "check_finite", lambda *args: None)
    write_vectors(tmp_path / "v.parquet", store.view(Watched))
    assert 0 < largest <= 4
    assert pq.ParquetFile(tmp_path / "v.parquet").num_row_groups == 3
    assert np.array_equal(read_vectors(tmp_path / "v.parquet").z, Z)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_vectors(tmp_path / "v.parquet", Z)
    before = path.read_bytes()

    def broken(*args: Any) -> None:
        args[0].write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(module, "write_parquet", broken)
    with pytest.raises(InputError, match="disk full"):
        write_vectors(path, Z + 1)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["v.parquet"]


@pytest.mark.parametrize(
    ("path", "z", "options", "message"),
    [
        ("v.txt", Z, {}, "file ending '.txt' is not known"),
        ("no/v.csv", Z, {}, "does not exist"),
        ("v.csv", Z[0], {}, r"shape \(3,\)"),
        ("v.csv", Z, {"ids": [1, 2]}, "ids has shape"),
        ("v.csv", Z, {"cluster": [1, 2]}, "cluster has shape"),
        ("v.csv", Z * np.inf, {}, "NaN or infinity"),
    ],
)
def test_bad_vectors_are_refused(tmp_path: Path, path: str, z: Any, options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        write_vectors(tmp_path / path, z, **options)
    assert not list(tmp_path.iterdir())


def test_unreadable_vectors_are_named(tmp_path: Path) -> None:
    write_vectors(tmp_path / "v.parquet", Z)
    write_vectors(tmp_path / "v.npy", Z)
    for name in ("v.parquet", "v.npy"):
        data = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(data[: len(data) // 2])
        with pytest.raises(InputError, match="is not a readable"):
            read_vectors(tmp_path / name)
    with pytest.raises(InputError, match="There is no file"):
        read_vectors(tmp_path / "absent.csv")


def test_align_puts_rows_into_node_order() -> None:
    g = random_graph(11).with_(ids=np.array([f"n{i}" for i in range(11)]))
    order = np.random.default_rng(1).permutation(11)
    vectors = Vectors(g.node_ids[order], Z[order])
    assert np.array_equal(align(vectors, g), Z)
    numbers = g.with_(ids=np.arange(11) * 3)
    assert np.array_equal(align(Vectors((np.arange(11) * 3).astype(str)[order], Z[order]), numbers), Z)


def test_vectors_of_another_graph_are_refused() -> None:
    g = random_graph(11)
    named = g.with_(ids=np.array([f"n{i}" for i in range(11)]))
    with pytest.raises(InputError, match=r"11 of its ids are not among them, for example .*n0"):
        align(Vectors(np.array([f"m{i}" for i in range(11)]), Z), named)
    with pytest.raises(InputError, match="they have 5 ids for its 11 nodes"):
        align(Vectors(np.arange(5), Z[:5]), g)
    with pytest.raises(InputError, match=r"made for another graph .fingerprint 12"):
        align(Vectors(np.arange(11), Z, None, {"graph": "12"}), g)
    assert align(Vectors(np.arange(11), Z, None, {"graph": g.fingerprint()}), g) is not None


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_folder_of_parts_is_read_as_one(tmp_path: Path, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", 4 * 3 * (4 if dtype == "float32" else 2))  # 4 rows a part
    groups = np.arange(11) % 3
    for _ in range(2):  # the second takes the place of the first
        write_vectors(f"{tmp_path}/v/", Z, list("abcdefghijk"), cluster=groups, metadata={"model": "m"}, dtype=dtype)
    assert sorted(p.name for p in (tmp_path / "v").iterdir()) == [f"part-0000{i}.parquet" for i in range(3)]
    back = read_vectors(tmp_path / "v")
    assert np.array_equal(back.z, Z.astype(dtype).astype(np.float32)) and back.ids.tolist() == list("abcdefghijk")
    assert back.cluster is not None and back.cluster.tolist() == groups.tolist() and back.metadata["model"] == "m"
    (tmp_path / "v" / "part-00001.parquet").unlink()
    with pytest.raises(InputError, match=r"part-00001.parquet is missing"):
        read_vectors(tmp_path / "v")


def test_the_last_part_may_not_be_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", 4 * 3 * 4)
    write_vectors(f"{tmp_path}/v/", Z)
    (tmp_path / "v" / "part-00002.parquet").unlink()
    with pytest.raises(InputError, match=r"part-00002.parquet is missing"):
        read_vectors(tmp_path / "v")


def test_float16_in_files(tmp_path: Path) -> None:
    half = Z.astype(np.float16).astype(np.float32)
    for name in ("v.npy", "v.parquet"):
        assert np.array_equal(read_vectors(write_vectors(tmp_path / name, Z, dtype="float16")).z, half)
    assert (tmp_path / "v.npy").stat().st_size == 128 + Z.size * 2
    with pytest.raises(InputError, match="largest of float16"):
        write_vectors(tmp_path / "w.npy", 1e6 * Z, dtype="float16")
    with pytest.raises(InputError, match="saves nothing"):
        write_vectors(tmp_path / "w.csv", Z, dtype="float16")


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("dear")
    with pytest.raises(InputError, match="something else than vectors"):
        write_vectors(f"{tmp_path}/letters/", Z)
    with pytest.raises(InputError, match="no ending"):
        write_vectors(tmp_path / "v", Z)
    assert [p.name for p in tmp_path.rglob("*")] == ["letters", "dear.txt"]


def test_vectors_without_ids_say_so_where_the_nodes_have_ids(tmp_path: Path) -> None:
    g = load_dataset("cora")
    path = write_vectors(tmp_path / "v.npy", np.ones((g.n_nodes, 2)), g)
    with pytest.raises(InputError, match=r"for example 31336\. .*\.npy holds no ids") as error:
        align(read_vectors(path), g)
    assert "np." not in str(error.value)
