"""Splits: sizes, coverage, seeds, and that nothing held out stays in the training graph."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tests.conftest import anywhere, random_graph
from tuplet._check import InputError
from tuplet.graph import Graph
from tuplet.graph.edges import edge_blocks, has_edges, joined
from tuplet.graph.splits import rewire, sample_non_edges, split_edges, split_nodes, with_edges, without_edges

kinds = pytest.mark.parametrize(
    ("weighted", "directed"), [(False, False), (True, False), (False, True), (True, True)]
)


def test_node_split_covers_the_labelled_nodes_once() -> None:
    y = np.where(anywhere(200, 20), -1, np.arange(200) % 3)
    split = split_nodes(y, train=0.2, val=0.1, seed=1)
    assert (len(split.train), len(split.val), len(split.test)) == (36, 18, 126)
    together = np.concatenate([split.train, split.val, split.test])
    assert np.array_equal(np.sort(together), np.flatnonzero(y >= 0))


def test_node_split_depends_on_the_seed_alone() -> None:
    y = np.arange(100) % 4
    assert np.array_equal(split_nodes(y, seed=3).train, split_nodes(y, seed=3).train)
    assert not np.array_equal(split_nodes(y, seed=3).train, split_nodes(y, seed=4).train)


@pytest.mark.parametrize("seed", range(5))
def test_each_class_is_in_train(seed: int) -> None:
    rare = np.r_[np.zeros(90, int), np.ones(9, int), 2]  # resampling finds class 2
    many = np.r_[np.zeros(60, int), np.arange(1, 21)]  # no draw of 24 has all 20 singletons: they are swapped in
    assert set(rare[split_nodes(rare, train=0.1, seed=seed).train]) == {0, 1, 2}
    split = split_nodes(many, train=0.3, val=0.1, seed=seed)
    assert set(many[split.train]) == set(range(21))
    assert (len(split.train), len(split.val), len(split.test)) == (24, 8, 48)
    assert len(np.unique(np.concatenate([split.train, split.val, split.test]))) == 80


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"train": 0.6, "val": 0.5}, "train=0.6, val=0.5 leave no"),
        ({"train": 0.01}, "for 4 classes"),
        ({"train": -0.1}, "train must lie in"),
    ],
)
def test_impossible_node_splits_say_why(arguments: dict, text: str) -> None:
    with pytest.raises(InputError, match=text):
        split_nodes(np.arange(100) % 4, **arguments)


@kinds
def test_training_graph_is_the_graph_less_the_held_out_pairs(weighted: bool, directed: bool) -> None:
    graph = random_graph(40, weighted=weighted, directed=directed).with_(ids=np.arange(40) * 3, name="g")
    split = split_edges(graph, val=0.1, test=0.2, seed=2)
    held = np.concatenate([split.val, split.test])
    expected = graph.adj.toarray()
    expected[held[:, 0], held[:, 1]] = expected[held[:, 1], held[:, 0]] = 0
    assert np.array_equal(split.graph.adj.toarray(), expected)
    assert split.graph.indices.dtype == graph.indices.dtype
    assert split.graph.x is graph.x and split.graph.y is graph.y and split.graph.ids is graph.ids
    assert joined(graph, held).all() and split.leaked(split.graph) == 0 and split.leaked(graph) == len(held)
    assert split.graph.fingerprint() != graph.fingerprint()


@kinds
def test_held_out_pairs_and_non_edges_are_distinct_and_true(weighted: bool, directed: bool) -> None:
    graph = random_graph(40, weighted=weighted, directed=directed)
    split = split_edges(graph, val=0.1, test=0.2, seed=2)
    dense = graph.adj.toarray()
    either = (dense + dense.T) > 0
    pairs = np.concatenate([split.val, split.test, split.val_non_edges, split.test_non_edges])
    assert (pairs[:, 0] < pairs[:, 1]).all() and len(np.unique(pairs, axis=0)) == len(pairs)
    half = len(pairs) // 2
    assert either[pairs[:half, 0], pairs[:half, 1]].all() and not either[pairs[half:, 0], pairs[half:, 1]].any()
    n_pairs = np.triu(either).sum()
    assert (len(split.val), len(split.test)) == (round(0.1 * n_pairs), round(0.2 * n_pairs))
    assert len(split.val_non_edges) == len(split.val) and len(split.test_non_edges) == len(split.test)


def test_edge_split_depends_on_the_seed_alone() -> None:
    graph = random_graph(40)
    a, b, c = (split_edges(graph, seed=s, val=0.1, test=0.2) for s in (1, 1, 2))
    assert np.array_equal(a.test, b.test) and np.array_equal(a.test_non_edges, b.test_non_edges)
    assert not np.array_equal(a.test, c.test)


def test_every_edge_is_held_out_equally_often() -> None:
    graph = random_graph(12, p=0.3)
    counts = np.zeros((12, 12))
    for seed in range(600):
        held = split_edges(graph, val=0.1, test=0.2, seed=seed).test
        counts[held[:, 0], held[:, 1]] += 1
    hits = counts[np.triu(graph.adj.toarray()) > 0]
    expected = hits.mean()
    assert abs(hits - expected).max() < 5 * np.sqrt(expected)  # binomial deviation is below sqrt(mean)


def test_non_edges_are_equally_likely_also_when_few_are_left() -> None:
    dense = Graph.from_scipy(np.triu(np.ones((8, 8)), 1) - sp.coo_array(([1, 1, 1], ([0, 2, 5], [1, 6, 7])), (8, 8)))
    pairs = sample_non_edges(dense, 3, np.random.default_rng(0))
    assert sorted(map(tuple, pairs.tolist())) == [(0, 1), (2, 6), (5, 7)]
    with pytest.raises(InputError, match="only 3 pairs"):
        sample_non_edges(dense, 4, np.random.default_rng(0))
    path = random_graph(12, p=0.1)
    counts = np.zeros((12, 12))
    for seed in range(500):
        u, v = sample_non_edges(path, 5, np.random.default_rng(seed)).T
        counts[u, v] += 1
    free = np.triu(path.adj.toarray() == 0, 1)
    assert counts[~free].sum() == 0
    assert abs(counts[free] - counts[free].mean()).max() < 5 * np.sqrt(counts[free].mean())


@pytest.mark.parametrize("directed", [False, True])
def test_lookup_and_blocks_agree_with_the_dense_matrix(directed: bool) -> None:
    graph = random_graph(25, p=0.2, directed=directed)
    dense = graph.adj.toarray() > 0
    pairs = np.column_stack([g.ravel() for g in np.mgrid[0:25, 0:25]])
    assert np.array_equal(has_edges(graph, pairs).reshape(25, 25), dense)
    assert np.array_equal(joined(graph, pairs).reshape(25, 25), dense | dense.T)
    for size in (1, 7, 10**6):
        seen = np.zeros_like(dense)
        for part, source in edge_blocks(graph, size):
            seen[source, graph.indices[part]] = True
        assert np.array_equal(seen, dense)


def test_rewired_graph_keeps_the_training_part_and_moves_the_rest() -> None:
    graph = random_graph(40)
    split = split_edges(graph, val=0.1, test=0.2)
    moved = rewire(graph, split, seed=1)
    assert moved.n_edges == graph.n_edges and split.leaked(moved) == 0
    assert joined(moved, split.train).all()


@kinds
def test_edges_come_and_go(weighted: bool, directed: bool) -> None:
    graph = random_graph(20, weighted=weighted, directed=directed)
    pairs = sample_non_edges(graph, 5, np.random.default_rng(0))
    more = with_edges(graph, pairs)
    expected = graph.adj.toarray()
    expected[pairs[:, 0], pairs[:, 1]] = 1
    if not directed:
        expected[pairs[:, 1], pairs[:, 0]] = 1
    assert np.array_equal(more.adj.toarray(), expected)
    assert without_edges(more, pairs).fingerprint() == graph.fingerprint()
    assert without_edges(graph, np.empty((0, 2), np.int64)).fingerprint() == graph.fingerprint()


def test_too_few_edges_say_so() -> None:
    with pytest.raises(InputError, match="at least one"):
        split_edges(Graph.from_scipy(np.zeros((4, 4))))
    with pytest.raises(InputError, match="at least one: give larger"):
        split_edges(random_graph(), test=0)


def test_memory_maps_are_split_like_arrays(tmp_path) -> None:
    graph = random_graph(40)
    np.save(tmp_path / "indices.npy", graph.indices)
    mapped = graph.with_(indices=np.load(tmp_path / "indices.npy", mmap_mode="r"))
    a, b = (split_edges(g, val=0.1, test=0.2) for g in (graph, mapped))
    assert np.array_equal(a.test, b.test) and a.graph.fingerprint() == b.graph.fingerprint()
