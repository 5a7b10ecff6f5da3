"""The filter by groups of rows: the bits of one process, halo rows only, killed processes, what cannot be split."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from tests.conftest import Run, write_json
from tests.processes import workers_of
from tests.test_engines import tasks_run_here
from tuplet import DMATi, Graph, GraphFilter, InputError, SelfDMAT
from tuplet.engines.workers import Team
from tuplet.filters.partition import metis, partitioned, runs
from tuplet.filters.row_groups import filter_by_rows
from tuplet.filters.row_parts import read_part_of
from tuplet.filters.weights import heat, ppr
from tuplet.graph.synth import rmat
from tuplet.io.folder import open_graph, save_graph
from tuplet.io.vectors import read_vectors


class InThreads(Team):
    """Members in threads of one process that exchange through a box; the filter is the real one."""

    meeting: ClassVar[threading.Barrier]
    box: ClassVar[dict[int, Any]] = {}

    def gather(self, own: torch.Tensor) -> torch.Tensor:
        return torch.cat(self._all(own))

    def any(self, flag: bool) -> bool:
        return any(self._all(flag))

    def exchange(self, own: Any, sent: list[int], target: Any, come: list[int]) -> None:
        found = []
        for rows, counts in self._all((np.array(own), sent)):
            ends = np.cumsum([0, *counts])
            found.append(rows[ends[self.rank] : ends[self.rank + 1]])
        assert [len(rows) for rows in found] == come
        target[...] = np.concatenate(found)

    def _all(self, own: Any) -> list[Any]:
        self.box[self.rank] = own
        self.meeting.wait(60)
        found = [self.box[i] for i in range(self.size)]
        self.meeting.wait(60)
        return found


def together(size: int, work: Any) -> list[Any]:
    """`work(member)` of each of `size` members, side by side."""
    InThreads.meeting = threading.Barrier(size)
    found: list[Any] = [None] * size

    def run(rank: int) -> None:
        try:
            found[rank] = work(InThreads(rank, size))
        except BaseException as error:
            found[rank] = error
            InThreads.meeting.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in sorted((one for one in found if isinstance(one, BaseException)), key=_is_follow_up):
        raise error
    return found


def _is_follow_up(error: BaseException) -> bool:
    return isinstance(error, threading.BrokenBarrierError)


def graph_of(kind: str) -> Graph:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((300, 21)).astype(np.float32)
    if kind == "plain":
        return rmat(300, 6, seed=1).with_(x=x)
    random = sp.random_array((300, 300), density=0.02, rng=rng, format="csr")
    if kind == "weighted":
        return Graph.from_scipy(random + random.T, x)
    if kind == "sparse":
        return rmat(300, 6, seed=1).with_(x=sp.csr_array(np.where(x > 1, x, 0)))
    if kind == "directed":
        return Graph.from_scipy(random != 0, x, directed=True)
    return Graph.from_scipy(random, x, directed=True)


@pytest.mark.parametrize("kind", ["plain", "weighted", "sparse", "directed", "directed and weighted"])
@pytest.mark.parametrize("direction", ["symmetric", "in", "out"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_groups_of_rows_have_the_bits_of_one_process(kind: str, direction: str, size: int, tmp_path: Path) -> None:
    graph = graph_of(kind)
    spec = GraphFilter(ppr(0.2) if size < 3 else heat(2.0), direction=direction, device="cpu")
    out = tmp_path / "rows.npy"
    together(size, lambda team: filter_by_rows(spec, graph, out, team, "k"))
    assert np.array_equal(np.load(out), spec.transform(graph))
    assert [path.name for path in tmp_path.iterdir()] == ["rows.npy"]


@pytest.mark.parametrize("kind", ["plain", "weighted", "sparse", "directed", "directed and weighted"])
@pytest.mark.parametrize("direction", ["symmetric", "in"])
def test_a_partition_has_the_bits_of_one_process(kind: str, direction: str, tmp_path: Path) -> None:
    graph, spec = graph_of(kind), GraphFilter(direction=direction, device="cpu")
    member = np.random.default_rng(0).integers(3, size=300)
    store = open_graph(save_graph(graph, tmp_path / "g"))
    together(3, lambda team: filter_by_rows(spec, store, tmp_path / "r.npy", team, "k", partition=member))
    assert np.array_equal(np.load(tmp_path / "r.npy"), spec.transform(graph))


def test_metis_finds_two_halves() -> None:
    """Two cliques with one edge between them, their nodes in turns: one halo row each, in given order 19."""
    pytest.importorskip("pymetis")
    halves = np.arange(40) % 2
    adj = (halves[:, None] == halves[None, :]).astype(float)
    adj[0, 1] = adj[1, 0] = 1
    for directed in (False, True):
        graph = Graph.from_scipy(np.triu(adj) if directed else adj, np.eye(40, dtype=np.float32), directed=directed)
        member = metis(graph, 2)
        assert np.array_equal(member == member[0], halves == 0)
        groups = partitioned(member, 40, 2)
        for part in together(2, lambda team, g=graph, p=groups: read_part_of(GraphFilter(), g, p, team)):
            assert part.received == 1


def test_every_group_of_metis_has_a_node() -> None:
    pytest.importorskip("pymetis")
    graph = Graph.from_scipy(np.ones((5, 5)), np.eye(5))
    assert np.bincount(metis(graph, 5)).tolist() == [1] * 5


@pytest.mark.parametrize(
    ("member", "word"),
    [([0, 1], "shape"), ([0.0] * 300, "float64"), ([2] * 300, "write 0 to 1"), ([0] * 300, "no node")],
)
def test_a_partition_of_something_else_is_refused(member: list[float], word: str, run: Run, tmp_path: Path) -> None:
    store = save_graph(graph_of("plain"), tmp_path / "g")
    np.save(tmp_path / "p.npy", np.array(member))
    words = ["filter", str(store), "-o", str(tmp_path / "r.npy"), "--partition", str(tmp_path / "p.npy")]
    code, _, err = run(*words, "--groups", "2")
    assert code == 1 and word in err and err.count("\n") == 1, err
    assert "without --groups" in run(*words)[2]


@pytest.mark.parametrize("kind", ["plain", "sparse"])
def test_unit_rows_are_those_of_the_method(kind: str, tmp_path: Path) -> None:
    graph, model = graph_of(kind), DMATi(device="cpu")
    out = tmp_path / "rows.npy"
    together(2, lambda team: filter_by_rows(model.graph_filter_, graph, out, team, "k", unit_rows=True))
    assert np.array_equal(np.load(out), model.filtered(graph)[0])


def test_only_halo_rows_travel() -> None:
    """Against a set of neighbours, node by node."""
    graph, spec = graph_of("plain"), GraphFilter()
    for part in together(3, lambda team: read_part_of(spec, graph, runs(graph, team.size), team)):
        rows = range(part.low, part.high)
        named = {int(v) for u in rows for v in graph.indices[graph.indptr[u] : graph.indptr[u + 1]]}
        assert part.halo.tolist() == sorted(named - set(rows))
        assert sum(part.asked) == part.received == len(named - set(rows))


def test_received_bytes_are_halo_rows_times_products(tmp_path: Path) -> None:
    graph, spec = graph_of("plain"), GraphFilter(device="cpu")
    parts = together(2, lambda team: read_part_of(spec, graph, runs(graph, team.size), team))
    moved = together(2, lambda team: filter_by_rows(spec, graph, tmp_path / "rows.npy", team, "k"))
    assert moved == [4 * 21 * spec.products() * part.received for part in parts]


def test_what_cannot_be_split_by_rows_is_refused(tmp_path: Path) -> None:
    graph = graph_of("plain")
    small = Graph.from_scipy(np.ones((2, 2)), np.eye(2))
    for spec, g, word in (
        (GraphFilter(), small, "too few for 3 groups"),
        (GraphFilter(columns=4), graph, "cannot be split"),
        (GraphFilter(method="push", r_max=1e-3), graph, "cannot be split"),
    ):
        with pytest.raises(InputError, match=word):
            together(3, lambda team, spec=spec, g=g: filter_by_rows(spec, g, tmp_path / "r.npy", team, "k"))
    bad = graph.with_(x=np.where(np.arange(300)[:, None] == 299, np.nan, graph.x))
    with pytest.raises(InputError, match="NaN or infinity"):
        together(2, lambda team: filter_by_rows(GraphFilter(), bad, tmp_path / "r.npy", team, "k"))


def words(store: Path, out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "tuplet.cli", "filter", str(store), "-o", str(out), "-q", "--groups", "2", *more]


def test_two_processes_one_killed_give_the_rows_of_one(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((20_000, 384)).astype(np.float32)
    store = save_graph(rmat(20_000, 10, seed=1).with_(x=x), tmp_path / "a graph")
    out = tmp_path / "rows.npy"
    process = subprocess.Popen(words(store, out), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    parts = tmp_path / "rows.npy.parts"
    deadline = time.monotonic() + 120
    while not list(parts.glob("rows-0.npy.parts/done-*.npy")) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for victim in workers_of(process.pid)[-1:]:
        os.kill(victim, signal.SIGKILL)
    told, errors = process.communicate(timeout=150)
    assert process.returncode == 0, errors
    assert "by 2 groups of rows" in told
    assert np.array_equal(np.load(out), DMATi(device="cpu").filtered(open_graph(store))[0])
    assert not parts.exists()


def test_the_verb_refuses_in_one_line_and_filters_alone(run: Run, tmp_path: Path) -> None:
    store = save_graph(graph_of("plain"), tmp_path / "g")
    code, _, err = run("filter", str(store), "-o", str(tmp_path / "r.npy"), "--groups", "301")
    assert code == 1 and "too few for 301 groups" in err
    code, _, err = run("filter", str(store), "-o", str(tmp_path / "r.npy"), "--groups", "3", "--machines", "2")
    assert code == 1 and "evenly" in err
    code, _, err = run("filter", str(tmp_path / "none.csv"), "-o", str(tmp_path / "r.npy"), "--groups", "2")
    assert code == 1 and "graph folder" in err
    code, out, _ = run("filter", str(store), "-o", str(tmp_path / "r.npy"), "-q")
    assert code == 0 and "300 rows of 21 numbers" in out
    assert np.array_equal(np.load(tmp_path / "r.npy"), DMATi(device="cpu").filtered(open_graph(store))[0])


def test_vectors_of_rows_are_those_of_the_graph(run: Run, tmp_path: Path) -> None:
    """filter, train and embed, each from the file of the one before: as embed --model, which filters again."""
    store, rows, model = save_graph(graph_of("plain"), tmp_path / "g"), tmp_path / "r w.npy", str(tmp_path / "m")
    assert run("filter", str(store), "-o", str(rows), "-q")[0] == 0
    assert run("train", str(rows), "-o", model, "--set", "max_steps=3", "--device", "cpu", "-q")[0] == 0
    embed = ["embed", str(store), "--model", model, "--device", "cpu", "-q", "-o"]
    given = ["--rows", str(rows)]
    for out, more in (("want.parquet", []), ("got/", given), ("ray/", [*given, "--engine", "ray"])):
        with tasks_run_here():
            code, _, err = run(*embed, f"{tmp_path}/{out}", *more)
        assert code == 0, err
    want = read_vectors(tmp_path / "want.parquet")
    for name in ("got", "ray"):
        found = read_vectors(tmp_path / name)
        assert np.array_equal(found.z, want.z) and np.array_equal(found.ids, want.ids)
    assert not list(tmp_path.glob("encoded-*"))


def test_rows_of_another_graph_or_model_are_refused(run: Run, tmp_path: Path) -> None:
    store = save_graph(graph_of("plain"), tmp_path / "g")
    DMATi((4,), max_steps=1, device="cpu").fit(open_graph(store)).save(tmp_path / "m")
    SelfDMAT(2, max_steps=1, device="cpu").fit(open_graph(store)).save(tmp_path / "other")
    np.save(tmp_path / "few.npy", np.ones((299, 21), np.float32))
    np.save(tmp_path / "narrow.npy", np.ones((300, 20), np.float32))
    np.save(tmp_path / "good.npy", np.ones((300, 21), np.float32))
    (tmp_path / "bad.npy").write_text("no")
    for model, rows, word in (
        ("m", "few", "300 nodes"),
        ("m", "narrow", "the model reads 21"),
        ("m", "bad", "not a readable .npy"),
        ("other", "good", "SelfDMAT has no rows"),
    ):
        words = ["--model", str(tmp_path / model), "--rows", str(tmp_path / f"{rows}.npy"), "-q"]
        code, _, err = run("embed", str(store), *words, "-o", f"{tmp_path}/v/")
        assert code == 1 and word in err and err.count("\n") == 1, err
    code, _, err = run("embed", str(store), "--rows", str(tmp_path / "good.npy"), "-o", f"{tmp_path}/v/")
    assert code == 1 and "--rows needs --model" in err and not (tmp_path / "v").exists()


def test_damage_is_one_error_and_no_restart(tmp_path: Path) -> None:
    store = save_graph(graph_of("plain"), tmp_path / "g")
    meta = json.loads((store / "meta.json").read_text())
    meta["arrays"]["x"]["blake2b"] = "0" * 32
    write_json(store / "meta.json", meta)
    done = subprocess.run(words(store, tmp_path / "r.npy"), capture_output=True, text=True, timeout=150)
    assert done.returncode == 1 and done.stderr.count("another checksum") == 1, done.stderr
    assert not (tmp_path / "r.npy").exists()
