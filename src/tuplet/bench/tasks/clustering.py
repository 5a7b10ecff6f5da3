"""Clustering: vectors without labels, K-Means, six metrics."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from tuplet import metrics
from tuplet._check import InputError
from tuplet.bench.fitting import Bench, rounded
from tuplet.bench.graphs import n_clusters_of
from tuplet.bench.meter import Meter
from tuplet.bench.spec import Job
from tuplet.graph import Graph


def clustering(job: Job, bench: Bench, meter: Meter) -> dict[str, Any]:
    """Vectors without labels, K-Means, six metrics; clusters that a method assigns itself are taken as they are."""
    graph = bench.graph(job.dataset, meter)
    model = bench.fit_without_labels(job, meter, n_clusters_of(graph))
    with meter.phase("evaluate"):
        found = {"metrics": cluster_values(model, graph, job)}
        if getattr(model, "labels_", None) is not None:
            found["kmeans_on_vectors"] = vector_values(model, graph, job)
        return found


def cluster_values(model: Any, graph: Graph, job: Job) -> dict[str, float]:
    """The clustering metrics of a fitted model, in percent: of its own clusters where it has some."""
    own = getattr(model, "labels_", None)
    return vector_values(model, graph, job) if own is None else label_values(own, graph)


def vector_values(model: Any, graph: Graph, job: Job) -> dict[str, float]:
    """The metrics of K-Means on the vectors of a fitted model, in percent."""
    from tuplet.evaluation.tasks import cluster_nodes

    how = {"k": n_clusters_of(graph), **job.settings.get("evaluate", {})}
    return rounded(cluster_nodes(model.embedding_, graph, seed=job.seed, **how).values)


def label_values(clusters: NDArray[Any], graph: Graph) -> dict[str, float]:
    """The clustering metrics of given clusters (n,), in percent."""
    if graph.y is None:
        raise InputError(f"{graph!r} has no labels, so clusters cannot be scored.")
    return rounded({**metrics.label_scores(graph.y, clusters), **metrics.edge_scores(graph, clusters)})
