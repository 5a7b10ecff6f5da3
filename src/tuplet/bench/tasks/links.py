"""Link prediction: the held-out edges are gone before anything is filtered or trained."""

from __future__ import annotations

from typing import Any

from tuplet.bench.fitting import Bench, rounded
from tuplet.bench.meter import Meter
from tuplet.bench.protocol import edge_split, split_options
from tuplet.bench.spec import Job


def links(job: Job, bench: Bench, meter: Meter) -> dict[str, Any]:
    """5% and 10% of the edges held out; everything is fitted on the rest; AUC and average precision on test."""
    from tuplet.evaluation.links import score_links
    from tuplet.graph.splits import split_edges

    how, protocol = split_options(job.settings.get("evaluate", {}))
    graph = bench.graph(job.dataset, meter)
    whole = graph.with_(y=None)
    split = edge_split(whole, job.seed) if protocol else split_edges(whole, val=0.05, test=0.1, seed=job.seed)
    model = bench.fit(job, split.graph, meter, n_clusters=graph.n_classes)
    with meter.phase("evaluate"):
        result = score_links(model.embedding_, split, seed=job.seed, **how)
    return {"metrics": rounded(result.values), "chosen": {"rows": result.settings["rows"]}}
