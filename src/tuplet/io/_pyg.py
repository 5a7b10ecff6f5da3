"""PyG's `Data` <-> Graph; `io.libraries` offers both."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from tuplet._check import InputError, need_extra
from tuplet.graph import Graph
from tuplet.io._edges import adjacency, check_weights

log = logging.getLogger("tuplet")


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
    check_weights(values)
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
