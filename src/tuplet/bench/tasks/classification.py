"""Classification: frozen vectors, a linear classifier on 10% of the nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.bench.fitting import Bench, filters_then_trains, rounded, train_config, training_rows
from tuplet.bench.meter import Meter
from tuplet.bench.protocol import node_split, split_options
from tuplet.bench.spec import Job
from tuplet.graph import Graph


def classification(job: Job, bench: Bench, meter: Meter) -> dict[str, Any]:
    """Vectors from 10% of the nodes ("train") or from all without labels ("all"), then a linear classifier."""
    from tuplet.evaluation.tasks import classify_nodes
    from tuplet.graph.splits import split_nodes

    how, protocol = split_options(job.settings.get("evaluate", {}))
    graph = bench.graph(job.dataset, meter)
    y: Any = graph.y
    split = node_split(y, job.seed) if protocol else split_nodes(y, train=0.1, val=0.1, seed=job.seed)
    if job.usage == "all":
        z = bench.fit_without_labels(job, meter, graph.n_classes).embedding_
    elif filters_then_trains(job.method):
        z = _trained_on(split.train, job, bench, graph, meter)
    else:
        known = np.full(graph.n_nodes, -1)
        known[split.train] = y[split.train]
        z = bench.fit(job, graph.with_(y=known), meter, y=known).embedding_
    with meter.phase("evaluate"):
        return {"metrics": rounded(classify_nodes(z, graph, seed=job.seed, masks=split, **how).values)}


def _trained_on(nodes: NDArray[np.int64], job: Job, bench: Bench, graph: Graph, meter: Meter) -> NDArray[np.float32]:
    """Vectors of all nodes from an encoder that saw the rows of `nodes` only, no labels."""
    from tuplet.training.encoder import encode, new_encoder
    from tuplet.training.loop import train

    model = bench.estimator(job)
    with meter.phase("filter"):
        rows = training_rows(model, graph)
    bench.add_shared_cost(model, meter)
    encoder = new_encoder(rows, model.layers, job.seed, unit_rows=model.unit_rows)
    with meter.phase("train"):
        train(encoder, rows[nodes], train_config(model), seed=job.seed, device=bench.device)
    with meter.phase("embed"):
        return encode(encoder, rows, unit_rows=model.unit_rows)
