"""Residual push with rows of f numbers, over a graph of which some rows were replaced. Touches only what it reaches.

With Z the rows scaled by D^-r and T = D^-1 A, the residual R = alpha B + (1-alpha) T Z - Z says how far Z is from the
PageRank filter of B. Pushing node u adds delta = R_u / (1 - (1-alpha) loop / d_u) to Z_u, which makes R_u zero, and
(1-alpha) A_vu / d_v * delta to R_v for each neighbour v. What is left bounds the error: |error| <= max |R| / alpha.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tuplet._jit import jit


@jit  # type: ignore[untyped-decorator]
def push_rows(
    indptr: Any,
    indices: Any,
    weights: Any,
    degrees: Any,
    row_of: Any,
    new_indptr: Any,
    new_indices: Any,
    new_weights: Any,
    new_degrees: Any,
    loop: Any,
    alpha: Any,
    threshold: Any,
    slot: Any,
    nodes: Any,
    residual: Any,
    change: Any,
    norms: Any,
    count: Any,
) -> Any:
    """Push until no residual exceeds `threshold`: (nodes, residual, change, norms, count, pushed, edges passed over).

    The graph is symmetric: CSR `indptr`, `indices`, `weights` (None for 1) and `degrees` (None: row lengths plus
    loop), where node u with row_of[u] = k >= 0 has row k of the `new_` arrays instead. Slots hold what is known of
    the touched nodes: nodes[i] is the node of slot i, slot[u] its slot or -1; `residual` and `change` (slots, f)
    float32, norms[i] >= max |residual[i]|. The arrays grow where needed. pushed[i] counts the pushes of slot i.
    """
    f = residual.shape[1]
    delta = np.empty(f, np.float32)
    pushed = np.zeros(len(nodes), np.int64)
    edges, moved = 0, True
    while moved:
        moved = False
        i = 0
        while i < count:
            if norms[i] > threshold:
                norms[i] = _largest(residual[i])  # the sum of what came in may be far above it
            if norms[i] <= threshold:
                i += 1
                continue
            moved = True
            pushed[i] += 1
            u = nodes[i]
            k = row_of[u]
            factor = np.float32(1 / (1 - (1 - alpha) * loop / _degree(indptr, degrees, row_of, new_degrees, loop, u)))
            for c in range(f):
                delta[c] = residual[i, c] * factor
                change[i, c] += delta[c]
                residual[i, c] = 0
            size = norms[i] * factor
            norms[i] = 0
            first, last = (indptr[u], indptr[u + 1]) if k < 0 else (new_indptr[k], new_indptr[k + 1])
            edges += last - first
            for e in range(first, last):
                v = np.int64(indices[e]) if k < 0 else new_indices[e]
                w = 1.0
                if k >= 0:
                    w = np.float64(new_weights[e])
                elif weights is not None:
                    w = np.float64(weights[e])
                j = slot[v]
                if j < 0:
                    if count == len(nodes):
                        nodes, residual, change, norms, pushed = _grown(nodes, residual, change, norms, pushed)
                    j = count
                    count += 1
                    slot[v] = j
                    nodes[j] = v
                share = np.float32((1 - alpha) * w / _degree(indptr, degrees, row_of, new_degrees, loop, v))
                row = residual[j]
                for c in range(f):
                    row[c] += share * delta[c]
                norms[j] += share * size
            i += 1
    return nodes, residual, change, norms, count, pushed[:count], edges


@jit  # type: ignore[untyped-decorator]
def _largest(row: Any) -> Any:
    largest = np.float32(0)
    for c in range(len(row)):
        largest = max(largest, abs(row[c]))
    return largest


@jit  # type: ignore[untyped-decorator]
def _degree(indptr: Any, degrees: Any, row_of: Any, new_degrees: Any, loop: Any, u: Any) -> Any:
    k = row_of[u]
    if k >= 0:
        return new_degrees[k]
    if degrees is not None:
        return degrees[u]
    return max(1.0, indptr[u + 1] - indptr[u] + loop)


@jit  # type: ignore[untyped-decorator]
def _grown(nodes: Any, residual: Any, change: Any, norms: Any, pushed: Any) -> Any:
    n, f = residual.shape
    size = 2 * n
    nodes2, norms2, pushed2 = np.empty(size, np.int64), np.zeros(size, np.float32), np.zeros(size, np.int64)
    residual2, change2 = np.zeros((size, f), np.float32), np.zeros((size, f), np.float32)
    nodes2[:n], norms2[:n], pushed2[:n], residual2[:n], change2[:n] = nodes, norms, pushed, residual, change
    return nodes2, residual2, change2, norms2, pushed2
