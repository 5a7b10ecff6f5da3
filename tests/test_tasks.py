"""Clustering and classification of nodes: protocol, choices without test labels, degenerate input."""

from __future__ import annotations

import json
import logging
import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression

import tuplet.rows.kmeans as km
from tests.conftest import anywhere, random_graph
from tuplet import metrics
from tuplet._check import InputError
from tuplet.evaluation.results import Result, repeat
from tuplet.evaluation.tasks import classify_nodes, cluster_nodes
from tuplet.graph import Graph
from tuplet.graph.splits import NodeSplit, split_nodes
from tuplet.rows.lloyd import simplified_silhouette
from tuplet.rows.unit import scale_rows


def blobs(k: int = 4, size: int = 40, *, spread: float = 0.25, seed: int = 0, d: int = 8) -> tuple[np.ndarray, Graph]:
    """Vectors around k corners, and a graph with most edges inside each group."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(k), size)
    z = (np.eye(max(k, d))[y, :] + spread * rng.normal(size=(len(y), max(k, d)))).astype(np.float32)
    chance = np.where(y[:, None] == y, 0.2, 0.01)
    return z, Graph.from_scipy(rng.random((len(y), len(y))) < chance, y=y)


def test_cluster_values_are_the_metrics_of_the_clusters_in_percent() -> None:
    z, graph = blobs()
    result = cluster_nodes(z, graph, seed=3)
    assert result.labels is not None and result.sizes == {"nodes": 160, "labelled": 160, "clusters": 4}
    assert result["accuracy"] == 100 * metrics.accuracy(graph.y, result.labels) > 90
    assert result["nmi"] == 100 * metrics.nmi(graph.y, result.labels)
    assert result["ari"] == 100 * metrics.ari(graph.y, result.labels)
    assert result["f1"] == 100 * metrics.macro_f1(graph.y, result.labels)
    for name, metric in (("modularity", metrics.modularity), ("conductance", metrics.conductance)):
        assert result[name] == 100 * metric(graph, result.labels)
        assert result[f"{name}_self_loops"] == 100 * metric(graph, result.labels, self_loops=True)


@pytest.mark.parametrize("unit_rows", [True, False])
def test_clusters_are_as_tight_as_scikit_learns_on_scaled_rows(unit_rows: bool) -> None:
    z, graph = blobs(spread=0.5)
    rows = z / np.linalg.norm(z, axis=1, keepdims=True) if unit_rows else z
    model = KMeans(4, n_init=10, random_state=0).fit(rows)
    found = cluster_nodes(z, graph, seed=5, unit_rows=unit_rows).labels
    inertia = sum(((rows[found == c] - rows[found == c].mean(axis=0)) ** 2).sum() for c in range(4))
    assert metrics.ari(model.labels_, found) > 0.95 and inertia <= 1.001 * model.inertia_


def test_same_seed_same_clusters_and_sparse_rows_as_dense_ones() -> None:
    z, graph = blobs(spread=0.5)
    z[:, :4] *= z[:, :4] > 0.3
    a, b, c = (cluster_nodes(v, graph, seed=1).labels for v in (z, z.copy(), sp.csr_array(z)))
    assert np.array_equal(a, b) and metrics.ari(a, c) > 0.95  # other starts: scikit-learn takes sparse rows


def test_clusters_without_labels_have_graph_values_only() -> None:
    z, graph = blobs()
    result = cluster_nodes(z, graph.with_(y=None), 4)
    assert set(result.values) == {"modularity", "conductance", "modularity_self_loops", "conductance_self_loops"}
    assert any("no labels" in note for note in result.notes)
    unknown = cluster_nodes(z, graph.with_(y=np.full(160, -1)), 4)
    assert unknown.values == result.values


def test_clusters_without_edges_have_label_values_only() -> None:
    z, graph = blobs()
    empty = Graph.from_scipy(np.zeros((160, 160)), y=graph.y)
    for result in (cluster_nodes(z, empty), cluster_nodes(z, y=graph.y)):
        assert set(result.values) == {"accuracy", "nmi", "ari", "f1"}
        assert any("no edges" in note for note in result.notes)


@pytest.mark.parametrize("k", [2, 3, 7])
def test_number_of_clusters_is_found_without_labels(k: int) -> None:
    z, graph = blobs(k)
    result = cluster_nodes(z, graph.with_(y=None), k_max=10)
    assert (result.sizes["clusters"], result.settings["k_from"]) == (k, "silhouette")
    wrong = cluster_nodes(z, graph.with_(y=np.arange(len(z)) % 11), "auto", k_max=10)  # labels change nothing
    assert wrong.sizes["clusters"] == k


def test_k_may_differ_from_the_number_of_classes() -> None:
    z, graph = blobs(4)
    assert cluster_nodes(z, graph, 2)["accuracy"] == pytest.approx(50, abs=5)
    assert 0 < cluster_nodes(z, graph, 9)["accuracy"] < 90
    y = np.where(anywhere(160, 10), -1, np.arange(160) % 2 + 3)
    result = cluster_nodes(z, graph, y=y)  # classes 3 and 4
    assert (result.sizes["clusters"], result.sizes["labelled"]) == (2, 150)


def test_equal_vectors_make_one_cluster_and_say_so() -> None:
    _, graph = blobs()
    result = cluster_nodes(np.ones((160, 3)), graph)
    assert any("only 1 of 4 clusters" in note for note in result.notes)
    assert (result["accuracy"], result["nmi"], result["ari"], result["conductance"]) == (25, 0, 0, 0)
    assert np.isfinite(list(result.values.values())).all()
    assert cluster_nodes(np.zeros((160, 3)), graph, "auto").sizes["clusters"] == 1


@pytest.mark.parametrize(
    ("z", "k", "text"),
    [
        (np.ones((5, 2)), 2, "5 vectors but the graph has 160"),
        (np.ones(160), 2, "one row a node"),
        (np.full((160, 2), np.nan), 2, "NaN or infinity"),
        (np.ones((160, 2)), 161, "at most 160"),
        (np.ones((160, 2)), "many", "'many' is not known"),
    ],
)
def test_impossible_clusterings_say_why(z: np.ndarray, k: int, text: str) -> None:
    with pytest.raises(InputError, match=text):
        cluster_nodes(z, blobs()[1], k)


def test_block_path_reaches_the_clusters_of_the_whole_one(monkeypatch, tmp_path) -> None:
    z, graph = blobs(4, 100, spread=0.3)
    np.save(tmp_path / "z.npy", z)
    whole = cluster_nodes(z, graph)
    for name, value in (("starts._SAMPLE", 80), ("starts._SAMPLE_EACH", 50), ("lloyd._BLOCK", 8 * 37)):
        monkeypatch.setattr(f"tuplet.rows.{name}", value)
    mapped = np.load(tmp_path / "z.npy", mmap_mode="r")
    biggest = []
    for place in ("kmeans", "starts", "lloyd"):
        monkeypatch.setattr(
            f"tuplet.rows.{place}.scale_rows",
            lambda rows, unit=True: biggest.append(rows.shape[0]) or scale_rows(rows, unit),
        )
    found = cluster_nodes(mapped, graph)
    assert metrics.ari(whole.labels, found.labels) > 0.97
    assert max(biggest) == 256  # 50 rows a cluster in the sample, 256 in a block: never all 400


def test_choice_of_k_looks_at_a_sample_only(monkeypatch) -> None:
    z, _ = blobs(3, 300)
    sizes = []
    whole = km.kmeans
    monkeypatch.setattr(km, "kmeans", lambda rows, *a, **b: sizes.append(rows.shape[0]) or whole(rows, *a, **b))
    assert km.choose_k(z, sample=200) == 3 and set(sizes) == {200}


def test_simplified_silhouette_equals_the_loop() -> None:
    z, _ = blobs()
    centres = z[::50]
    shares = []
    for row in z:
        a, b = sorted(np.linalg.norm(row - c) for c in centres)[:2]
        shares.append((b - a) / b)
    assert simplified_silhouette(z, centres) == pytest.approx(np.mean(shares), abs=1e-3)
    assert simplified_silhouette(sp.csr_array(z), centres) == pytest.approx(np.mean(shares), abs=1e-3)


def test_classification_is_a_logistic_regression_chosen_on_validation() -> None:
    z, graph = blobs(3, 60, spread=0.6)
    result = classify_nodes(z, graph, seed=2, train=0.2, val=0.2)
    split = split_nodes(graph.y, train=0.2, val=0.2, seed=2)
    rows = z / np.linalg.norm(z[split.train], axis=1).mean()
    fits = {}
    for c in (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0):
        fits[c] = LogisticRegression(C=c, max_iter=5000).fit(rows[split.train], graph.y[split.train])
    scores = {c: fit.score(rows[split.val], graph.y[split.val]) for c, fit in fits.items()}
    best = max(scores, key=lambda c: scores[c])
    assert result.settings["C"] == best and result["val_accuracy"] == pytest.approx(100 * scores[best])
    test = fits[best].score(rows[split.test], graph.y[split.test])
    assert result["accuracy"] == pytest.approx(100 * test, abs=1.1)  # solver tolerance: one of 108 nodes
    assert result.sizes == {"train": 36, "val": 36, "test": 108}
    assert result["f1"] == 100 * metrics.macro_f1(graph.y[split.test], result.labels[split.test], match=False)


def test_of_equally_good_regularisations_the_strongest_is_taken() -> None:
    z, graph = blobs(3, 60, spread=0.05)  # every strength separates these
    result = classify_nodes(z, graph)
    assert (result["val_accuracy"], result.settings["C"]) == (100, 0.01)


def test_test_labels_choose_nothing() -> None:
    z, graph = blobs(3, 60, spread=0.6)
    split = split_nodes(graph.y, seed=0)
    y = graph.y.copy()
    y[split.test] = (y[split.test] + 1) % 3
    a, b = classify_nodes(z, graph, masks=split), classify_nodes(z, y=y, masks=split)
    assert np.array_equal(a.labels, b.labels) and a.settings == b.settings and a["accuracy"] > b["accuracy"]


def test_masks_come_in_many_shapes() -> None:
    z, graph = blobs(3, 60)
    split = split_nodes(graph.y, seed=4)
    booleans = [np.isin(np.arange(180), part) for part in (split.train, split.val, split.test)]
    named = {"train": split.train[::-1].tolist(), "val": booleans[1], "test": split.test}
    results = [classify_nodes(z, graph, masks=masks) for masks in (split, booleans, named)]
    assert results[0].values == results[1].values == results[2].values
    assert results[0].settings["split"] == "given"


def test_validation_may_be_empty_and_sparse_vectors_give_the_same(caplog) -> None:
    z, graph = blobs(3, 60)
    split = split_nodes(graph.y, seed=4)
    result = classify_nodes(z, graph, masks=(split.train, [], split.test))
    assert result.settings["C"] == 1 and any("no validation" in note for note in result.notes)
    assert "val_accuracy" not in result.values
    dense, sparse = (classify_nodes(v, graph, seed=4) for v in (z, sp.csr_array(z)))
    assert dense.values == sparse.values


def test_class_missing_from_train_is_said(caplog) -> None:
    z, graph = blobs(3, 60)
    train = np.flatnonzero(graph.y < 2)[::4]
    others = np.setdiff1d(np.arange(180), train)
    with caplog.at_level(logging.WARNING, logger="tuplet"):
        result = classify_nodes(z, graph, masks=(train, others[::5], np.setdiff1d(others, others[::5])))
    assert any("1 classes have no training node" in note and "[2]" in note for note in result.notes)
    assert "no training node" in caplog.text
    assert result["accuracy"] < 70


@pytest.mark.parametrize(
    ("masks", "text"),
    [
        (([0, 1, 60], [2], [2, 3]), "overlap"),
        (([0, 1, 2], [], [3]), "one class only"),
        (([0, 60], [], []), "test part"),
        (([0, 60], [61]), "has 2 parts"),
        (([0, 600], [], [3]), r"outside 0\.\.179"),
        ((np.ones(5, bool), [], [3]), "train mask has shape"),
        (([0.5, 60], [], [3]), "booleans or node indices"),
    ],
)
def test_impossible_masks_say_why(masks, text: str) -> None:
    z, graph = blobs(3, 60)
    with pytest.raises(InputError, match=text):
        classify_nodes(z, graph, masks=masks)


def test_unlabelled_nodes_of_a_given_split_are_left_out() -> None:
    z, graph = blobs(3, 60)
    split = split_nodes(graph.y, seed=4)
    y = graph.y.copy()
    y[split.test[:7]] = -1
    result = classify_nodes(z, y=y, masks=split)
    assert result.sizes["test"] == len(split.test) - 7 and "7 nodes" in result.notes[0]


def test_classification_needs_labels_of_two_classes() -> None:
    z, graph = blobs(3, 60)
    with pytest.raises(InputError, match="needs labels"):
        classify_nodes(z, graph.with_(y=None))
    with pytest.raises(InputError, match="one class"):
        classify_nodes(z, y=np.zeros(180, int))
    equal = classify_nodes(np.ones((180, 2)), graph)
    assert np.isfinite(list(equal.values.values())).all() and equal["accuracy"] < 50


def test_results_are_frozen_and_speak_json() -> None:
    z, graph = blobs()
    result = cluster_nodes(z, graph)
    with pytest.raises(AttributeError):
        result.seed = 3  # type: ignore[misc]
    again = json.loads(json.dumps(result.to_dict()))
    assert again["values"] == result.values and again["seed"] == 0 and "labels" not in again
    text = repr(result)
    assert text.startswith("cluster, seed 0") and re.search(rf"\n  accuracy +{result['accuracy']:.2f}\n", text)
    assert "160 nodes" in text and "k_from classes" in text


def test_repeat_gives_mean_and_deviation_of_each_value() -> None:
    def run(seed: int) -> Result:
        values = {"accuracy": [70.0, 74.0, 72.0][seed]} | ({"nmi": 1.0} if seed else {})
        return Result("toy", values, seed, {"nodes": 3}, 0.5, notes=("odd",) if seed == 2 else ())

    summary = repeat(run, 3)
    assert summary.mean == {"accuracy": 72.0}  # nmi is missing from one run
    assert summary.deviation["accuracy"] == pytest.approx(np.std([70, 74, 72]))
    assert "72.00 ± 1.63" in repr(summary) and "note: odd" in repr(summary) and "3 runs, 1.50 s" in repr(summary)
    assert [run["seed"] for run in json.loads(json.dumps(summary.to_dict()))["runs"]] == [0, 1, 2]
    with pytest.raises(InputError, match="nothing would run"):
        repeat(run, [])


def test_node_split_reads_well() -> None:
    assert repr(NodeSplit(np.arange(2), np.arange(1), np.arange(5))) == "NodeSplit(2 train, 1 val, 5 test)"


def test_random_vectors_cluster_at_chance() -> None:
    graph = random_graph(300, k=3)
    z = np.random.default_rng(0).normal(size=(300, 5))
    result = cluster_nodes(z, graph)
    assert abs(result["ari"]) < 3 and result["nmi"] < 5
