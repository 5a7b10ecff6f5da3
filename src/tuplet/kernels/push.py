"""Reverse push on PageRank residues, and the random walks that estimate what it leaves.

For T = D^-1 A, Z = sum of alpha (1-alpha)^l T^l B is kept as Z = Q + sum of alpha (1-alpha)^l T^l R, from Q = 0 and
R = B. Pushing node u moves alpha R_u into Q_u and spreads the rest: R_v += (1-alpha) R_u A_vu / d_v.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange
from numpy.typing import NDArray

from tuplet._jit import jit
from tuplet._seed import seed_of
from tuplet.kernels.random import mix, uniform


def push_columns(
    op: Any, alpha: float, r_max: float, start: NDArray[Any], reserve: NDArray[Any], residue: NDArray[Any]
) -> None:
    """Push every column of `start` (n, c) as GBP does and write Q and R, each (n, c), positive minus negative part.

    A node is pushed while its residue exceeds r_max times the sum of its part of the column. Afterwards
    |Z - Q - alpha R| <= (1-alpha) * r_max * (sum of the larger part), for each part one-sided. `op` is the transposed
    operator (row u: who averages over u).
    """
    _push_columns(op.indptr, op.indices, op.weights, 1 / op.degrees, op.loop, alpha, r_max, start, reserve, residue)


@jit(parallel=True)  # type: ignore[untyped-decorator]
def _push_columns(
    indptr: Any,
    indices: Any,
    weights: Any,
    inverse: Any,
    loop: Any,
    alpha: Any,
    r_max: Any,
    start: Any,
    reserve: Any,
    residue: Any,
) -> None:
    n = len(indptr) - 1
    reserve[:] = 0
    residue[:] = 0
    for column in prange(start.shape[1]):
        r, q = np.empty(n), np.empty(n)
        for sign in (1.0, -1.0):
            total = 0.0
            for u in range(n):
                q[u] = 0.0
                r[u] = max(0.0, sign * start[u, column])
                total += r[u]
            if total > 0:
                active = np.flatnonzero(r > r_max * total)
                push_residues(indptr, indices, weights, inverse, loop, alpha, r_max * total, r, q, active)
                for u in range(n):
                    reserve[u, column] += sign * q[u]
                    residue[u, column] += sign * r[u]


@jit  # type: ignore[untyped-decorator]
def push_residues(
    indptr: Any,
    indices: Any,
    weights: Any,
    inverse: Any,
    loop: Any,
    alpha: Any,
    threshold: Any,
    residue: Any,
    reserve: Any,
    active: Any,
) -> Any:
    """Push until no |residue| exceeds `threshold`, first in first out from the nodes `active`; edges passed over.

    Residues may have either sign, so the same loop serves a changed edge or a new node. `residue` and `reserve`
    float64 (n,) change in place; `active` must hold every node above the threshold. CSR rows list, for node u, the
    nodes v that average over u; `inverse` holds 1 / d_v.
    """
    n = len(indptr) - 1
    queue = np.empty(n, np.int64)  # a ring: no node stands in it twice, so n places are enough
    waiting = np.zeros(n, np.bool_)
    head, size, edges = 0, 0, 0
    for u in active:
        queue[size] = u
        waiting[u] = True
        size += 1
    while size > 0:
        u = queue[head]
        head = head + 1 if head + 1 < n else 0
        size -= 1
        waiting[u] = False
        mass = residue[u]
        reserve[u] += alpha * mass
        residue[u] = (1 - alpha) * mass * loop * inverse[u]
        edges += indptr[u + 1] - indptr[u]
        for e in range(indptr[u], indptr[u + 1] + 1):
            v = u  # the last turn of the loop looks at u itself: its self loop may have left it above the threshold
            if e < indptr[u + 1]:
                v = np.int64(indices[e])
                w = 1.0 if weights is None else np.float64(weights[e])
                residue[v] += (1 - alpha) * mass * w * inverse[v]
            if abs(residue[v]) > threshold and not waiting[v]:
                tail = head + size
                queue[tail if tail < n else tail - n] = v
                waiting[v] = True
                size += 1
    return edges


def walk_ends(op: Any, alpha: float, n_walks: int, seed: int) -> NDArray[Any]:
    """Where `n_walks` walks from each node end, (n * n_walks,); n for a walk that met a node without edges.

    A walk takes one step, then stops with probability alpha before each further one; a step from u goes to v with
    probability A_uv / d_u. Each node has its own random numbers: the result does not depend on threads.
    """
    ends = np.empty(op.n * n_walks, np.uint32 if op.n < 2**32 - 1 else np.uint64)
    cumulated = None if op.weights is None else _cumulated_rows(op.indptr, op.weights)
    key = np.uint64(seed_of(seed, "walks"))
    _walk_ends(op.indptr, op.indices, cumulated, op.degrees, op.loop, alpha, n_walks, key, ends)
    return ends


@jit(parallel=True)  # type: ignore[untyped-decorator]
def _walk_ends(
    indptr: Any,
    indices: Any,
    cumulated: Any,
    degrees: Any,
    loop: Any,
    alpha: Any,
    n_walks: Any,
    key: Any,
    ends: Any,
) -> None:
    n = len(indptr) - 1
    for source in prange(n):
        state = mix(key ^ mix(np.uint64(source)))
        for walk in range(n_walks):
            u = np.int64(source)
            while True:
                state += np.uint64(0x9E3779B97F4A7C15)
                u = _step(u, uniform(state), indptr, indices, cumulated, degrees, loop)
                state += np.uint64(0x9E3779B97F4A7C15)
                if u == n or uniform(state) < alpha:
                    break
            ends[np.int64(source) * n_walks + walk] = u


@jit  # type: ignore[untyped-decorator]
def _step(u: Any, chance: Any, indptr: Any, indices: Any, cumulated: Any, degrees: Any, loop: Any) -> Any:
    """The next node of a walk at u, or n where u has no edge."""
    start, end = indptr[u], indptr[u + 1]
    if start == end and loop == 0:
        return np.int64(len(indptr) - 1)
    target = chance * degrees[u]
    if target < loop or start == end:
        return np.int64(u)
    target -= loop
    if cumulated is None:
        return np.int64(indices[min(start + np.int64(target), end - 1)])
    low, high = start, end - 1
    while low < high:
        middle = (low + high) // 2
        if cumulated[middle] > target:
            high = middle
        else:
            low = middle + 1
    return np.int64(indices[low])


@jit(parallel=True)  # type: ignore[untyped-decorator]
def _cumulated_rows(indptr: Any, weights: Any) -> Any:
    sums = np.empty(len(weights))
    for u in prange(len(indptr) - 1):
        total = 0.0
        for e in range(indptr[u], indptr[u + 1]):
            total += weights[e]
            sums[e] = total
    return sums
