"""Studies of pairs of nodes: tau0 (paper, Eq. 8), the hardness of negatives, the theory's statements."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet.bench.fitting import Bench, training_rows
from tuplet.bench.meter import Meter
from tuplet.bench.spec import Job
from tuplet.graph import Graph

BINS = 50
EPSILONS = (0.1, 0.5, 1.0, 2.0)


def tau0(job: Job, bench: Bench, meter: Meter) -> dict[str, Any]:
    """Quartiles of tau0 over the nodes (paper, Eq. 8), measured on trained vectors with the labels."""
    from tuplet.evaluation.theory import tau0 as tau0_of_nodes

    graph = bench.graph(job.dataset, meter)
    model = bench.fit(job, graph.with_(y=None), meter)
    with meter.phase("evaluate"):
        values = tau0_of_nodes(model.embedding_, labels_of(graph), seed=job.seed)
    values = values[np.isfinite(values)]
    q1, median, q3 = (round(float(q), 4) for q in np.quantile(values, (0.25, 0.5, 0.75)))
    low, high = np.quantile(values[values > 0], (0.005, 0.995))
    counts, edges = np.histogram(values, bins=np.geomspace(low, high, BINS + 1))
    return {
        "metrics": {"q1": q1, "median": median, "q3": q3},
        "series": {"edges": [round(float(e), 5) for e in edges], "counts": counts.tolist()},
    }


def hardness(job: Job, bench: Bench, meter: Meter) -> dict[str, Any]:
    """Similarity among negative pairs for raw features, filtered features and vectors: histograms and means."""
    from tuplet.evaluation.theory import negative_hardness

    graph = bench.graph(job.dataset, meter)
    model = bench.fit(job, graph.with_(y=None), meter)
    with meter.phase("evaluate"):
        rows = training_rows(model, graph)
        sources = {"features": graph.x, "filtered": rows, "vectors": model.embedding_}
        edges = np.linspace(-1, 1, BINS + 1)
        found = {
            name: negative_hardness(z, labels_of(graph), edges=edges, seed=job.seed) for name, z in sources.items()
        }
    middle = (edges[1:] + edges[:-1]) / 2
    shares = {name: np.asarray(counts) / np.sum(counts) for name, counts in found.items()}
    means = {f"mean_{name}": round(float(share @ middle), 5) for name, share in shares.items()}
    hard = {f"hard_{name}": round(100 * float(share[middle > 0.25].sum()), 4) for name, share in shares.items()}
    return {
        "metrics": {**means, **hard},
        "series": {
            "edges": [round(float(e), 4) for e in edges],
            **{name: [round(float(s), 8) for s in share] for name, share in shares.items()},
        },
    }


def theory(job: Job, bench: Bench, meter: Meter) -> dict[str, Any]:
    """The paper's statements measured on trained vectors: Lemma 1, Theorems 1 and 2, tau0, and what their proofs
    assume (Lemma A.1's bound, Lemma A.3's differences of cosines).
    """
    from tuplet.evaluation.theory import lemma_a1, measure, negative_similarities, sample_tuples

    graph = bench.graph(job.dataset, meter)
    model = bench.fit(job, graph.with_(y=None), meter)
    with meter.phase("evaluate"):
        z, y = model.embedding_, labels_of(graph)
        values = dict(measure(z, graph, seed=job.seed).values)
        tuples = sample_tuples(z, y, seed=job.seed)
        for epsilon in EPSILONS:
            found = lemma_a1(tuples, epsilon=epsilon)
            values |= {f"lemma_a1_{name}_{epsilon:g}": value for name, value in found.items()}
        # the counterpart of x is x itself here: cos(x, x) - cos(x, y)
        values["largest_difference"] = 1 - float(negative_similarities(z, y, seed=job.seed).min())
    finite = {name: value for name, value in values.items() if np.isfinite(value)}
    return {"metrics": {name: round(float(value), 4) for name, value in finite.items()}}


def labels_of(graph: Graph) -> NDArray[np.int64]:
    """The labels of `graph`, which must have some."""
    if graph.y is None:
        raise InputError(f"{graph!r} has no labels, and this study is about classes.")
    return graph.y
