"""Doors to other libraries: NetworkX, PyG, igraph, SciPy and data frames <-> Graph. Each imports only its own.

Node ids are the other library's names; they are kept in `graph.ids` unless they are 0, 1, .., n - 1 in order.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError, need_extra
from tuplet.graph import Graph
from tuplet.io._edges import adjacency
from tuplet.io._features import encode
from tuplet.io._ids import is_range
from tuplet.io._missing import fill, side_by_side
from tuplet.io._read import read_graph

log = logging.getLogger("tuplet")


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
    """An igraph graph with vertex attributes `name` (if the nodes have ids) and `label`, and edge weights.

    >>> from tuplet import load_dataset
    >>> to_igraph(load_dataset("cora")).ecount()
    5278
    """
    igraph = need_extra("igraph", "dev", "to_igraph")
    pairs, weights = _edges_of(graph)
    out = igraph.Graph(n=graph.n_nodes, edges=pairs.tolist(), directed=graph.directed)
    if graph.ids is not None:
        out.vs["name"] = [str(node) for node in graph.ids]
    if graph.y is not None:
        out.vs["label"] = graph.y.tolist()
    if weights is not None:
        out.es["weight"] = weights.tolist()
    return out


def from_pyg(data: Any, *, directed: bool | None = None, name: str = "") -> Graph:
    """A Graph from a PyG `Data`: edge_index, x, y, and edge_weight or a one-column edge_attr.

    `directed` None asks the data whether its edges are symmetric. train_mask, val_mask and test_mask become the split
    (of several, the first); ids, names and sparse features that `to_pyg` wrote come back. A log line tells what else
    the data holds, since a Graph has no place for it.

    >>> import torch
    >>> from torch_geometric.data import Data  # doctest: +SKIP
    >>> from_pyg(Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])))  # doctest: +SKIP
    Graph(3 nodes, 2 edges, 3 features)
    """
    if getattr(data, "edge_index", None) is None:
        raise InputError("The PyG data has no edge_index. Give a homogeneous Data object with edges.")
    pairs = data.edge_index.detach().cpu().numpy().T
    weights = getattr(data, "edge_weight", None)
    if weights is None and getattr(data, "edge_attr", None) is not None and data.edge_attr.squeeze().ndim == 1:
        weights = data.edge_attr.squeeze()
    values = None if weights is None else weights.detach().cpu().numpy().astype(np.float64)
    _check_weights(values)
    n = int(data.num_nodes)
    if directed is None:
        told = getattr(data, "directed", None)
        directed = not bool(data.is_undirected()) if told is None else bool(told)
    adj = adjacency(pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.int64), values, n, directed)
    names: Any = {key: tuple(getattr(data, key, None) or ()) for key in ("label_names", "feature_names")}
    ids = None if getattr(data, "ids", None) is None else np.asarray(data.ids)
    found = Graph.from_scipy(
        adj, _pyg_features(data), _pyg_labels(data), ids=ids, directed=directed,
        name=name or str(getattr(data, "name", None) or ""), **names,
    )  # fmt: skip
    _tell_left_out(data)
    return found.with_(split=_pyg_split(data))


def to_pyg(graph: Graph) -> Any:
    """A PyG `Data` with edge_index (both directions of an undirected edge), x (dense), y and edge_weight.

    What else the graph holds goes along: the split as masks, and ids, names, label_names, feature_names, directed.

    >>> from tuplet import load_dataset
    >>> to_pyg(load_dataset("cora")).num_edges  # doctest: +SKIP
    10556
    """
    import torch

    with warnings.catch_warnings():  # what its import warns of is not the caller's to mend
        warnings.simplefilter("ignore", DeprecationWarning)
        data = need_extra("torch_geometric.data", "baselines", "to_pyg")

    source = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))
    index = torch.from_numpy(np.stack([source, graph.indices.astype(np.int64)]))
    out = data.Data(edge_index=index, num_nodes=graph.n_nodes, directed=graph.directed)
    x: Any = graph.x
    if x is not None:
        out.x = torch.from_numpy(x.toarray() if sp.issparse(x) else np.array(x))
        out.sparse_features = bool(sp.issparse(x))
    if graph.y is not None:
        out.y = torch.from_numpy(np.array(graph.y))
    if graph.weights is not None:
        out.edge_weight = torch.from_numpy(np.array(graph.weights))
    for part, nodes in zip(_MASKS, graph.split or ()):
        out[part] = torch.from_numpy(np.isin(np.arange(graph.n_nodes), nodes))
    if graph.ids is not None:
        out.ids = graph.ids.tolist()
    for key in ("name", "label_names", "feature_names"):
        if getattr(graph, key):
            out[key] = getattr(graph, key) if key == "name" else list(getattr(graph, key))
    return out


_MASKS = ("train_mask", "val_mask", "test_mask")
_KNOWN = {"edge_index", "x", "y", "edge_weight", "edge_attr", "num_nodes", "directed", "sparse_features", "ids",
          "name", "label_names", "feature_names", *_MASKS}  # fmt: skip


def _pyg_features(data: Any) -> Any:
    """x as PyG holds it; CSR where it is a sparse tensor, or was sparse before `to_pyg`."""
    if data.x is None:
        return None
    x = data.x.detach().cpu()
    if x.is_sparse or x.is_sparse_csr:
        coo = x.to_sparse_coo().coalesce()
        places = tuple(coo.indices().numpy())
        return sp.csr_array((coo.values().numpy(), places), shape=tuple(x.shape))
    return sp.csr_array(x.numpy()) if bool(getattr(data, "sparse_features", False)) else x.numpy()


def _pyg_labels(data: Any) -> Any:
    """y as whole numbers; -1 where it is NaN."""
    if getattr(data, "y", None) is None:
        return None
    y = data.y.detach().cpu().numpy()
    if y.ndim > 1 and y.shape[1] != 1:
        raise InputError(
            f"data.y has shape {y.shape}: several labels a node. Give one label a node, or data.y = None."
        )
    y = y.reshape(-1)
    if y.dtype.kind == "f" and (np.isnan(y) | (y == np.round(y))).all():
        y = np.where(np.isnan(y), -1, y).astype(np.int64)
    return y


def _pyg_split(data: Any) -> Any:
    masks: list[Any] = [getattr(data, part, None) for part in _MASKS]
    if any(mask is None for mask in masks):
        return None
    columns = [mask.detach().cpu().numpy().reshape(len(mask), -1)[:, 0] for mask in masks]
    return tuple(np.flatnonzero(column) for column in columns)


def _tell_left_out(data: Any) -> None:
    others = sorted(set(data.to_dict()) - _KNOWN) if hasattr(data, "to_dict") else []
    if others:
        log.info("a Graph has no place for %s of the PyG data", ", ".join(others))


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

    _check_weights(weights)
    adj = adjacency(pairs[:, 0], pairs[:, 1], weights, len(nodes), directed)
    x, y, prepared = None, None, None
    names: tuple[str, ...] = ()
    label_names: tuple[str, ...] = ()
    if features:
        whole = open_table({key: table[key] for key in features}, "The nodes").read()
        encoded = encode(
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


def _check_weights(weights: Any) -> None:
    if weights is not None and len(weights) and (not np.isfinite(weights).all() or weights.min() < 0):
        raise InputError(f"The edges hold the weight {weights.min():g}. Weights must be finite and 0 or more.")


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
