"""Graphs of other libraries: `fit` takes them, and the way there and back keeps features and labels."""

import logging

import numpy as np
import pytest
import scipy.sparse as sp

from tests.conftest import random_graph
from tuplet import Graph, SelfDMAT
from tuplet.baselines import FilterSVD


def dense(x) -> np.ndarray:
    return x.toarray() if sp.issparse(x) else np.asarray(x)


def bag(graph: Graph) -> Graph:
    x = (np.random.default_rng(1).random((graph.n_nodes, 40)) < 0.1).astype(np.float32)
    x[:, 0] = 1
    return graph.with_(x=sp.csr_array(x), feature_names=())


DOORS = {"networkx": "networkx", "igraph": "igraph", "pyg": "torch_geometric"}


@pytest.mark.parametrize("make", [random_graph, lambda: bag(random_graph())], ids=["dense", "sparse"])
@pytest.mark.parametrize("door", DOORS)
def test_fit_of_another_librarys_graph_is_fit_of_ours(door, make):
    pytest.importorskip(DOORS[door])
    graph = make()
    other = getattr(graph, f"to_{door}")()
    options = {} if door == "pyg" else {"features": ["x"], "label": "label"}
    back = getattr(Graph, f"from_{door}")(other, **options)
    np.testing.assert_array_equal(dense(back.x), dense(graph.x))
    np.testing.assert_array_equal(back.y, graph.y)
    assert (back.adj != graph.adj).nnz == 0
    ours = FilterSVD(4, seed=0).fit(graph).embedding_
    theirs = FilterSVD(4, seed=0).fit(other).embedding_
    np.testing.assert_allclose(theirs, ours, atol=1e-5)


def test_fit_takes_an_adjacency_alone():
    graph = random_graph(60).with_(x=None)
    found = SelfDMAT(3, seed=0).fit(graph.adj)
    np.testing.assert_array_equal(found.labels_, SelfDMAT(3, seed=0).fit(graph).labels_)


def test_attributes_that_are_not_used_are_named(caplog):
    nx = pytest.importorskip("networkx")
    with caplog.at_level(logging.WARNING, logger="tuplet"):
        FilterSVD(4).fit(nx.karate_club_graph())
    assert "node attributes club are not used" in caplog.text
