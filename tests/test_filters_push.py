"""Push keeps the error bound that GBP promises; bidirectional is unbiased and its variance falls with the walks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import random_graph
from tests.reference import dense_operator, dense_pagerank
from tuplet.filters import GraphFilter
from tuplet.filters.weights import ppr


@pytest.mark.parametrize("r_max", [1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("r", [0.0, 0.4, 0.5])
@pytest.mark.parametrize("seed", [0, 1])
def test_push_stays_within_its_error_bound(r_max, r, seed):
    g = random_graph(80, 6, p=0.05, seed=seed, weighted=seed == 1)
    d = (g.degrees + 1)[:, None]
    exact = dense_pagerank(dense_operator(g.adj, r), 0.1, g.x)
    got = GraphFilter(ppr(0.1), r=r, method="push", r_max=r_max).transform(g)
    b = g.x / d**r
    plus, minus = np.maximum(b, 0).sum(0), np.maximum(-b, 0).sum(0)
    error = exact - got  # what is missing: between -bound of the negative part and +bound of the positive part
    assert (error <= 0.9 * r_max * plus * d**r + 1e-6).all()
    assert (error >= -0.9 * r_max * minus * d**r - 1e-6).all()
    assert np.abs(error).max() > 1e-6  # it is an approximation, not the exact filter under another name


def test_push_at_a_tiny_threshold_is_the_exact_filter():
    g = random_graph(60, 5)
    got = GraphFilter(ppr(0.3), method="push", r_max=1e-9).transform(g)
    assert np.allclose(got, GraphFilter(ppr(0.3), tol=1e-7).transform(g), atol=2e-6)


def test_push_with_a_threshold_that_never_fires_returns_alpha_x():
    g = random_graph(60, 5)
    got = GraphFilter(ppr(0.3), method="push", r_max=1.0).transform(g)
    assert np.allclose(got, 0.3 * g.x, atol=1e-6)


@pytest.mark.parametrize("direction", ["in", "out"])
def test_push_follows_the_direction(direction):
    g = random_graph(60, 5, directed=True, p=0.05)
    spec = GraphFilter(ppr(0.3), direction=direction, self_loops=False, tol=1e-7)
    push = GraphFilter(ppr(0.3), direction=direction, self_loops=False, method="push", r_max=1e-9)
    assert np.allclose(push.transform(g), spec.transform(g), atol=2e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loops", [False, True])
def test_bidirectional_is_unbiased(weighted, loops):
    """The mean over many seeds lies within its own sampling error of the exact filter, where push alone does not."""
    g = random_graph(30, 4, p=0.08, weighted=weighted)
    exact = dense_pagerank(dense_operator(g.adj, 0.5, self_loops=loops), 0.2, g.x)
    settings = {"r_max": 0.02, "self_loops": loops}
    push = GraphFilter(ppr(0.2), method="push", **settings).transform(g)
    runs = np.stack(
        [
            GraphFilter(ppr(0.2), method="bidirectional", n_walks=50, seed=s, **settings).transform(g)
            for s in range(60)
        ]
    ).astype(np.float64)
    spread = runs.std(0, ddof=1) / np.sqrt(len(runs))
    z = (runs.mean(0) - exact)[spread > 1e-7] / spread[spread > 1e-7]
    assert abs(z.mean()) < 5 / np.sqrt(len(z)) + 0.3 and np.abs(z).max() < 5.5
    assert np.abs(runs.mean(0) - exact).max() < 0.3 * np.abs(push - exact).max()


def test_variance_falls_with_the_number_of_walks():
    g = random_graph(30, 4, p=0.15)

    def variance(walks):
        spec = [GraphFilter(ppr(0.2), method="bidirectional", r_max=0.05, n_walks=walks, seed=s) for s in range(40)]
        return np.stack([one.transform(g) for one in spec]).var(0).mean()

    assert 2.5 < variance(10) / variance(40) < 6.0  # four times the walks: a quarter of the variance


def test_same_seed_same_walks_other_seed_others():
    g = random_graph(30, 4)
    one, same, other = (
        GraphFilter(ppr(0.2), method="bidirectional", r_max=0.05, n_walks=5, seed=s).transform(g) for s in (0, 0, 1)
    )
    assert np.array_equal(one, same) and not np.array_equal(one, other)
