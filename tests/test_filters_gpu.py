"""The device path, run on torch's CPU device everywhere and on CUDA where there is one."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch

from tests.conftest import random_graph
from tuplet._check import InputError
from tuplet.filters import GraphFilter
from tuplet.filters import _gpu as filter_gpu
from tuplet.filters._backends import choose_device
from tuplet.filters._operator import make_operator, make_plan
from tuplet.filters._read import make_reader
from tuplet.filters.weights import custom, ppr

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA"))]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("series", ["power", "chebyshev"])
@pytest.mark.parametrize("columns", [3, 7, 50])
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_through_the_device_equal_the_cpu_filter(device, series, columns, weighted, monkeypatch):
    monkeypatch.setattr(filter_gpu, "_PIECE", 500)  # bytes: several pinned pieces a block even here
    g = random_graph(60, 20, weighted=weighted)
    op = make_operator(g)
    plan = make_plan(ppr(0.1), 1e-5, series, True)
    out, seen = np.full((60, 20), np.nan, np.float32), []
    settings = {"columns": min(columns, 20), "tick": seen.append}
    if device == "cuda":  # what makes the matrix is still to be done when the first columns are sent
        torch.cuda._sleep(10**8)
    filter_gpu.filter_through_device(op, plan, 0.4, make_reader(g.x), out, device, **settings)
    want = GraphFilter(ppr(0.1), r=0.4, tol=1e-5, series=series, device="cpu").transform(g)
    assert np.allclose(out, want, atol=5e-6) and seen == sorted(seen) and seen[-1] == 1.0


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("coefficients", [[0.7], [0.5, 0.5], [0.2, 0.3, 0.5]])
@pytest.mark.parametrize("loops", [False, True])
def test_short_series_work_on_the_device(device, coefficients, loops):
    g = random_graph(40, 9, directed=True)
    op = make_operator(g, direction="in", self_loops=loops)
    plan = make_plan(custom(coefficients), 1e-9, "power", False)
    out = np.empty((40, 9), np.float32)
    settings = {"columns": 4, "tick": lambda part: None}
    filter_gpu.filter_through_device(op, plan, 0.5, make_reader(g.x), out, device, **settings)
    want = GraphFilter(custom(coefficients), tol=1e-9, direction="in", self_loops=loops, device="cpu").transform(g)
    assert np.allclose(out, want, atol=1e-6)


def test_a_full_device_falls_back_to_the_cpu_with_a_word_in_the_log(monkeypatch, caplog):
    def full(*args, **kwargs):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("tuplet.filters._backends.choose_device", lambda device, work: "cuda")
    monkeypatch.setattr(filter_gpu, "columns_that_fit", lambda *args: 4)
    monkeypatch.setattr(filter_gpu, "filter_through_device", full)
    g = random_graph(30, 6)
    with caplog.at_level(logging.WARNING, "tuplet"):
        got = GraphFilter().transform(g)
    assert "filtering on the CPU" in caplog.text
    monkeypatch.undo()
    assert np.array_equal(got, GraphFilter(device="cpu").transform(g))


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_a_result_on_disk_may_come_through_the_device(full, whole, monkeypatch, tmp_path, caplog):
    class Full(filter_gpu.DeviceFilter):
        def apply(self, *blocks):
            raise torch.OutOfMemoryError("CUDA out of memory")

    g = random_graph(40, 50)
    want = GraphFilter(device="cpu").transform(g)
    real = filter_gpu.DeviceFilter
    monkeypatch.setattr("tuplet.filters._backends.choose_device", lambda device, work: "cuda")
    monkeypatch.setattr("tuplet.filters._run.block_width", lambda op, f, *rest: 16)
    monkeypatch.setattr(filter_gpu, "columns_that_fit", lambda *args: 16 if whole else 0)
    monkeypatch.setattr(
        filter_gpu, "DeviceFilter", lambda op, plan, r, device: (Full if full else real)(op, plan, r, "cpu")
    )
    got = GraphFilter().transform(g, out=tmp_path / "rows.npy")
    assert np.allclose(got, want, atol=1e-6) and ("filtering on the CPU" in caplog.text) == (full or not whole)
    assert [file.name for file in tmp_path.iterdir()] == ["rows.npy"]


def test_float16_rows_are_rounded_on_the_device(monkeypatch, tmp_path):
    g = random_graph(40, 50)
    want = GraphFilter(device="cpu").transform(g)
    real = filter_gpu.DeviceFilter
    monkeypatch.setattr("tuplet.filters._backends.choose_device", lambda device, work: "cuda")
    monkeypatch.setattr(filter_gpu, "columns_that_fit", lambda *args: 16)
    monkeypatch.setattr(filter_gpu, "_PIECE", 500)
    monkeypatch.setattr(filter_gpu, "DeviceFilter", lambda op, plan, r, device: real(op, plan, r, "cpu"))
    got = GraphFilter().transform(g, dtype="float16")
    assert got.dtype == np.float16 and np.allclose(got, want, atol=1e-3)
    assert np.array_equal(GraphFilter().transform(g, dtype="float16", out=tmp_path / "rows.npy"), got)
    with pytest.raises(InputError, match="too large for float16"):
        GraphFilter().transform(g, x=1e6 * g.x, dtype="float16")


@pytest.mark.parametrize("device", DEVICES)
def test_64_bit_indices_give_the_same_rows(device, monkeypatch):
    g = random_graph(40, 6)
    op = make_operator(g)
    plan = make_plan(ppr(0.2), 1e-4, "auto", True)
    rows = []
    for limit in (2**31, 1):
        monkeypatch.setattr(filter_gpu, "_INT32", limit)
        on_device = filter_gpu.DeviceFilter(op, plan, 0.5, device)
        assert on_device.matrix.col_indices().dtype == (torch.int32 if limit > 1 else torch.int64)
        blocks = [torch.from_numpy(g.x.astype(np.float32).copy()).to(device) for _ in range(3)]
        rows.append(on_device.apply(*blocks).cpu())
    assert torch.equal(*rows)


def test_a_read_only_graph_is_sent_without_a_warning(recwarn):
    op = make_operator(random_graph(40, 6))
    op.indices.flags.writeable = False
    torch.set_warn_always(True)
    try:
        filter_gpu.DeviceFilter(op, make_plan(ppr(0.2), 1e-4, "auto", True), 0.5, "cpu")
    finally:
        torch.set_warn_always(False)
    assert not [str(one.message) for one in recwarn]


def test_small_work_stays_on_the_cpu_without_asking_torch(monkeypatch):
    monkeypatch.setattr(filter_gpu, "_has_driver", lambda: pytest.fail("asked for a driver"))
    assert choose_device("auto", 1e6) == "cpu" and choose_device("cpu", 1e15) == "cpu"


def test_large_work_goes_to_cuda_where_there_is_one(monkeypatch):
    monkeypatch.setattr(filter_gpu, "_has_driver", lambda: True)
    monkeypatch.setattr(filter_gpu, "_has_cuda", lambda: True)
    assert choose_device("auto", 1e12) == "cuda"
    monkeypatch.setattr(filter_gpu, "_has_cuda", lambda: False)
    assert choose_device("auto", 1e12) == "cpu"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")
def test_cuda_equals_the_cpu_on_a_larger_graph():
    from tuplet.graph.synth import rmat

    g = rmat(20_000, 10, seed=0)
    x = np.random.default_rng(0).normal(size=(20_000, 300)).astype(np.float32)
    got = GraphFilter(device="cuda").transform(g, x=x)
    want = GraphFilter(device="cpu").transform(g, x=x)
    assert np.linalg.norm(got - want) / np.linalg.norm(want) < 1e-6
