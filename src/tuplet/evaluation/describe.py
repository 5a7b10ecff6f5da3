"""What clusters are: size, typical nodes, the features that mark them, the cluster next to each, where edges go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet.graph import Graph
from tuplet.rows.lloyd import margins
from tuplet.rows.unit import checked_vectors, scale_rows

_BLOCK = 2**22  # numbers in a block of rows
Sums = tuple[Any, Any, Any, Any]  # of `block_sums`
Find = Callable[[NDArray[Any], int], Iterable[Sums]]  # of the clusters and their number


@dataclass(frozen=True)
class Mark:
    """A feature that marks a cluster.

    A feature that nodes have or lack (no negative value, mostly zeros): `inside` and `overall` are the shares of
    nodes that have it, `lift` is their ratio. A feature that is a number: both are means, and `lift` is their
    difference in standard deviations of the feature.
    """

    name: str
    inside: float
    overall: float
    lift: float


@dataclass(frozen=True)
class Cluster:
    """One cluster: `size` nodes, their `share` of all, and what tells them from the rest.

    `medoids` are the ids of the nodes nearest to the centre. `nearest` is the cluster whose centre is nearest, None
    where there is no other. `inner` is the share of the cluster's edge ends that stay inside. `classes` are shares
    of the labelled nodes by class, the largest first.
    """

    cluster: int
    size: int
    share: float
    confidence: float
    medoids: tuple[Any, ...]
    nearest: int | None
    marks: tuple[Mark, ...] = ()
    inner: float | None = None
    classes: tuple[tuple[str, float], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As plain values that JSON can hold."""
        return asdict(self)


def describe_clusters(
    z: Any, clusters: Any, graph: Graph | None = None, *, unit_rows: bool = True, medoids: int = 3, marks: int = 5
) -> list[Cluster]:
    """One `Cluster` for each cluster that holds a node, in order; `clusters` (n,) has one number a row of `z`.

    >>> g = Graph.from_scipy(np.zeros((3, 3)), x=[[1, 0], [1, 0], [0, 1]], ids=["a", "b", "c"], feature_names="uv")
    >>> first = describe_clusters(np.eye(3), np.array([0, 0, 1]), g)[0]
    >>> first.size, first.marks[0].name, first.marks[0].lift
    (2, 'u', 1.5)
    """
    return clusters_described(z, clusters, graph, unit_rows=unit_rows, medoids=medoids, marks=marks)


def clusters_described(
    z: Any, clusters: Any, graph: Graph | None, *, unit_rows: bool, medoids: int, marks: int, find: Find | None = None
) -> list[Cluster]:
    """`describe_clusters`; `find` gives the `block_sums` of all blocks of the features in order, found elsewhere."""
    z = checked_vectors(z, None if graph is None else graph.n_nodes)
    groups = np.asarray(clusters)
    if groups.shape != (z.shape[0],) or groups.dtype.kind not in "iu" or (len(groups) and groups.min() < 0):
        raise InputError(f"clusters has shape {groups.shape} and type {groups.dtype}. Give a number from 0 a row.")
    used, place = np.unique(groups, return_inverse=True)
    rows = scale_rows(z, unit_rows)
    centres = _means(rows, place, len(used))
    sure = margins(rows, centres)
    near = _nearest_others(centres)
    sizes = np.bincount(place)
    typical = _medoids(rows, place, centres, medoids)
    ids = np.arange(z.shape[0]) if graph is None else graph.node_ids
    features = [()] * len(used) if graph is None else _marks(graph, place, len(used), marks, find)
    inner = [None] * len(used) if graph is None or not graph.n_stored else _inner_edges(graph, place, len(used))
    classes = [()] * len(used) if graph is None or graph.y is None else _classes(graph, place, len(used))
    return [
        Cluster(
            cluster=int(used[c]),
            size=int(sizes[c]),
            share=float(sizes[c] / len(place)),
            confidence=float(sure[place == c].mean()),
            medoids=tuple(ids[i].item() if hasattr(ids[i], "item") else ids[i] for i in typical[c]),
            nearest=None if near is None else int(used[near[c]]),
            marks=features[c],
            inner=inner[c],
            classes=classes[c],
        )
        for c in range(len(used))
    ]


def confidence_of(z: Any, clusters: NDArray[Any], *, unit_rows: bool = True) -> NDArray[np.float32]:
    """How sure each row of `z` (n, d) is of its cluster, float32 (n,): 0 between two centres, 1 on its own one."""
    rows = scale_rows(z, unit_rows)
    used, place = np.unique(clusters, return_inverse=True)
    return np.asarray(margins(rows, _means(rows, place, len(used))), dtype=np.float32)


def _one_hot(place: NDArray[Any], k: int) -> sp.csr_array:
    n = len(place)
    return sp.csr_array((np.ones(n), (place, np.arange(n))), shape=(k, n))


def _means(rows: Any, place: NDArray[Any], k: int) -> NDArray[np.float32]:
    sums = _one_hot(place, k) @ rows
    sums = sums.toarray() if sp.issparse(sums) else sums
    return np.asarray(sums / np.bincount(place, minlength=k)[:, None], dtype=np.float32)


def _nearest_others(centres: NDArray[np.float32]) -> NDArray[np.int64] | None:
    if len(centres) < 2:
        return None
    squares = np.sum(centres**2, axis=1)
    apart = squares[:, None] + squares - 2 * centres @ centres.T
    np.fill_diagonal(apart, np.inf)
    return np.asarray(apart.argmin(axis=1))


def _medoids(rows: Any, place: NDArray[Any], centres: NDArray[np.float32], count: int) -> list[NDArray[np.int64]]:
    found = []
    for c, centre in enumerate(centres):
        members = np.flatnonzero(place == c)
        squares = rows[members].multiply(rows[members]).sum(axis=1) if sp.issparse(rows) else None
        own = np.asarray(squares).ravel() if squares is not None else np.sum(rows[members] ** 2, axis=1)
        away = own - 2 * np.asarray(rows[members] @ centre).ravel()
        found.append(members[np.argsort(away, kind="stable")[:count]])
    return found


def _marks(graph: Graph, place: NDArray[Any], k: int, count: int, find: Find | None) -> list[tuple[Mark, ...]]:
    if graph.x is None:
        return [()] * k
    names = graph.feature_names or tuple(str(j) for j in range(graph.n_features))
    sizes = np.bincount(place, minlength=k)[:, None]
    has, total, squares, negative = _column_sums(graph.x, place, k, find)
    present = ~negative & (has.sum(axis=0) < 0.9 * len(place))
    inside = np.where(present, has, total) / sizes
    overall = np.where(present, has.sum(axis=0), total.sum(axis=0)) / len(place)
    spread = np.sqrt(np.maximum(squares / len(place) - (total.sum(axis=0) / len(place)) ** 2, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(overall > 0, inside / overall, 0)
        told = inside * np.log(np.maximum(ratio, 1e-12))  # what the feature tells of the cluster, in nats a node
        shift = np.where(spread > 0, (inside - overall) / spread, 0)
    lift = np.where(present, ratio, shift)
    score = np.where(present, told, np.abs(shift) / 3)  # three deviations weigh as one nat
    best = np.argsort(-score, axis=1, kind="stable")[:, :count]
    told_of = [[j for j in best[c] if score[c, j] > 0] for c in range(k)]
    return [
        tuple(Mark(names[j], float(inside[c, j]), float(overall[j]), float(lift[c, j])) for j in told_of[c])
        for c in range(k)
    ]


def _column_sums(x: Any, place: NDArray[Any], k: int, find: Find | None) -> Sums:
    """By cluster: entries that are not zero, and sums, (k, f) each; sums of squares (f,); columns with a negative."""
    f = x.shape[1]
    has, total = np.zeros((k, f)), np.zeros((k, f))
    squares, negative = np.zeros(f), np.zeros(f, bool)
    here = (block_sums(block, place[start : start + block.shape[0]], k) for start, block in _row_blocks(x))
    for found in here if find is None else find(place, k):
        has += found[0]
        total += found[1]
        squares += found[2]
        negative |= found[3]
    return has, total, squares, negative


def block_sums(block: Any, place: NDArray[Any], k: int) -> Sums:
    """What `_column_sums` adds, of a block of rows."""
    pick, dense = _one_hot(place, k), not sp.issparse(block)
    has = pick @ (block != 0) if dense else (pick @ (block != 0).astype(np.float64)).toarray()
    total = pick @ block.astype(np.float64) if dense else (pick @ block.astype(np.float64)).toarray()
    values = block.astype(np.float64)
    squares = np.asarray((values * values if dense else values.multiply(values)).sum(axis=0)).ravel()
    low = block.min(axis=0)
    return has, total, squares, np.asarray(low.toarray() if sp.issparse(low) else low).ravel() < 0


def _row_blocks(x: Any) -> Iterator[tuple[int, Any]]:
    step = max(1, _BLOCK // max(1, x.shape[1]))
    for start in range(0, x.shape[0], step):
        yield start, x[start : start + step]


def _inner_edges(graph: Graph, place: NDArray[Any], k: int) -> list[float | None]:
    """Of each cluster's edge ends the share whose other end lies inside; None for one without edges."""
    source = np.repeat(place, np.diff(graph.indptr))
    same = source == place[graph.indices]
    ends, inside = np.bincount(source, minlength=k), np.bincount(source[same], minlength=k)
    return [float(i / e) if e else None for i, e in zip(inside, ends)]


def _classes(graph: Graph, place: NDArray[Any], k: int) -> list[tuple[tuple[str, float], ...]]:
    y = np.asarray(graph.y)
    names = graph.label_names or tuple(str(c) for c in range(int(y.max(initial=-1)) + 1))
    found = []
    for c in range(k):
        counts = np.bincount(y[(place == c) & (y >= 0)], minlength=len(names))
        order = [j for j in np.argsort(-counts, kind="stable") if counts[j]]
        found.append(tuple((names[j], float(counts[j] / counts.sum())) for j in order))
    return found
