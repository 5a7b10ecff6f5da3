"""GraphFilter against dense formulas: weights, r, directions, loops, features of every kind, errors, the cache."""

from __future__ import annotations

import logging
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from tests.conftest import random_graph
from tests.reference import dense_filter, dense_operator, dense_pagerank
from tuplet._check import InputError
from tuplet.filters import GraphFilter
from tuplet.filters.weights import custom, heat, laplacian, markov, ppr
from tuplet.graph import Graph

FAMILIES = [ppr(0.1), ppr(0.6), heat(3.0), markov(8, 0.1), laplacian(6), laplacian(3, 0.7), custom([0.5, 0, -0.5])]


def relative(a, b):
    return np.linalg.norm(np.asarray(a, np.float64) - b) / np.linalg.norm(b)


@pytest.mark.parametrize("weights", FAMILIES, ids=repr)
@pytest.mark.parametrize("series", ["power", "chebyshev"])
@pytest.mark.parametrize("r", [0.0, 0.4, 0.5, 1.0])
def test_exact_filter_equals_the_dense_series(weights, series, r):
    g = random_graph(40, 9, weighted=r == 0.4)
    want = dense_filter(dense_operator(g.adj, r), weights.coefficients(400), g.x)
    got = GraphFilter(weights, r=r, tol=1e-7, series=series).transform(g)
    assert got.dtype == np.float32 and got.flags.c_contiguous
    assert relative(got, want) < 2e-6


@pytest.mark.parametrize("direction", ["in", "out", "symmetric"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loops", [False, True])
def test_directed_graphs_average_over_the_edges_that_were_asked_for(direction, weighted, loops):
    g = random_graph(40, 5, directed=True, weighted=weighted, p=0.05)  # some nodes have no edge at all
    a = g.adj.toarray()
    a = {"out": a, "in": a.T, "symmetric": np.maximum(a, a.T)}[direction]
    want = dense_pagerank(dense_operator(a, 0.5, self_loops=loops), 0.2, g.x)
    got = GraphFilter(ppr(0.2), tol=1e-7, direction=direction, self_loops=loops).transform(g)
    assert relative(got, want) < 2e-6


def test_a_node_without_edges_keeps_its_features_with_a_loop_and_w0_of_them_without():
    g = Graph.from_scipy(sp.csr_array((3, 3)), x=np.eye(3))
    assert np.allclose(GraphFilter(ppr(0.2), tol=1e-6).transform(g), np.eye(3), atol=1e-5)
    assert np.allclose(GraphFilter(ppr(0.2), tol=1e-6, self_loops=False).transform(g), 0.2 * np.eye(3), atol=1e-5)


@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("r", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("series", ["power", "chebyshev"])
def test_error_stays_below_the_tolerance_in_the_norm_that_is_promised(tol, r, series):
    g = random_graph(60, 4, p=0.05, seed=3)
    exact = dense_pagerank(dense_operator(g.adj, r), 0.05, g.x)
    error = GraphFilter(ppr(0.05), r=r, tol=tol, series=series).transform(g) - exact
    w = ((g.degrees + 1) ** (0.5 - r))[:, None]
    assert (np.linalg.norm(w * error, axis=0) <= (tol + 2e-6) * np.linalg.norm(w * g.x, axis=0)).all()
    if series == "power":
        v = ((g.degrees + 1) ** -r)[:, None]
        assert (np.abs(v * error).max(0) <= (tol + 2e-6) * np.abs(v * g.x).max(0)).all()


@pytest.mark.parametrize("direction", ["in", "out"])
def test_power_series_keeps_its_bound_on_directed_graphs(direction):
    g = random_graph(60, 4, p=0.05, directed=True)
    a = g.adj.toarray() if direction == "out" else g.adj.toarray().T
    d = (a.sum(1) + 1)[:, None]
    exact = dense_pagerank(dense_operator(a, 0.5), 0.1, g.x)
    error = GraphFilter(ppr(0.1), tol=1e-2, direction=direction).transform(g) - exact
    assert (np.abs(error / d**0.5).max(0) <= 1.01e-2 * np.abs(g.x / d**0.5).max(0)).all()


def test_cora_is_filtered_within_1e_5_of_float64(data_dir):
    from scipy.sparse.linalg import spsolve

    raw = np.load(data_dir / "cora.npz", allow_pickle=False)
    g = cora(raw)
    a = sp.csc_array(g.adj.astype(np.float64) + sp.eye_array(g.n_nodes))
    d = np.asarray(a.sum(1)).ravel()
    s = sp.csc_array(sp.diags_array(d**-0.5) @ a @ sp.diags_array(d**-0.5))
    x = g.x[:, :20].toarray().astype(np.float64)
    want = spsolve(sp.csc_array(sp.eye_array(g.n_nodes) - 0.9 * s), 0.1 * x)
    assert relative(GraphFilter(ppr(0.1), tol=1e-7).transform(g, x=x), want) < 1e-5
    assert relative(GraphFilter(ppr(0.1), tol=1e-3).transform(g, x=x), want) < 3e-3


def cora(raw):
    """The graph of one of the shared npz files: adjacency and features as CSR arrays."""
    x = sp.csr_array((raw["x_data"], raw["x_indices"], raw["x_indptr"]), shape=tuple(raw["x_shape"]))
    return Graph(raw["adj_indptr"].astype(np.int64), raw["adj_indices"], x=x)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dense_features_of_any_float_give_float32_rows(dtype):
    g = random_graph(30, 6)
    x = g.x.astype(dtype)
    got = GraphFilter(tol=1e-6).transform(g, x=x)
    assert got.dtype == np.float32
    assert relative(got, dense_pagerank(dense_operator(g.adj, 0.5), 0.1, x)) < 1e-5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_features_equal_the_same_dense_ones(dtype):
    g = random_graph(50)
    x = sp.random_array((50, 300), density=0.05, format="csr", rng=np.random.default_rng(0)).astype(dtype)
    assert np.allclose(GraphFilter().transform(g, x=x), GraphFilter().transform(g, x=x.toarray()), atol=1e-6)


def test_sparse_features_are_never_densified_as_a_whole(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a sparse matrix was made dense")

    monkeypatch.setattr(sp.csr_array, "toarray", refuse)
    monkeypatch.setattr(sp.csr_array, "todense", refuse)
    x = sp.random_array((30, 1000), density=0.01, format="csr", rng=np.random.default_rng(0), dtype=np.float32)
    GraphFilter().transform(random_graph(30), x=x)


def test_narrow_blocks_give_the_same_bits_as_wide_ones(monkeypatch):
    g = random_graph(60, 300)
    wide = GraphFilter().transform(g)
    monkeypatch.setattr("tuplet.filters.widths.WORK", 1)
    assert np.array_equal(GraphFilter().transform(g), wide)


def test_the_number_of_threads_does_not_change_a_bit(monkeypatch):
    import numba

    monkeypatch.setattr("tuplet.kernels.spmm.SMALL", 0)
    g = random_graph(300, 200)
    threads = numba.get_num_threads()
    many = GraphFilter().transform(g)
    try:
        numba.set_num_threads(1)
        one = GraphFilter().transform(g)
    finally:
        numba.set_num_threads(threads)
    if threads == 1:
        pytest.skip("numba has one thread here")
    assert np.array_equal(many, one)


def test_x_takes_the_place_of_the_graphs_features(small_graph):
    x = np.ones((30, 2))
    got = GraphFilter(r=0.0, tol=1e-6).transform(small_graph, x=x)
    assert np.allclose(got, 1, atol=1e-5)  # means of ones, and the weights sum to 1


def test_input_is_left_as_it_was(small_graph):
    before = small_graph.x.copy()
    GraphFilter().transform(small_graph)
    assert np.array_equal(small_graph.x, before)


@pytest.mark.parametrize("reduction", ["projection", "svd"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_reducing_columns_first_is_reducing_them_afterwards(reduction, kind, caplog):
    from tuplet.filters._reduce import column_map

    g = random_graph(60)
    x = sp.random_array((60, 400), density=0.2, format="csr", rng=np.random.default_rng(0), dtype=np.float32)
    x = x if kind == "sparse" else x.toarray()
    with caplog.at_level(logging.INFO, "tuplet"):
        got = GraphFilter(columns=32, reduction=reduction, tol=1e-6, seed=5).transform(g, x=x)
    assert got.shape == (60, 32) and f"400 columns to 32 by {reduction}" in caplog.text
    p = column_map(x, 32, reduction, 5)
    whole = GraphFilter(tol=1e-6).transform(g, x=x)
    assert relative(got, whole @ (p.toarray() if sp.issparse(p) else p)) < 1e-5


def test_projection_keeps_lengths_in_the_mean():
    x = np.random.default_rng(0).normal(size=(200, 2000)).astype(np.float32)
    small = GraphFilter(custom([1.0]), columns=256, r=0.0).transform(random_graph(200), x=x)
    ratio = (small**2).sum(1) / (x**2).sum(1)
    assert abs(ratio.mean() - 1) < 0.05 and ratio.std() < 0.25


def test_columns_that_are_few_already_are_left_alone(small_graph):
    assert np.array_equal(GraphFilter(columns=64).transform(small_graph), GraphFilter().transform(small_graph))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: GraphFilter(0.1), "weights must come from"),
        (lambda: GraphFilter(r=2), "r must lie"),
        (lambda: GraphFilter(tol=0), "tol must lie"),
        (lambda: GraphFilter(method="exat"), "Did you mean 'exact'"),
        (lambda: GraphFilter(direction="both"), "direction"),
        (lambda: GraphFilter(r_max=1e-5), "belong to push"),
        (lambda: GraphFilter(method="push"), "needs r_max"),
        (lambda: GraphFilter(heat(1), method="push", r_max=0.1), "ppr weights only"),
        (lambda: GraphFilter(method="bidirectional", r_max=0.1), "Give n_walks"),
        (lambda: GraphFilter(method="push", r_max=0.1, n_walks=3), "only there"),
        (lambda: GraphFilter(columns=0), "columns"),
        (lambda: GraphFilter().transform(random_graph().with_(x=None)), "no features"),
        (lambda: GraphFilter().transform(random_graph(), x=np.ones((3, 2))), "30 nodes"),
        (lambda: GraphFilter(series="chebyshev", direction="in").transform(random_graph(directed=True)), "symmetric"),
        (lambda: GraphFilter(device="cuda:7").transform(random_graph()), "no CUDA"),
        (lambda: GraphFilter().transform(random_graph(), out="/nowhere/at/all.npy"), "does not exist"),
        (lambda: GraphFilter().transform(random_graph(), memory="1MB"), "too little"),
        (lambda: GraphFilter().transform(random_graph(), out="a.npy", cache="b"), "not both"),
    ],
)
def test_wrong_settings_are_refused_with_a_reason(make, text):
    import torch

    if text == "no CUDA" and torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(InputError, match=text):
        make()


def test_settings_survive_a_round_trip_through_plain_values():
    import json

    spec = GraphFilter(markov(4, 0.1), r=0.4, direction="in", columns=9)
    assert GraphFilter.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec


def test_cache_finds_the_rows_again_and_only_for_the_same_question(small_graph, tmp_path, caplog):
    first = GraphFilter().transform(small_graph, cache=tmp_path)
    with caplog.at_level(logging.INFO, "tuplet"):
        again = GraphFilter(device="cpu").transform(small_graph, cache=tmp_path)
    assert "found" in caplog.text and np.array_equal(first, again)
    others = [
        (GraphFilter(tol=1e-2), small_graph),
        (GraphFilter(ppr(0.2)), small_graph),
        (GraphFilter(), small_graph.with_(x=small_graph.x + 1)),
        (GraphFilter(), random_graph(seed=1).with_(x=small_graph.x)),
    ]
    for spec, graph in others:
        spec.transform(graph, cache=tmp_path)
    assert len(list(tmp_path.glob("*.npy"))) == 5 and len(list(tmp_path.iterdir())) == 10  # each has its checksum


def test_progress_rises_to_one(small_graph):
    seen = []
    GraphFilter().transform(small_graph, progress=lambda phase, done: seen.append((phase, done)))
    assert {phase for phase, _ in seen} == {"filter"}
    values = [done for _, done in seen]
    assert values == sorted(values) and values[-1] == 1.0


def test_estimate_tells_products_and_bytes(small_graph):
    spec = GraphFilter(ppr(0.1), tol=1e-4)
    estimate = spec.estimate(small_graph)
    assert estimate.products == 20 and estimate.columns == 7 and estimate.memory >= 4 * 30 * 7
    assert 0 < estimate.seconds[0] < estimate.seconds[1]
    assert "20 products" in str(estimate) and estimate.to_dict()["rows"] == 30
    assert GraphFilter(method="push", r_max=1e-4).estimate(small_graph).seconds[1] > 0


def test_importing_filters_does_not_import_torch_or_numba():
    code = (
        "import sys, tuplet.filters, tuplet.graph.synth, tuplet.filters.weights;"
        "print([name for name in ('torch', 'numba', 'sklearn') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
