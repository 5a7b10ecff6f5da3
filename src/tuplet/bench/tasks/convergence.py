"""Convergence: seconds from features to vectors, and the metrics along the way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tuplet.bench.fitting import Bench
from tuplet.bench.meter import Meter
from tuplet.bench.spec import Job
from tuplet.bench.tasks.clustering import cluster_values


def convergence(job: Job, bench: Bench, meter: Meter) -> dict[str, Any]:
    """Seconds from features to vectors (filter, training to the method's own stop, embedding), and the metrics there.

    With `evaluate.curve = [30, 100, ..]` the model is trained that many steps, once for each number with the same
    seed, and `series` holds the metrics and the seconds along the way.
    """
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
