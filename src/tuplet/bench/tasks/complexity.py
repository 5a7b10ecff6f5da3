"""Complexity: how seconds and memory grow with nodes, edges, features and batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tuplet._memory import reset_peak, resident_bytes
from tuplet.bench.fitting import Bench, parameters
from tuplet.bench.meter import Meter
from tuplet.bench.rmat import made_graph, parse_size
from tuplet.bench.spec import Job
from tuplet.graph import Graph


def complexity(job: Job, bench: Bench, meter: Meter) -> dict[str, Any]:
    """Seconds and memory of the filter and of a training step on an R-MAT graph of stated size.

    The dataset's name states it: "rmat:n=20000,e=10,f=256,b=512" (nodes, edges a node, features, batch). All layers
    are as wide as the features, as the paper assumes, unless the settings say otherwise.
    """
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
