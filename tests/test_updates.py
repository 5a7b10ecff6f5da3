"""New nodes and changes: local corrections equal a full recomputation within the stated tolerance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.conftest import random_graph
from tests.reference import dense_filter, dense_operator, dense_pagerank
from tuplet import DMATi, Graph, GraphFilter, InputError
from tuplet.filters.live import LiveRows
from tuplet.filters.weights import heat, markov, ppr
from tuplet.models.new_nodes import embed_changed, embed_new, filter_of, follow, local_rows

TOL = 1e-5


def exact(graph: Graph, alpha: float, r: float, loops: bool, x: Any = None) -> np.ndarray[Any, Any]:
    features = graph.x if x is None else x
    features = features.toarray() if sp.issparse(features) else features
    return dense_pagerank(dense_operator(graph.adj, r, self_loops=loops), alpha, features)


def check(live: LiveRows, alpha: float, r: float, loops: bool) -> None:
    """Every row within tol * d^r of the dense solution of the graph as it is now."""
    g = live.graph()
    degrees = np.maximum(g.degrees + loops, 1)
    error = np.abs(live.rows(np.arange(g.n_nodes)) - exact(g, alpha, r, loops))
    assert (error <= live.tol * degrees[:, None] ** r + 2e-6).all(), error.max()


@pytest.mark.parametrize("seed", range(6))
def test_random_edits_equal_recomputation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weighted, sparse, loops = seed % 2 == 1, seed % 3 == 0, seed != 5
    alpha, r = rng.uniform(0.1, 0.6), rng.uniform(0, 1)
    g = random_graph(40, 5, p=0.08, seed=seed, weighted=weighted)
    g = g.with_(x=sp.csr_array(g.x)) if sparse else g
    chosen = GraphFilter(ppr(alpha), r=r, tol=1e-7, self_loops=loops)
    live = LiveRows(g, exact(g, alpha, r, loops).astype(np.float32), chosen, tol=TOL)
    adj, x = g.adj.toarray().astype(np.float64), exact_features(g)
    for _ in range(25):
        n = live.n_nodes
        kind = rng.integers(4)
        pairs = rng.integers(n, size=(rng.integers(1, 4), 2))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        if kind == 0:
            weights = rng.uniform(0.5, 2, len(pairs)) if weighted else np.ones(len(pairs))
            live.change_edges(add=pairs, weights=weights)
            for (u, v), w in zip(pairs, weights):
                adj[u, v] = adj[v, u] = np.float32(w)
        elif kind == 1:
            ends = np.argwhere(np.triu(adj))
            gone = ends[rng.permutation(len(ends))[:2]]
            live.change_edges(remove=gone)
            adj[gone[:, 0], gone[:, 1]] = adj[gone[:, 1], gone[:, 0]] = 0
        elif kind == 2:
            nodes = rng.permutation(n)[:2]
            rows = rng.normal(size=(2, 5)).astype(np.float32)
            live.change_features(nodes, rows)
            x[nodes] = rows
        else:
            rows = rng.normal(size=(2, 5)).astype(np.float32)
            links = np.array([[n, rng.integers(n)], [n + 1, n], [rng.integers(n), n + 1]])
            change = live.add_nodes(rows, links)
            assert change.new.tolist() == [n, n + 1]
            x = np.vstack([x, rows])
            adj = np.pad(adj, (0, 2))
            for u, v in links:
                adj[u, v] = adj[v, u] = 1
        check(live, alpha, r, loops)
    now = live.graph()
    assert np.array_equal(now.adj.toarray(), adj.astype(np.float32)) and np.array_equal(exact_features(now), x)


def exact_features(g: Graph) -> np.ndarray[Any, Any]:
    return np.array(g.x.toarray() if sp.issparse(g.x) else g.x)


def test_many_changes_do_not_let_the_error_grow() -> None:
    g = random_graph(30, 3, p=0.2, seed=1)
    live = LiveRows(g, exact(g, 0.2, 0.5, True).astype(np.float32), GraphFilter(ppr(0.2)), tol=1e-3)
    edge = g.edges()[0]
    for _ in range(100):
        live.change_edges(remove=[edge])
        live.change_edges(add=[edge])
    check(live, 0.2, 0.5, True)
    assert np.array_equal(live.graph().indices, g.indices)


def test_a_change_stays_near() -> None:
    """A long path: the rows corrected by one edge lie within a few hops of it."""
    n = 2000
    path = sp.diags_array([np.ones(n - 1)], offsets=[1]).tocsr()
    g = Graph.from_scipy(path, np.random.default_rng(0).normal(size=(n, 3)))
    live = LiveRows(g, GraphFilter(ppr(0.2), tol=1e-6).transform(g), GraphFilter(ppr(0.2)), tol=1e-3)
    change = live.change_edges(remove=[(1000, 1001)])
    assert 2 <= change.touched < 60 and change.nodes.min() > 960 and change.nodes.max() < 1040
    assert change.pushes > 0 and change.edges > 0 and not len(change.new)
    check(live, 0.2, 0.5, True)


def test_given_rows_are_never_written() -> None:
    g = random_graph(20, 3)
    rows = GraphFilter().transform(g)
    rows.flags.writeable = False
    live = LiveRows(g, rows)
    live.change_features([3], np.ones((1, 3)))
    live.add_nodes(np.ones((1, 3)), [(20, 3)])
    assert not np.array_equal(live.rows([3])[0], rows[3])


@pytest.mark.parametrize("weights", [ppr(0.15), heat(2.0), markov(5, 0.1)])
@pytest.mark.parametrize("loops", [True, False])
def test_local_rows_equal_the_dense_filter(weights: Any, loops: bool) -> None:
    g = random_graph(30, 4, seed=3)
    x, edges = np.random.default_rng(0).normal(size=(3, 4)), [(30, 2), (30, 31), (31, 5), (32, 32)]
    chosen = GraphFilter(weights, r=0.3, self_loops=loops)
    whole = Graph.from_scipy(_joined(g, 3, edges), np.vstack([g.x, x]))
    expected = dense_filter(dense_operator(whole.adj, 0.3, self_loops=loops), weights.coefficients(300), whole.x)[30:]
    found = local_rows(g, x, edges, chosen, tol=1e-7)
    assert np.allclose(found, expected, atol=1e-5)


def _joined(g: Graph, m: int, edges: Any) -> np.ndarray[Any, Any]:
    adj = np.pad(g.adj.toarray(), (0, m))
    for u, v in edges:
        adj[u, v] = adj[v, u] = u != v
    return adj


@pytest.mark.parametrize("with_rows", [True, False])
def test_new_nodes_get_the_vectors_of_a_full_transform(with_rows: bool) -> None:
    g = random_graph(60, 8, seed=2)
    model = DMATi(layers=(16, 8), max_steps=5, tol=1e-6, device="cpu").fit(g)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4, 8)).astype(np.float32)
    edges = np.column_stack([np.repeat(np.arange(60, 64), 3), rng.integers(60, size=12)])
    whole = Graph.from_scipy(_joined(g, 4, edges), np.vstack([g.x, x]))
    rows = follow(model, g)._rows if with_rows else None
    vectors = embed_new(model, g, x, edges, rows=rows, tol=1e-5)
    assert np.allclose(vectors, model.transform(whole)[60:], atol=1e-3)


def test_changed_nodes_are_embedded_again() -> None:
    g = random_graph(60, 8, seed=2)
    model = DMATi(layers=(16, 8), max_steps=5, tol=1e-6, device="cpu").fit(g)
    live = follow(model, g, tol=1e-5)
    change = live.change_edges(remove=g.edges()[:2])
    expected = model.transform(live.graph())
    assert np.allclose(embed_changed(model, live, change), expected[change.nodes], atol=1e-3)


def test_bad_changes_are_refused() -> None:
    g = random_graph(20, 3)
    rows = GraphFilter().transform(g)
    live = LiveRows(g, rows)
    model = DMATi(layers=(4,), max_steps=1, device="cpu").fit(random_graph(20, 5))
    for call, message in [
        (lambda: live.change_edges(add=[(0, 20)]), "names node 20, but nodes run from 0 to 19"),
        (lambda: live.change_edges(add=[(0, -1)]), "names node -1"),
        (lambda: live.change_edges(add=[0, 1]), r"shape \(2,\)"),
        (lambda: live.change_edges(add=[(0, 1)], weights=[-1]), "0 or more"),
        (lambda: live.change_features([1], np.ones((1, 4))), "3 feature columns"),
        (lambda: live.change_features([1, 2], np.ones((1, 3))), "1 feature rows for 2 nodes"),
        (lambda: live.change_features([25], np.ones((1, 3))), "from 0 to 19"),
        (lambda: live.add_nodes(np.full((1, 3), np.nan)), "NaN"),
        (lambda: LiveRows(g, rows[:5]), "rows has shape"),
        (lambda: LiveRows(g, rows, GraphFilter(heat(1.0))), "cannot be updated"),
        (lambda: LiveRows(g.with_(directed=True), rows), "directed"),
        (lambda: embed_new(model, g, np.ones((1, 3)), []), "3 feature columns but the model was fitted on 5"),
    ]:
        with pytest.raises(InputError, match=message):
            call()
    assert live.n_nodes == 20


@pytest.mark.parametrize("r", [0.0, 0.3, 1.0])
def test_new_nodes_are_filtered_as_the_model_was(r: float) -> None:
    """alpha, r and tol of the model reach the local filter: as if the whole graph were filtered again."""
    whole = random_graph(40, 6, p=0.2, seed=3)
    keep = np.arange(38)
    old = Graph.from_scipy(whole.adj[:38][:, :38], whole.x[keep])
    edges = [(u, v) for u, v in whole.edges().tolist() if v >= 38]
    model = DMATi((8, 4), alpha=0.3, r=r, max_steps=2, device="cpu").fit(old)
    chosen = filter_of(model)
    assert (chosen.weights, chosen.r, chosen.tol) == (ppr(0.3), r, 1e-4)
    got = embed_new(model, old, whole.x[38:], edges, tol=1e-6)
    assert np.allclose(got, model.transform(Graph.from_scipy(whole.adj, whole.x))[38:], atol=2e-3)
