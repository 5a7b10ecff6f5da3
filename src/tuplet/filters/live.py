"""Filtered rows that follow their graph: edges, features and nodes change, and only the rows nearby are corrected.

For PageRank weights the filtered rows solve Z = alpha B + (1-alpha) T Z (rows scaled by D^-r). A change of the graph
leaves Z as it is and makes a residual at the nodes whose own equation changed; kernels/local_push.py pushes it away.
Residuals that stay below the threshold are kept, so that errors do not add up over many changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError, check_number
from tuplet.filters._graph_filter import GraphFilter
from tuplet.graph import Graph
from tuplet.graph.edits import Overlay
from tuplet.graph.feature_rows import FeatureRows, checked_edges

_START = 1024  # slots to begin with
_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Change:
    """What a change did: `nodes` whose rows were corrected, ascending; `new` nodes; pushes and edges passed over."""

    nodes: NDArray[np.int64]
    new: NDArray[np.int64]
    pushes: int
    edges: int

    @property
    def touched(self) -> int:
        """How many rows were corrected."""
        return len(self.nodes)


class LiveRows:
    """Filtered rows of `graph` under changes. `rows` (n, f) may be a read-only memory map: it is never written.

    `graph_filter` must have made `rows`, with PageRank weights. `unit_rows`: its features were scaled to unit length
    first; `start`: they were mapped by it, each row by itself, to what was filtered, (n, c). After each change every
    entry of row u lies within tol * d_u^r of a full recomputation, beyond what `rows` itself was off. Memory grows
    with the rows touched; start anew from `graph()` when that is a good part of all.

    >>> g = Graph.from_scipy([[0, 1, 0], [1, 0, 1], [0, 1, 0]], x=np.eye(3))
    >>> live = LiveRows(g, GraphFilter(tol=1e-6).transform(g), GraphFilter(tol=1e-6))
    >>> live.change_edges(remove=[(1, 2)]).touched
    3
    >>> abs(live.rows([2])).round(3)
    array([[0., 0., 1.]], dtype=float32)
    """

    def __init__(
        self,
        graph: Graph,
        rows: NDArray[Any],
        graph_filter: GraphFilter | None = None,
        *,
        unit_rows: bool = False,
        start: Callable[[Any], NDArray[Any]] | None = None,
        tol: float = 1e-4,
    ) -> None:
        graph_filter = graph_filter or GraphFilter()
        if graph_filter.weights.family != "ppr" or graph_filter.columns is not None:
            raise InputError(
                f"Rows filtered with {graph_filter.weights!r} and columns={graph_filter.columns} cannot be updated. "
                "Use ppr weights without a reduction of columns, or filter again."
            )
        self._x = FeatureRows(graph, unit_rows=unit_rows, start=start)
        if rows.shape != (graph.n_nodes, self._x.columns):
            raise InputError(
                f"rows has shape {rows.shape} but the graph's features have {(graph.n_nodes, self._x.columns)}."
            )
        self.alpha, self.r = graph_filter.weights.values[0], graph_filter.r
        self.tol = check_number("tol", tol, low=0, open_low=True)
        self._rows = rows
        self._adj = Overlay(graph, float(graph_filter.self_loops))
        f = rows.shape[1]
        self._slot = np.full(graph.n_nodes, -1, np.int32)
        self._row_of = np.full(graph.n_nodes, -1, np.int32)
        self._nodes, self._norms, self._count = np.empty(_START, np.int64), np.zeros(_START, np.float32), 0
        self._residual, self._change = np.zeros((_START, f), np.float32), np.zeros((_START, f), np.float32)

    @property
    def n_nodes(self) -> int:
        """Number of nodes now."""
        return self._adj.n

    def rows(self, nodes: Any) -> NDArray[np.float32]:
        """The filtered rows (k, f) of `nodes` as they are now."""
        where = self._checked_nodes(nodes)
        scale = self._adj.degrees(where) ** self.r
        return np.asarray(self._scaled(where) * scale[:, None], dtype=np.float32)

    def graph(self, **fields: Any) -> Graph:
        """The graph as it is now, with its features, as new plain arrays: costs a copy of all edges."""
        n_old = self._adj.graph.n_nodes
        lost = {"y": None, "ids": None} if self.n_nodes > n_old else {}
        return self._adj.merged(**{**lost, "x": self._x.merged(self.n_nodes), **fields})

    def add_nodes(self, x: Any, edges: Any = (), weights: Any = None) -> Change:
        """Append a node for each row of `x` (m, f), joined by `edges` (k, 2); new nodes are n, n + 1, .. in order."""
        features = self._x.checked(x)
        n = self.n_nodes + len(features)
        pairs, values = checked_edges(edges, weights, n)
        new = self._adj.add_nodes(len(features))
        if n > len(self._slot):
            more = np.full(max(n, len(self._slot) * 9 // 8) - len(self._slot), -1, np.int32)
            self._slot, self._row_of = np.concatenate([self._slot, more]), np.concatenate([self._row_of, more])
        self._x.set(new, features)
        scaled = self._x.rows(new)
        self._change[self._slots(new)] = scaled if self._adj.loop else self.alpha * scaled  # isolated so far
        return self._settle(pairs, values, new)

    def change_edges(self, add: Any = (), remove: Any = (), *, weights: Any = None) -> Change:
        """Add edges (or set their weights) and remove others, each as (k, 2) node pairs."""
        added, values = checked_edges(add, weights, self.n_nodes)
        removed, _ = checked_edges(remove, None, self.n_nodes)
        both = np.concatenate([values, np.zeros(len(removed))])
        return self._settle(*checked_edges(np.concatenate([added, removed]), both, self.n_nodes), _NONE)

    def change_features(self, nodes: Any, x: Any) -> Change:
        """Replace the features of `nodes` by the rows of `x` (k, f)."""
        where, features = self._checked_nodes(nodes), self._x.checked(x)
        if len(where) != len(features) or len(np.unique(where)) < len(where):
            raise InputError(f"{len(features)} feature rows for {len(where)} nodes. Give one row for each, once.")
        before = self._x.rows(where)
        self._x.set(where, features)
        scale = self._adj.degrees(where) ** -self.r
        self._add(where, self.alpha * scale[:, None] * (self._x.rows(where) - before))
        return self._push(_NONE, _NONE)

    def _settle(self, pairs: NDArray[np.int64], weights: NDArray[Any], new: NDArray[np.int64]) -> Change:
        """Set edge weights, put the residual of the changed equations in place, and push."""
        nodes = _NONE
        if len(pairs):
            ends = np.unique(pairs)
            z, d = self._scaled(ends), self._adj.degrees(ends)
            nodes, (rows, columns, differences) = self._adj.set_edges(pairs, weights)
            d_new = self._adj.degrees(nodes)
            flow = sp.csr_array((differences, (rows, columns)), shape=(len(nodes), len(nodes))) @ z
            b = self._x.rows(nodes)
            old, new_b = d[:, None] ** -self.r * b, d_new[:, None] ** -self.r * b
            slots = self._slots(nodes)
            residual = self._residual[slots].astype(np.float64)
            sums = (residual + z - self.alpha * old) * (d / d_new)[:, None]  # (1-alpha) S / d_new
            fresh = self.alpha * new_b + sums + (1 - self.alpha) / d_new[:, None] * flow - z
            self._add(nodes, fresh - residual)
        return self._push(new, nodes)

    def _push(self, new: NDArray[np.int64], rescaled: NDArray[np.int64]) -> Change:
        from tuplet.kernels.local_push import push_rows

        changed = np.array(sorted(self._adj.changed), dtype=np.int64)
        self._row_of[changed] = np.arange(len(changed))
        indptr, indices, weights = self._adj.gather(changed)
        g = self._adj.graph
        found = push_rows(
            g.indptr, g.indices, g.weights, self._adj.base_degrees, self._row_of, indptr, indices, weights,
            self._adj.degrees(changed), self._adj.loop, self.alpha, np.float32(self.alpha * self.tol), self._slot,
            self._nodes, self._residual, self._change, self._norms, self._count,
        )  # fmt: skip
        self._nodes, self._residual, self._change, self._norms, self._count, pushed, edges = found
        nodes = np.union1d(self._nodes[: self._count][pushed > 0], np.union1d(new, rescaled))
        return Change(nodes, new, int(pushed.sum()), int(edges))

    def _slots(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The slots of `nodes`, made where they have none."""
        fresh = nodes[self._slot[nodes] < 0]
        while self._count + len(fresh) > len(self._nodes):
            self._nodes, self._norms = np.tile(self._nodes, 2), np.r_[self._norms, np.zeros_like(self._norms)]
            self._residual = np.vstack([self._residual, np.zeros_like(self._residual)])
            self._change = np.vstack([self._change, np.zeros_like(self._change)])
        places = np.arange(self._count, self._count + len(fresh))
        self._slot[fresh], self._nodes[places] = places, fresh
        self._count += len(fresh)
        return self._slot[nodes].astype(np.int64)

    def _add(self, nodes: NDArray[np.int64], residual: NDArray[Any]) -> None:
        slots = self._slots(nodes)
        self._residual[slots] += residual.astype(np.float32)
        self._norms[slots] = np.abs(self._residual[slots]).max(axis=1)

    def _scaled(self, nodes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Rows times d^-r: what the given rows held, plus what was pushed since."""
        out = np.zeros((len(nodes), self._residual.shape[1]))
        old = nodes < len(self._rows)
        scale = self._adj.degrees_in_graph(nodes[old]) ** -self.r
        out[old] = np.asarray(self._rows[nodes[old]], dtype=np.float64) * scale[:, None]
        slots = self._slot[nodes]
        out[slots >= 0] += self._change[slots[slots >= 0]]
        return out

    def _checked_nodes(self, nodes: Any) -> NDArray[np.int64]:
        where = np.atleast_1d(np.asarray(nodes))
        if where.dtype.kind not in "iu" or (len(where) and not 0 <= where.min() <= where.max() < self.n_nodes):
            raise InputError(f"nodes must be numbers from 0 to {self.n_nodes - 1}, got {nodes!r}.")
        return where.astype(np.int64)
