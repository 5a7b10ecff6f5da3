"""Complexity: how seconds and memory grow with nodes, edges, features and batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tuplet._memory import reset_peak, resident_bytes
from tuplet.bench.fitting import Bench, filters_then_trains, open_defaults, parameters, rounded, train_config
from tuplet.bench.meter import Meter
from tuplet.bench.recipes import estimator_settings
from tuplet.bench.rmat import made_graph, parse_size
from tuplet.bench.spec import Job
from tuplet.graph import Graph
from tuplet.models.new_nodes import filter_of
from tuplet.models.registry import make_estimator


def complexity(job: Job, bench: Bench, meter: Meter) -> dict[str, Any]:
    """Seconds and memory of the filter and of a training step on an R-MAT graph of stated size.

    The dataset's name states it: "rmat:n=20000,e=10,f=256,b=512" (nodes, edges a node, features, batch). All layers
    are as wide as the features, as the paper assumes, unless the settings say otherwise.
    """
    size = parse_size(job.dataset)
    graph = made_graph(size, meter)
    job = replace(job, settings=_as_wide_as_features(job, size))
    cost = _step_cost if filters_then_trains(job.method) else _fit_cost
    facts = {**size, **cost(job, bench, graph, meter)}
    return {"metrics": rounded(facts), "defaults": open_defaults(job)}


def _as_wide_as_features(job: Job, size: Mapping[str, int]) -> dict[str, Any]:
    """The settings of `job` with the stated batch, and with layers of `f` columns where they name none."""
    f, known = size["f"], parameters(job.method)
    if filters_then_trains(job.method):
        return {"layers": [f, f], **job.settings, "batch_size": size["b"]}
    return {"hidden": f, **job.settings} if "hidden" in known else dict(job.settings)


def _step_cost(job: Job, bench: Bench, graph: Graph, meter: Meter) -> dict[str, float]:
    """The filter, once, and a mean training step."""
    from tuplet.training.encoder import new_encoder
    from tuplet.training.loop import train

    model = make_estimator(job.method, **estimator_settings(job.settings))
    graph_filter, config = replace(filter_of(model), device=bench.device), train_config(model)
    graph_filter.transform(graph)  # warm up
    with meter.phase("filter"):
        rows = graph_filter.transform(graph)
    encoder = new_encoder(rows, model.layers, job.seed, unit_rows=model.unit_rows)
    train(encoder, rows, replace(config, max_steps=2, epochs=None), seed=job.seed, device=bench.device)  # warm up
    reset_peak()
    before = resident_bytes()
    with meter.phase("train"):
        train(encoder, rows, config, seed=job.seed, device=bench.device)
    return {
        "filter_ms": 1e3 * meter.seconds["filter"],
        "step_ms": 1e3 * meter.seconds["train"] / config.n_steps(len(rows)),
        "train_mb": _grown_mb(meter, before),
    }


def _fit_cost(job: Job, bench: Bench, graph: Graph, meter: Meter) -> dict[str, float]:
    """The whole fit, for a method that cannot be taken apart."""
    reset_peak()
    before = resident_bytes()
    bench.fit(job, graph, meter, n_clusters=8)
    spent = sum(seconds for phase, seconds in meter.seconds.items() if phase != "load")
    return {"train_mb": _grown_mb(meter, before), "step_ms": 1e3 * spent}


def _grown_mb(meter: Meter, before: int) -> float:
    """The peak on the GPU, or what the process grew by since it held `before` bytes."""
    return meter.gpu_mb or max(0.0, meter.peak_mb - before / 1e6)
