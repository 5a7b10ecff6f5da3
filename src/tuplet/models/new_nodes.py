"""Vectors for nodes that arrive later, and for nodes whose surroundings change, without filtering the whole graph.

`embed_new` gives vectors of new nodes only. `follow` keeps the filtered rows of a graph in step with its changes
(`LiveRows`, filters/live.py); `embed_changed` gives the vectors of the nodes that a change touched. A model of any
method will do whose `passes` say how it filters; `embed_new` works for every other one too that has `transform`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet.filters import GraphFilter
from tuplet.filters.live import Change, LiveRows
from tuplet.graph import Graph
from tuplet.graph.edits import Overlay
from tuplet.graph.feature_rows import FeatureRows, checked_edges
from tuplet.models._input import check_columns

__all__ = [
    "Change", "LivePasses", "LiveRows",
    "check_keeps_rows", "check_live", "embed_changed", "embed_new", "enlarged", "filter_of", "follow", "local_rows",
]  # fmt: skip
log = logging.getLogger("tuplet")
_TOGETHER = 16  # new nodes whose walks are followed at once


def filter_of(model: Any) -> GraphFilter:
    """The graph filter of an estimator that has one."""
    chosen: GraphFilter = model.graph_filter_
    return chosen


def check_keeps_rows(cls: Any) -> None:
    """Raise unless the estimators of `cls` have filtered rows that can be kept."""
    cls.check_inductive()
    if not cls.keeps_rows:
        raise InputError(f"{cls.__name__} has no filtered rows that can be kept. embed_new works without them.")


def check_live(model: Any, graph: Graph) -> None:
    """Raise unless filtered rows of `graph` can be kept for `model`: PageRank filters, an undirected graph."""
    check_keeps_rows(type(model))
    if graph.directed:
        raise InputError("Rows of a directed graph cannot be updated locally. Filter the whole graph again.")
    for one in model.passes():
        if one.graph_filter.weights.family != "ppr" or one.graph_filter.columns is not None:
            raise InputError(
                f"Rows filtered with {one.graph_filter.weights!r} and columns={one.graph_filter.columns} cannot be "
                "updated. Use ppr weights without a reduction of columns, or filter again."
            )


class LivePasses:
    """The filtered rows of a model with more than one pass, under changes: `LiveRows` for each, changed together."""

    def __init__(self, parts: Sequence[LiveRows]) -> None:
        self.parts = list(parts)

    @property
    def n_nodes(self) -> int:
        """Number of nodes now."""
        return self.parts[0].n_nodes

    def rows(self, nodes: Any) -> list[NDArray[np.float32]]:
        """The filtered rows (k, c) of `nodes` as they are now, for each pass."""
        return [part.rows(nodes) for part in self.parts]

    def graph(self, **fields: Any) -> Graph:
        """The graph as it is now, with its features."""
        return self.parts[0].graph(**fields)

    def add_nodes(self, x: Any, edges: Any = (), weights: Any = None) -> Change:
        """As `LiveRows.add_nodes`."""
        return _together([part.add_nodes(x, edges, weights) for part in self.parts])

    def change_edges(self, add: Any = (), remove: Any = (), *, weights: Any = None) -> Change:
        """As `LiveRows.change_edges`."""
        return _together([part.change_edges(add, remove, weights=weights) for part in self.parts])

    def change_features(self, nodes: Any, x: Any) -> Change:
        """As `LiveRows.change_features`."""
        return _together([part.change_features(nodes, x) for part in self.parts])


def _together(changes: list[Change]) -> Change:
    nodes = np.unique(np.concatenate([change.nodes for change in changes]))
    pushes, edges = sum(change.pushes for change in changes), sum(change.edges for change in changes)
    return Change(nodes, changes[0].new, pushes, edges)


def follow(model: Any, graph: Graph, rows: Any = None, *, tol: float = 1e-4) -> LiveRows | LivePasses:
    """The filtered rows of `graph` for `model`, kept in step with changes.

    `rows` if they are known already: an array, or one for each pass. Else those that the model was saved with, if
    they are of this graph; else they are filtered here.
    """
    check_live(model, graph)
    check_columns(model, graph)
    parts = _parts(model, graph, rows)
    if parts is None:
        parts = model.filtered(graph)
    live = [
        LiveRows(graph, part, one.graph_filter, start=one.start, tol=tol) for part, one in zip(parts, model.passes())
    ]
    return live[0] if len(live) == 1 else LivePasses(live)


def _parts(model: Any, graph: Graph, rows: Any) -> list[NDArray[Any]] | None:
    """The filtered rows that are known, one array a pass."""
    if rows is not None:
        parts = list(rows) if isinstance(rows, list | tuple) else [rows]
        if len(parts) != len(model.passes()):
            raise InputError(f"rows holds {len(parts)} arrays, but {type(model).__name__} has {len(model.passes())}.")
        return parts
    saved = getattr(model, "rows_", None)
    if saved is None:
        return None
    if not graph.has_fingerprint(saved.graph):
        log.warning("the rows that the model was saved with are of another graph: they are not used")
        return None
    found: list[NDArray[Any]] = saved.parts
    return found


def embed_changed(model: Any, live: LiveRows | LivePasses, change: Change) -> NDArray[np.float32]:
    """Vectors (k, d) of the k nodes in `change.nodes`."""
    return _finished(model, live, change.nodes)


def _finished(model: Any, live: LiveRows | LivePasses, nodes: NDArray[np.int64]) -> NDArray[np.float32]:
    rows = live.rows(nodes)
    vectors: NDArray[np.float32] = model.finish(*(rows if isinstance(rows, list) else [rows]))
    return vectors


def embed_new(
    model: Any,
    graph: Graph,
    x: Any,
    edges: Any,
    *,
    weights: Any = None,
    rows: Any = None,
    tol: float = 1e-4,
) -> NDArray[np.float32]:
    """Vectors (m, d) of m new nodes with features `x` (m, f), joined to `graph` and each other by `edges` (k, 2).

    New nodes are numbered n, n + 1, .. after the n nodes of `graph`. With `rows`, the filtered rows of `graph` (one
    array a pass of the model; those it was saved with are found), only rows near the new nodes are read and
    corrected: |row - recomputed| <= tol * d_u^r, entry by entry, beyond what `rows` was off. Without them the
    neighbourhood is followed as far as the filter reaches, until all but `tol` of its weight is spent; on a graph of
    small diameter that is most of the graph. A method without passes transforms the whole enlarged graph.
    """
    model.check_inductive()
    check_columns(model, graph)
    if not model.passes():
        vectors: NDArray[np.float32] = model.transform(enlarged(graph, x, edges, weights))[graph.n_nodes :]
        return vectors
    known = _parts(model, graph, rows)
    if known is not None:
        live = follow(model, graph, known, tol=tol)
        return _finished(model, live, live.add_nodes(x, edges, weights).new)
    local = [
        local_rows(graph, x, edges, one.graph_filter, weights=weights, start=one.start, tol=tol)
        for one in model.passes()
    ]
    near: NDArray[np.float32] = model.finish(*local)
    return near


def enlarged(graph: Graph, x: Any, edges: Any, weights: Any = None) -> Graph:
    """`graph` with new nodes n, n + 1, .. of features `x` (m, f) and with `edges`; labels and ids are left out."""
    features = FeatureRows(graph).checked(x)
    adj = Overlay(graph, 0.0)
    adj.add_nodes(len(features))
    adj.set_edges(*checked_edges(edges, weights, adj.n))
    old: Any = graph.x
    both = sp.csr_array(sp.vstack([old, sp.csr_array(features)])) if sp.issparse(old) else np.vstack([old, features])
    return adj.merged(x=both, y=None, ids=None)


def local_rows(
    graph: Graph,
    x: Any,
    edges: Any,
    graph_filter: GraphFilter,
    *,
    weights: Any = None,
    unit_rows: bool = False,
    start: Callable[[Any], NDArray[Any]] | None = None,
    tol: float = 1e-4,
) -> NDArray[np.float32]:
    """Filtered rows (m, f) of new nodes from their neighbourhood alone, for any weights.

    Row u is d_u^r * (sum over l of w_l e_u T^l) D^-r X; the products e_u T^l stay sparse and read only the rows of
    nodes that they reach. The weights left out sum to at most `tol`: the error is at most tol * d_u^r * max |D^-r X|.
    """
    if graph_filter.columns is not None:
        raise InputError(f"A filter that reduces to {graph_filter.columns} columns has no local rows. Filter again.")
    known = FeatureRows(graph, unit_rows=unit_rows, start=start)
    features = known.checked(x)
    adj = Overlay(graph, float(graph_filter.self_loops))
    new = adj.add_nodes(len(features))
    adj.set_edges(*checked_edges(edges, weights, adj.n))
    known.set(new, features)
    coefficients = graph_filter.weights.coefficients(graph_filter.weights.hops(tol))
    parts = [_rows_of(adj, known, new[i : i + _TOGETHER], coefficients, graph_filter.r)
             for i in range(0, len(new), _TOGETHER)]  # fmt: skip
    return np.vstack(parts).astype(np.float32)


def _rows_of(
    adj: Overlay, known: FeatureRows, nodes: NDArray[np.int64], coefficients: NDArray[np.float64], r: float
) -> NDArray[np.float64]:
    k, n = len(nodes), adj.n
    step = sp.csr_array((np.ones(k), (np.arange(k), nodes)), shape=(k, n))
    total = coefficients[0] * step
    for w in coefficients[1:]:
        reached = np.unique(step.indices)
        indptr, columns, values = adj.gather(reached)
        degrees = adj.degrees(reached)
        local = sp.csr_array((values / np.repeat(degrees, np.diff(indptr)), columns, indptr), shape=(len(reached), n))
        stay = step * 0 if not adj.loop else step @ sp.diags_array(_spread(adj.loop / degrees, reached, n))
        step = sp.csr_array(step[:, reached] @ local + stay)
        total = total + w * step
    total = sp.csr_array(total)
    reached = np.unique(total.indices)
    scaled = known.rows(reached) * adj.degrees(reached)[:, None] ** -r
    return np.asarray((total[:, reached] @ scaled) * adj.degrees(nodes)[:, None] ** r)


def _spread(values: NDArray[np.float64], places: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    out = np.zeros(n)
    out[places] = values
    return out
