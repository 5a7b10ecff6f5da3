"""Structural features: from the edges alone, deterministic, and nearer inside a block than outside."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tuplet import InputError, SelfDMAT
from tuplet.filters.structural import STOP, _log_ratios, structural_features
from tuplet.graph import Graph
from tuplet.graph.synth import block_model


def test_log_ratios_come_near_those_of_exact_walks() -> None:
    graph = block_model([15, 15], seed=1)
    adj = graph.adj.toarray()
    degrees = adj.sum(axis=1)
    steps = adj / np.maximum(degrees, 1)[:, None]
    n = graph.n_nodes
    exact = STOP * steps @ np.linalg.inv(np.eye(n) - (1 - STOP) * steps)
    ratio = exact * degrees.sum() / np.maximum(degrees, 1)
    expected = np.log(np.maximum(ratio, 1))
    found = np.mean([_log_ratios(graph, seed).toarray() for seed in range(20)], axis=0)
    clear = ratio > 1.3  # near 1 the sampled logarithm is cut off at 0
    assert clear.sum() > 50 and np.abs(found - expected)[clear].max() < 0.2


def test_same_seed_same_bits_and_blocks_stand_apart() -> None:
    graph = block_model([40, 40, 40], seed=0)
    x = structural_features(graph, 3, dimensions=16)
    np.testing.assert_array_equal(x, structural_features(graph, 3, dimensions=16))
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    same = graph.y[:, None] == graph.y[None, :]
    near = unit @ unit.T
    assert near[same].mean() > near[~same].mean() + 0.3


def test_directed_weighted_and_isolated_nodes_work() -> None:
    adj = sp.csr_array(np.array([[0, 3, 0, 0], [0, 0, 1, 0], [2, 0, 0, 0], [0, 0, 0, 0]], dtype=float))
    x = structural_features(Graph.from_scipy(adj, directed=True))
    assert x.shape == (4, 3) and x.dtype == np.float32 and np.isfinite(x).all() and not x[3].any() and x[:3].any()
    empty = structural_features(Graph.from_scipy(sp.csr_array((3, 3))))
    assert empty.shape == (3, 2) and not empty.any()


def test_estimators_make_structural_columns_and_refuse_another_graph(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "tuplet")
    graph, other = (block_model([30, 30], seed=seed).with_(x=None) for seed in (0, 1))
    model = SelfDMAT(2, max_steps=5).fit(graph)
    assert "has no features: 59 structural columns are made" in caplog.text
    np.testing.assert_allclose(model.transform(graph), model.embedding_, atol=1e-5)
    with pytest.raises(InputError, match=r"structure\[0\] of .* but the model was fitted on"):
        model.transform(other)
    with pytest.raises(InputError, match="neither features nor edges"):
        SelfDMAT(2).fit(Graph.from_scipy(sp.csr_array((9, 9))))
