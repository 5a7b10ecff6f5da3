"""What a page counts over all nodes: edges by cluster, classes by cluster, scores, and colours that match."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet import metrics
from tuplet.graph import Graph
from tuplet.graph.edges import edge_blocks
from tuplet.pages.colours import group_colours

MATRIX = 40  # clusters and classes in a matrix; of more, the largest


def class_groups(graph: Graph) -> list[dict[str, str]]:
    """Name and colour of each class; none without labels."""
    if graph.y is None or not graph.n_classes:
        return []
    names = list(graph.label_names) + [f"class {c}" for c in range(len(graph.label_names), graph.n_classes)]
    return [{"name": str(name), "colour": colour} for name, colour in zip(names, group_colours(len(names)))]


def edge_matrix(graph: Graph, clusters: NDArray[np.int64]) -> dict[str, Any] | None:
    """Edges from cluster to cluster (rows to columns; an undirected edge counts once), of the largest 40 clusters."""
    if not graph.n_stored:
        return None
    used, place, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    k = len(used)
    counts = np.zeros(k * k)
    for part, nodes in edge_blocks(graph):
        counts += np.bincount(place[nodes] * k + place[graph.indices[part]], minlength=k * k)
    table = counts.reshape(k, k)
    if not graph.directed:
        table[np.diag_indices(k)] /= 2  # both directions of an inner edge fall into one cell
    kept = np.sort(np.argsort(-sizes, kind="stable")[:MATRIX])
    cells = table[np.ix_(kept, kept)].astype(int).tolist()
    return {"clusters": used[kept].tolist(), "cells": cells, "left_out": k - len(kept)}


def scores(graph: Graph, clusters: NDArray[np.int64]) -> list[tuple[str, float]]:
    """In percent: against the labels where there are any, against the edges where there are any."""
    values = []
    if graph.y is not None and (graph.y >= 0).any():
        names = {"accuracy": metrics.accuracy, "NMI": metrics.nmi, "ARI": metrics.ari, "macro F1": metrics.macro_f1}
        values += [(name, round(100 * score(graph.y, clusters), 2)) for name, score in names.items()]
    if graph.n_stored:
        values.append(("modularity", round(100 * metrics.modularity(graph, clusters), 2)))
        values.append(("conductance", round(100 * metrics.conductance(graph, clusters), 2)))
    return values


def cluster_colours(graph: Graph, clusters: NDArray[np.int64]) -> list[str]:
    """A colour for each cluster: that of the class which it matches best, one to one; a further one where none."""
    k = len(np.unique(clusters))
    table = class_table(graph, clusters)
    if table is None:
        return group_colours(k)
    rows, columns = _matched(table)
    colours = group_colours(len(table) + k)
    free = iter(colours[len(table) :])
    match = dict(zip(columns.tolist(), rows.tolist()))
    return [colours[match[c]] if c in match else next(free) for c in range(k)]


def class_table(graph: Graph, clusters: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Labelled nodes by class (rows) and cluster (columns); None without labels."""
    if graph.y is None or not (graph.y >= 0).any():
        return None
    known = graph.y >= 0
    used, place = np.unique(clusters, return_inverse=True)
    table = np.zeros((graph.n_classes, len(used)), np.int64)
    np.add.at(table, (graph.y[known], place[known]), 1)
    return table


def _matched(table: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(table, maximize=True)
    return rows, columns


def confusion(graph: Graph, clusters: NDArray[np.int64]) -> dict[str, Any] | None:
    """`class_table` with its columns in the order of their best match, 40 classes and clusters at most."""
    table = class_table(graph, clusters)
    if table is None:
        return None
    rows, columns = _matched(table)
    rest = [c for c in range(table.shape[1]) if c not in set(columns)]
    order = [*columns[np.argsort(rows)], *rest][:MATRIX]
    names = [group["name"] for group in class_groups(graph)][:MATRIX]
    used = np.unique(clusters)
    return {"classes": names, "clusters": used[order].tolist(), "cells": table[:MATRIX, order].tolist()}
