"""The contract of all methods: one vector a node from a graph, under scikit-learn's rules.

A method subclasses `NodeEstimator`, states what it can do in the class attributes, and fills in `_fit`. Where it can
embed other graphs too it fills in `passes` and `finish` (features -> start -> graph filter -> finish, row by row;
new nodes and live updates follow from these), or `_embed` where it is not of that form. `_keeps` names what a saved
model holds. `models/registry.py` gives it a name.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from tuplet._check import InputError
from tuplet.filters import GraphFilter
from tuplet.graph import Graph
from tuplet.models._input import as_graph, check_columns, with_structure

Progress: TypeAlias = "Callable[[str, float], None]"
Rows: TypeAlias = "NDArray[np.float32]"


@dataclass(frozen=True, eq=False)
class Pass:
    """One passage through the graph: `graph_filter` is applied to `start(x)`.

    `start` maps feature rows (k, f), dense or CSR, to what is filtered (k, c), each row by itself.
    """

    graph_filter: GraphFilter
    start: Callable[[Any], Any]


class NodeEstimator(TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """One vector a node. The constructor only stores; `fit` checks and learns.

    What a method can do is said by its class, so that callers can ask before any work: `needs_labels` and
    `needs_features` (`fit` is an error without), `clusters` (leaves `labels_`), `inductive` (`transform` takes other
    graphs), `keeps_rows` (filtered rows can be saved and followed), `dim_parameter` (the parameter that sets the
    length of the vectors; of a tuple, its last entry).

    Attributes after `fit`: `embedding_` (n, d) float32; `labels_` (n,) int64 where `clusters`; `n_features_in_`;
    `feature_names_in_`, a tuple, empty where the graph has no names; `preparation_`, how the graph's columns were
    made, if it says.
    """

    needs_labels: ClassVar[bool] = False
    needs_features: ClassVar[bool] = True
    clusters: ClassVar[bool] = False
    inductive: ClassVar[bool] = True
    keeps_rows: ClassVar[bool] = False
    dim_parameter: ClassVar[str | None] = None
    _keeps: ClassVar[
        tuple[str, ...]
    ] = ()  # fitted attributes that a saved model holds: arrays, modules, plain values

    embedding_: Rows
    n_features_in_: int
    feature_names_in_: tuple[str, ...]
    preparation_: Any

    def fit(self, X: Any, y: Any = None, *, adjacency: Any = None, progress: Progress | None = None) -> Self:
        """Learn from a graph and embed its nodes: `embedding_`.

        `X` is a `Graph`, a NetworkX, igraph or PyG graph, or with `adjacency` a feature matrix. `y` (n,), -1 for
        unknown, takes the place of the graph's labels; methods without labels do not read it. `progress` is called
        with a phase and the fraction done.
        """
        graph = self._checked_graph(X, adjacency)
        self._fit(graph, y, progress)
        return self._fitted_on(graph)

    @abstractmethod
    def _fit(self, graph: Graph, y: Any, progress: Progress | None) -> None:
        """Check the parameters, learn from `graph`, set `embedding_`."""

    def transform(self, X: Any, *, adjacency: Any = None, progress: Progress | None = None) -> Rows:
        """Vectors (n, d) float32 of a graph with the same feature columns, by what `fit` learned."""
        return self._embed(self._known_graph(X, adjacency), progress)

    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> Rows:
        """`fit(X, y, **options)`, then the vectors of its nodes."""
        return self.fit(X, y, **options).embedding_

    def width_on(self, graph: Graph) -> int | None:
        """How many numbers the vectors of `graph` will have, by its parameters or once fitted; None if unsure."""
        if self.__sklearn_is_fitted__():
            return self._n_features_out
        given = getattr(self, self.dim_parameter) if self.dim_parameter else None
        width = given[-1] if isinstance(given, tuple | list) and given else given
        return width if isinstance(width, int) else None

    @classmethod
    def check_inductive(cls) -> None:
        """Raise unless the method has vectors for nodes of other graphs than the one it was fitted on."""
        if not cls.inductive:
            raise InputError(
                f"{cls.__name__} learns one vector for each node of the graph it was fitted on, and has none for "
                "others. Fit it on the new graph."
            )

    def passes(self) -> tuple[Pass, ...]:
        """How the method filters a graph, of which `finish` makes the vectors; none if it is not of this form."""
        return ()

    def finish(self, *rows: Rows) -> Rows:
        """Vectors (k, d) from the filtered rows (k, c) of each pass, each row by itself."""
        raise NotImplementedError(f"{type(self).__name__} has passes() and no finish().")

    def filtered(self, graph: Graph, progress: Progress | None = None, **options: Any) -> list[Rows]:
        """The filtered rows (n, c) of each pass; `options` go to `GraphFilter.transform`."""
        return [
            one.graph_filter.transform(graph, x=one.start(graph.x), progress=progress, **options)
            for one in self.passes()
        ]

    @property
    def graph_filter_(self) -> GraphFilter:
        """The graph filter of a method that has one."""
        passes = self.passes()
        if len(passes) != 1:
            raise AttributeError(f"{type(self).__name__} has {len(passes)} graph filters. passes() gives them.")
        return passes[0].graph_filter

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the vectors' columns: dmati0, dmati1, .. ; `set_output` uses them."""
        self._check_fitted()
        name = type(self).__name__.lower()
        return np.array([f"{name}{i}" for i in range(self._n_features_out)], dtype=object)

    def save(self, folder: str | os.PathLike[str], *, rows: Graph | None = None) -> None:
        """Write the model as a folder, `weights.safetensors` and `model.json`; `tuplet.load` reads it.

        Parameters and what `transform` needs are kept, and `labels_`; `embedding_` only where the method has no
        `transform`. `rows=graph` filters `graph` and keeps its rows too: new nodes of that graph are fast then.
        """
        from tuplet.models.saving import save

        self._check_fitted()
        save(self, folder, rows)

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What `_restore` takes: plain values for JSON, arrays or tensors by name."""
        from tuplet.models._state import split_state

        return split_state({name: getattr(self, name) for name in self._keeps})

    def _restore(self, values: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Set the fitted attributes from what `_state` gave; parameters and `n_features_in_` are set already."""
        from tuplet.models._state import joined_state

        for name in self._keeps:
            setattr(self, name, joined_state(name, values, arrays, self._blank))

    def _blank(self, name: str) -> Any:
        """A torch module of the right sizes for the attribute `name`; its weights do not matter."""
        raise NotImplementedError(name)

    def _embed(self, graph: Graph, progress: Progress | None) -> Rows:
        """Vectors of all nodes of a checked graph."""
        return self.finish(*self.filtered(graph, progress))

    def _checked_graph(self, X: Any, adjacency: Any) -> Graph:
        graph = as_graph(X, adjacency)
        return with_structure(graph, self.seed) if self.needs_features and graph.x is None else graph

    def _known_graph(self, X: Any, adjacency: Any = None) -> Graph:
        """The graph that `transform` was given, if this model can embed it."""
        self._check_fitted()
        self.check_inductive()
        graph = self._checked_graph(X, adjacency)
        check_columns(self, graph)
        return graph

    def _fitted_on(self, graph: Graph) -> Self:
        self.n_features_in_, self.feature_names_in_ = graph.n_features, graph.feature_names
        self.preparation_ = getattr(graph, "preparation", None)
        self._n_features_out = int(self.embedding_.shape[1])
        return self

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise InputError(f"This {type(self).__name__} is not fitted yet. Call fit first.")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")
