"""Scores of clusterings, classifications and link predictions, as fractions between 0 and 1.

Labels are integers; nodes whose true label is -1 (unknown) are left out. Modularity alone may be negative.
A question without an answer (no labelled node, no edge, no score) raises InputError: no metric returns NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuplet._check import InputError, check_int
from tuplet.graph import Graph
from tuplet.graph.edges import edge_blocks

Ints: TypeAlias = "NDArray[np.int64]"


def accuracy(y: ArrayLike, predicted: ArrayLike, *, match: bool = True) -> float:
    """Share of labelled nodes that `predicted` gets right, clusters first renamed to classes.

    The renaming is the best one-to-one match (Hungarian method). With more clusters than classes the surplus
    clusters count as wrong; with fewer, some classes stay without a cluster. `match=False` compares as they are.

    >>> accuracy([0, 0, 1, 1], [5, 5, 2, 2]), accuracy([0, 0, 1, 1], [0, 1, 2, 2])
    (1.0, 0.75)
    """
    true, found = _labelled(y, predicted)
    if match:
        found = _renamed(true, found)
    return float(np.mean(true == found))


def macro_f1(y: ArrayLike, predicted: ArrayLike, *, match: bool = True) -> float:
    """Mean over the classes of y of 2 TP / (2 TP + FP + FN), clusters first renamed as in `accuracy`.

    A class that no node is predicted to have scores 0.

    >>> macro_f1([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    """
    from sklearn.metrics import f1_score

    true, found = _labelled(y, predicted)
    if match:
        found = _renamed(true, found)
    return float(f1_score(true, found, labels=np.unique(true), average="macro", zero_division=0))


def nmi(y: ArrayLike, predicted: ArrayLike) -> float:
    """Mutual information over the arithmetic mean of the two entropies.

    One class and one cluster agree (1); one class or one cluster alone says nothing of the other (0).

    >>> nmi([0, 0, 1, 1], [1, 1, 0, 0]), nmi([0, 0, 1, 1], [0, 0, 0, 0])
    (1.0, 0.0)
    """
    from sklearn.metrics import normalized_mutual_info_score

    return float(np.clip(normalized_mutual_info_score(*_labelled(y, predicted)), 0, 1))


def ari(y: ArrayLike, predicted: ArrayLike) -> float:
    """Rand index adjusted for chance: 1 for equal partitions, near 0 for independent ones, can be below 0.

    >>> ari([0, 0, 1, 1], [1, 1, 0, 0]), ari([0, 0, 1, 1], [0, 0, 0, 0])
    (1.0, 0.0)
    """
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(*_labelled(y, predicted)))


def modularity(graph: Graph, clusters: ArrayLike, *, self_loops: bool = False) -> float:
    """Share of edge weight inside clusters, minus what random edges of the same degrees would put there.

    Q = W_in / W - sum over clusters of out_c in_c / W^2; W counts each undirected edge from both ends. With
    `self_loops` every node has one more edge, to itself (A + I), as some published figures count.

    >>> pairs = Graph.from_scipy([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])
    >>> modularity(pairs, [0, 0, 1, 1]), modularity(pairs, [0, 0, 0, 0])
    (0.5, 0.0)
    """
    inside, outs, ins = _edge_sums(graph, clusters, self_loops)
    total = outs.sum()
    return float(inside / total - np.dot(outs / total, ins / total))


def conductance(graph: Graph, clusters: ArrayLike, *, self_loops: bool = False) -> float:
    """Share of edge ends that leave their cluster, over all clusters at once: 1 - W_in / W. Lower is better.

    >>> path = Graph.from_scipy([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
    >>> conductance(path, [0, 0, 1, 1])
    0.333
    """
    inside, outs, _ = _edge_sums(graph, clusters, self_loops)
    return float(1 - inside / outs.sum())


def auc(positives: ArrayLike, negatives: ArrayLike) -> float:
    """Chance that a positive scores above a negative, ties counted half. Arguments are scores, any shape.

    >>> auc([0.9, 0.4], [0.1, 0.4])
    0.875
    """
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(*_truth_and_scores(positives, negatives)))


def average_precision(positives: ArrayLike, negatives: ArrayLike) -> float:
    """Precision at each distinct score, weighted by the recall that it adds.

    >>> average_precision([0.9, 0.4], [0.1, 0.6])
    0.833
    """
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(*_truth_and_scores(positives, negatives)))


def hits_at_k(positives: ArrayLike, negatives: ArrayLike, k: int = 50) -> float:
    """Share of positives that score strictly above the k-th best negative.

    >>> hits_at_k([0.9, 0.4], [0.1, 0.6, 0.2], k=1)
    0.5
    """
    p, q = _scores(positives, negatives)
    k = check_int("k", k, maximum=q.size)
    return float(np.mean(p > np.partition(q.ravel(), q.size - k)[q.size - k]))


def mrr(positives: ArrayLike, negatives: ArrayLike) -> float:
    """Mean of 1 / rank of each positive (p,) among its negatives, best first; ties take the mean rank.

    `negatives` is (q,), shared by all positives, or (p, q), own ones for each.

    >>> mrr([0.9, 0.4], [0.1, 0.6, 0.2])
    0.75
    """
    p, q = _scores(positives, negatives)
    if q.ndim == 2 and len(q) != len(p):
        raise InputError(
            f"There are {len(p)} positives but {len(q)} rows of negatives. Give one row for each, or (q,)."
        )
    if q.ndim == 2:
        above, equal = (q > p[:, None]).sum(axis=1), (q == p[:, None]).sum(axis=1)
    else:
        q = np.sort(q)
        below, through = np.searchsorted(q, p, "left"), np.searchsorted(q, p, "right")
        above, equal = q.size - through, through - below
    return float(np.mean(1 / (1 + above + equal / 2)))


def _labelled(y: ArrayLike, predicted: ArrayLike) -> tuple[Ints, Ints]:
    true, found = np.asarray(y), np.asarray(predicted)
    if true.ndim != 1 or true.shape != found.shape:
        raise InputError(f"y has shape {true.shape}, the prediction {found.shape}. Give one label a node in both.")
    for name, array in (("y", true), ("The prediction", found)):
        if array.dtype.kind not in "iub":
            raise InputError(f"{name} must hold integers, got {array.dtype}.")
    known = true >= 0 if true.dtype.kind == "i" else np.ones(len(true), bool)
    if not known.any():
        raise InputError(f"None of the {len(true)} nodes has a label (all are -1). Give at least one.")
    return true[known].astype(np.int64), found[known].astype(np.int64)


def _contingency(y: ArrayLike, predicted: ArrayLike) -> Ints:
    """Nodes by class (rows) and cluster (columns), empty rows and columns left out."""
    (classes, i), (clusters, j) = (np.unique(part, return_inverse=True) for part in _labelled(y, predicted))
    counts = np.bincount(i * len(clusters) + j, minlength=len(classes) * len(clusters))
    return counts.reshape(len(classes), len(clusters))


def _renamed(true: Ints, found: Ints) -> Ints:
    """`found` with each cluster renamed to its matched class, -1 for clusters that match none."""
    from scipy.optimize import linear_sum_assignment

    classes, clusters = np.unique(true), np.unique(found)
    rows, columns = linear_sum_assignment(_contingency(true, found), maximize=True)
    names = np.full(len(clusters), -1, np.int64)
    names[columns] = classes[rows]
    renamed: Ints = names[np.searchsorted(clusters, found)]
    return renamed


def _edge_sums(graph: Graph, clusters: ArrayLike, self_loops: bool) -> tuple[float, Any, Any]:
    """Edge weight inside clusters, and weight that leaves and enters each cluster, as (inside, outs, ins)."""
    labels = np.asarray(clusters)
    if labels.shape != (graph.n_nodes,):
        raise InputError(
            f"clusters has shape {labels.shape} but the graph has {graph.n_nodes} nodes. Give one a node."
        )
    if graph.n_stored == 0 and not self_loops:
        raise InputError("The graph has no edges, so nothing lies inside or between clusters.")
    codes = np.unique(labels, return_inverse=True)[1]
    k = int(codes.max()) + 1
    inside, ins = 0.0, np.zeros(k)
    outs = np.bincount(codes, weights=graph.degrees, minlength=k)
    for part, nodes in edge_blocks(graph):
        source, target = codes[nodes], codes[graph.indices[part]]
        weight = np.ones(len(nodes)) if graph.weights is None else graph.weights[part]
        inside += float(weight[source == target].sum(dtype=np.float64))
        ins += np.bincount(target, weights=weight, minlength=k)
    if self_loops:
        sizes = np.bincount(codes, minlength=k)
        inside, outs, ins = inside + graph.n_nodes, outs + sizes, ins + sizes
    return inside, outs, ins


def _scores(positives: ArrayLike, negatives: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    p, q = np.asarray(positives, dtype=np.float64), np.asarray(negatives, dtype=np.float64)
    if p.size == 0 or q.size == 0:
        raise InputError(f"There are {p.size} positives and {q.size} negatives. At least one of each is needed.")
    if np.isnan(p).any() or np.isnan(q).any():
        raise InputError("Some scores are NaN, so they have no rank. Look for NaN in the vectors first.")
    return p, q


def _truth_and_scores(positives: ArrayLike, negatives: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """1 for each positive and 0 for each negative, and their scores; only the order counts, so infinity may come."""
    p, q = (part.ravel() for part in _scores(positives, negatives))
    return np.repeat([1, 0], [p.size, q.size]), np.clip(np.concatenate([p, q]), -1e300, 1e300)


# The paper's six metrics of a clustering. A new one is one function and one entry; the tasks, the bench and the
# command line read these tables.
LABEL_SCORES: dict[str, Callable[[ArrayLike, ArrayLike], float]] = {
    "accuracy": accuracy,
    "nmi": nmi,
    "ari": ari,
    "f1": macro_f1,
}
EDGE_SCORES: dict[str, Callable[..., float]] = {"modularity": modularity, "conductance": conductance}


def clustering_metrics() -> tuple[str, ...]:
    """The names of all metrics of a clustering, those of labels first.

    >>> clustering_metrics()
    ('accuracy', 'nmi', 'ari', 'f1', 'modularity', 'conductance')
    """
    return (*LABEL_SCORES, *EDGE_SCORES)


def label_scores(y: ArrayLike, clusters: ArrayLike) -> dict[str, float]:
    """Each of LABEL_SCORES, in percent."""
    return {name: 100 * score(y, clusters) for name, score in LABEL_SCORES.items()}


def edge_scores(graph: Graph, clusters: ArrayLike) -> dict[str, float]:
    """Each of EDGE_SCORES in percent, with the plain adjacency, and as `*_self_loops` with a self loop a node."""
    return {
        f"{name}{suffix}": 100 * score(graph, clusters, self_loops=bool(suffix))
        for suffix in ("", "_self_loops")
        for name, score in EDGE_SCORES.items()
    }
