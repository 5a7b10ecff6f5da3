"""One job -> one row: run its task, note seconds by phase and the peak of memory; and what jobs share.

`Bench` holds what jobs of one process share: the loaded graph, the filtered rows of a filter setting, and the last
model, where one seed's vectors serve two tasks. Their seconds stand in every row that used them.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tuplet.bench.graphs import bench_graph
from tuplet.bench.meter import Meter, time_limit
from tuplet.bench.recipes import estimator_settings
from tuplet.bench.rows import Row, new_row
from tuplet.bench.spec import Job, digest
from tuplet.bench.tasks import task_function
from tuplet.filters import GraphFilter
from tuplet.graph import Graph
from tuplet.models.new_nodes import filter_of
from tuplet.models.registry import make_estimator
from tuplet.training.config import TrainConfig

log = logging.getLogger("tuplet")
GIVEN = ("seed", "device", "n_clusters", "graph_filter")  # parameters that come from the bench, not from the settings


class SharedFilter(GraphFilter):
    """A GraphFilter that remembers the rows of the last graph it has seen, and what they cost, in `last`."""

    last: dict[str, Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "last", {})  # no field: not part of what the filter is

    def transform(self, graph: Graph, **how: Any) -> NDArray[np.float32]:
        """As GraphFilter.transform; the same graph and features give the same array again."""
        x = how.get("x")
        key = graph.with_(x=graph.x if x is None else x).fingerprint()
        if self.last.get("key") == key:
            self.last["hits"] += 1
        else:
            start = time.perf_counter()
            self.last.clear()
            rows = super().transform(graph, **how)
            self.last.update(key=key, rows=rows, seconds=time.perf_counter() - start, hits=0)
        return cast("NDArray[np.float32]", self.last["rows"])


class Bench:
    """Runs jobs one after the other on one device."""

    def __init__(self, device: str = "auto") -> None:
        self.device = device
        self._graph: Graph | None = None
        self._filters: dict[str, SharedFilter] = {}
        self._fitted: tuple[str, Any, dict[str, float]] = ("", None, {})  # key, model, seconds

    def run(self, job: Job) -> Row:
        """The row of `job`; whatever goes wrong inside becomes its `error`."""
        meter = Meter()
        defaults: dict[str, Any] = {}
        try:
            defaults = open_defaults(job)
            limit = None if job.task == "scale" else job.limit_s  # a rung limits its phases one by one
            with time_limit(limit, meter.how_far, stretch=5):
                measured = task_function(job.task)(job, self, meter)
        except Exception as error:
            log.info("%s failed: %s", job.key, error)
            self.forget()
            measured = {"metrics": {}, "error": f"{type(error).__name__}: {str(error).strip()[:500]}"}
        seconds = {name: round(value, 4) for name, value in meter.seconds.items()}
        peaks = {"peak_mb": meter.peak_mb} | ({"gpu_mb": meter.gpu_mb} if meter.gpu_mb else {})
        return new_row(job, **({"defaults": defaults, "seconds": seconds} | peaks | measured))

    def graph(self, name: str, meter: Meter) -> Graph:
        """The dataset, loaded once for the jobs that follow each other."""
        if self._graph is None or self._graph.name != name:
            self.forget()
            with meter.phase("load"):
                self._graph = bench_graph(name)
        return self._graph

    def shared_filter(self, model: Any, changes: Mapping[str, Any] | None = None) -> SharedFilter:
        """The filter of `model`, with the `changes` of a job's setting `filter`, as one that remembers its rows; only
        one is kept, because its rows may be large.
        """
        given = {**filter_of(model).to_dict(), **(changes or {}), "device": self.device}
        shared = cast("SharedFilter", SharedFilter.from_dict(given))
        key = repr(shared.settings())
        if key not in self._filters:
            self._filters = {key: shared}
        return self._filters[key]

    def forget(self) -> None:
        """Let go of the graph and all rows."""
        self._graph, self._filters, self._fitted = None, {}, ("", None, {})

    def estimator(self, job: Job, n_clusters: int = 0) -> Any:
        """The unfitted estimator of `job`: its settings, and the constructor's defaults for the rest. A method that
        takes a filter gets its own one shared; a method that takes the number of clusters gets the number of
        classes, and no other word about the labels.
        """
        settings, known = estimator_settings(job.settings), parameters(job.method)
        given = {"device": self.device, "seed": job.seed} | ({"n_clusters": n_clusters} if n_clusters else {})
        model = make_estimator(job.method, **{k: v for k, v in given.items() if k in known} | settings)
        if "graph_filter" not in known:
            return model
        return model.set_params(graph_filter=self.shared_filter(model, job.settings.get("filter")))

    def fit(self, job: Job, graph: Graph, meter: Meter, *, y: Any = None, n_clusters: int = 0) -> Any:
        """The fitted estimator; seconds go to filter, train and embed."""
        model = self.estimator(job, n_clusters)
        with meter.fit_phases() as progress:
            model.fit(graph, y, progress=progress)
        self.add_shared_cost(model, meter)
        return model

    def fit_without_labels(self, job: Job, meter: Meter, n_clusters: int) -> Any:
        """The model of the whole dataset; the same method, settings and seed right after give the same model."""
        graph = self.graph(job.dataset, meter)
        what = {name: value for name, value in job.settings.items() if name != "evaluate"}
        key = f"{job.dataset}|{job.method}|{job.seed}|{n_clusters}|{digest(what)}"
        if key != self._fitted[0]:
            before = dict(meter.seconds)
            model = self.fit(job, graph.with_(y=None), meter, n_clusters=n_clusters)
            spent = {phase: value - before.get(phase, 0.0) for phase, value in meter.seconds.items()}
            self._fitted = (key, model, spent)
            return model
        _, model, seconds = self._fitted
        for phase, spent_then in seconds.items():
            meter.add(phase, spent_then)
        return model

    def add_shared_cost(self, model: Any, meter: Meter) -> None:
        """Where the rows were taken from an earlier job, the seconds that they cost then."""
        shared = getattr(model, "graph_filter", None)
        if isinstance(shared, SharedFilter) and shared.last["hits"]:
            meter.add("filter", shared.last["seconds"])


def parameters(method: str) -> dict[str, Any]:
    """The settings that `method` takes, each with its default: what the constructor's signature says.

    >>> parameters("DMAT-i")["alpha"]
    0.1
    """
    given = inspect.signature(type(make_estimator(method))).parameters
    return {name: parameter.default for name, parameter in given.items()}


def open_defaults(job: Job) -> dict[str, Any]:
    """The defaults of the parameters that the settings of `job` leave open; a row keeps them beside its settings."""
    known = parameters(job.method)
    return {name: known[name] for name in known if name not in job.settings and name not in GIVEN}


def filters_then_trains(method: str) -> bool:
    """Whether `method` is a filter and then an encoder trained on its rows, no label read: then its phases can run
    apart, and on some of the rows.
    """
    model = make_estimator(method)
    return "graph_filter" in parameters(method) and not model.needs_labels


def training_rows(model: Any, graph: Graph) -> NDArray[np.float32]:
    """The rows that `model`, one of ours, trains on, by its filter and before their own scaling."""
    from tuplet.rows.unit import unit_features

    if not model.unit_rows:
        return cast("NDArray[np.float32]", model.graph_filter.transform(graph))
    with unit_features(graph.x) as x:
        return cast("NDArray[np.float32]", model.graph_filter.transform(graph, x=x))


def train_config(model: Any) -> TrainConfig:
    """How `model` trains its encoder, by its own parameters."""
    known = {field.name for field in fields(TrainConfig)}
    return TrainConfig(**{k: v for k, v in model.get_params(deep=False).items() if k in known})


def rounded(values: Mapping[str, float]) -> dict[str, float]:
    """Four digits, as rows keep them."""
    return {name: round(float(value), 4) for name, value in values.items()}
