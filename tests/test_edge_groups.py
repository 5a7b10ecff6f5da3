"""The number of groups that the edges tell apart."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tests.conftest import random_graph
from tuplet import SelfDMAT
from tuplet.graph import Graph
from tuplet.graph.synth import block_model
from tuplet.models import _edge_groups
from tuplet.models._edge_groups import EdgeGroups, edge_groups


def families(seed: int = 0, n: int = 720) -> Graph:
    """Nine groups in three families: of a node's 20 edges 13 stay in its group, five more in its family."""
    rng, group = np.random.default_rng(seed), np.arange(n) % 9
    pairs = []
    for share, size in ((13, 9), (5, 3), (2, 1)):
        for _ in range(share):
            target = rng.integers(n // size, size=n) * size + (group % size)
            pairs.append(np.stack([np.arange(n), target]))
    source, target = np.hstack(pairs)
    adj = sp.coo_array((np.ones(source.size), (source, target)), shape=(n, n))
    words = rng.random((n, 90)) < 0.05
    words[np.arange(n), 30 * (group % 3) + rng.integers(30, size=n)] = True  # the words tell families
    return Graph.from_scipy(adj, words.astype(np.float32), group)


def slow_count(graph: Graph) -> int:
    """Negative eigenvalues of the Bethe Hessian, all of them computed."""
    adj = (graph.adj.toarray() != 0).astype(float)
    adj = np.maximum(adj, adj.T)
    d = adj.sum(1)
    r = np.sqrt((d**2).sum() / d.sum() - 1)
    return int((np.linalg.eigvalsh((r**2 - 1) * np.eye(len(d)) - r * adj + np.diag(d)) < 0).sum())


@pytest.mark.parametrize("k", [2, 3, 7, 20])
def test_groups_of_a_block_model_are_counted(k: int) -> None:
    graph = block_model([40] * k, structure=0.9, mean_degree=14, seed=k)
    assert edge_groups(graph, 100, seed=0) == EdgeGroups(slow_count(graph), True) == EdgeGroups(k, True)


def test_directions_weights_and_lone_nodes_change_nothing() -> None:
    graph = block_model([60, 60, 60], seed=0)
    rng, one_way = np.random.default_rng(0), sp.triu(graph.adj).tocsr()
    one_way.data = rng.random(one_way.nnz).astype(np.float32) + 0.1
    wide = sp.block_diag([one_way, sp.csr_array((4, 4))]).tocsr()
    directed = Graph.from_scipy(wide, directed=True)
    assert directed.directed and edge_groups(directed, 20, seed=0) == edge_groups(graph, 20, seed=0) == EdgeGroups(
        3, True
    )


def test_edges_without_groups_or_without_a_gap_are_not_clear() -> None:
    assert edge_groups(random_graph(n=400, f=3), 20, seed=0) == EdgeGroups(1, False)
    ring = np.arange(600)  # groups inside of groups, of every size
    near = sp.coo_array((np.ones(1800), (np.tile(ring, 3), np.concatenate([(ring + s) % 600 for s in (1, 2, 3)]))))
    found = edge_groups(Graph.from_scipy(near), 40, seed=0)
    assert found is not None and found.count > 10 and not found.clear
    assert edge_groups(Graph.from_scipy(sp.csr_array((50, 50))), 20, seed=0) is None
    path = sp.coo_array((np.ones(9), (np.arange(9), np.arange(1, 10))), shape=(10, 10))
    assert edge_groups(Graph.from_scipy(path), 20, seed=0) is None


def test_more_groups_than_asked_for_or_a_large_graph_are_not_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = block_model([40] * 12, structure=0.9, mean_degree=14, seed=1)
    assert edge_groups(graph, 12, seed=0) == EdgeGroups(12, True)
    assert edge_groups(graph, 11, seed=0) == EdgeGroups(12, False)
    monkeypatch.setattr(_edge_groups, "_MOST_STORED", graph.n_stored - 1)
    assert edge_groups(graph, 12, seed=0) is None


def test_groups_in_families_are_found_and_the_families_are_in_the_range() -> None:
    graph = families()
    assert edge_groups(graph, 100, seed=0) == EdgeGroups(9, True)
    model = SelfDMAT(max_steps=1, n_init=1, detail=16).fit(graph.with_(y=None))
    assert model.n_clusters_ == 9 and model.k_range_[0] <= 3 and model.k_range_[1] >= 9 and not model.k_sure_
