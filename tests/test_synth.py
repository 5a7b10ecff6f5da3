"""R-MAT and block models: counts, symmetry, no loops or duplicates, the shape that the parameters ask for."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tuplet._check import InputError
from tuplet.graph import synth
from tuplet.kernels import rmat


def check_undirected(g):
    a = g.adj
    assert (a != a.T).nnz == 0 and not a.diagonal().any()
    for u in range(g.n_nodes):
        assert (np.diff(g.indices[g.indptr[u] : g.indptr[u + 1]]) > 0).all()


@pytest.mark.parametrize(("n", "per_node"), [(1000, 5), (1024, 20), (777, 3), (10, 2)])
def test_rmat_has_exactly_the_edges_asked_for(n, per_node):
    g = synth.rmat(n, per_node, seed=3)
    assert g.n_nodes == n and g.n_edges == n * per_node and g.indices.max() < n
    check_undirected(g)


def test_rmat_is_the_same_for_the_same_seed_only():
    a, b, c = (synth.rmat(500, 5, seed=s) for s in (0, 0, 1))
    assert np.array_equal(a.indices, b.indices) and not np.array_equal(a.indices, c.indices)


def test_rmat_quarters_follow_the_probabilities():
    """Without dropping anything, the share of draws in each quarter of the matrix is a, b + c, d."""
    keys = np.empty(200_000, np.uint64)
    n = 2**12
    rmat.draw_keys(keys, 0, n, 0.5, 0.7, 0.9, np.uint64(7))
    u, v = keys // np.uint64(n), keys % np.uint64(n)
    half = n // 2
    both_low, both_high = ((u < half) & (v < half)).mean(), ((u >= half) & (v >= half)).mean()
    assert abs(both_low - 0.5) < 0.01 and abs(both_high - 0.1) < 0.01
    assert len(np.unique(keys)) > 50_000


def test_equal_quarters_give_an_even_graph_and_skewed_ones_hubs():
    even = synth.rmat(4096, 8, a=0.25, b=0.25, c=0.25).degrees
    skewed = synth.rmat(4096, 8, a=0.57, b=0.19, c=0.19).degrees
    assert even.max() < 45 and skewed.max() > 200 and (skewed == 0).mean() > 0.1


@pytest.mark.parametrize(("n", "per_node"), [(10, 5), (100, 60)])
def test_more_edges_than_fit_are_refused(n, per_node):
    with pytest.raises(InputError, match="too many"):
        synth.rmat(n, per_node)


def test_probabilities_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="a \\+ b \\+ c"):
        synth.rmat(100, 2, a=0.9, b=0.3)


def test_csr_from_keys_equals_scipys():
    rng = np.random.default_rng(0)
    upper = sp.triu(sp.random_array((50, 50), density=0.1, rng=rng), k=1).tocoo()
    keys = np.sort(upper.row.astype(np.uint64) * np.uint64(50) + upper.col.astype(np.uint64))
    got = synth._from_keys(keys, 50)
    want = sp.csr_array(upper + upper.T)
    want.sort_indices()
    assert np.array_equal(got.indptr, want.indptr) and np.array_equal(got.indices, want.indices)
    assert synth._from_keys(keys[:0], 50).indptr.tolist() == [0] * 51


@pytest.mark.parametrize("most", [3, 10**6, 2**63])
def test_threads_sort_as_numpy_does(most, monkeypatch):
    keys = np.random.default_rng(0).integers(0, most, 2**20 + 17, dtype=np.uint64)
    want = np.sort(keys)
    monkeypatch.setattr("tuplet.kernels.spmm.thread_count", lambda: 5)
    assert np.array_equal(synth.sorted_keys(keys.copy()), want)


def test_thinning_keeps_the_count_and_the_order():
    keys = np.arange(1000, dtype=np.uint64)
    kept = keys[: rmat.thin_out(keys, 300)]
    assert len(kept) == 300 and (np.diff(kept.astype(int)) > 0).all() and 400 < kept.mean() < 600


def test_block_model_has_the_sizes_and_a_symmetric_adjacency():
    g = synth.block_model([100, 50, 10], seed=1)
    assert np.bincount(g.y).tolist() == [100, 50, 10] and g.x.shape == (160, 64) and g.x.dtype == np.float32
    assert 0.7 * 160 * 5 < g.n_edges <= 160 * 5
    check_undirected(g)


@pytest.mark.parametrize(("structure", "low", "high"), [(0.0, 0.2, 0.3), (0.5, 0.55, 0.7), (1.0, 1.0, 1.0)])
def test_structure_sets_the_share_of_edges_inside_a_class(structure, low, high):
    g = synth.block_model([500, 500, 500, 500], structure=structure, seed=2)
    u, v = g.edges().T
    assert low <= (g.y[u] == g.y[v]).mean() <= high


def test_signal_moves_the_classes_apart():
    def gap(signal):
        g = synth.block_model([200, 200], signal=signal, n_features=32, seed=0)
        return np.linalg.norm(g.x[g.y == 0].mean(0) - g.x[g.y == 1].mean(0))

    assert gap(0.0) < 1.0 < gap(3.0) < gap(10.0)


def test_words_give_a_sparse_bag_that_knows_the_class():
    g = synth.block_model([100, 100], n_features=200, words=12, signal=2.0, seed=0)
    assert sp.issparse(g.x) and set(np.unique(g.x.data)) == {1.0} and g.x.sum(1).max() <= 12
    a, b = (np.asarray(g.x[g.y == k].sum(0)).ravel() for k in (0, 1))
    assert np.corrcoef(a, b)[0, 1] < 0.5


def test_block_models_repeat_with_the_seed():
    a, b = synth.block_model([20, 10], seed=4), synth.block_model([20, 10], seed=4)
    assert a.fingerprint() == b.fingerprint() and np.array_equal(a.y, b.y)
