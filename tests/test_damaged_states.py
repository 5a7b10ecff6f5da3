"""What interrupted work left on disk, damaged: the right result, or one line; and a damaged file costs no memory."""

from __future__ import annotations

import json
import logging
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import tuplet
from tests.conftest import Run, random_graph, write_json
from tuplet import InputError
from tuplet._files import file_sum, placed
from tuplet.bench.spec import load_spec
from tuplet.engines.workers import Team
from tuplet.filters import GraphFilter, _disk, partition
from tuplet.filters.row_groups import filter_by_rows
from tuplet.graph.synth import block_model
from tuplet.io import cluster_parts as clusters
from tuplet.io.folder import map_graph, open_graph, save_graph
from tuplet.io.vectors import read_vectors, write_vectors
from tuplet.models import _selfdmat_disk


def spoil(file: Path, count: int = 40) -> None:
    """Other bytes at the end of the file, as many as before."""
    data = file.read_bytes()
    file.write_bytes(data[:-count] + bytes(byte ^ 0x15 for byte in data[-count:]))


def stop(*args: Any, **more: Any) -> Any:
    raise KeyboardInterrupt


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 16 columns and cut input files, as on a machine with little memory."""
    monkeypatch.setattr("tuplet.filters._run.block_width", lambda op, f, *rest: min(f, 16))
    monkeypatch.setattr("tuplet.filters._disk.must_split", lambda x, memory, blocks: isinstance(x, np.memmap))


@pytest.mark.parametrize(("place", "file"), [("write_block", "in-0000016.npy"), ("finish", "out.npy")])
def test_damaged_parts_of_a_filtering_are_made_again(
    place: str, file: str, narrow: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    g = random_graph(40, 50)
    np.save(tmp_path / "x.npy", g.x)
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(_disk, place, stop)
        GraphFilter().transform(g, x=x, out=tmp_path / "rows.npy")
    spoil(tmp_path / "rows.npy.parts" / file)
    got = GraphFilter().transform(g, x=x, out=tmp_path / "rows.npy")
    assert np.array_equal(got, GraphFilter().transform(g))


@pytest.mark.parametrize("note", ['{"columns": "a"}', "[1]", "[" * 100_000, '{"columns": 0}', b"\xff"])
def test_a_damaged_note_of_a_filtering_is_no_traceback(
    note: Any, narrow: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    g = random_graph(40, 50)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(_disk, "finish", stop)
        GraphFilter().transform(g, out=tmp_path / "rows.npy")
    file = tmp_path / "rows.npy.parts" / "job.json"
    good = json.loads(file.read_text())
    if note == '{"columns": 0}':
        note = json.dumps(good | {"columns": 0})
    file.write_bytes(note if isinstance(note, bytes) else note.encode())
    assert np.array_equal(GraphFilter().transform(g, out=tmp_path / "rows.npy"), GraphFilter().transform(g))


def test_a_damaged_sum_of_a_block_is_no_traceback(narrow: None, tmp_path: Path, monkeypatch: Any) -> None:
    g = random_graph(40, 50)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(_disk, "finish", stop)
        GraphFilter().transform(g, out=tmp_path / "rows.npy")
    (tmp_path / "rows.npy.parts" / "done-0000016.sum").write_bytes(b"\xff\xfe")
    assert np.array_equal(GraphFilter().transform(g, out=tmp_path / "rows.npy"), GraphFilter().transform(g))


def test_arrays_written_for_tasks_are_compared_with_what_they_hold(tmp_path: Path) -> None:
    array = np.arange(100.0)
    file = Path(placed(tmp_path, {"x": array})["x"])
    spoil(file)
    placed(tmp_path, {"x": array})
    assert np.array_equal(np.load(file), array)


@pytest.mark.parametrize("which", ["far-*-rows.npy", "rarity.npy", "near-*-lengths.npy"])
def test_damaged_steps_of_selfdmat_are_made_again(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    graph = block_model([40, 30], seed=0)

    def fit(resume: bool) -> Any:
        model = tuplet.SelfDMAT(2, max_steps=2, layers=(8, 4), n_init=1, detail=24)
        return model.fit(graph, checkpoint=tmp_path / "run", resume=resume).embedding_

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(_selfdmat_disk.Work, "vectors", stop)
        fit(False)
    (file,) = (tmp_path / "run" / "rows").glob(which)
    spoil(file, 400)
    with caplog.at_level(logging.WARNING, "tuplet"):
        found = fit(True).copy()
    assert f"{file.name} are damaged" in caplog.text and np.array_equal(found, fit(False))


@pytest.mark.parametrize("name", ["x_indptr", "x_indices", "indptr"])
@pytest.mark.parametrize("value", [2**30, -5])
def test_row_groups_see_no_index_out_of_range(name: str, value: int, tmp_path: Path) -> None:
    g = random_graph(30, 7)
    folder = save_graph(g.with_(x=sp.csr_array(np.where(g.x > 0, g.x, 0))), tmp_path / "g")
    array = np.load(folder / f"{name}.npy")
    array[4] = value
    np.save(folder / f"{name}.npy", array)
    meta = json.loads((folder / "meta.json").read_text())
    meta["arrays"][name]["blake2b"] = file_sum(folder / f"{name}.npy")
    write_json(folder / "meta.json", meta)
    graph, key = map_graph(folder)
    with pytest.raises(InputError, match="damaged"):
        filter_by_rows(GraphFilter(), graph, tmp_path / "out.npy", Team(), key)


def test_row_pointers_that_fall_give_no_groups() -> None:
    g = random_graph(30, 7)
    pointers = g.indptr.copy()
    pointers[3:20] = 2**40
    with pytest.raises(InputError, match="damaged"):
        partition.runs(g.with_(indptr=pointers), 4)


def test_a_lost_file_of_mapped_graphs_is_one_line(tmp_path: Path) -> None:
    folder = save_graph(random_graph(), tmp_path / "g")
    (folder / "y.npy").unlink()
    with pytest.raises(InputError, match=r"y\.npy"):
        map_graph(folder)


@pytest.mark.parametrize("file", ["task.json", "state.npz", "labels-*-1.npz"])
def test_a_damaged_state_of_a_clustering(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A note that is damaged starts it anew, labels or centres are refused by name."""
    monkeypatch.setattr(clusters, "sample_size", lambda k: 12)
    monkeypatch.setattr("tuplet.io._vector_parts.PART_BYTES", 320)
    write_vectors(f"{tmp_path}/v/", np.random.default_rng(0).normal(size=(40, 5)))
    work = lambda: clusters.cluster_parts(tmp_path / "v", 3, tmp_path / "c", n_init=2)  # noqa: E731
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(clusters, "new_folder", stop)
        work()
    for path in (tmp_path / ".c.clusters").glob(file):
        spoil(path, 30)
    if file == "task.json":
        assert work()[0].sum() == 40
        return
    with pytest.raises(InputError, match="damaged"):
        work()


def test_a_member_of_a_state_that_is_no_array(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "labels-0-1.npz", "w") as archive:
        archive.writestr("labels.npy", b"no array")
    with pytest.raises(InputError, match="damaged"):
        clusters._labels(tmp_path, 0, 1, (1, None))


def test_every_bit_of_vectors_counts(tmp_path: Path) -> None:
    """A flipped bit in a Parquet file of vectors is refused, or changes nothing that is read."""
    z = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
    file = Path(write_vectors(tmp_path / "v.parquet", z, [f"n{i}" for i in range(60)], cluster=np.arange(60) % 4))
    good, rng = file.read_bytes(), np.random.default_rng(1)
    for where in rng.choice(len(good), 150, replace=False):
        data = bytearray(good)
        data[where] ^= 1 << int(rng.integers(8))
        file.write_bytes(data)
        try:
            found = read_vectors(file)
        except InputError:
            continue
        assert np.array_equal(found.z, z) and np.array_equal(found.cluster, np.arange(60) % 4)


def test_a_changed_setting_in_the_json_of_a_model_or_graph_is_seen(tmp_path: Path) -> None:
    graph = random_graph()
    tuplet.DMATi((4,), max_steps=1, alpha=0.25).fit(graph).save(tmp_path / "m")
    file = tmp_path / "m" / "model.json"
    assert '"alpha": 0.25' in file.read_text()
    file.write_text(file.read_text().replace('"alpha": 0.25', '"alpha": 0.35'))
    with pytest.raises(InputError, match=r"damaged.*model.json"):
        tuplet.load(tmp_path / "m")
    meta = save_graph(graph, tmp_path / "g") / "meta.json"
    meta.write_text(meta.read_text().replace('"directed": false', '"directed": true'))
    with pytest.raises(InputError, match=r"damaged.*meta.json"):
        open_graph(tmp_path / "g")


@pytest.mark.parametrize("what", ["archive", "nan", "one number"])
def test_rows_that_cannot_be_trained_on_are_one_line(what: str, tmp_path: Path, run: Run) -> None:
    rows = np.ones((20, 4), np.float32)
    if what == "archive":
        with (tmp_path / "rows.npy").open("wb") as file:
            np.savez(file, rows=rows)
    else:
        rows[3, 2] = np.nan
        np.save(tmp_path / "rows.npy", rows if what == "nan" else np.float32(1))
    code, _, err = run("train", tmp_path / "rows.npy", "-o", tmp_path / "m", "-q", "--device", "cpu")
    assert code == 1 and err.startswith("error: ") and len(err.splitlines()) == 1
    assert not (tmp_path / "m").exists()


def test_damaged_graphs_leave_no_memory_maps(tmp_path: Path) -> None:
    """Fifty damaged folders, opened with and without checksums: as many mappings and as much space as before."""
    folder = save_graph(random_graph(200, 40, p=0.3), tmp_path / "g")

    def sizes() -> tuple[int, int]:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return Path("/proc/self/maps").read_text().count(str(tmp_path)), pages

    def opened(verify: bool) -> None:
        with pytest.raises(InputError):
            open_graph(folder, verify=verify)

    if not Path("/proc/self/maps").exists():
        pytest.skip("needs /proc")
    array = np.load(folder / "indices.npy")
    array[-1] = 10**6
    np.save(folder / "indices.npy", array)
    opened(True), opened(False)
    before = sizes()
    for _ in range(25):
        opened(True), opened(False)
    after = sizes()
    assert after[0] == before[0] == 0 and after[1] - before[1] < 2560  # pages: 10 MB


def test_a_name_of_settings_that_no_file_can_have_is_one_line(tmp_path: Path) -> None:
    block = f'[[methods]]\nname = "DMAT-i"\nsettings_from = "{"x" * 3000}"\n'
    (tmp_path / "spec.toml").write_text(f'task = "clustering"\ndatasets = ["cora"]\n{block}')
    with pytest.raises(InputError, match="There is no"):
        load_spec(tmp_path / "spec.toml").jobs()
