"""SelfDMAT's spectra on a device, beside those of the CPU; without a GPU torch's CPU stands for the device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from tuplet.filters import GraphFilter
from tuplet.filters.weights import ppr
from tuplet.graph import Graph
from tuplet.graph.synth import block_model
from tuplet.models import _spectrum_gpu as on_gpu
from tuplet.models._spectrum import filtered_rows, fit_spectrum, rarity
from tuplet.models.selfdmat import SelfDMAT
from tuplet.rows import svd

QUICK: dict[str, Any] = {"n_clusters": 3, "max_steps": 3, "layers": (8, 4), "n_init": 2, "detail": 20}
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA"))]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """The device that all spectra are made on; the few columns of these graphs take the rounds that many need."""
    found = torch.device(request.param)
    monkeypatch.setattr(on_gpu, "device_for", lambda graph, filters, widths: found)
    monkeypatch.setattr(svd, "WHOLE_UP_TO", 0)
    return found


@pytest.fixture(scope="module")
def words() -> Graph:
    return block_model([120, 60, 60], seed=1)


def features(graph: Graph, kind: str, folder: Path) -> Graph:
    """The same graph with features of another kind."""
    x: Any = graph.x.toarray() if sp.issparse(graph.x) else np.asarray(graph.x)
    if kind == "sparse":
        return graph.with_(x=sp.csr_array(x))
    if kind == "negative":
        return graph.with_(x=x - np.float32(0.3))
    np.save(folder / "x.npy", x.astype(kind))
    return graph.with_(x=np.load(folder / "x.npy", mmap_mode="r"))


@pytest.mark.parametrize("kind", ["sparse", "float32", "float16", "negative"])
@pytest.mark.parametrize("files", [False, True])
def test_a_device_gives_the_vectors_of_the_cpu(
    words: Graph, kind: str, files: bool, device: torch.device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    graph, given = features(words, kind, tmp_path), {"memory": "4GB"} if files else {}
    monkeypatch.setattr(on_gpu, "_COLUMNS", 7)  # several blocks of columns and of rows
    monkeypatch.setattr(on_gpu, "_VALUES", 2**10)
    monkeypatch.setattr(on_gpu, "_SENT", 2**12)
    found = SelfDMAT(**QUICK, **given).fit(graph)
    monkeypatch.setattr(on_gpu, "device_for", lambda graph, filters, widths: None)
    wanted = SelfDMAT(**QUICK, **given).fit(graph)
    assert isinstance(found.embedding_, np.memmap) == files
    np.testing.assert_allclose(found.embedding_, wanted.embedding_, atol=3e-3)
    np.testing.assert_allclose(found.near_.right, wanted.near_.right, atol=1e-3)
    assert np.array_equal(found.labels_, wanted.labels_)


def test_a_device_gives_the_same_bits_again(words: Graph, device: torch.device) -> None:
    one, two = (SelfDMAT(**QUICK).fit(words) for _ in range(2))
    assert np.array_equal(one.embedding_, two.embedding_)


def test_products_on_a_device_are_those_of_the_dense_matrices(words: Graph, device: torch.device) -> None:
    weights, one = rarity(words.x), GraphFilter(ppr(0.2), tol=1e-6, device="cpu")
    before = np.random.default_rng(0).random(words.n_nodes, dtype=np.float32)
    rows = on_gpu.DeviceRows("far", words, one, weights, before, on_gpu.DeviceFeatures(words.x, device))
    eye = np.eye(words.n_features, dtype=np.float32)
    x = before[:, None] * (words.x.toarray() if sp.issparse(words.x) else np.asarray(words.x)) * weights
    dense = one.transform(words, x=x)
    np.testing.assert_allclose(rows.forward("signs", eye).cpu().numpy(), dense, atol=1e-5)
    y = np.random.default_rng(1).random((words.n_nodes, 5), dtype=np.float32)
    back = rows.backward("backward-0", torch.from_numpy(y).to(device), before)
    np.testing.assert_allclose(back, x.T @ one.transform(words, x=before[:, None] * y), rtol=1e-4, atol=1e-4)


def test_the_spectrum_is_that_of_the_iteration_in_memory(words: Graph, device: torch.device) -> None:
    one, weights = GraphFilter(ppr(0.05), tol=1e-2, device="cpu"), rarity(words.x)
    wanted, projected = fit_spectrum(filtered_rows(words, one, weights), 6, balance=True)
    made = on_gpu.spectra_on_device(
        words, [one], [6], weights, lambda: filtered_rows(words, one, weights).before,
        balance=True, seed=0, steps=None, tick=lambda i, part: None,
    )  # fmt: skip
    assert made is not None
    np.testing.assert_allclose(made[0][1], projected, atol=2e-3)
    np.testing.assert_allclose(made[0][0].centre, wanted.centre, atol=1e-3)


def test_a_full_device_leaves_the_work_to_the_cpu(
    words: Graph, device: torch.device, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*given: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(on_gpu, "DeviceFeatures", full)
    assert SelfDMAT(**QUICK).fit(words).embedding_.shape[0] == 240
    assert "is full: filtering by blocks" in caplog.text


def test_small_graphs_and_small_devices_are_left_to_the_cpu(words: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    given: Any = (words, [GraphFilter(ppr(0.1))], [20])
    assert on_gpu.device_for(*given) is None
    monkeypatch.setattr("tuplet.filters._backends.choose_device", lambda device, work: "cuda")
    monkeypatch.setattr("tuplet.filters._graph_filter.choose_device", lambda device, work: "cuda")
    monkeypatch.setattr(on_gpu, "free_on", lambda device: 10**9)
    assert on_gpu.device_for(*given) is None
    monkeypatch.setattr(on_gpu, "free_on", lambda device: 10**10)
    assert on_gpu.device_for(*given) == torch.device("cuda")
