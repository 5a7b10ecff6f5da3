"""The graph folder: round trips as memory maps, checksums, damage, atomic writing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import tuplet.io.folder as module
from tests.conftest import random_graph
from tuplet import Graph, InputError, load_dataset
from tuplet._files import file_sum
from tuplet.io.folder import open_graph, save_graph


@pytest.mark.parametrize("options", [{}, {"weighted": True}, {"directed": True}])
@pytest.mark.parametrize("kind", ["dense", "sparse", "none"])
def test_everything_comes_back(tmp_path: Path, options: dict[str, bool], kind: str) -> None:
    g = random_graph(**options).with_(
        ids=np.array([f"é{i}" for i in range(30)]),
        name="g",
        label_names=("a", "b", "c"),
        feature_names=tuple("abcdefg"),
    )
    x: Any = {"dense": g.x, "sparse": sp.csr_array(np.where(g.x > 1, g.x, 0)), "none": None}[kind]
    g = g.with_(x=x)
    back = open_graph(save_graph(g, tmp_path / "g"), check=True)
    assert back.fingerprint() == g.fingerprint()
    assert np.array_equal(back.y, g.y) and np.array_equal(back.ids, g.ids) and back.directed == g.directed
    assert (back.name, back.label_names, back.feature_names) == (g.name, g.label_names, g.feature_names)
    assert isinstance(back.indices, np.memmap)
    assert kind != "sparse" or (isinstance(back.x.data, np.memmap) and isinstance(back.x, sp.csr_array))


def test_sparse_features_work_as_a_matrix(tmp_path: Path) -> None:
    g = load_dataset("cora")
    back = open_graph(save_graph(g, tmp_path / "g"))
    assert np.array_equal((back.x @ np.ones(1433)), g.x @ np.ones(1433))
    assert (back.x[5:9] != g.x[5:9]).nnz == 0


def test_a_graph_without_edges_comes_back(tmp_path: Path) -> None:
    g = Graph.from_scipy(sp.csr_array((3, 3)), np.eye(3))
    assert open_graph(save_graph(g, tmp_path / "g")).fingerprint() == g.fingerprint()


def test_an_existing_folder_is_replaced_only_on_request(tmp_path: Path) -> None:
    g, other = random_graph(seed=0), random_graph(seed=1)
    save_graph(g, tmp_path / "g")
    with pytest.raises(InputError, match="exists already"):
        save_graph(other, tmp_path / "g")
    save_graph(other, tmp_path / "g", overwrite=True)
    assert open_graph(tmp_path / "g").fingerprint() == other.fingerprint()
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match="exists already"):
        save_graph(g, tmp_path / "mine", overwrite=True)  # not a graph: never touched
    assert {p.name for p in tmp_path.iterdir()} == {"g", "mine"}


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(module, "write_meta", broken)
    with pytest.raises(InputError, match="disk full"):
        save_graph(random_graph(), tmp_path / "g")
    assert not list(tmp_path.iterdir())


def _edit(path: Path, **changes: Any) -> None:
    meta = json.loads(path.read_text())
    path.write_text(json.dumps(meta | changes))


def test_damage_is_named(tmp_path: Path) -> None:
    def fresh() -> Path:
        return save_graph(random_graph(weighted=True), tmp_path / f"g{len(list(tmp_path.iterdir()))}")

    with pytest.raises(InputError, match=r"no meta\.json"):
        open_graph(tmp_path)
    g = fresh()
    (g / "meta.json").write_text("{")
    with pytest.raises(InputError, match=r"damaged \(meta\.json"):
        open_graph(g)
    g = fresh()
    _edit(g / "meta.json", version=99)
    with pytest.raises(InputError, match="version 99"):
        open_graph(g)
    g = fresh()
    _edit(g / "meta.json", format="other")
    with pytest.raises(InputError, match="format 'other'"):
        open_graph(g)
    g = fresh()
    (g / "weights.npy").unlink()
    with pytest.raises(InputError, match=r"damaged \(weights\.npy"):
        open_graph(g)
    g = fresh()
    data = (g / "indices.npy").read_bytes()
    (g / "indices.npy").write_bytes(data[:-8])
    with pytest.raises(InputError, match=r"damaged \(indices\.npy"):
        open_graph(g)
    g = fresh()
    _edit(g / "meta.json", nodes=29)
    with pytest.raises(InputError, match="row pointers"):
        open_graph(g)
    g = fresh()
    changed = bytearray((g / "weights.npy").read_bytes())
    changed[-1] ^= 1
    (g / "weights.npy").write_bytes(bytes(changed))
    assert open_graph(g).n_nodes == 30  # lengths agree; only the checksum tells
    with pytest.raises(InputError, match=r"weights\.npy has another checksum"):
        open_graph(g, check=True)


@pytest.mark.parametrize("part", ["x_indptr", "x_indices", "x_data"])
def test_sparse_features_that_do_not_fit_are_named(tmp_path: Path, part: str) -> None:
    """Also where the file, its entry and its checksum agree: the arrays of another graph."""
    g = random_graph()
    folder = save_graph(g.with_(x=sp.csr_array(np.where(g.x > 1, g.x, 0))), tmp_path / "g")
    array = np.load(folder / f"{part}.npy")[:-1]
    np.save(folder / f"{part}.npy", array)
    meta = json.loads((folder / "meta.json").read_text())
    meta["arrays"][part] |= {"shape": list(array.shape), "blake2b": file_sum(folder / f"{part}.npy")}
    (folder / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(InputError, match=r"sparse features|damaged"):
        open_graph(folder, check=True)
