"""Checksums by chunks: the same on any number of threads, in memory and on disk; those of 0.1 still count."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.conftest import random_graph, write_json
from tuplet import Graph, InputError, _sums
from tuplet._files import read_header, save_array
from tuplet._sums import content_sum, npy_sums
from tuplet.io.folder import map_graph, open_graph, save_graph
from tuplet.io.vectors import Vectors, align
from tuplet.models.saving import SavedRows


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything above 300 bytes is large."""
    monkeypatch.setattr(_sums, "LARGE", 300)
    monkeypatch.setattr(_sums, "CHUNK", 100)


def by_hand(path: Path) -> str:
    """The checksum of an .npy file, its chunks cut in one loop."""
    data = path.read_bytes()
    with path.open("rb") as file:
        shape, _, dtype = read_header(file)
        head = file.tell()
    row = int(np.prod(shape[1:])) * dtype.itemsize
    step = max(1, 100 // row) * row
    chunks = [data[:head]] + [data[at : at + step] for at in range(head, len(data), step)]
    digests = b"".join(hashlib.blake2b(chunk, digest_size=16).digest() for chunk in chunks)
    return hashlib.blake2b(digests, digest_size=16).hexdigest()


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("shape", [(1000,), (97, 3), (12, 400), (5, 2, 9)])
def test_one_thread_and_four_give_the_sum_of_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]
) -> None:
    array = np.random.default_rng(0).random(shape, dtype=np.float32)
    save_array(tmp_path / "a.npy", array)
    for threads in (1, 4):
        monkeypatch.setattr("tuplet._threads.cores", lambda threads=threads: threads)
        assert npy_sums({tmp_path / "a.npy": True}) == {tmp_path / "a.npy": by_hand(tmp_path / "a.npy")}


@pytest.mark.usefixtures("small_chunks")
def test_content_is_the_same_in_memory_in_a_file_and_with_strides(tmp_path: Path) -> None:
    array = np.random.default_rng(0).random((97, 3), dtype=np.float32)
    save_array(tmp_path / "a.npy", array)
    strided = np.repeat(array, 2, axis=0)[::2]
    assert not strided.flags.c_contiguous
    assert content_sum(array) == content_sum(np.load(tmp_path / "a.npy", mmap_mode="r")) == content_sum(strided)
    other = array.copy()
    other[96, 2] += 1
    assert content_sum(other) != content_sum(array)


@pytest.mark.usefixtures("small_chunks")
def test_every_flipped_bit_and_every_cut_is_found(tmp_path: Path) -> None:
    folder = save_graph(random_graph(), tmp_path / "g")
    entry = json.loads((folder / "meta.json").read_text())["arrays"]["x"]
    assert entry["chunk"] == 100
    data = (folder / "x.npy").read_bytes()
    assert open_graph(folder, verify=True).n_nodes == 30
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        (folder / "x.npy").write_bytes(changed)
        with pytest.raises(InputError, match="damaged"):
            open_graph(folder, verify=True)
    for changed in (data[:-1], data[:-100], data + b"\0"):
        (folder / "x.npy").write_bytes(changed)
        assert _sums.wrong_file(folder, {"x": entry}) == "x"
        with pytest.raises(InputError, match="damaged"):
            open_graph(folder, verify=True)
    (folder / "x.npy").unlink()
    assert _sums.wrong_file(folder, {"x": entry}) == "x"


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("chunk", [7, 0, -1, "a", 2**70])
def test_a_chunk_of_another_size_is_damage(tmp_path: Path, chunk: Any) -> None:
    folder = save_graph(random_graph(), tmp_path / "g")
    meta = json.loads((folder / "meta.json").read_text())
    meta["arrays"]["x"]["chunk"] = chunk
    write_json(folder / "meta.json", {name: value for name, value in meta.items() if name != "sum"})
    with pytest.raises(InputError, match=r"x\.npy has another checksum"):
        open_graph(folder, verify=True)


def test_a_folder_with_plain_checksums_is_still_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_graph(random_graph(), tmp_path / "g")
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["version"] == 1 and not any("chunk" in entry for entry in meta["arrays"].values())
    before = map_graph(folder)[1]
    monkeypatch.setattr(_sums, "LARGE", 300)
    monkeypatch.setattr(_sums, "CHUNK", 100)
    graph = open_graph(folder, verify=True)
    assert graph.fingerprint() == random_graph().fingerprint() and map_graph(folder)[1] == before
    data = bytearray((folder / "x.npy").read_bytes())
    data[-1] ^= 1
    (folder / "x.npy").write_bytes(data)
    with pytest.raises(InputError, match=r"x\.npy has another checksum"):
        open_graph(folder, verify=True)


@pytest.mark.parametrize("kind", ["dense", "sparse", "none"])
def test_the_fingerprint_is_that_of_the_array_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """By chunks where an array is large; as in 0.1 where none is; and both are known as this graph's."""
    g = random_graph(weighted=True)
    x: Any = {"dense": g.x, "sparse": sp.csr_array(np.where(g.x > 0, g.x, 0)), "none": None}[kind]
    g = g.with_(x=x)
    old = g.fingerprint()
    monkeypatch.setattr(_sums, "LARGE", 300)
    monkeypatch.setattr("tuplet.graph._graph.LARGE", 300)
    monkeypatch.setattr(_sums, "CHUNK", 100)
    folder = save_graph(g, tmp_path / "g")
    assert g.fingerprint() == open_graph(folder).fingerprint() != old
    assert g.has_fingerprint(old) and g.has_fingerprint(g.fingerprint()) and not g.has_fingerprint("0" * 16)
    assert not g.has_fingerprint(None)


def test_vectors_and_saved_rows_with_an_old_fingerprint_are_this_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    from tuplet.models.new_nodes import _parts

    g: Graph = random_graph()
    table = Vectors(g.node_ids, np.zeros((30, 2), np.float32), None, {"graph": g.fingerprint()})
    model = type("Fitted", (), {"rows_": SavedRows(g.fingerprint(), [g.x])})()
    monkeypatch.setattr(_sums, "LARGE", 300)
    monkeypatch.setattr("tuplet.graph._graph.LARGE", 300)
    assert g.fingerprint() != table.metadata["graph"]
    assert align(table, g).shape == (30, 2) and _parts(model, g, None) is not None
    other = g.with_(x=g.x + 1)
    with pytest.raises(InputError, match="made for another graph"):
        align(table, other)
    assert _parts(model, other, None) is None


@pytest.mark.usefixtures("small_chunks")
def test_what_was_verified_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_graph(random_graph(), tmp_path / "g")
    reads: list[Path] = []
    read = _sums._digest
    monkeypatch.setattr(_sums, "_digest", lambda piece, told=None: [reads.append(piece.path), read(piece, told)][1])
    for settled, again in ((2 * 10**9, True), (0, False)):  # just written: a change within the tick would not show
        monkeypatch.setattr(_sums, "_SETTLED", settled)
        graph = open_graph(folder, verify=True)
        assert reads
        reads.clear()
        assert graph.fingerprint() == random_graph().fingerprint() and bool(reads) == again
    assert graph.with_(x=np.array(graph.x) + 1).fingerprint() != graph.fingerprint()
    x = np.load(folder / "x.npy")
    save_array(folder / "x.npy", x + 1)
    assert open_graph(folder).fingerprint() == random_graph().with_(x=x + 1).fingerprint()


@pytest.mark.usefixtures("small_chunks")
def test_a_copy_from_a_store_is_compared_as_it_lies_on_the_disk(tmp_path: Path) -> None:
    from pyarrow import fs

    from tuplet.io import remote

    folder = save_graph(random_graph(), tmp_path / "g")
    files = {file.name: (str(file), file.stat().st_size, None) for file in folder.iterdir()}
    remote._copy_all(fs.LocalFileSystem(), files, tmp_path / "good", "s3://b/g", None)
    assert open_graph(tmp_path / "good", verify=True).n_nodes == 30
    data = (folder / "y.npy").read_bytes()
    (folder / "y.npy").write_bytes(data[:-1] + b"\1")
    with pytest.raises(InputError, match=r"y\.npy is absent or has another checksum"):
        remote._copy_all(fs.LocalFileSystem(), files, tmp_path / "bad", "s3://b/g", None)
    del files["y.npy"]
    with pytest.raises(InputError, match=r"y\.npy is absent"):
        remote._copy_all(fs.LocalFileSystem(), files, tmp_path / "less", "s3://b/g", None)
