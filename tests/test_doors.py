"""Graphs of other libraries in and out: the same arrays after a round trip."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import igraph
import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch

from tests.conftest import random_graph
from tuplet import Graph, InputError
from tuplet.io.libraries import (
    from_frames,
    from_igraph,
    from_networkx,
    from_pyg,
    to_igraph,
    to_networkx,
    to_pandas,
    to_pyg,
)

CASES = [{}, {"weighted": True}, {"directed": True}, {"weighted": True, "directed": True}]


def sample(**options: Any) -> Graph:
    g = random_graph(**options)
    return g.with_(ids=np.array([f"node {i}" for i in range(g.n_nodes)]))


def same(a: Graph, b: Graph) -> bool:
    return a.fingerprint() == b.fingerprint() and np.array_equal(a.y, b.y) and np.array_equal(a.node_ids, b.node_ids)


@pytest.mark.parametrize("options", CASES)
def test_networkx_round_trip(options: dict[str, bool]) -> None:
    g = sample(**options)
    back = from_networkx(to_networkx(g), ["x"], label="label", weight="weight" if options.get("weighted") else None)
    assert same(back, g)


@pytest.mark.parametrize("options", CASES)
def test_igraph_round_trip(options: dict[str, bool]) -> None:
    g = sample(**options)
    other = to_igraph(g)
    other.vs["x"] = [row.tolist() for row in g.x]
    assert same(from_igraph(other, ["x"], label="label", weight="weight" if options.get("weighted") else None), g)


@pytest.mark.parametrize("options", CASES)
def test_pandas_round_trip(options: dict[str, bool]) -> None:
    g = sample(**options)
    edges, nodes = to_pandas(g)
    back = from_frames(edges, nodes, label="label", directed=g.directed, unmatched="keep", scale=False)
    assert same(back, g)


@pytest.mark.slow
@pytest.mark.parametrize("options", CASES)
def test_pyg_round_trip(options: dict[str, bool]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pytest.importorskip("torch_geometric.data")
    g = random_graph(**options)
    assert same(from_pyg(to_pyg(g), directed=g.directed), g)
    sparse = g.with_(x=sp.csr_array(g.x))
    back = from_pyg(to_pyg(sparse))
    assert sp.issparse(back.x) and same(back.with_(x=back.x.toarray()), g)


def test_pyg_data_is_read_by_its_attributes() -> None:
    data = SimpleNamespace(
        edge_index=torch.tensor([[0, 1, 1, 2, 2], [1, 0, 2, 1, 2]]),
        edge_attr=torch.tensor([[0.5], [0.5], [2.0], [2.0], [1.0]]),
        x=torch.arange(8.0).reshape(4, 2),
        y=torch.tensor([0, 1, 1, -1]),
        num_nodes=4,
        is_undirected=lambda: True,
    )
    g = from_pyg(data)
    assert g.adj.toarray().tolist() == [[0, 0.5, 0, 0], [0.5, 0, 2, 0], [0, 2, 0, 0], [0, 0, 0, 0]]
    assert g.x.tolist() == data.x.tolist() and g.y.tolist() == [0, 1, 1, -1] and not g.directed
    data.edge_attr = torch.tensor([-1.0, 1, 1, 1, 1])
    with pytest.raises(InputError, match="weight -1"):
        from_pyg(data)


def test_networkx_attributes_of_every_kind() -> None:
    other = nx.Graph()
    other.add_node("a", age=3, city="Rome", tags=["x"])
    other.add_node("b", age=4, city="Oslo", tags=["x", "y"])
    other.add_node(("c", 1), age=None, city="Rome", tags=[])
    other.add_edges_from([("a", "b"), ("b", ("c", 1)), ("b", "b")])
    with pytest.raises(InputError, match="'age' of the nodes misses 1 of 3"):
        from_networkx(other, ["age"], missing="error")
    g = from_networkx(other, ["age", "city", "tags"], missing="propagate", scale=False)
    assert g.feature_names == ("age", "city=Oslo", "city=Rome", "tags:x", "tags:y")
    assert g.x.tolist() == [[3, 0, 1, 1, 0], [4, 1, 0, 1, 1], [4, 0, 1, 0, 0]]
    assert g.node_ids.tolist() == ["a", "b", "('c', 1)"] and g.edges().tolist() == [[0, 1], [1, 2]]


def test_networkx_multigraphs_merge_their_edges() -> None:
    g = from_networkx(nx.MultiGraph([(0, 1), (0, 1), (1, 2)]))
    assert g.edges().tolist() == [[0, 1], [1, 2]] and g.ids is None and g.weights is None


def test_unknown_igraph_attributes_are_named() -> None:
    with pytest.raises(InputError, match=r"no attribute 'age'. They have: none"):
        from_igraph(igraph.Graph.Ring(4), ["age"])


def test_graph_has_the_doors_as_methods() -> None:
    g = sample()
    assert same(Graph.from_networkx(g.to_networkx(), ["x"], label="label"), g)
    edges, nodes = g.to_pandas()
    assert same(Graph.from_frames(edges, nodes, label="label", unmatched="keep", scale=False), g)
    assert Graph.from_igraph(g.to_igraph()).edges().tolist() == g.edges().tolist()
