"""Seeded splits: nodes into train, validation and test; edges into a training graph and held-out pairs.

A held-out pair leaves the training graph in both directions, before anything (degrees, filter, fingerprint) is
computed from it. Non-edges are drawn by rejection with a lookup in the sorted adjacency: nothing is n x n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuplet._check import InputError, check_choice, check_labels, check_number
from tuplet._seed import stream
from tuplet.graph._graph import Graph
from tuplet.graph.edges import edge_blocks, has_edges, joined

_TRIES = 100


@dataclass(frozen=True, eq=False)
class NodeSplit:
    """Node indices of the three parts, int64, sorted, disjoint."""

    train: NDArray[np.int64]
    val: NDArray[np.int64]
    test: NDArray[np.int64]

    def __repr__(self) -> str:
        return f"NodeSplit({len(self.train)} train, {len(self.val)} val, {len(self.test)} test)"


@dataclass(frozen=True, eq=False)
class EdgeSplit:
    """A training graph, and pairs (p, 2) int64 that it was kept from, smaller node first.

    `graph` has all nodes, features, labels and ids of the full graph, and every edge but the held-out ones.
    `val_non_edges` and `test_non_edges` are pairs without an edge in the full graph, as many as `val` and `test`.
    """

    graph: Graph
    val: NDArray[np.int64]
    test: NDArray[np.int64]
    val_non_edges: NDArray[np.int64]
    test_non_edges: NDArray[np.int64]

    @property
    def train(self) -> NDArray[np.int64]:
        """Edges of the training graph, (m, 2); made anew at each call."""
        return self.graph.edges()

    def leaked(self, graph: Graph) -> int:
        """How many held-out pairs have an edge in `graph`: 0 for a graph that a filter may see."""
        return int(joined(graph, np.concatenate([self.val, self.test])).sum())

    def __repr__(self) -> str:
        return f"EdgeSplit({self.graph!r}, {len(self.val)} val, {len(self.test)} test)"


def split_nodes(
    y: ArrayLike | Graph, *, train: float = 0.1, val: float = 0.1, seed: int = 0, split: str = "random"
) -> NodeSplit:
    """A random split of the labelled nodes (y >= 0) by share; the rest is test. Each class is in train.

    `y` are the labels, or a Graph with labels. `split` "official" gives the split that came with the graph instead.

    A draw that misses a class is thrown away whole. After 100 of those, each missing class gets one of its
    nodes in exchange for one of a class that has several.

    >>> split_nodes([0, 1] * 50, train=0.1, val=0.2, seed=0)
    NodeSplit(10 train, 20 val, 70 test)
    """
    if check_choice("split", split, ("random", "official")) == "official":
        return _official(y)
    if isinstance(y, Graph):
        if y.y is None:
            raise InputError(f"{y} has no labels to split by. Give a graph with labels.")
        y = y.y
    labels = check_labels("y", y, len(np.asarray(y)))
    nodes = np.flatnonzero(labels >= 0)
    n_train, n_val = _part_sizes(len(nodes), "labelled nodes", train=train, val=val)
    classes = np.unique(labels[nodes])
    if n_train < len(classes):
        raise InputError(
            f"train={train:g} of {len(nodes)} labelled nodes is {n_train} nodes for {len(classes)} classes. "
            "Give a larger share, so that each class can have one."
        )
    rng = stream(seed, "node split")
    for _ in range(_TRIES):
        order = rng.permutation(nodes)
        if len(np.unique(labels[order[:n_train]])) == len(classes):
            break
    else:
        _give_each_class_one(order, labels, n_train, rng)
    parts = np.split(order, [n_train, n_train + n_val])
    return NodeSplit(*(np.sort(part) for part in parts))


def _official(graph: ArrayLike | Graph) -> NodeSplit:
    """The split that the graph carries."""
    if not isinstance(graph, Graph) or graph.split is None:
        what = f"{graph} came without one" if isinstance(graph, Graph) else "labels alone have none"
        raise InputError(f"There is no official split: {what}. Give a graph such as ogbn-arxiv, or split='random'.")
    return NodeSplit(*graph.split)


def split_edges(graph: Graph, *, val: float = 0.05, test: float = 0.1, seed: int = 0) -> EdgeSplit:
    """A random share of the edges held out for validation and test, as many non-edges, and the graph without them.

    The unit is the unordered pair: in a directed graph both directions are held out together.

    >>> ring = Graph.from_scipy(np.roll(np.eye(20), 1, axis=1))
    >>> split_edges(ring, val=0.1, test=0.2, seed=0)
    EdgeSplit(Graph(20 nodes, 14 edges, 0 features), 2 val, 4 test)
    """
    pairs = _count_pairs(graph)
    n_val, n_test = _part_sizes(pairs, "edges", val=val, test=test)
    if min(n_val, n_test) < 1:
        raise InputError(
            f"val={val:g} and test={test:g} of {pairs} edges are {n_val} and {n_test} edges. "
            "Both need at least one: give larger shares, or a graph with more edges."
        )
    rng = stream(seed, "edge split")
    chosen = rng.choice(pairs, n_val + n_test, replace=False)
    held = _pairs_at(graph, chosen)
    apart = sample_non_edges(graph, n_val + n_test, rng)
    return EdgeSplit(without_edges(graph, held), held[:n_val], held[n_val:], apart[:n_val], apart[n_val:])


def without_edges(graph: Graph, pairs: NDArray[Any]) -> Graph:
    """The graph without the edges between the given pairs (p, 2), in either direction; all else is kept."""
    n = graph.n_nodes
    gone = np.sort(np.concatenate([pairs[:, 0] * n + pairs[:, 1], pairs[:, 1] * n + pairs[:, 0]]))
    counts, indices, weights = np.zeros(n, np.int64), [], []
    for part, source in edge_blocks(graph):
        target = np.asarray(graph.indices[part])
        stays = ~_is_in(source * n + target, gone)
        if len(source):
            counts[source[0] : source[-1] + 1] = np.bincount(source[stays] - source[0], minlength=np.ptp(source) + 1)
        indices.append(target[stays])
        if graph.weights is not None:
            weights.append(graph.weights[part][stays])
    return graph.with_(
        indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        indices=np.concatenate(indices),
        weights=np.concatenate(weights) if weights else None,
    )


def sample_non_edges(graph: Graph, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """`size` distinct pairs (size, 2), u < v, without an edge in either direction, each equally likely."""
    n = graph.n_nodes
    every = n * (n - 1) // 2
    free = every - _count_pairs(graph)
    if size > free:
        raise InputError(f"The graph has only {free} pairs without an edge, {size} are needed. Hold out fewer edges.")
    if every <= 2**20 and size > free // 4:  # rejection would draw the same pairs again and again
        pairs = np.column_stack(np.triu_indices(n, 1)).astype(np.int64)
        return rng.permutation(pairs[~joined(graph, pairs)])[:size]
    keys = np.empty(0, np.int64)
    while len(keys) < size:
        draws = rng.integers(0, n, size=(size - len(keys) + size // 8 + 16, 2))
        draws = np.sort(draws[draws[:, 0] != draws[:, 1]], axis=1)
        draws = draws[~joined(graph, draws)]
        keys = np.concatenate([keys, draws[:, 0] * n + draws[:, 1]])
        keys = keys[np.sort(np.unique(keys, return_index=True)[1])]  # in the order drawn
    return np.column_stack(np.divmod(keys[:size], n))


def rewire(graph: Graph, split: EdgeSplit, *, seed: int = 0) -> Graph:
    """A graph with the training part of `split` as it is and the held-out edges put somewhere else.

    Whatever was computed from the training part alone is the same for both graphs, bit by bit.
    """
    held = np.concatenate([split.val, split.test])
    moved = sample_non_edges(graph, len(held), stream(seed, "rewire"))
    return with_edges(split.graph, moved)


def with_edges(graph: Graph, pairs: NDArray[Any]) -> Graph:
    """The graph with an edge of weight 1 more between each of the given pairs (p, 2), which have none yet."""
    n = graph.n_nodes
    new = pairs if graph.directed else np.concatenate([pairs, pairs[:, ::-1]])
    source = np.concatenate([np.repeat(np.arange(n), np.diff(graph.indptr)), new[:, 0]])
    target = np.concatenate([graph.indices, new[:, 1].astype(graph.indices.dtype)])
    order = np.lexsort((target, source))
    weights = None
    if graph.weights is not None:
        weights = np.concatenate([graph.weights, np.ones(len(new), np.float32)])[order]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=n))]).astype(np.int64)
    return graph.with_(indptr=indptr, indices=target[order], weights=weights)


def _part_sizes(total: int, what: str, **shares: float) -> list[int]:
    for name, share in shares.items():
        check_number(name, share, low=0, high=1)
    if sum(shares.values()) >= 1:
        given = ", ".join(f"{name}={share:g}" for name, share in shares.items())
        raise InputError(f"{given} leave no {what} over. Their sum must be below 1.")
    return [round(share * total) for share in shares.values()]


def _is_in(values: NDArray[Any], ordered: NDArray[Any]) -> NDArray[np.bool_]:
    if not len(ordered):
        return np.zeros(len(values), bool)
    found: NDArray[np.bool_] = ordered[np.searchsorted(ordered, values).clip(max=len(ordered) - 1)] == values
    return found


def _give_each_class_one(order: NDArray[Any], labels: NDArray[Any], n_train: int, rng: np.random.Generator) -> None:
    """Swap, in place, a node of each class that order[:n_train] misses with one of a class it has twice."""
    for missing in np.setdiff1d(labels[order], labels[order[:n_train]]):
        here = labels[order[:n_train]]
        spare = np.flatnonzero(np.bincount(here)[here] > 1)
        i, j = rng.choice(spare), rng.choice(np.flatnonzero(labels[order] == missing))
        order[i], order[j] = order[j], order[i]


def _first_of_pair(graph: Graph, source: NDArray[Any], target: NDArray[Any]) -> NDArray[np.bool_]:
    """Marks one stored edge for each unordered pair: the one from the smaller node where both are stored."""
    if not graph.directed:
        return source < target
    return (source < target) | ~has_edges(graph, np.column_stack([target, source]).astype(np.int64))


def _count_pairs(graph: Graph) -> int:
    if not graph.directed:
        return graph.n_edges
    return sum(int(_first_of_pair(graph, s, graph.indices[part]).sum()) for part, s in edge_blocks(graph))


def _pairs_at(graph: Graph, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """The pairs, smaller node first, at the given places in the order of storage; the order of `places` is kept."""
    order = np.argsort(places)
    wanted, found, passed = places[order], [], 0
    for part, source in edge_blocks(graph):
        target = np.asarray(graph.indices[part], dtype=np.int64)
        first = np.flatnonzero(_first_of_pair(graph, source, target))
        low, high = np.searchsorted(wanted, [passed, passed + len(first)])
        pick = first[wanted[low:high] - passed]
        found.append(np.column_stack([source[pick], target[pick]]))
        passed += len(first)
    pairs = np.empty((len(places), 2), np.int64)
    pairs[order] = np.sort(np.concatenate(found), axis=1)
    return pairs
