"""Clustering: vectors without labels, K-Means, six metrics."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet import metrics
from tuplet._check import InputError
from tuplet.bench.fitting import Bench, rounded
from tuplet.bench.graphs import n_clusters_of
from tuplet.bench.meter import Meter
from tuplet.bench.protocol import CLUSTERING_SHARE, split_options, validation_nodes
from tuplet.bench.spec import Job
from tuplet.graph import Graph


def clustering(job: Job, bench: Bench, meter: Meter) -> dict[str, Any]:
    """Vectors without labels, K-Means, six metrics; clusters that a method assigns itself are taken as they are.

    With evaluate.split = "protocol" the label metrics also come as `val_*`, on the validation nodes alone, and as
    `test_*`, on the others.
    """
    graph = bench.graph(job.dataset, meter)
    model = bench.fit_without_labels(job, meter, n_clusters_of(graph))
    with meter.phase("evaluate"):
        clusters = clusters_of(model, graph, job)
        found = {"metrics": label_values(clusters, graph) | _part_values(clusters, graph, job)}
        if getattr(model, "labels_", None) is not None:
            found["kmeans_on_vectors"] = label_values(vector_clusters(model, graph, job), graph)
        return found


def cluster_values(model: Any, graph: Graph, job: Job) -> dict[str, float]:
    """The clustering metrics of a fitted model, in percent: of its own clusters where it has some."""
    return label_values(clusters_of(model, graph, job), graph)


def clusters_of(model: Any, graph: Graph, job: Job) -> NDArray[Any]:
    """The clusters (n,) that a fitted model assigns, or else those of K-Means on its vectors."""
    own: NDArray[Any] | None = getattr(model, "labels_", None)
    return vector_clusters(model, graph, job) if own is None else own


def vector_clusters(model: Any, graph: Graph, job: Job) -> NDArray[Any]:
    """The clusters (n,) of K-Means on the vectors of a fitted model."""
    from tuplet.evaluation.tasks import cluster_nodes

    how = {"k": n_clusters_of(graph), **split_options(job.settings.get("evaluate", {}))[0]}
    found: Any = cluster_nodes(model.embedding_, graph, seed=job.seed, **how).labels
    return np.asarray(found)


def label_values(clusters: NDArray[Any], graph: Graph) -> dict[str, float]:
    """The clustering metrics of given clusters (n,), in percent."""
    return rounded({**metrics.label_scores(_labels(graph), clusters), **metrics.edge_scores(graph, clusters)})


def _part_values(clusters: NDArray[Any], graph: Graph, job: Job) -> dict[str, float]:
    if not split_options(job.settings.get("evaluate", {}))[1]:
        return {}
    y = _labels(graph)
    val = np.zeros(len(y), bool)
    val[validation_nodes(y, CLUSTERING_SHARE)] = True
    values: dict[str, float] = {}
    for prefix, part in (("val", val), ("test", ~val)):
        scores = metrics.label_scores(y[part], clusters[part])
        values |= {f"{prefix}_{name}": value for name, value in scores.items()}
    return rounded(values)


def _labels(graph: Graph) -> NDArray[Any]:
    if graph.y is None:
        raise InputError(f"{graph!r} has no labels, so clusters cannot be scored.")
    return graph.y
