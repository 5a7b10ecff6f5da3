"""Groups on which rows and edges agree.

A row says how likely each group is for its node (`Gaussians`). So do the groups of the node's neighbours, by a block
model that is corrected for degrees (Karrer and Newman, 2011): a neighbour in group a adds

    log (edges between a and b / edges that the degrees of both groups let expect)

for group b. Groups that seek each other are told as well as groups that seek themselves; edges that join at random
say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.graph import Graph
from tuplet.models._self_labels import STILL, Gaussians
from tuplet.models.contract import Rows
from tuplet.rows.blocks import over_blocks, summed
from tuplet.rows.lloyd import Labels

_ROUNDS = 10  # at most
_EDGE = 2.0  # what an edge says counts this much beside what each kind of rows says
_WIDEST = 2**10  # numbers that a row counts as when the rows are cut into blocks: none has few rows
_UNSEEN = 0.01  # edges that every two groups are given beside those between them


def beliefs_of(labels: Labels, k: int, sources: Sequence[Any]) -> Callable[[slice], Rows]:
    """A function of a block of nodes: what rows say of k groups, the log likelihoods (b, k).

    They are the sum of what the Gaussians of each source say of its rows (n, d), arrays or memory maps.
    """
    models = [(Gaussians.measured(rows, labels, k), rows) for rows in sources]

    def some(block: slice) -> Rows:
        said: Rows = sum(model.beliefs(rows[block]) for model, rows in models)  # type: ignore[assignment]
        return said.astype(np.float32)

    return some


def agreed(graph: Graph, beliefs: Any, labels: Labels, kinds: int = 1) -> Labels:
    """`labels` (n,) after rounds in which each node takes the group that `beliefs` and its neighbours make likeliest.

    `beliefs` (n, k), an array or a memory map, are what so many `kinds` of rows say. What an edge says counts by its
    weight over the mean weight; an edge of a directed graph counts for both ends. Without edges nothing changes.
    """
    if not graph.n_stored:
        return labels
    edges = _both_ways(graph)
    one, strength = _mean_weight(edges), _EDGE * kinds
    for _ in range(_ROUNDS):
        says = strength / one * _log_ratio(_between(edges, labels, beliefs.shape[1]) / one)
        moved = _likeliest(edges, beliefs, labels, says.astype(np.float32))
        still = np.count_nonzero(moved != labels) <= len(labels) // STILL
        labels = moved
        if still:
            break
    return labels


def _both_ways(graph: Graph) -> Graph:
    """The graph with each edge of a directed one stored from both ends."""
    if not graph.directed:
        return graph
    from tuplet.kernels.csr import transpose, unite

    csr = (graph.indptr, graph.indices, graph.weights)
    indptr, indices, weights = unite(csr, transpose(*csr))
    return Graph(indptr, indices, weights=weights)


def _mean_weight(edges: Graph) -> float:
    return 1.0 if edges.weights is None else max(float(edges.weights.mean(dtype=np.float64)), 1e-30)


def _between(edges: Graph, labels: Labels, k: int) -> NDArray[np.float64]:
    """Weight of the edges (k, k) between each two groups."""
    from tuplet.kernels.votes import count_between

    def some(block: slice) -> NDArray[np.float64]:
        found = np.zeros((k, k))
        count_between(block.start, block.stop, edges.indptr, edges.indices, edges.weights, labels, found)
        return found

    return summed(some, len(labels), k, (k, k), maps=[edges.indices])


def _log_ratio(between: NDArray[np.float64]) -> NDArray[np.float64]:
    """log (edges between two groups / edges that their degrees let expect) (k, k)."""
    ends = between.sum(axis=1)
    expected = np.outer(ends, ends) / max(ends.sum(), 1e-30)
    ratio: NDArray[np.float64] = np.log((between + _UNSEEN) / (expected + _UNSEEN))
    return ratio


def _likeliest(edges: Graph, beliefs: Any, labels: Labels, says: Rows) -> Labels:
    """The likeliest group (n,) after the neighbours were heard; says[a] (k,) is what one in group a says."""
    from tuplet.kernels.votes import add_votes

    def some(block: slice) -> Labels:
        heard = np.array(beliefs[block])
        add_votes(block.start, block.stop, edges.indptr, edges.indices, edges.weights, labels, says, heard)
        found: Labels = heard.argmax(axis=1)
        return found

    (n, k), maps = beliefs.shape, [edges.indices, beliefs]
    width = max(k, min(k * edges.n_stored // n, _WIDEST))  # numbers that are added up for a row
    return np.concatenate([part for _, part in over_blocks(some, n, width, maps=maps)])
