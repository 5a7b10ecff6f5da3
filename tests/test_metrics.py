"""Each metric against an independent truth: scikit-learn, NetworkX, all permutations, all pairs."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
import sklearn.metrics as sk
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import anywhere, random_graph
from tuplet import metrics
from tuplet._check import InputError
from tuplet.graph import Graph

seeds = pytest.mark.parametrize("seed", range(3))


def labels_and_clusters(seed: int, n: int = 60, c: int = 4, k: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, c, n)
    return y, np.where(rng.random(n) < 0.6, (y + 1) % k, rng.integers(0, k, n))


@seeds
@pytest.mark.parametrize(("c", "k"), [(4, 4), (3, 5), (5, 3), (1, 3), (4, 1)])
def test_accuracy_is_the_best_over_all_renamings(seed: int, c: int, k: int) -> None:
    y, clusters = labels_and_clusters(seed, c=c, k=k)
    size = max(c, k)
    best = max(np.mean(np.array(names)[clusters] == y) for names in itertools.permutations(range(size)))
    assert metrics.accuracy(y, clusters) == pytest.approx(best)


@seeds
@pytest.mark.parametrize(("c", "k"), [(4, 4), (3, 5), (5, 3), (1, 1), (1, 3), (4, 1), (60, 60)])
def test_nmi_and_ari_equal_scikit_learns(seed: int, c: int, k: int) -> None:
    y, clusters = labels_and_clusters(seed, c=c, k=k)
    assert metrics.nmi(y, clusters) == pytest.approx(sk.normalized_mutual_info_score(y, clusters), abs=1e-12)
    assert metrics.ari(y, clusters) == pytest.approx(sk.adjusted_rand_score(y, clusters), abs=1e-12)


def test_nmi_and_ari_of_partitions_all_apart() -> None:
    apart = np.arange(9)
    assert metrics.nmi(apart, apart[::-1]) == pytest.approx(1)
    assert metrics.ari(apart, apart[::-1]) == 1
    assert metrics.ari(apart, np.zeros(9, int)) == sk.adjusted_rand_score(apart, np.zeros(9, int)) == 0


@seeds
def test_macro_f1_equals_scikit_learns_after_the_match(seed: int) -> None:
    y, clusters = labels_and_clusters(seed)
    names = max(itertools.permutations(range(4)), key=lambda p: np.mean(np.array(p)[clusters] == y))
    expected = sk.f1_score(y, np.array(names)[clusters], average="macro")
    assert metrics.macro_f1(y, clusters) == pytest.approx(expected)
    assert metrics.macro_f1(y, clusters, match=False) == pytest.approx(sk.f1_score(y, clusters, average="macro"))
    assert metrics.accuracy(y, clusters, match=False) == pytest.approx(np.mean(y == clusters))


def test_macro_f1_counts_a_class_without_cluster_as_zero_and_a_spare_cluster_as_misses() -> None:
    assert metrics.macro_f1([0, 0, 1, 1], [7, 7, 7, 7]) == pytest.approx((2 / 3 + 0) / 2)
    assert metrics.macro_f1([0, 0, 0, 0], [0, 0, 0, 1]) == pytest.approx(2 * 3 / (3 + 4))
    assert metrics.macro_f1([2, 2, 5, 5], [5, 2, 5, 9], match=False) == pytest.approx((2 / 3 + 0.5) / 2)


def test_nodes_of_unknown_label_are_left_out() -> None:
    y, clusters = labels_and_clusters(0)
    hidden = np.where(anywhere(60, 20), -1, y)
    for metric in (metrics.accuracy, metrics.nmi, metrics.ari, metrics.macro_f1):
        assert metric(hidden, clusters) == metric(y[hidden >= 0], clusters[hidden >= 0])


@seeds
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_modularity_equals_networkx(seed: int, weighted: bool, directed: bool) -> None:
    graph = random_graph(seed=seed, weighted=weighted, directed=directed)
    clusters = np.random.default_rng(seed).integers(0, 4, graph.n_nodes)
    kind = nx.DiGraph if directed else nx.Graph
    other = nx.from_scipy_sparse_array(graph.adj.astype(np.float64), create_using=kind)
    parts = [set(np.flatnonzero(clusters == c)) for c in np.unique(clusters)]
    assert metrics.modularity(graph, clusters) == pytest.approx(nx.community.modularity(other, parts), abs=1e-6)


@seeds
@pytest.mark.parametrize("self_loops", [False, True])
def test_modularity_and_conductance_equal_the_dense_formula(seed: int, self_loops: bool) -> None:
    graph = random_graph(seed=seed, weighted=True)
    clusters = np.random.default_rng(seed).integers(3, 7, graph.n_nodes)
    a = graph.adj.toarray().astype(np.float64) + self_loops * np.eye(graph.n_nodes)
    same = clusters[:, None] == clusters
    d, total = a.sum(axis=1), a.sum()
    expected = np.sum((a - np.outer(d, d) / total) * same) / total
    assert metrics.modularity(graph, clusters, self_loops=self_loops) == pytest.approx(expected, abs=1e-6)
    expected = np.sum(a * ~same) / total
    assert metrics.conductance(graph, clusters, self_loops=self_loops) == pytest.approx(expected, abs=1e-6)


def test_one_cluster_has_modularity_and_conductance_zero(small_graph: Graph) -> None:
    one = np.zeros(small_graph.n_nodes, int)
    assert metrics.modularity(small_graph, one) == pytest.approx(0, abs=1e-12)
    assert metrics.conductance(small_graph, one) == 0


def test_graph_without_edges_is_an_error_unless_self_loops_count() -> None:
    graph = Graph.from_scipy(np.zeros((4, 4)))
    for metric in (metrics.modularity, metrics.conductance):
        with pytest.raises(InputError, match="no edges"):
            metric(graph, [0, 0, 1, 1])
    assert metrics.modularity(graph, [0, 0, 1, 1], self_loops=True) == 0.5
    assert metrics.conductance(graph, [0, 0, 1, 1], self_loops=True) == 0


# few distinct values, so that ties are common
score_lists = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=12)


@given(score_lists, score_lists)
@settings(max_examples=60, deadline=None)
def test_link_metrics_equal_their_double_loops(p: list[float], q: list[float]) -> None:
    wins = [1.0 if a > b else 0.5 if a == b else 0.0 for a in p for b in q]
    assert metrics.auc(p, q) == pytest.approx(np.mean(wins))
    truth = [1] * len(p) + [0] * len(q)
    assert metrics.average_precision(p, q) == pytest.approx(sk.average_precision_score(truth, p + q))
    ranks = [1 + sum(b > a for b in q) + sum(b == a for b in q) / 2 for a in p]
    assert metrics.mrr(p, q) == pytest.approx(np.mean([1 / r for r in ranks]))
    assert metrics.mrr(p, np.tile(q, (len(p), 1))) == pytest.approx(metrics.mrr(p, q))
    k = (len(q) + 1) // 2
    assert metrics.hits_at_k(p, q, k) == np.mean([a > sorted(q)[-k] for a in p])


def test_all_equal_scores_say_nothing() -> None:
    assert metrics.auc(np.zeros(5), np.zeros(7)) == 0.5
    assert metrics.average_precision(np.zeros(5), np.zeros(5)) == 0.5
    assert metrics.hits_at_k(np.zeros(5), np.zeros(7), 1) == 0


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: metrics.accuracy([0, 1], [0, 1, 1]), r"shape \(2,\).*\(3,\)"),
        (lambda: metrics.nmi([-1, -1], [0, 1]), "None of the 2 nodes"),
        (lambda: metrics.ari([], []), "integers|None of the 0"),
        (lambda: metrics.macro_f1([0.5, 1.0], [0, 1]), "float64"),
        (lambda: metrics.auc([], [1.0]), "0 positives and 1 negatives"),
        (lambda: metrics.average_precision([np.nan], [1.0]), "NaN"),
        (lambda: metrics.hits_at_k([1.0], [1.0], 5), "at most 1, got 5"),
        (lambda: metrics.mrr([1.0, 2.0], [[1.0]]), "2 positives but 1 rows"),
        (lambda: metrics.modularity(random_graph(), [0, 1]), "30 nodes"),
    ],
)
def test_questions_without_answer_say_why(call, text: str) -> None:
    with pytest.raises(InputError, match=text):
        call()
