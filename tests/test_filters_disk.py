"""From file to file: the same rows as in memory, within the budget, resumed after a stop, refused on a full disk."""

from __future__ import annotations

import collections
import logging
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse as sp

from tests.conftest import random_graph
from tuplet._check import InputError
from tuplet._memory import forget_pages
from tuplet.filters import GraphFilter
from tuplet.filters import _disk as filter_disk
from tuplet.filters.weights import ppr
from tuplet.graph.synth import rmat


@pytest.fixture
def narrow(monkeypatch):
    """Blocks of 16 columns and cut input files, as on a machine with little memory."""
    monkeypatch.setattr("tuplet.filters._run.block_width", lambda op, f, *rest: min(f, 16))
    monkeypatch.setattr("tuplet.filters._disk.must_split", lambda x, memory, blocks: isinstance(x, np.memmap))
    monkeypatch.setattr("tuplet.filters._disk._CHUNK", 1000)  # bytes: several chunks even here


def mapped(path, x):
    np.save(path, x)
    return np.load(path, mmap_mode="r")


@pytest.mark.parametrize("kind", ["memory", "map", "float16 map", "sparse"])
@pytest.mark.parametrize("columns", [5, 16, 50])
def test_rows_on_disk_are_the_rows_in_memory(kind, columns, narrow, tmp_path):
    g = random_graph(40, columns)
    x = g.x.astype(np.float16) if kind == "float16 map" else g.x
    want = GraphFilter().transform(g, x=x)
    if kind.endswith("map"):
        x = mapped(tmp_path / "x.npy", x)
    x = sp.csr_array(x) if kind == "sparse" else x
    got = GraphFilter().transform(g, x=x, out=tmp_path / "rows.npy")
    assert isinstance(got, np.memmap) and got.flags.c_contiguous and np.array_equal(got, want)
    assert np.array_equal(np.load(tmp_path / "rows.npy"), want)
    assert not (tmp_path / "rows.npy.parts").exists()


@pytest.mark.parametrize("method", ["exact", "push"])
@pytest.mark.parametrize("stop", [0.0, 0.04, 0.3, 0.7, 0.99])
def test_a_stopped_run_goes_on_where_it_was(method, stop, narrow, tmp_path):
    g = random_graph(40, 70)
    x = mapped(tmp_path / "x.npy", g.x)
    spec = GraphFilter() if method == "exact" else GraphFilter(method="push", r_max=1e-3)

    def stopping(phase, done):
        if done >= stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        spec.transform(g, x=x, out=tmp_path / "rows.npy", progress=stopping)
    assert not (tmp_path / "rows.npy").exists()
    seen = []
    got = spec.transform(g, x=x, out=tmp_path / "rows.npy", progress=lambda phase, done: seen.append(done))
    assert np.array_equal(got, spec.transform(g))
    if stop >= 0.3:
        blocks = 5
        assert seen[0] >= 0.05 + 0.95 / blocks - 1e-9  # the split and at least one block were not done again


def test_a_stop_while_the_blocks_are_joined_loses_no_block(narrow, tmp_path, monkeypatch):
    g = random_graph(40, 50)
    stack, calls = filter_disk.np.hstack, []

    def stopping(parts):
        calls.append(len(parts))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return stack(parts)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(filter_disk.np, "hstack", stopping)
        GraphFilter().transform(g, out=tmp_path / "rows.npy")
    seen = []
    got = GraphFilter().transform(g, out=tmp_path / "rows.npy", progress=lambda phase, done: seen.append(done))
    assert (
        np.array_equal(got, GraphFilter().transform(g)) and len(seen) == 4
    )  # one word for each block that was there


@pytest.mark.slow
def test_a_killed_process_goes_on_where_it_was(tmp_path):
    """SIGKILL in the middle of the work; the next run writes the same bits."""
    g = random_graph(400, 64, p=0.1)
    np.savez(tmp_path / "g.npz", indptr=g.indptr, indices=g.indices)
    np.save(tmp_path / "x.npy", g.x)
    code = f"""
import numpy as np, time, tuplet.filters._run, tuplet.filters._disk
tuplet.filters._run.block_width = lambda op, f, *rest: 4
tuplet.filters._disk.must_split = lambda *a: True
from tuplet import Graph, GraphFilter
raw = np.load(r"{tmp_path / "g.npz"}")
g = Graph(raw["indptr"], raw["indices"], x=np.load(r"{tmp_path / "x.npy"}", mmap_mode="r"))
GraphFilter().transform(g, out=r"{tmp_path / "rows.npy"}", progress=lambda p, d: time.sleep(0.01))
"""
    parts = tmp_path / "rows.npy.parts"
    child = subprocess.Popen([sys.executable, "-c", code])
    for _ in range(6000):
        if len(list(parts.glob("done-*.npy"))) >= 3 or child.poll() is not None:
            break
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert not (tmp_path / "rows.npy").exists() and len(list(parts.glob("done-*.npy"))) >= 3
    stamps = {file.name: file.stat().st_mtime_ns for file in parts.glob("done-*.npy")}
    subprocess.run([sys.executable, "-c", code.replace("time.sleep(0.01)", "None")], check=True)
    assert stamps and np.array_equal(np.load(tmp_path / "rows.npy"), GraphFilter().transform(g))


def test_parts_of_another_job_are_not_used(narrow, tmp_path, caplog):
    g = random_graph(40, 50)

    def stopping(phase, done):
        if done >= 0.6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        GraphFilter(tol=1e-1).transform(g, out=tmp_path / "rows.npy", progress=stopping)
    with caplog.at_level(logging.INFO, "tuplet"):
        got = GraphFilter().transform(g, out=tmp_path / "rows.npy")
    assert "starting afresh" in caplog.text and np.array_equal(got, GraphFilter().transform(g))


@pytest.mark.parametrize("change", ["one value", "last row", "edges", "weights", "sparse value"])
def test_parts_of_a_job_with_other_content_are_not_used(change, narrow, tmp_path):
    """Interrupt, change the arrays in place, call again: no column comes from before the change."""
    g = random_graph(3000, 50, p=0.002, weighted=True)
    g = g.with_(x=sp.csr_array(g.x)) if change == "sparse value" else g

    def stopping(phase, done):
        if done >= 0.6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        GraphFilter(tol=1e-2).transform(g, out=tmp_path / "rows.npy", progress=stopping)
    if change == "one value":
        g.x[1234, 7] += 1
    elif change == "last row":
        g.x[-1] += 1
    elif change == "edges":
        degrees = np.diff(g.indptr)
        u = int(np.flatnonzero(degrees > 2)[200])
        g.indices[g.indptr[u]] = (g.indices[g.indptr[u]] + 1) % g.n_nodes
    elif change == "weights":
        g.weights[777] += 1
    else:
        g.x.data[4321] += 1
    got = GraphFilter(tol=1e-2).transform(g, out=tmp_path / "rows.npy")
    assert np.array_equal(got, GraphFilter(tol=1e-2).transform(g))


def test_a_damaged_part_is_filtered_again(narrow, tmp_path, caplog):
    g = random_graph(40, 50)

    def stopping(phase, done):
        if done >= 0.6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        GraphFilter().transform(g, out=tmp_path / "rows.npy", progress=stopping)
    part = sorted((tmp_path / "rows.npy.parts").glob("done-*.npy"))[0]
    part.write_bytes(part.read_bytes()[:-400] + bytes(400))
    got = GraphFilter().transform(g, out=tmp_path / "rows.npy")
    assert "will be made again" in caplog.text
    assert np.array_equal(got, GraphFilter().transform(g)) and not (tmp_path / "rows.npy.parts").exists()


@pytest.mark.parametrize("damage", ["truncated", "wrong bytes", "empty", "no note", "broken note"])
def test_a_damaged_cache_is_filtered_again(damage, tmp_path, caplog):
    g = random_graph(40, 50)
    want = np.array(GraphFilter().transform(g, cache=tmp_path))
    file, note = next(tmp_path.glob("*.npy")), next(tmp_path.glob("*.json"))
    whole = file.read_bytes()
    if damage == "truncated":
        file.write_bytes(whole[:-100])
    elif damage == "wrong bytes":
        file.write_bytes(whole[:-4000] + bytes(4000))
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "no note":
        note.unlink()
    else:
        note.write_text('{"su')
    assert np.array_equal(GraphFilter().transform(g, cache=tmp_path), want)
    assert "are damaged and will be made again" in caplog.text and file.read_bytes() == whole
    caplog.clear()
    assert np.array_equal(GraphFilter().transform(g, cache=tmp_path), want) and "damaged" not in caplog.text
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".json", ".npy"]


HOLD = """
import sys, time
from pathlib import Path
from tuplet._files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def test_a_file_that_another_process_writes_is_refused_and_a_cache_waits(tmp_path):
    g = random_graph(40, 50)
    GraphFilter().transform(g, cache=tmp_path / "kept")
    file = next((tmp_path / "kept").glob("*.npy"))
    for target, seconds in ((tmp_path / "rows.npy", "60"), (file, "1")):
        child = subprocess.Popen([sys.executable, "-c", HOLD, target, seconds], stdout=subprocess.PIPE, text=True)
        assert child.stdout.readline() == "held\n"
        if target.name == "rows.npy":
            with pytest.raises(InputError, match=f"is being written by process {child.pid}"):
                GraphFilter().transform(g, out=target)
            child.kill()
        else:
            assert np.array_equal(GraphFilter().transform(g, cache=target.parent), GraphFilter().transform(g))
            assert child.poll() is not None or child.wait(5) == 0
        child.wait()
        child.stdout.close()
    assert GraphFilter().transform(g, out=tmp_path / "rows.npy").shape == (
        40,
        50,
    )  # the dead one's lock is taken over


def test_a_foreign_folder_is_left_alone(tmp_path):
    folder = tmp_path / "rows.npy.parts"
    folder.mkdir()
    (folder / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="not tuplet's"):
        GraphFilter().transform(random_graph(), out=tmp_path / "rows.npy")
    assert (folder / "letter.txt").exists()


def test_a_small_disk_is_refused_before_any_work(tmp_path, monkeypatch):
    usage = collections.namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(10, 10, 100))
    with pytest.raises(InputError, match=r"GB of disk.*free.*Choose another place"):
        GraphFilter().transform(random_graph(), out=tmp_path / "rows.npy")
    assert not list(tmp_path.iterdir())


def test_an_existing_result_is_replaced_only_when_the_new_one_is_whole(narrow, tmp_path):
    g = random_graph(40, 50)
    GraphFilter(tol=1e-1).transform(g, out=tmp_path / "rows.npy")
    before = (tmp_path / "rows.npy").read_bytes()

    def stopping(phase, done):
        if done >= 0.9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        GraphFilter().transform(g, out=tmp_path / "rows.npy", progress=stopping)
    assert (tmp_path / "rows.npy").read_bytes() == before


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads Linux's account of memory")  # noqa: PTH110
def test_peak_memory_stays_within_the_budget(tmp_path):
    """200,000 nodes x 700 columns, 560 MB in and out, under 500 MB."""
    code = f"""
import numpy as np, re
from tuplet import GraphFilter
from tuplet.graph import synth
g = synth.rmat(200_000, 5, seed=0)
x = np.lib.format.open_memmap(r"{tmp_path / "x.npy"}", "w+", np.float32, (g.n_nodes, 700))
for start in range(0, g.n_nodes, 10_000):
    x[start : start + 10_000] = start
    x.flush()
    x._mmap.madvise(4)
del x
x = np.load(r"{tmp_path / "x.npy"}", mmap_mode="r")
h = GraphFilter(tol=1e-1).transform(g, x=x, out=r"{tmp_path / "rows.npy"}", memory="500MB")
assert h.shape == (g.n_nodes, 700)
peak = re.search("VmHWM:[^0-9]*([0-9]+) kB", open("/proc/self/status").read())[1]
print(int(peak) * 1024)  # ru_maxrss would count the parent's memory at the fork
"""
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(run.stdout) < 1.2 * 500e6


def test_float16_rows_are_the_float32_rows_rounded_in_memory_and_on_disk(narrow, tmp_path):
    g = rmat(3000, 5, seed=1)
    x = np.random.default_rng(0).standard_normal((g.n_nodes, 70), dtype=np.float32)
    wide = GraphFilter(ppr(0.2)).transform(g, x=x)
    half = GraphFilter(ppr(0.2)).transform(g, x=x, dtype="float16")
    assert half.dtype == np.float16
    np.testing.assert_array_equal(half, wide.astype(np.float16))
    filed = GraphFilter(ppr(0.2)).transform(g, x=x, out=tmp_path / "rows.npy", dtype="float16")
    assert filed.dtype == np.float16
    np.testing.assert_array_equal(filed, half)
    first = GraphFilter(ppr(0.2)).transform(g, x=x, cache=tmp_path / "kept", dtype="float16")
    other = GraphFilter(ppr(0.2)).transform(g, x=x, cache=tmp_path / "kept")
    assert (first.dtype, other.dtype) == (np.float16, np.float32)


def test_values_too_large_for_float16_are_an_error_and_leave_no_file(tmp_path):
    g = rmat(200, 5, seed=1)
    x = np.full((g.n_nodes, 3), 1e6, np.float32)
    with pytest.raises(InputError, match="too large for float16"):
        GraphFilter(ppr(0.2)).transform(g, x=x, dtype="float16")
    with pytest.raises(InputError, match="too large for float16"):
        GraphFilter(ppr(0.2)).transform(g, x=x, dtype="float16", out=tmp_path / "rows.npy")
    assert not (tmp_path / "rows.npy").exists()
    with pytest.raises(InputError, match="dtype"):
        GraphFilter(ppr(0.2)).transform(g, x=x, dtype="int8")


def test_a_private_map_keeps_what_was_changed_in_it(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((10, 4), np.float32))
    private = np.load(tmp_path / "x.npy", mmap_mode="c")
    private[3] = 7
    forget_pages(private[2:5])
    np.testing.assert_array_equal(private[3], 7)
    shared = np.load(tmp_path / "x.npy", mmap_mode="r+")
    shared[3] = 5
    forget_pages(shared)
    np.testing.assert_array_equal(shared[3], 5)
