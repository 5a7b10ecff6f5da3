"""Groups on which rows and edges agree: twins by the definition, and what the edges may and may not do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.conftest import random_graph
from tuplet.graph import Graph
from tuplet.graph.synth import block_model
from tuplet.metrics import accuracy
from tuplet.models._agreement import _EDGE, _ROUNDS, _UNSEEN, agreed, beliefs_of
from tuplet.models._self_labels import Gaussians
from tuplet.rows import blocks

K = 4


def said(labels: Any, k: int, *rows: Any) -> Any:
    """What the rows say of all nodes."""
    return beliefs_of(labels, k, rows)(slice(None))


def slow_agreed(adj: Any, beliefs: Any, labels: Any, strength: float) -> Any:
    """The definition, node by node and edge by edge; `adj` (n, n) dense, symmetric."""
    adj = adj / adj[adj > 0].mean()
    k = beliefs.shape[1]
    for _ in range(_ROUNDS):
        between = np.array([[adj[labels == a][:, labels == b].sum() for b in range(k)] for a in range(k)])
        ends = between.sum(axis=1)
        says = np.log((between + _UNSEEN) / (np.outer(ends, ends) / ends.sum() + _UNSEEN))
        moved = labels.copy()
        for u in range(len(adj)):
            heard = beliefs[u].astype(float)
            for v in np.flatnonzero(adj[u]):
                heard = heard + strength * adj[u, v] * says[labels[v]]
            moved[u] = heard.argmax()
        if np.array_equal(moved, labels):
            return labels
        labels = moved
    return labels


def some_rows(n: int, d: int = 3, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


def some_labels(n: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).integers(K, size=n)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_the_labels_are_those_of_the_definition(
    weighted: bool, directed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_VALUES", 100)  # several blocks
    graph = random_graph(n=90, weighted=weighted, directed=directed)
    adj = graph.adj.toarray()
    rows, labels = (some_rows(90), some_rows(90, 2, seed=5)), some_labels(90)
    beliefs = said(labels, K, *rows)
    kept = beliefs.copy()
    found = agreed(graph, beliefs, labels, 2)
    assert np.array_equal(found, slow_agreed(np.maximum(adj, adj.T), beliefs, labels, 2 * _EDGE))
    assert not np.array_equal(found, labels) and not np.array_equal(found, beliefs.argmax(axis=1))
    assert np.array_equal(beliefs, kept)


def test_gaussians_say_what_their_densities_say() -> None:
    from scipy.stats import multivariate_normal

    rows, labels = some_rows(60), some_labels(60)
    model = Gaussians.measured(rows, labels, K)
    means = [rows[labels == c].mean(axis=0) for c in range(K)]
    variance = np.mean([(row - means[c]) ** 2 for row, c in zip(rows, labels)])
    whole = np.array(
        [multivariate_normal(means[c], variance).logpdf(rows) + np.log((labels == c).mean()) for c in range(K)]
    ).T
    apart = model.beliefs(rows) - whole
    np.testing.assert_allclose(apart, np.broadcast_to(apart[:, :1], apart.shape), atol=1e-4)


def test_the_unit_of_the_weights_does_not_matter() -> None:
    graph = random_graph(n=90, weighted=True)
    assert graph.weights is not None
    labels = some_labels(90)
    beliefs = said(labels, K, some_rows(90))
    larger = Graph(graph.indptr, graph.indices, weights=graph.weights * np.float32(2**20))
    assert np.array_equal(agreed(graph, beliefs, labels), agreed(larger, beliefs, labels))


def test_without_edges_the_labels_stay() -> None:
    labels = some_labels(20)
    alone = Graph.from_scipy(sp.csr_array((20, 20)))
    assert np.array_equal(agreed(alone, said(labels, K, some_rows(20)), labels), labels)


def test_edges_mend_labels_that_the_rows_alone_get_wrong() -> None:
    graph = block_model([150, 100, 50], structure=0.85, seed=3)
    rng = np.random.default_rng(0)
    rows = (np.eye(3)[graph.y] + rng.normal(size=(300, 3))).astype(np.float32)
    labels = rows.argmax(axis=1)
    mended = agreed(graph, said(labels, 3, rows), labels)
    assert accuracy(graph.y, labels) < 0.75 and accuracy(graph.y, mended) > 0.95


def test_groups_that_seek_each_other_are_told_too() -> None:
    """Two sides, edges only across."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1], 100))
    across = (y[:, None] != y) & (rng.random((200, 200)) < 0.06)
    rows = (np.eye(2)[y] + rng.normal(size=(200, 2))).astype(np.float32)
    labels = rows.argmax(axis=1)
    mended = agreed(Graph.from_scipy(across.astype(float)), said(labels, 2, rows), labels)
    assert accuracy(y, labels) < 0.85 and accuracy(y, mended) > 0.95


def test_edges_that_join_at_random_say_little() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 500)
    noise = sp.random_array((1000, 1000), density=0.01, rng=rng)
    rows = (3 * np.eye(2)[y] + rng.normal(size=(1000, 2))).astype(np.float32)
    labels = rows.argmax(axis=1)
    mended = agreed(Graph.from_scipy(noise != 0), said(labels, 2, rows), labels)
    assert abs(accuracy(y, mended) - accuracy(y, labels)) < 0.02


def test_many_groups_and_empty_ones_are_taken() -> None:
    graph = block_model([20] * 12, structure=0.8, seed=1)
    labels = np.asarray(graph.y) * 2  # each second group is empty
    beliefs = said(labels, 24, some_rows(240))
    assert np.isfinite(beliefs[:]).all()
    assert set(np.unique(agreed(graph, beliefs, labels))) <= set(range(0, 24, 2))
