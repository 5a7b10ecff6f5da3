"""The graph folder: round trips as memory maps, checksums, damage, atomic writing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import tuplet.io.folder as module
from tests.conftest import Run, random_graph, write_json
from tuplet import Graph, InputError, load_dataset
from tuplet._files import file_sum
from tuplet.io import _content
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
    def broken(*args: Any, **more: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(module, "write_meta", broken)
    with pytest.raises(InputError, match="disk full"):
        save_graph(random_graph(), tmp_path / "g")
    assert not list(tmp_path.iterdir())


def _edit(path: Path, **changes: Any) -> None:
    meta = json.loads(path.read_text())
    write_json(path, meta | changes)


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
    write_json(folder / "meta.json", meta)
    with pytest.raises(InputError, match=r"sparse features|damaged"):
        open_graph(folder, check=True)


@pytest.fixture(scope="module")
def stored_cora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_graph(load_dataset("cora"), tmp_path_factory.mktemp("store") / "cora")


@pytest.mark.parametrize("name", ["indices", "indptr", "x_indices", "x_indptr"])
def test_single_bit_flips_end_in_a_clean_error(stored_cora: Path, tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(0)
    place = tmp_path / "g"
    shutil.copytree(stored_cora, place)
    data = (place / f"{name}.npy").read_bytes()
    caught = 0
    for bit in rng.integers(8 * 128, 8 * len(data), 50):  # after the header
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << (bit % 8)
        (place / f"{name}.npy").write_bytes(changed)
        with pytest.raises(InputError, match="damaged") as error:
            open_graph(place, verify=True)
        assert "\n" not in str(error.value)
        made_to_fit(place, name)
        try:
            graph = open_graph(place, verify=True)
        except InputError:
            caught += 1
            continue
        assert graph.indices.min() >= 0 and graph.indices.max() < graph.n_nodes  # a valid graph, though another one
        assert (np.diff(graph.indptr) >= 0).all() and graph.x.indices.max() < graph.x.shape[1]
        assert np.isfinite((graph.adj @ graph.x).sum())
    assert caught > 20


@pytest.mark.parametrize("verb", ["info", "embed"])
def test_single_bit_flips_end_the_command_line_with_one_line(
    run: Run, stored_cora: Path, tmp_path: Path, verb: str
) -> None:
    """The hundred flips that once ended in 63 segmentation faults and 16 tracebacks."""
    rng = np.random.default_rng(1)
    place = tmp_path / "g"
    shutil.copytree(stored_cora, place)
    rest = ["-o", tmp_path / "v.npy", "--method", "FilterSVD", "-q"] if verb == "embed" else []
    for i in range(100):
        file = place / f"{('indices', 'indptr')[i % 2]}.npy"
        data = file.read_bytes()
        bit = int(rng.integers(8 * 128, 8 * len(data)))
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << (bit % 8)
        file.write_bytes(changed)
        code, out, err = run(verb, place, *rest)
        assert code == 1 and out == "" and len(err.splitlines()) == 1 and "damaged" in err, (i, bit, err)
        file.write_bytes(data)
    assert not (tmp_path / "v.npy").exists()


def made_to_fit(place: Path, name: str) -> None:
    """Write the checksum of the changed file into meta.json."""
    meta = json.loads((place / "meta.json").read_text())
    meta["arrays"][name]["blake2b"] = file_sum(place / f"{name}.npy")
    write_json(place / "meta.json", meta)


@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        ("indices", 3, 30, "outside 0 to 29"),
        ("indices", 3, -1, "outside 0 to 29"),
        ("indptr", 4, 10**6, "indptr falls at row"),
        ("weights", 2, np.nan, "weights holds nan"),
        ("weights", 2, -1.0, r"weights holds -1\.0"),
        ("x_indices", 5, 7, "outside 0 to 6"),
        ("x_indptr", 5, -3, "x_indptr falls"),
        ("x_data", 5, np.inf, "x_data holds inf"),
        ("y", 0, -2, "y holds -2"),
        ("y", 0, 2**40, "y holds 1099511627776"),
    ],
)
def test_content_is_checked_also_where_checksums_fit(
    tmp_path: Path, name: str, place: int, value: float, message: str
) -> None:
    g = random_graph(weighted=True)
    g = g.with_(x=sp.csr_array(np.where(g.x > 0, g.x, 0)))
    folder = save_graph(g, tmp_path / "g")
    array = np.load(folder / f"{name}.npy")
    array[place] = value
    np.save(folder / f"{name}.npy", array)
    made_to_fit(folder, name)
    with pytest.raises(InputError, match=message):
        open_graph(folder)


def test_order_within_rows_is_checked_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_content, "_BLOCK", 7)
    g = random_graph(p=0.4)
    assert open_graph(save_graph(g, tmp_path / "whole")).fingerprint() == g.fingerprint()
    starts = set(g.indptr.tolist())
    for place in range(1, 60):
        if place in starts:
            continue
        folder = save_graph(g, tmp_path / f"g{place}")
        array = np.load(folder / "indices.npy")
        array[[place - 1, place]] = array[[place, place - 1]]
        np.save(folder / "indices.npy", array)
        with pytest.raises(InputError, match=r"not in order near entry|self loops"):
            open_graph(folder)


def test_a_second_open_reads_no_index_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_graph(random_graph(), tmp_path / "g")
    looks: list[str] = []
    look = _content._check_rows
    monkeypatch.setattr(_content, "_check_rows", lambda name, *rest: [looks.append(name), look(name, *rest)])
    for _ in range(2):  # just written: a change within the clock's tick would not show
        open_graph(folder)
    assert len(looks) == 2
    monkeypatch.setattr(_content, "_SETTLED", 0)
    for _ in range(2):
        open_graph(folder)
    assert len(looks) == 3
    monkeypatch.undo()
    array = np.load(folder / "indices.npy")
    array[0] = 99
    np.save(folder / "indices.npy", array)
    with pytest.raises(InputError, match="outside"):
        open_graph(folder)


def test_arrays_of_another_byte_order_are_refused(tmp_path: Path) -> None:
    folder = save_graph(random_graph(), tmp_path / "g")
    array = np.load(folder / "indptr.npy")
    np.save(folder / "indptr.npy", array.astype(">i8"))
    meta = json.loads((folder / "meta.json").read_text())
    meta["arrays"]["indptr"]["dtype"] = ">i8"
    write_json(folder / "meta.json", meta)
    with pytest.raises(InputError, match="byte order"):
        open_graph(folder)


def test_opening_gives_the_pages_of_its_check_back(tmp_path: Path) -> None:
    """A graph larger than memory is opened: what the check has read does not stay in this process."""
    from tuplet._memory import resident_bytes

    n = 5 * 10**6  # a ring: 80 MB of neighbours and row pointers
    ring = np.sort(np.stack([(np.arange(n) - 1) % n, (np.arange(n) + 1) % n], axis=1), axis=1)
    place = save_graph(Graph(np.arange(n + 1, dtype=np.int64) * 2, ring.ravel().astype(np.int32)), tmp_path / "ring")
    del ring
    before = resident_bytes()
    g = open_graph(place)
    assert g.n_edges == n and resident_bytes() - before < 40e6
