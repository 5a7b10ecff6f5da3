"""The house grows by one object and one registration: a loss, a filter weight, a table format, a metric, a rival, a
filter backend, a dataset. Each is added here and then used from end to end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.conftest import Run, random_graph
from tuplet import Graph, GraphFilter, cluster_nodes, load, read_graph


@pytest.fixture(autouse=True)
def tables_as_before() -> Iterator[None]:
    """What a test registers is forgotten afterwards."""
    from tuplet import metrics
    from tuplet.datasets import datasets
    from tuplet.filters import BACKENDS
    from tuplet.filters.weights import FAMILIES
    from tuplet.io import _tables
    from tuplet.losses import OBJECTIVES
    from tuplet.models import registry

    tables: list[dict[str, Any]] = [
        metrics.LABEL_SCORES, metrics.EDGE_SCORES, datasets(), BACKENDS, FAMILIES, _tables.FORMATS, OBJECTIVES,
        registry._METHODS, registry._GIVEN,
    ]  # fmt: skip
    before = [dict(table) for table in tables]
    yield
    for table, old in zip(tables, before):
        table.clear()
        table.update(old)


def test_a_loss(tmp_path: Path) -> None:
    """The distance between a row and its view: an objective, an estimator of two lines, saved and loaded."""
    from tuplet.losses import Objective, register, to_unit
    from tuplet.models import registry
    from tuplet.models.dmat import MetricEstimator

    register(Objective("apart", lambda u, v, y, t: (to_unit(u) - to_unit(v)).square().sum(1).mean() / t))

    class Apart(MetricEstimator):
        _loss = "apart"

    registry.register("Apart", Apart)
    graph = random_graph(60, 12)
    model = registry.make_estimator("Apart", layers=(8, 4), max_steps=30, lr=0.01, batch_size=20, device="cpu")
    model.fit(graph)
    assert not Apart.needs_labels and model.history_.loss[-1] < model.history_.loss[0]
    model.save(tmp_path / "m")
    assert np.array_equal(load(tmp_path / "m").transform(graph), model.transform(graph))


def test_a_loss_with_labels_and_without_views() -> None:
    from tuplet.losses import Objective, register
    from tuplet.training.encoder import make_encoder
    from tuplet.training.loop import TrainConfig, train

    def softmax(z: torch.Tensor, v: None, y: torch.Tensor, t: float) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(z / t, y)

    register(Objective("softmax", softmax, needs_labels=True, views=False))
    graph = random_graph(60, 12)
    encoder = make_encoder(12, (8, 3))
    history = train(
        encoder, graph.x, TrainConfig(loss="softmax", epochs=20, lr=0.01, batch_size=20), labels=graph.y, device="cpu"
    )
    assert history.loss[-1] < history.loss[0]


def test_a_filter_weight() -> None:
    """Weights w_l = (1 - q) q^(2l) at even hops only: M is squared, whichever way the series is evaluated."""
    from tuplet.filters.weights import Family, Weights, register_family

    even = Family(
        ("q",),
        lambda v, hops: np.where(np.arange(hops + 1) % 2 == 0, (1 - v[0]) * v[0] ** (np.arange(hops + 1) // 2), 0.0),
        lambda v, s: (1 - v[0]) / (1 - v[0] * s**2),
        tail=lambda v, hops: float(v[0] ** (hops // 2 + 1)),
    )
    register_family("even", even)
    graph, weights = random_graph(40, 5), Weights("even", (0.5,))
    rows = {s: GraphFilter(weights, series=s, tol=1e-6).transform(graph) for s in ("power", "chebyshev")}
    from tests.reference import dense_filter, dense_operator

    want = dense_filter(dense_operator(graph.adj, 0.5), weights.coefficients(60), graph.x)
    assert all(np.allclose(got, want, atol=1e-5) for got in rows.values())
    assert repr(weights) == "even(q=0.5)" and GraphFilter.from_dict(GraphFilter(weights).to_dict()).weights == weights


def test_a_table_format(tmp_path: Path, run: Run) -> None:
    """Lines of JSON, in the library, in convert and on the command line."""
    from tuplet.io import register_format
    from tuplet.io.convert import convert

    def read(path: Path) -> dict[str, list[Any]]:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        return {name: [row[name] for row in rows] for name in rows[0]}

    register_format(".jsonl", read)
    (tmp_path / "edges.jsonl").write_text('{"source": "a", "target": "b"}\n{"source": "b", "target": "c"}\n')
    graph = read_graph(tmp_path / "edges.jsonl")
    assert graph.n_edges == 2 and list(graph.node_ids) == ["a", "b", "c"]
    assert convert(tmp_path / "edges.jsonl", tmp_path / "stored").fingerprint() == graph.fingerprint()
    code, text, err = run("info", tmp_path / "edges.jsonl", "--json")
    assert code == 0 and json.loads(text)["nodes"] == 3, err


def test_a_metric() -> None:
    """One entry in the list of metrics: the task, the bench and the report's columns have it."""
    from tuplet import metrics
    from tuplet.bench.tasks.clustering import label_values

    metrics.LABEL_SCORES["purity"] = lambda y, clusters: float(
        np.mean([np.bincount(np.asarray(y)[np.asarray(clusters) == c]).max() for c in np.unique(clusters)])
    ) / len(np.asarray(y))  # fmt: skip
    graph = random_graph(60, 5)
    found = cluster_nodes(graph.x, graph, 3)
    assert "purity" in found.values and "purity" in metrics.clustering_metrics()
    assert found.labels is not None and label_values(found.labels, graph)["purity"] == pytest.approx(
        found["purity"], abs=1e-3
    )


def test_a_rival(tmp_path: Path, run: Run) -> None:
    """A method of a few lines: by name in the library, in the bench and on the command line."""
    from tuplet.bench.fitting import Bench
    from tuplet.bench.spec import Job
    from tuplet.models.contract import NodeEstimator
    from tuplet.models.registry import make_estimator, register

    class FirstColumns(NodeEstimator):
        """The first columns of the features."""

        inductive = False

        def __init__(self, d: int = 4, *, seed: int = 0, device: str = "auto") -> None:
            self.d, self.seed, self.device = d, seed, device

        def _fit(self, graph: Graph, y: Any, progress: Any) -> None:
            x = graph.x.toarray() if hasattr(graph.x, "toarray") else np.asarray(graph.x)
            self.embedding_ = x[:, : self.d].astype(np.float32)

    register("FirstColumns", FirstColumns)
    graph = random_graph(30, 7)
    assert np.array_equal(make_estimator("FirstColumns", d=3).fit(graph).embedding_, graph.x[:, :3])
    row = Bench("cpu").run(Job("clustering", "cora", "FirstColumns", "all", 1, {"d": 30}))
    assert "error" not in row and 10 < row["metrics"]["accuracy"] < 60
    out = tmp_path / "v.parquet"
    code, _, err = run("embed", "cora", "-o", out, "--method", "FirstColumns", "-q")
    assert code == 0 and out.exists(), err


def test_a_filter_backend() -> None:
    """A device that filters by dense products, whole or block by block; a full one leaves the work to the CPU."""
    from tests.reference import dense_filter
    from tuplet.filters import Backend, register_backend

    calls: list[str] = []

    def engine(op: Any, plan: Any, r: float, read: Any, x: Any, columns: int, device: str) -> Any:
        def compute(first: int, width: int, tick: Any) -> np.ndarray:
            calls.append(device)
            if device == "numpy:full":
                raise MemoryError
            block = np.empty((op.n, width), np.float32)
            read(0, first, op.degree_power(-r), block)
            t = Graph(op.indptr, op.indices).adj.toarray() + np.eye(op.n) * op.loop
            rows = dense_filter(t / op.degrees[:, None], plan.coefficients, block) * op.degree_power(r)[:, None]
            tick(1.0)
            return np.asarray(rows, np.float32)

        return compute

    register_backend(Backend("numpy", engine))
    graph = random_graph(40, 9)
    want = GraphFilter(series="power", device="cpu").transform(graph)
    for device in ("numpy", "numpy:1", "numpy:full"):
        got = GraphFilter(series="power", device=device).transform(graph)
        assert np.allclose(got, want, atol=1e-5) and calls[-1] == device
    assert GraphFilter(device="numpy").estimate(graph).device == "numpy"


def test_a_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    from tuplet import load_dataset
    from tuplet.datasets import Dataset, content_of, register_dataset
    from tuplet.io.npz import write_npz

    graph = random_graph(50, 6)
    write_npz(graph, tmp_path / "toy.npz")
    monkeypatch.setenv("TUPLET_DATA", str(tmp_path))
    facts = {"nodes": 50, "edges": graph.n_edges, "features": 6, "classes": 3, "content": content_of(graph)}
    register_dataset(Dataset("toy", "A toy", source="here", licence="CC0", checked="today", **facts))
    assert load_dataset("toy").fingerprint() == graph.fingerprint()
    code, text, err = run("info", "toy", "--json")
    assert code == 0 and json.loads(text)["nodes"] == 50, err
