"""The three tasks of the paper, from vectors to a Result: cluster_nodes, classify_nodes, predict_links.

Nothing here chooses by test labels or test edges; what is chosen, and on what, stands in the result's settings.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuplet import metrics
from tuplet._check import InputError, check_int, check_labels
from tuplet.evaluation._probe import classify_nodes
from tuplet.evaluation.links import predict_links
from tuplet.evaluation.results import Result, Summary, repeat
from tuplet.graph import Graph
from tuplet.rows.kmeans import choose_k, kmeans
from tuplet.rows.unit import checked_vectors

__all__ = ["Result", "Summary", "classify_nodes", "cluster_nodes", "predict_links", "repeat"]


def cluster_nodes(
    z: Any,
    graph: Graph | None = None,
    k: int | Literal["auto"] | None = None,
    *,
    seed: int = 0,
    n_init: int = 10,
    unit_rows: bool = True,
    y: ArrayLike | None = None,
    k_max: int = 20,
) -> Result:
    """K-Means on the vectors `z` (n, d), and how well its clusters fit the labels and the edges.

    accuracy, nmi, ari and f1 need labels (`y`, else graph.y; -1 unknown); modularity and conductance need edges,
    and come with the plain adjacency and, as `*_self_loops`, with one self loop a node. What is missing is left
    out and noted. `k`: a number; None for the number of classes, or without labels the same as "auto"; "auto"
    for the number with the best simplified silhouette up to `k_max`, read from `z` alone. `unit_rows` scales each
    row to unit length first. `result.labels` (n,) are the clusters.
    """
    start = time.perf_counter()
    z = checked_vectors(z, None if graph is None else graph.n_nodes)
    labels = _known_labels(y, graph, z.shape[0])
    k, source = _checked_k(z, k, labels, seed, k_max, unit_rows)
    found = kmeans(z, k, seed=seed, n_init=n_init, unit_rows=unit_rows)
    notes = []
    if found.found < k:
        notes.append(f"only {found.found} of {k} clusters hold a node: the vectors have too few distinct rows")
    values = {**_label_values(labels, found.labels, notes), **_edge_values(graph, found.labels, notes)}
    sizes = {"nodes": z.shape[0], "labelled": 0 if labels is None else int(np.sum(labels >= 0)), "clusters": k}
    settings = {"k_from": source, "n_init": n_init, "unit_rows": unit_rows}
    seconds = time.perf_counter() - start
    return Result("cluster", values, seed, sizes, seconds, settings, tuple(notes), found.labels)


def _known_labels(y: ArrayLike | None, graph: Graph | None, n: int) -> NDArray[np.int64] | None:
    given = y if y is not None else (None if graph is None else graph.y)
    labels = None if given is None else check_labels("y", given, n)
    return labels if labels is not None and (labels >= 0).any() else None


def _checked_k(
    z: Any, k: int | str | None, labels: NDArray[np.int64] | None, seed: int, k_max: int, unit_rows: bool
) -> tuple[int, str]:
    if k is None and labels is not None:
        return len(np.unique(labels[labels >= 0])), "classes"
    if k is None or k == "auto":
        return choose_k(z, seed=seed, k_max=k_max, unit_rows=unit_rows), "silhouette"
    if isinstance(k, str):
        raise InputError(f'k {k!r} is not known. Give a number, "auto", or None for the number of classes.')
    return check_int("k", k, maximum=z.shape[0]), "given"


def _label_values(
    labels: NDArray[np.int64] | None, clusters: NDArray[np.int64], notes: list[str]
) -> dict[str, float]:
    if labels is None:
        notes.append(f"no labels: {_listed(metrics.LABEL_SCORES)} are left out")
        return {}
    return metrics.label_scores(labels, clusters)


def _edge_values(graph: Graph | None, clusters: NDArray[np.int64], notes: list[str]) -> dict[str, float]:
    if graph is None or graph.n_stored == 0:
        notes.append(f"no edges: {_listed(metrics.EDGE_SCORES)} are left out")
        return {}
    return metrics.edge_scores(graph, clusters)


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
