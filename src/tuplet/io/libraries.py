"""Doors to other libraries: NetworkX, PyG, igraph, SciPy and data frames <-> Graph. Each imports only its own.

Node ids are the other library's names; they are kept in `graph.ids` unless they are 0, 1, .., n - 1 in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError, need_extra
from tuplet.graph import Graph
from tuplet.io._edges import adjacency, check_weights
from tuplet.io._features import encode_table
from tuplet.io._ids import is_range
from tuplet.io._missing import fill, side_by_side
from tuplet.io._pyg import from_pyg as from_pyg
from tuplet.io._pyg import to_pyg as to_pyg
from tuplet.io._read import read_graph


def from_networkx(
    graph: Any, features: Sequence[str] | None = None, *, label: str | None = None, weight: str | None = None,
    missing: str = "role", scale: bool = True, name: str = "",
) -> Graph:  # fmt: skip
    """A Graph from a NetworkX graph; `features` name node attributes, `label` another, `weight` an edge attribute.

    Attributes become features as columns do in `read_graph`; `scale` False keeps numbers as they are.

    >>> import networkx as nx
    >>> g = nx.karate_club_graph()
    >>> from_networkx(g, label="club", weight="weight")
    Graph(34 nodes, 78 edges, 0 features, 2 classes)
    """
    nodes = list(graph.nodes)
    place = {node: i for i, node in enumerate(nodes)}
    pairs = np.array([(place[u], place[v]) for u, v in graph.edges()], dtype=np.int64).reshape(-1, 2)
    data = None if weight is None else np.array([w for _, _, w in graph.edges(data=weight, default=1.0)], dtype=float)
    rows = [graph.nodes[node] for node in nodes]
    table = {key: [row.get(key) for row in rows] for key in [*(features or ()), *([label] if label else [])]}
    return _from_parts(pairs, data, nodes, table, features, label, bool(graph.is_directed()), missing, scale, name)


def to_networkx(graph: Graph) -> Any:
    """A NetworkX graph: nodes by id with attributes `x` (a NumPy row) and `label`, edges with `weight` if weighted.

    >>> from tuplet import load_dataset
    >>> to_networkx(load_dataset("cora")).number_of_edges()
    5278
    """
    nx = need_extra("networkx", "dev", "to_networkx")
    ids = graph.node_ids.tolist()
    out = nx.DiGraph() if graph.directed else nx.Graph()
    for i, node in enumerate(ids):
        out.add_node(node, **_attributes(graph, i))
    pairs, weights = _edges_of(graph)
    ends = ((ids[u], ids[v]) for u, v in pairs.tolist())
    if weights is None:
        out.add_edges_from(ends)
    else:
        out.add_weighted_edges_from((u, v, w) for (u, v), w in zip(ends, weights.tolist()))
    return out


def from_igraph(
    graph: Any, features: Sequence[str] | None = None, *, label: str | None = None, weight: str | None = None,
    missing: str = "role", scale: bool = True, name: str = "",
) -> Graph:  # fmt: skip
    """A Graph from an igraph graph; `features` and `label` name vertex attributes. Ids are the `name` attribute.

    >>> import igraph
    >>> g = igraph.Graph.Ring(5)
    >>> g.vs["age"] = [1, 2, 3, 4, 5]
    >>> from_igraph(g, ["age"])
    Graph(5 nodes, 5 edges, 1 features)
    """
    known = graph.vs.attributes()
    for key in [*(features or ()), *([label] if label else [])]:
        if key not in known:
            raise InputError(f"The vertices have no attribute {key!r}. They have: {', '.join(known) or 'none'}.")
    nodes = graph.vs["name"] if "name" in known else list(range(graph.vcount()))
    pairs = np.array(graph.get_edgelist(), dtype=np.int64).reshape(-1, 2)
    data = None if weight is None else np.asarray(graph.es[weight], dtype=float)
    table = {key: graph.vs[key] for key in [*(features or ()), *([label] if label else [])]}
    return _from_parts(pairs, data, nodes, table, features, label, bool(graph.is_directed()), missing, scale, name)


def to_igraph(graph: Graph) -> Any:
    """An igraph graph with vertex attributes `name` (if the nodes have ids), `x` (lists), `label`, and edge weights.

    >>> from tuplet import load_dataset
    >>> to_igraph(load_dataset("cora")).ecount()
    5278
    """
    igraph = need_extra("igraph", "dev", "to_igraph")
    pairs, weights = _edges_of(graph)
    out = igraph.Graph(n=graph.n_nodes, edges=pairs.tolist(), directed=graph.directed)
    if graph.ids is not None:
        out.vs["name"] = [str(node) for node in graph.ids]
    x: Any = graph.x
    if x is not None:
        out.vs["x"] = (x.toarray() if sp.issparse(x) else np.asarray(x)).tolist()
    if graph.y is not None:
        out.vs["label"] = graph.y.tolist()
    if weights is not None:
        out.es["weight"] = weights.tolist()
    return out


def to_scipy(graph: Graph) -> tuple[sp.csr_array, Any, NDArray[np.int64] | None]:
    """(adjacency, features, labels) as SciPy and NumPy hold them; `Graph.from_scipy` is the way back.

    >>> from tuplet import load_dataset
    >>> adj, x, y = to_scipy(load_dataset("cora"))
    >>> Graph.from_scipy(adj, x, y)
    Graph(2708 nodes, 5278 edges, 1433 features, 7 classes)
    """
    return graph.adj, graph.x, graph.y


def from_frames(edges: Any, nodes: Any = None, **options: Any) -> Graph:
    """A Graph from pandas, polars or Arrow tables: `read_graph` by another name, with all its options.

    >>> import pandas as pd
    >>> edges = pd.DataFrame({"source": ["a", "b"], "target": ["b", "c"]})
    >>> from_frames(edges, pd.DataFrame({"id": ["a", "b", "c"], "age": [1, 2, 3]}))
    Graph(3 nodes, 2 edges, 1 features)
    """
    return read_graph(edges, nodes, **options)


def to_pandas(graph: Graph) -> tuple[Any, Any]:
    """(edges, nodes) as pandas frames: source, target (, weight); id, the feature columns and label.

    `from_frames(edges, nodes, scale=False)` takes the features as they are.

    >>> from tuplet import load_dataset
    >>> edges, nodes = to_pandas(load_dataset("cora"))
    >>> list(edges.columns), nodes.shape
    (['source', 'target'], (2708, 1435))
    """
    pd = need_extra("pandas", "dev", "to_pandas")
    pairs, weights = _edges_of(graph)
    ids = graph.node_ids
    edges = {"source": ids[pairs[:, 0]], "target": ids[pairs[:, 1]]}
    nodes = pd.DataFrame({"id": ids})
    x: Any = graph.x
    if x is not None:
        names = graph.feature_names or tuple(f"x{i}" for i in range(graph.n_features))
        nodes = pd.concat([nodes, pd.DataFrame(x.toarray() if sp.issparse(x) else x, columns=list(names))], axis=1)
    if graph.y is not None:
        nodes["label"] = graph.y
    return pd.DataFrame(edges if weights is None else {**edges, "weight": weights}), nodes


def _from_parts(
    pairs: NDArray[np.int64], weights: Any, nodes: list[Any], table: dict[str, list[Any]],
    features: Sequence[str] | None, label: str | None, directed: bool, missing: str, scale: bool, name: str,
) -> Graph:  # fmt: skip
    from tuplet.io._nodes import classes
    from tuplet.io._tables import open_table

    check_weights(weights)
    adj = adjacency(pairs[:, 0], pairs[:, 1], weights, len(nodes), directed)
    x, y, prepared = None, None, None
    names: tuple[str, ...] = ()
    label_names: tuple[str, ...] = ()
    if features:
        whole = open_table({key: table[key] for key in features}, "The nodes").read()
        encoded = encode_table(
            lambda: [whole], whole.column_names, chosen=True, scale=scale, missing=missing, what="the nodes"
        )
        names, prepared, (blocks,) = encoded.names, encoded.preparation, encoded.chunks()
        x = side_by_side([fill(block, missing, adj) for block in blocks])
    if label is not None:
        y, label_names = classes(open_table({label: table[label]}, "The labels").read().column(0), label)
    ids = _ids(nodes)
    return Graph.from_scipy(
        adj, x, y, ids=ids, directed=directed, name=name, label_names=label_names, feature_names=names,
        preparation=prepared,
    )  # fmt: skip


def _ids(nodes: list[Any]) -> NDArray[Any] | None:
    kinds = {type(node) for node in nodes}
    whole = kinds <= {int, np.int64, np.int32}
    ids = np.asarray(nodes) if whole else np.asarray([str(node) for node in nodes])
    return None if is_range(ids) else ids


def _edges_of(graph: Graph) -> tuple[NDArray[np.int64], NDArray[Any] | None]:
    """Each edge once, with its weight."""
    pairs = graph.edges()
    if graph.weights is None:
        return pairs, None
    return pairs, np.asarray(graph.adj[pairs[:, 0], pairs[:, 1]]).ravel()


def _attributes(graph: Graph, node: int) -> dict[str, Any]:
    x: Any = graph.x
    out: dict[str, Any] = {}
    if x is not None:
        out["x"] = x[[node]].toarray()[0] if sp.issparse(x) else np.array(x[node])
    if graph.y is not None:
        out["label"] = int(graph.y[node])
    return out
