"""Vectors for nodes that arrive later, and for nodes whose surroundings change, without filtering the whole graph.

`embed_new` gives vectors of new nodes only. `LiveRows` (filters/live.py) keeps the filtered rows of a graph in step
with its changes; `embed_changed` gives the vectors of the nodes that a change touched.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet.filters import GraphFilter
from tuplet.filters.live import Change, LiveRows
from tuplet.filters.weights import ppr
from tuplet.graph import Graph
from tuplet.graph.edits import Overlay
from tuplet.graph.feature_rows import FeatureRows, checked_edges
from tuplet.models._contract import check_columns
from tuplet.training.encoder import encode

__all__ = ["Change", "LiveRows", "embed_changed", "embed_new", "filter_of", "follow", "local_rows"]

_TOGETHER = 16  # new nodes whose walks are followed at once


def filter_of(model: Any) -> GraphFilter:
    """The graph filter of a fitted estimator."""
    chosen: GraphFilter | None = getattr(model, "graph_filter", None)
    return chosen or GraphFilter(ppr(model.alpha), r=model.r, tol=model.tol)


def follow(model: Any, graph: Graph, rows: NDArray[Any] | None = None, *, tol: float = 1e-4) -> LiveRows:
    """The filtered rows of `graph` for `model`, kept in step with changes; `rows` if they are known already."""
    chosen = filter_of(model)
    if rows is None:
        rows = chosen.transform(graph, x=unit(graph.x) if model.unit_rows else None)
    return LiveRows(graph, rows, chosen, unit_rows=model.unit_rows, tol=tol)


def embed_changed(model: Any, live: LiveRows, change: Change) -> NDArray[np.float32]:
    """Vectors (k, d) of the k nodes in `change.nodes`."""
    return encode(model.encoder_, live.rows(change.nodes), unit_rows=model.unit_rows)


def embed_new(
    model: Any,
    graph: Graph,
    x: Any,
    edges: Any,
    *,
    weights: Any = None,
    rows: NDArray[Any] | None = None,
    tol: float = 1e-4,
) -> NDArray[np.float32]:
    """Vectors (m, d) of m new nodes with features `x` (m, f), joined to `graph` and each other by `edges` (k, 2).

    New nodes are numbered n, n + 1, .. after the n nodes of `graph`. With `rows`, the filtered rows of `graph`, only
    rows near the new nodes are read and corrected: |row - recomputed| <= tol * d_u^r, entry by entry, beyond what
    `rows` was off. Without them the neighbourhood is followed as far as the filter reaches, until all but `tol` of
    its weight is spent; on a graph of small diameter that is most of the graph.
    """
    check_columns(model, graph)
    if rows is not None:
        live = LiveRows(graph, rows, filter_of(model), unit_rows=model.unit_rows, tol=tol)
        filtered = live.rows(live.add_nodes(x, edges, weights).new)
    else:
        filtered = local_rows(graph, x, edges, filter_of(model), weights=weights, unit_rows=model.unit_rows, tol=tol)
    return encode(model.encoder_, filtered, unit_rows=model.unit_rows)


def local_rows(
    graph: Graph,
    x: Any,
    edges: Any,
    graph_filter: GraphFilter,
    *,
    weights: Any = None,
    unit_rows: bool = False,
    tol: float = 1e-4,
) -> NDArray[np.float32]:
    """Filtered rows (m, f) of new nodes from their neighbourhood alone, for any weights.

    Row u is d_u^r * (sum over l of w_l e_u T^l) D^-r X; the products e_u T^l stay sparse and read only the rows of
    nodes that they reach. The weights left out sum to at most `tol`: the error is at most tol * d_u^r * max |D^-r X|.
    """
    if graph_filter.columns is not None:
        raise InputError(f"A filter that reduces to {graph_filter.columns} columns has no local rows. Filter again.")
    known = FeatureRows(graph, unit_rows=unit_rows)
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


def unit(x: Any) -> Any:
    """Rows of unit length; zero rows stay."""
    from tuplet.rows.unit import unit_features

    with unit_features(np.asarray(x) if isinstance(x, np.memmap) else x) as scaled:
        return scaled
