"""What `fit` and `transform` are given, checked: a graph, and the feature columns that a model knows."""

from __future__ import annotations

from typing import Any

from tuplet._check import InputError
from tuplet.graph import Graph


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
    """The graph that `fit` and `transform` were given: a `Graph`, or features with an adjacency."""
    if isinstance(X, Graph):
        if adjacency is not None:
            raise InputError(
                "Both a Graph and adjacency= were given. Give the Graph alone, or features and adjacency."
            )
        return X
    if adjacency is None:
        raise InputError(f"Got {type(X).__name__} without a graph. Give a Graph, or features and adjacency=A.")
    return Graph.from_scipy(adjacency, X)
