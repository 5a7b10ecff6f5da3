"""Cluster descriptions and missing links against slow, obvious twins."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp

from tests.conftest import random_graph
from tuplet import Graph, InputError
from tuplet.evaluation import missing_links as links_module
from tuplet.evaluation.describe import describe_clusters
from tuplet.evaluation.missing_links import missing_links


def words_graph() -> Graph:
    """Two groups of nodes with their own words, and one word that all have."""
    x = np.array([[1, 0, 0, 1], [1, 0, 0, 1], [1, 1, 0, 1], [0, 1, 0, 1], [0, 1, 1, 1], [0, 1, 0, 1]], np.float32)
    adj = np.zeros((6, 6))
    for u, v in [(0, 1), (1, 2), (3, 4), (4, 5), (2, 3)]:
        adj[u, v] = 1
    names = ("graph", "loss", "rare", "the")
    return Graph.from_scipy(
        adj, x, [0, 0, 1, 1, 1, -1], ids=list("abcdef"), label_names=("red", "blue"), feature_names=names
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_a_cluster_is_told_by_its_words_nodes_edges_and_classes(sparse: bool) -> None:
    g = words_graph()
    g = g.with_(x=sp.csr_array(g.x)) if sparse else g
    z = np.array([[1, 0], [1, 0.1], [1, 0.4], [0, 1], [0.1, 1], [0.3, 1]], np.float32)
    one, two = describe_clusters(z, [0, 0, 0, 5, 5, 5], g, medoids=1)
    assert (one.cluster, one.size, one.share, one.nearest) == (0, 3, 0.5, 5)
    assert one.medoids == ("b",) and two.medoids == ("e",)
    mark = one.marks[0]
    assert (mark.name, mark.inside, mark.overall, mark.lift) == ("graph", 1.0, 0.5, 2.0)
    assert two.marks[0].name == "loss" and "the" not in {m.name for m in one.marks + two.marks}
    assert one.inner == pytest.approx(4 / 5) and one.classes == (("red", 2 / 3), ("blue", 1 / 3))
    assert two.classes == (("blue", 1.0),)
    assert 0 < one.confidence < 1


def test_numbers_are_told_by_the_shift_of_their_mean() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3)).astype(np.float32)
    x[:50, 1] -= 4
    g = Graph.from_scipy(sp.csr_array((200, 200)), x, feature_names=("a", "b", "c"))
    first = describe_clusters(x, np.repeat([0, 1], [50, 150]), g)[0]
    mark = first.marks[0]
    expected = (x[:50, 1].mean() - x[:, 1].mean()) / x[:, 1].std()
    assert mark.name == "b" and mark.lift == pytest.approx(expected, rel=1e-4)
    assert mark.inside == pytest.approx(x[:50, 1].mean(), rel=1e-5)
    assert first.inner is None and first.classes == ()


def test_one_cluster_has_no_nearest_and_clusters_must_fit() -> None:
    z = np.eye(3)
    assert describe_clusters(z, [0, 0, 0])[0].nearest is None
    with pytest.raises(InputError, match=r"clusters has shape \(2,\)"):
        describe_clusters(z, [0, 1])


def naive_missing(z: np.ndarray, g: Graph, top: int) -> list[tuple[int, int]]:
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    adj = g.adj.toarray() + g.adj.toarray().T
    free = [(u, v) for u, v in combinations(range(g.n_nodes), 2) if not adj[u, v]]
    return sorted(free, key=lambda pair: (-float(unit[pair[0]] @ unit[pair[1]]), pair))[:top]


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("side", [7, 2048])
@pytest.mark.parametrize("top", [1, 20, 1000])
def test_missing_links_are_the_best_pairs_without_an_edge(
    directed: bool, side: int, top: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links_module, "_SIDE", side)
    g = random_graph(n=40, seed=3, directed=directed)
    z = np.random.default_rng(1).normal(size=(40, 5)).astype(np.float32)
    found = missing_links(z, g, top)
    assert found.exact and found.pairs.tolist() == [list(pair) for pair in naive_missing(z, g, top)]
    assert (np.diff(found.score) <= 0).all()


def test_ties_come_in_node_order_whatever_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    g = Graph.from_scipy(sp.csr_array((30, 30)))
    z = np.ones((30, 2), np.float32)
    for side in (3, 8, 100):
        monkeypatch.setattr(links_module, "_SIDE", side)
        assert missing_links(z, g, 3).pairs.tolist() == [[0, 1], [0, 2], [0, 3]]


def test_cells_find_what_all_pairs_find(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    z = (np.repeat(rng.normal(size=(20, 8)), 30, axis=0) + 0.1 * rng.normal(size=(600, 8))).astype(np.float32)
    g = random_graph(n=600, p=0.02, seed=0)
    every = missing_links(z, g, 50)
    monkeypatch.setattr(links_module, "EXACT_UP_TO", 100)
    cells = missing_links(z, g, 50)
    assert not cells.exact
    assert len({*map(tuple, every.pairs.tolist())} & {*map(tuple, cells.pairs.tolist())}) >= 48
    assert len({*map(tuple, cells.pairs.tolist())}) == 50
