"""Label-free criteria against independent computations, on clusters that are plainly there or not."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import davies_bouldin_score

from tests.conftest import random_graph
from tuplet._check import InputError
from tuplet.graph import Graph
from tuplet.rows.kmeans import kmeans
from tuplet.rows.lloyd import Clusters
from tuplet.rows.unit import scale_rows
from tuplet.training.criteria import (
    CRITERIA,
    criterion_values,
    davies_bouldin,
    effective_rank,
    sample_edges,
    sample_rows,
    sampled_modularity,
    stability,
)


def blobs(spread: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (np.repeat(np.eye(4, 6), 30, axis=0) + spread * rng.normal(size=(120, 6))).astype(np.float32)


@pytest.mark.parametrize("name", ["silhouette", "davies_bouldin", "stability", "effective_rank"])
def test_clear_clusters_score_better_than_a_blur(name: str) -> None:
    clear, blur = (criterion_values(blobs(s), [name], k=4)[name] for s in (0.05, 0.6))
    assert CRITERIA[name] * (clear - blur) > 0


def test_davies_bouldin_is_that_of_scikit_learn() -> None:
    rows = scale_rows(blobs(0.4))
    found = kmeans(rows, 4)
    assert davies_bouldin(rows, found) == pytest.approx(davies_bouldin_score(rows, found.labels), rel=1e-4)
    one = Clusters(np.zeros(120, np.int64), rows[:1])
    assert davies_bouldin(rows, one) == np.inf
    alike = np.ones((6, 2), np.float32)
    alike[3:] += 1e-7
    assert davies_bouldin(alike, Clusters(np.repeat([0, 1], 3), alike[[0, 3]])) == np.inf  # collapsed: not the best


def test_effective_rank_counts_equal_directions() -> None:
    rng = np.random.default_rng(0)
    q, _ = np.linalg.qr(rng.normal(size=(50, 5)))
    assert effective_rank(q.astype(np.float32)) == pytest.approx(5, rel=1e-5)
    assert effective_rank(np.outer(rng.normal(size=50), rng.normal(size=4)).astype(np.float32)) == pytest.approx(
        1, abs=1e-3
    )


def test_stability_is_one_where_every_run_agrees() -> None:
    assert stability(scale_rows(blobs(0.01)), 2, runs=6) < 0.9  # four groups in two clusters: runs disagree
    assert stability(scale_rows(blobs(0.01)), 4, runs=3) > stability(scale_rows(blobs(0.9)), 4, runs=3)
    assert stability(np.repeat(np.eye(2, dtype=np.float32), 20, axis=0), 2) == pytest.approx(1)


def test_sampled_modularity_with_all_edges_is_modularity() -> None:
    from tuplet.metrics import modularity

    graph = random_graph(90, weighted=False, seed=1)
    z = np.random.default_rng(0).normal(size=(90, 5)).astype(np.float32)
    found = kmeans(z, 3)
    edges = sample_edges(graph, 0, size=10**6)
    assert edges is not None and len(edges) == graph.n_stored
    value = sampled_modularity((z[edges[:, 0]], z[edges[:, 1]]), found)
    assert value == pytest.approx(modularity(graph, found.labels), abs=1e-6)


def test_sampled_edges_are_edges_of_the_graph() -> None:
    graph = random_graph(weighted=True)
    edges = sample_edges(graph, 0, size=20)
    dense = graph.adj.toarray()
    assert edges is not None and edges.shape == (20, 2) and (dense[edges[:, 0], edges[:, 1]] > 0).all()
    assert sample_edges(Graph.from_scipy(np.zeros((3, 3))), 0) is None


def test_the_sample_is_fixed_by_the_seed() -> None:
    assert np.array_equal(sample_rows(9, 0), np.arange(9))
    a = sample_rows(5000, 0, 100)
    assert np.array_equal(a, sample_rows(5000, 0, 100)) and (np.diff(a) > 0).all() and len(a) == 100
    assert not np.array_equal(a, sample_rows(5000, 1, 100))


def test_modularity_without_edges_is_explained() -> None:
    with pytest.raises(InputError, match="needs edges"):
        criterion_values(blobs(0.1), ["modularity"], k=4)
    with pytest.raises(InputError, match="is not known"):
        criterion_values(blobs(0.1), ["sillhouette"], k=4)
