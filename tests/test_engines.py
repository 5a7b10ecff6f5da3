"""Engines: tasks give the bits of one process, here by way of the same files; test_raylets.py has real raylets."""

from __future__ import annotations

import re
import socket
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp

from tests import servers
from tests.conftest import Run
from tuplet import DMATi, GraphFilter
from tuplet._check import InputError, MissingExtraError
from tuplet.engines import connected
from tuplet.engines._engine import Local
from tuplet.filters.weights import ppr
from tuplet.filters.widths import task_width
from tuplet.graph import Graph
from tuplet.graph.synth import rmat
from tuplet.io import remote
from tuplet.io.convert import convert
from tuplet.io.folder import open_graph, save_graph
from tuplet.io.vectors import read_vectors, write_vectors


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph folder of 1,000 nodes with 70 dense columns."""
    x = np.random.default_rng(0).standard_normal((1000, 70)).astype(np.float32)
    return save_graph(rmat(1000, 8, seed=1).with_(x=x), tmp_path_factory.mktemp("store with space") / "graph")


def test_the_local_engine_maps_in_order_and_tells_how_far_it_is() -> None:
    told: list[float] = []
    with connected("local") as engine:
        assert engine.map(abs, [-3, 2, -1], told.append) == [3, 2, 1]
    assert told == [1 / 3, 2 / 3, 1]


@pytest.mark.parametrize("name", ["dask", "ray://", "ray://host", "", "http://host:1", None])
def test_an_unknown_engine_is_an_error(name: Any) -> None:
    with pytest.raises(InputError, match="ray://host"), connected(name):
        pass


def test_without_ray_the_pip_command_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"tuplet\[cluster\]"), connected("ray"):
        pass


def test_a_head_that_nobody_hears_is_told_within_seconds() -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    start = time.perf_counter()
    with pytest.raises(InputError, match="cannot be reached"), connected("ray://127.0.0.1:9"):
        pass
    assert time.perf_counter() - start < 20


def test_a_task_has_at_least_16_columns_and_every_place_has_work() -> None:
    assert [task_width(1000, 128, places) for places in (1, 8, 10, 1000)] == [128, 128, 112, 16]
    assert task_width(5, 5, 1) == 5


@pytest.mark.parametrize("kind", ["stored", "memory", "directed", "sparse", "weighted"])
def test_tasks_give_the_bits_of_one_process(kind: str, store: Path, tmp_path: Path) -> None:
    """Here the tasks run in this process, by way of the same files."""
    graph = _graph(kind, store)
    spec = GraphFilter(ppr(0.1), device="cpu")
    assert np.array_equal(_by_tasks(spec, graph, tmp_path / "rows.npy"), spec.transform(graph))


@pytest.mark.parametrize(
    "spec",
    [
        GraphFilter(ppr(0.2), method="push", r_max=1e-3),
        GraphFilter(ppr(0.2), method="bidirectional", r_max=1e-2, n_walks=4),
        GraphFilter(ppr(0.2), columns=20, device="cpu"),
        GraphFilter(ppr(0.2), columns=20, reduction="svd", device="cpu"),
        GraphFilter(ppr(0.2), r=0.0, series="power", device="cpu"),
    ],
)
def test_tasks_know_every_setting_of_the_filter(spec: GraphFilter, store: Path, tmp_path: Path) -> None:
    graph = open_graph(store)
    want = spec.transform(graph, out=tmp_path / "want.npy")
    assert np.array_equal(_by_tasks(spec, graph, tmp_path / "rows.npy"), want)


def test_finished_blocks_are_used_again_and_damaged_ones_are_not(store: Path, tmp_path: Path) -> None:
    from tuplet.filters import _tasks

    graph, spec = open_graph(store), GraphFilter(ppr(0.1), device="cpu")
    job = _stopped_before_the_join(spec, graph, tmp_path / "rows.npy")
    good, bad = job.part("done", 0), job.part("done", job.columns)
    bytes_ = bytearray(bad.read_bytes())
    bytes_[-1] ^= 1
    bad.write_bytes(bytes_)
    before = good.stat().st_mtime_ns, bad.stat().st_mtime_ns
    item = {"folder": str(job.folder), "key": job.key}
    for first in job.firsts:
        _tasks.filter_block({**item, "first": first})
    assert good.stat().st_mtime_ns == before[0] and bad.stat().st_mtime_ns > before[1]
    assert np.array_equal(spec.transform(graph, out=tmp_path / "rows.npy"), spec.transform(graph))


def test_tasks_of_another_job_are_refused(store: Path, tmp_path: Path) -> None:
    from tuplet.filters import _tasks

    job = _stopped_before_the_join(GraphFilter(device="cpu"), open_graph(store), tmp_path / "rows.npy")
    with pytest.raises(InputError, match="another filter"):
        _tasks.filter_block({"folder": str(job.folder), "key": "other", "first": 0})
    with pytest.raises(InputError, match="All nodes must see"):
        _tasks.filter_block({"folder": str(tmp_path / "nowhere"), "key": job.key, "first": 0})


def test_a_gpu_and_an_engine_are_refused(store: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="filters on CPUs"):
        _by_tasks(GraphFilter(device="cuda:0"), open_graph(store), tmp_path / "rows.npy")


def test_convert_by_tasks_gives_the_bytes_of_one_process(tmp_path: Path) -> None:
    for number, (weighted, directed) in enumerate([(False, False), (True, False), (True, True)]):
        parts = edge_parts(tmp_path / f"parts-{number}", weighted)
        options = {"directed": directed, "memory": "70MB", "name": "same"}
        want = convert(parts, tmp_path / f"want-{number}", **options)
        with tasks_run_here():
            got = convert(parts, tmp_path / f"got-{number}", engine="ray", **options)
        assert want.n_stored > 0 and got.directed == directed
        assert files(tmp_path / f"want-{number}") == files(tmp_path / f"got-{number}")
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("kind", ["plain", "weighted", "directed", "labels", "dates"])
def test_convert_of_text_ids_by_tasks_gives_the_bytes_of_one_process(kind: str, tmp_path: Path) -> None:
    """By DuckDB, which keeps the order of rows where weights of repeats are added; labels and dates go by memory."""
    pytest.importorskip("duckdb", reason="DuckDB is not installed: pip install 'tuplet[cluster]'")
    import pyarrow as pa
    from pyarrow import parquet as pq

    rng, names = np.random.default_rng(5), np.array([f"{i:x} ä'\"" * (1 + i % 3) for i in range(300)])
    ends = names if kind != "dates" else np.datetime64("2020-01-01") + np.arange(300)
    (tmp_path / "it's").mkdir()
    for i in range(3):
        one, two = rng.integers(298, size=(2, 2000))
        if i == 0:
            one[:7], two[:7] = 298, 299
        columns = {"a.b": pa.array(ends[one]), 'c"d': pa.array(ends[two])}
        if kind in ("weighted", "directed"):
            weights = rng.random(2000).astype(np.float32)
            weights[:7] = [2**-60, 1, 2**-24, *[2**-54] * 4]  # 1 in this order, the next number in the other one
            columns["weight"] = pa.array(weights)
        pq.write_table(pa.table(columns), tmp_path / "it's" / f"part-{i}.parquet")
    options: dict[str, Any] = {"directed": kind == "directed", "source": "a.b", "target": 'c"d', "name": "same"}
    if kind == "labels":
        pq.write_table(pa.table({"id": names[::-1], "label": names}), tmp_path / "labels.parquet")
        options["labels"] = tmp_path / "labels.parquet"
    want = convert(tmp_path / "it's", tmp_path / "want", **options)
    with tasks_run_here():
        convert(tmp_path / "it's", tmp_path / "got", engine="ray", **options)
    assert want.n_nodes == 300 and files(tmp_path / "want") == files(tmp_path / "got")


def test_convert_by_tasks_refuses_what_they_cannot_read(tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="DuckDB is not installed: pip install 'tuplet[cluster]'")
    import pyarrow as pa
    from pyarrow import parquet as pq

    (tmp_path / "e.csv").write_text("source,target\n1,2\n2,3\n")
    pq.write_table(pa.table({"source": ["a", ""], "target": ["b", "c"]}), tmp_path / "e.parquet")
    pq.write_table(pa.table({"source": ["a"], "target": ["a"]}), tmp_path / "one.parquet")
    for name, word in (("e.csv", "Parquet"), ("e.parquet", "1 rows have no id"), ("one.parquet", "has 1 nodes")):
        with tasks_run_here(), pytest.raises(InputError, match=word):
            convert(tmp_path / name, tmp_path / "g", engine="ray")
    assert not (tmp_path / "g").exists()


def test_vectors_by_tasks_are_those_of_one_process(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Filtered rows in a cache, encoded by tasks, written as parts by tasks."""
    monkeypatch.setattr("tuplet.io._vector_tasks.PART_BYTES", 2**13)
    monkeypatch.setattr("tuplet.training.encoder.BLOCK_VALUES", 70 * 100)
    graph, told = open_graph(store), {"filter": [0.0], "train": [0.0], "vectors": [0.0], "write": [0.0]}
    model = DMATi((16, 8), max_steps=3, device="cpu", cache=tmp_path / "one").fit(graph)

    def progress(phase: str, part: float) -> None:
        told[phase].append(part)

    with tasks_run_here():
        other = DMATi((16, 8), max_steps=3, device="cpu", cache=tmp_path / "two", engine="ray")
        other.fit(graph, progress=progress)
        assert isinstance(other.embedding_, np.memmap)
        groups = np.arange(1000) % 3
        write_vectors(f"{tmp_path}/parts/", other.embedding_, graph, cluster=groups, engine="ray", progress=progress)
    assert all(parts == sorted(parts) and parts[-1] == 1 for parts in told.values())
    assert len(told["vectors"]) > 3 and len(told["write"]) > 3
    assert np.array_equal(model.embedding_, other.embedding_)
    assert len(list((tmp_path / "parts").iterdir())) == 4
    back = read_vectors(tmp_path / "parts")
    assert np.array_equal(back.z, model.embedding_) and np.array_equal(back.cluster, np.arange(1000) % 3)
    assert back.metadata["graph"] == graph.fingerprint()
    assert not list(tmp_path.glob(".*")) and not list((tmp_path / "two").glob("*.parts"))


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_parts_in_a_bucket_are_read_back(
    engine: str, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuplet.io._vector_tasks.PART_BYTES", 4096)
    monkeypatch.setenv("TUPLET_CACHE", str(tmp_path))
    z = np.random.default_rng(0).random((500, 8), dtype=np.float32)
    with tasks_run_here():
        for rows in (500, 100):  # the second set has fewer parts: those of the first must go
            write_vectors(f"{bucket}/{engine}/", z[:rows], metadata={"model": "m"}, engine=engine)
            back = read_vectors(f"{bucket}/{engine}/")
            assert np.array_equal(back.z, z[:rows]) and back.metadata["model"] == "m"


def test_a_bucket_that_cannot_be_used_is_told(bucket: str, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("x")
    remote.upload(tmp_path / "other", f"{bucket}/full/other.txt")
    z = np.ones((3, 2), np.float32)
    for uri, word in ((f"{bucket}/full/", "something else"), ("s3://nobody-has-this/v/", "cannot be")):
        with tasks_run_here(), pytest.raises(InputError, match=word):
            write_vectors(uri, z, engine="ray")


def test_a_bucket_without_permission_is_one_line(
    store: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server asks for permission once the bucket is there; nobody has any. Told before the graph is read."""
    monkeypatch.setenv("INITIAL_NO_AUTH_ACTION_COUNT", "1000")
    with servers.s3() as address:
        closed = servers.new_bucket(address, monkeypatch)
        ask = urllib.request.Request(f"{address}/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"})
        urllib.request.urlopen(ask).close()
        for words in (
            ["embed", str(store), "-o", f"{closed}/v/", "--engine", "ray"],
            ["embed", f"{closed}/g", "-o", f"{tmp_path}/v/"],
            ["cluster", f"{closed}/v/", "-k", "2", "--engine", "local", "-o", f"{tmp_path}/c/"],
            ["report", f"{closed}/v/", "--graph", str(store), "--engine", "local", "-o", f"{tmp_path}/r.html"],
            ["convert", f"{closed}/edges/*.parquet", f"{tmp_path}/g"],
        ):
            code, _, err = run(*words, "-q")
            assert code == 1 and re.search("ACCESS_DENIED|ACCESS_KEY", err) and "credentials" in err, err
            assert err.count("\n") == 1, err
    assert not list(tmp_path.iterdir())


def test_encoding_goes_on_after_a_kill_and_uses_what_is_done(store: Path, tmp_path: Path) -> None:
    from tuplet.training import encode_tasks
    from tuplet.training.encoder import encode, make_encoder

    rows = open_graph(store).x
    encoder = make_encoder(70, (8,), seed=3)
    calls: list[int] = []

    def dies(item: Any) -> None:
        calls.append(item["start"])
        if len(calls) == 3:
            raise KeyboardInterrupt
        real(item)

    real = encode_tasks.encode_rows
    with tasks_run_here(), mock.patch("tuplet.training.encoder.BLOCK_VALUES", 7000):
        want = encode(encoder, np.array(rows))
        with mock.patch.object(encode_tasks, "encode_rows", dies), pytest.raises(KeyboardInterrupt):
            encode_tasks.encode_on("ray", encoder, rows, tmp_path / "z.npy")
        marks = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "z.npy.parts").glob("done-*")}
        assert len(marks) == 2 and not (tmp_path / "z.npy").exists()
        assert np.array_equal(encode_tasks.encode_on("ray", encoder, rows, tmp_path / "z.npy"), want)
    assert [path.name for path in tmp_path.iterdir()] == ["z.npy"]


def edge_parts(folder: Path, weighted: bool) -> str:
    """Three Parquet parts of edges with repeats, loops and gaps between the ids; the pattern that names them."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    folder.mkdir()
    rng = np.random.default_rng(4)
    for i, count in enumerate((900, 0, 1500)):
        ends = rng.integers(0, 400, (2, count)) * 3 + 5
        table = {"source": ends[0], "target": ends[1]} | ({"weight": rng.random(count)} if weighted else {})
        pq.write_table(pa.table(table), folder / f"part-{i}.parquet")
    return f"{folder}/part-*.parquet"


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def directed_graph(x: Any) -> Graph:
    """A random directed graph with those features of 1,000 nodes."""
    adjacency = sp.random_array((1000, 1000), density=0.01, rng=np.random.default_rng(2), format="csr")
    return Graph.from_scipy(adjacency, x, directed=True)


def _graph(kind: str, store: Path) -> Graph:
    graph = open_graph(store)
    x = np.asarray(graph.x)
    if kind == "memory":
        return Graph(np.array(graph.indptr), np.array(graph.indices), x=x)
    if kind == "directed":
        return directed_graph(x)
    if kind == "sparse":
        return graph.with_(x=sp.csr_array(np.where(x > 1, x, 0)))
    if kind == "weighted":
        adjacency = sp.random_array((1000, 1000), density=0.01, rng=np.random.default_rng(2), format="csr")
        return Graph.from_scipy(adjacency + adjacency.T, x)
    return graph


@contextmanager
def tasks_run_here() -> Iterator[None]:
    """engine="ray" runs its tasks in this process, four places pretended: small blocks, the same files."""
    with mock.patch("tuplet.engines._engine._connect", lambda name: Local()), mock.patch.object(Local, "places", 4):
        yield


def _by_tasks(spec: GraphFilter, graph: Graph, out: Path) -> Any:
    with tasks_run_here():
        return spec.transform(graph, out=out, engine="ray")


def _stopped_before_the_join(spec: GraphFilter, graph: Graph, out: Path) -> Any:
    """The job of a filtering that stopped when all blocks were done."""
    from tuplet.filters import _tasks
    from tuplet.filters._disk import DiskJob

    class Stopped(Exception):
        pass

    with mock.patch.object(_tasks, "join_columns", side_effect=Stopped), pytest.raises(Stopped):
        _by_tasks(spec, graph, out)
    facts = _tasks.json.loads((out.parent / f"{out.name}.parts" / "task.json").read_text())
    return DiskJob(out, facts["key"], facts["n"], facts["f"], facts["columns"], np.dtype(facts["dtype"]))


def test_a_cluster_that_cannot_be_started_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """HOME cannot be written: it was told as an output that cannot be."""
    ray = pytest.importorskip("ray")

    def refused(**options: Any) -> None:
        raise PermissionError(13, "Permission denied", "/.ray")

    monkeypatch.setattr(ray, "init", refused)
    monkeypatch.setenv("RAY_ADDRESS", "local")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(InputError, match=r"cannot be started here .*HOME"), connected("ray"):
        pass
    assert not list(tmp_path.iterdir())


def test_a_head_that_is_too_busy_to_start_a_server_is_asked_again() -> None:
    """Ray's client gives up after 30 s: "Starting Ray client server failed"."""
    from tuplet.engines._ray import RayEngine

    class Busy:
        def __init__(self, failures: int) -> None:
            self.left, self.closed = failures, 0

        def init(self, **_: Any) -> None:
            self.left -= 1
            if self.left >= 0:
                raise ConnectionAbortedError("Starting Ray client server failed.")

        def shutdown(self) -> None:
            self.closed += 1

    engine = RayEngine.__new__(RayEngine)
    engine.ray = Busy(2)
    engine._join("ray://head:10001", {})
    assert engine.ray.left == -1 and engine.ray.closed == 2
    engine.ray = Busy(3)
    with pytest.raises(ConnectionAbortedError):
        engine._join("ray://head:10001", {})


def test_a_cluster_that_is_known_here_and_gone_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as that of a container, or of before a crash: Ray itself waits for minutes."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'tuplet[cluster]'")
    from ray._private import services

    from tuplet.engines import _ray

    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setattr(services, "find_gcs_addresses", lambda: {address})
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
        assert _ray._known_here() == address and _ray._is_gone(address)
        server.listen()
        assert not _ray._is_gone(address)
    monkeypatch.setattr(services, "find_gcs_addresses", set)
    monkeypatch.setattr(services, "find_bootstrap_address", lambda _: None)
    assert not _ray._is_gone(_ray._known_here())
