"""What `fit` and `transform` are given, checked: a graph, and the feature columns that a model knows."""

from __future__ import annotations

import logging
from typing import Any

import scipy.sparse as sp

from tuplet._check import InputError
from tuplet.graph import Graph

log = logging.getLogger("tuplet")


def check_columns(model: Any, graph: Graph) -> None:
    """Raise unless `graph` has the feature columns that `model` was fitted on: their number, names where known."""
    fitted = int(model.n_features_in_)
    if graph.n_features != fitted:
        raise InputError(
            f"The graph has {graph.n_features} feature columns but the model was fitted on {fitted}. "
            "Give the same columns in the same order."
        )
    names = tuple(getattr(model, "feature_names_in_", ()))
    if names and graph.feature_names and names != graph.feature_names:
        place = next(i for i, (a, b) in enumerate(zip(names, graph.feature_names)) if a != b)
        raise InputError(
            f"Feature column {place} of the graph is {graph.feature_names[place]!r}, but the model was fitted on "
            f"{names[place]!r} there. Give the same columns in the same order."
        )


def as_graph(X: Any, adjacency: Any = None) -> Graph:
    """The graph that `fit` and `transform` were given: a `Graph`, another library's, or features and adjacency."""
    if adjacency is None:
        return X if isinstance(X, Graph) else _from_library(X)
    if isinstance(X, Graph):
        raise InputError("Both a Graph and adjacency= were given. Give the Graph alone, or features and adjacency.")
    return Graph.from_scipy(adjacency, X)


def with_structure(graph: Graph, seed: int) -> Graph:
    """`graph` with structural columns for features. Their names say whose they are: no other graph has the same."""
    from tuplet.filters.structural import structural_features

    if not graph.n_stored:
        raise InputError(f"{graph!r} has neither features nor edges. Give x=..., one row a node.")
    x = structural_features(graph, seed)
    log.info("%r has no features: %d structural columns are made from its edges", graph, x.shape[1])
    key = graph.fingerprint()
    return graph.with_(x=x, feature_names=tuple(f"structure[{i}] of {key}" for i in range(x.shape[1])))


def _from_library(X: Any) -> Graph:
    """NetworkX and igraph: node attributes `x` and `label`, edge attribute `weight`, where they have them."""
    library = type(X).__module__.split(".")[0]
    if library == "networkx" and hasattr(X, "nodes"):
        nodes = {key for _, known in X.nodes(data=True) for key in known}
        edges = {key for *_, known in X.edges(data=True) for key in known}
        return Graph.from_networkx(X, **_attributes(nodes, edges))
    if library == "igraph" and hasattr(X, "vs"):
        return Graph.from_igraph(X, **_attributes(set(X.vs.attributes()), set(X.es.attributes())))
    if library == "torch_geometric":
        return Graph.from_pyg(X)
    if sp.issparse(X) and X.shape[0] == X.shape[1]:
        return Graph.from_scipy(X)
    raise InputError(f"Got {type(X).__name__} without a graph. Give a Graph, or features and adjacency=A.")


def _attributes(nodes: set[str], edges: set[str]) -> dict[str, Any]:
    options: dict[str, Any] = {"features": ["x"]} if "x" in nodes else {}
    options |= {"label": "label"} if "label" in nodes else {}
    return options | ({"weight": "weight"} if "weight" in edges else {})
