"""The paper's side studies as bench tasks: convergence time, tau0, negative hardness, complexity."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet._memory import reset_peak, resident_bytes
from tuplet.bench.meter import Meter
from tuplet.bench.spec import Job
from tuplet.graph import Graph

if TYPE_CHECKING:
    from tuplet.bench.measure import Bench

BINS = 50


def convergence(job: Job, bench: Bench, meter: Meter) -> dict[str, Any]:
    """Seconds from features to vectors (filter, training to the method's own stop, embedding), and the metrics there.

    With `evaluate.curve = [30, 100, ..]` the model is trained that many steps, once for each number with the same
    seed, and `series` holds the metrics and the seconds along the way.
    """
    from tuplet.bench.measure import cluster_values

    graph = bench.graph(job.dataset, meter)
    how = dict(job.settings.get("evaluate", {}))
    steps = how.pop("curve", [])
    plain = replace(job, settings={**job.settings, "evaluate": how})
    series: dict[str, list[float]] = {"steps": [], "seconds": []}
    for count in steps:
        clock = Meter()
        part = replace(plain, settings={**plain.settings, "max_steps": count, "epochs": None})
        values = cluster_values(bench.fit(part, graph.with_(y=None), clock), graph, part)
        series["steps"].append(count)
        series["seconds"].append(round(sum(clock.seconds.values()), 4))
        for name, value in values.items():
            series.setdefault(name, []).append(value)
    model = bench.fit(plain, graph.with_(y=None), meter, n_clusters=graph.n_classes)
    spent = sum(seconds for phase, seconds in meter.seconds.items() if phase != "load")
    with meter.phase("evaluate"):
        values = cluster_values(model, graph, plain)
    measured = {"metrics": {"convergence_seconds": round(spent, 4), **values}}
    return {**measured, "series": series} if steps else measured


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
    from tuplet.bench.measure import filtered_rows
    from tuplet.evaluation.theory import negative_hardness

    graph = bench.graph(job.dataset, meter)
    model = bench.fit(job, graph.with_(y=None), meter)
    with meter.phase("evaluate"):
        rows = filtered_rows(model, graph)
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


def complexity(job: Job, bench: Bench, meter: Meter) -> dict[str, Any]:
    """Seconds and memory of the filter and of a training step on an R-MAT graph of stated size.

    The dataset's name states it: "rmat:n=20000,e=10,f=256,b=512" (nodes, edges a node, features, batch). All layers
    are as wide as the features, as the paper assumes, unless the settings say otherwise.
    """
    from tuplet.bench.measure import parameters

    size = parse_size(job.dataset)
    graph = made_graph(size, meter)
    facts: dict[str, float] = dict(size)
    if job.method == "DMAT-i":
        facts |= _training_cost(job, bench, graph, size, meter)
    else:
        if "hidden" in parameters(job.method):
            job = replace(job, settings={"hidden": size["f"], **job.settings})
        reset_peak()
        before = resident_bytes()
        bench.fit(job, graph, meter, n_clusters=8)
        facts |= {"train_mb": _grown_mb(meter, before), "step_ms": 1e3 * meter.seconds["train"]}
    return {"metrics": {name: round(float(value), 5) for name, value in facts.items()}}


def _training_cost(job: Job, bench: Bench, graph: Graph, size: dict[str, int], meter: Meter) -> dict[str, float]:
    from tuplet.filters import GraphFilter
    from tuplet.filters.weights import ppr
    from tuplet.training.config import TrainConfig
    from tuplet.training.encoder import make_encoder
    from tuplet.training.loop import train

    graph_filter = GraphFilter(ppr(0.1), device=bench.device)
    graph_filter.transform(graph)  # warm up
    with meter.phase("filter"):
        rows = graph_filter.transform(graph)
    layers = tuple(job.settings.get("layers", (size["f"], size["f"])))
    config = TrainConfig(batch_size=size["b"], max_steps=job.settings.get("max_steps", 30))
    encoder = make_encoder(rows.shape[1], layers, job.seed)
    train(encoder, rows, replace(config, max_steps=2), seed=job.seed, device=bench.device)  # warm up
    reset_peak()
    before = resident_bytes()
    with meter.phase("train"):
        train(encoder, rows, config, seed=job.seed, device=bench.device)
    return {
        "filter_ms": 1e3 * meter.seconds["filter"],
        "step_ms": 1e3 * meter.seconds["train"] / (config.max_steps or 1),
        "train_mb": _grown_mb(meter, before),
    }


def _grown_mb(meter: Meter, before: int) -> float:
    """The peak on the GPU, or what the process grew by since it held `before` bytes."""
    return meter.gpu_mb or max(0.0, meter.peak_mb - before / 1e6)


def parse_size(name: str) -> dict[str, int]:
    """The numbers in a made graph's name.

    >>> parse_size("rmat:n=2e4,e=10,f=256,b=512")
    {'n': 20000, 'e': 10, 'f': 256, 'b': 512}
    """
    kind, _, rest = name.partition(":")
    try:
        size = {key: int(float(value)) for key, value in (part.split("=") for part in rest.split(","))}
        found = {key: size[key] for key in ("n", "e", "f", "b")}
    except (ValueError, KeyError):
        found = {}
    if kind != "rmat" or not found:
        raise InputError(f'{name!r} does not state a size. Write it like "rmat:n=2e4,e=10,f=256,b=512".')
    return found


def labels_of(graph: Graph) -> NDArray[np.int64]:
    """The labels of `graph`, which must have some."""
    if graph.y is None:
        raise InputError(f"{graph!r} has no labels, and this study is about classes.")
    return graph.y


def made_graph(size: dict[str, int], meter: Meter) -> Graph:
    """R-MAT with Gaussian features of unit length."""
    from tuplet.bench.scale import fill_random
    from tuplet.graph.synth import rmat

    with meter.phase("load"):
        x = np.empty((size["n"], size["f"]), np.float32)
        fill_random(x, seed=0)
        graph: Graph = rmat(size["n"], size["e"], seed=0).with_(x=x)
        return graph
