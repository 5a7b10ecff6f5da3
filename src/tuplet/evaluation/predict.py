"""predict_nodes: classes for the nodes without a label, from a linear classifier on the vectors of those with one."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuplet._check import InputError, check_labels
from tuplet.evaluation._probe import STRENGTHS, classify_nodes
from tuplet.graph import Graph
from tuplet.graph.splits import split_nodes
from tuplet.rows.unit import checked_vectors, row_lengths


@dataclass(frozen=True, eq=False)
class Predictions:
    """`classes` (n,) and `probability` (n,) of each node's class; `known` (n,) marks the nodes that were labelled.

    A labelled node keeps its label, with probability 1. A tenth of the labelled nodes chose the regularisation `C`;
    `accuracy`, in percent, was measured on another tenth; None where there were too few.
    """

    classes: NDArray[np.int64]
    probability: NDArray[np.float32]
    known: NDArray[np.bool_]
    C: float
    accuracy: float | None


def predict_nodes(z: Any, graph: Graph | None = None, *, y: ArrayLike | None = None, seed: int = 0) -> Predictions:
    """The class of each node without a label, and how sure the classifier is.

    Labels are `y`, else graph.y; -1 unknown. A tenth of the labelled nodes chooses the regularisation; then all of
    them train. `z` (n, d) may be a memory map.

    >>> found = predict_nodes(np.array([[0.0, 1.0], [0.0, 2.0], [1.0, 0.0], [2.0, 0.1]]), y=[0, -1, 1, -1])
    >>> found.classes
    array([0, 0, 1, 1])
    """
    z = checked_vectors(z, None if graph is None else graph.n_nodes)
    given = y if y is not None else (None if graph is None else graph.y)
    if given is None:
        raise InputError("Predictions need labels of some nodes. Give y=..., or a graph that has them.")
    labels = check_labels("y", given, z.shape[0])
    known = labels >= 0
    if len(np.unique(labels[known])) < 2:
        raise InputError(f"The labelled nodes have {len(np.unique(labels[known]))} classes. Give at least two.")
    strength, accuracy = _chosen_strength(z, labels, seed)
    classes, probability = _fitted(z, labels, strength)
    classes[known], probability[known] = labels[known], 1.0
    return Predictions(classes, probability, known, strength, accuracy)


def _chosen_strength(z: Any, labels: NDArray[np.int64], seed: int) -> tuple[float, float | None]:
    """The regularisation by held-out labelled nodes; 1 where a tenth of them would leave a class without a node."""
    nodes = np.flatnonzero(labels >= 0)
    classes = len(np.unique(labels[nodes]))
    if len(nodes) * 0.8 < classes or len(nodes) < 20:
        return STRENGTHS[len(STRENGTHS) // 2], None
    split = split_nodes(labels, train=0.8, val=0.1, seed=seed)
    result = classify_nodes(z, y=labels, masks=split, seed=seed)
    return float(result.settings["C"]), result.values["accuracy"]


def _fitted(z: Any, labels: NDArray[np.int64], strength: float) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    known = np.flatnonzero(labels >= 0)
    rows = z[known].astype(np.float64)
    scale = float(row_lengths(rows).mean()) or 1.0
    model = LogisticRegression(C=strength, max_iter=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rows / scale, labels[known])
    classes, probability = np.empty(len(labels), np.int64), np.empty(len(labels), np.float32)
    step = max(1, 2**23 // z.shape[1])
    for i in range(0, len(labels), step):
        sure = model.predict_proba(z[i : i + step].astype(np.float64) / scale)
        classes[i : i + step] = model.classes_[sure.argmax(axis=1)]
        probability[i : i + step] = sure.max(axis=1)
    return classes, probability
