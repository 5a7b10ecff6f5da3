"""Link prediction: the score, the choice on validation, and the proof that no held-out edge reaches the vectors."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from tests.conftest import random_graph
from tuplet import metrics
from tuplet._check import InputError
from tuplet.evaluation.links import ROWS, leaks, pair_scores, predict_links, score_links
from tuplet.graph import Graph
from tuplet.graph.splits import EdgeSplit, rewire, split_edges, without_edges


def smoothed(graph: Graph) -> np.ndarray:
    """Features averaged over two hops, symmetric normalisation: a filter of four lines, on purpose not ours."""
    x = graph.x.toarray() if sp.issparse(graph.x) else np.asarray(graph.x)
    a = graph.adj + sp.eye_array(graph.n_nodes, dtype=np.float32)
    d = sp.diags_array(1 / np.sqrt(a.sum(axis=1)))
    return np.asarray(d @ (a @ (d @ (d @ (a @ (d @ x))))))


class Smoother(BaseEstimator):
    """The smallest estimator of the contract."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit_transform(self, graph: Graph) -> np.ndarray:
        self.seen_ = graph
        return smoothed(graph)


def community_graph(n: int = 120, seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 4
    x = rng.normal(size=(n, 16)) + 2 * rng.normal(size=(4, 16))[y]
    chance = np.where(y[:, None] == y, 0.15, 0.01)
    return Graph.from_scipy(rng.random((n, n)) < chance, x.astype(np.float32), y)


def test_pair_scores_equal_the_loop() -> None:
    z = np.random.default_rng(0).normal(size=(9, 4)) + 1
    pairs = np.array([[0, 1], [5, 2], [8, 8]])
    centred = z - z.mean(axis=0)
    rows = {"plain": z, "centred": centred}
    rows |= {"unit": z, "centred unit": centred}
    for name in ROWS:
        v = rows[name]
        v = v / np.linalg.norm(v, axis=1, keepdims=True) if "unit" in name else v
        expected = [v[a] @ v[b] for a, b in pairs]
        assert pair_scores(z, pairs, name) == pytest.approx(expected, rel=1e-5)
        assert pair_scores(sp.csr_array(z), pairs, name) == pytest.approx(expected, rel=1e-5)


def test_links_are_scored_on_the_split_of_the_seed_with_rows_chosen_on_validation() -> None:
    graph = community_graph()
    result = predict_links(Smoother(), graph, seed=3)
    split = split_edges(graph, seed=3)
    z = smoothed(split.graph)
    val = {r: metrics.auc(pair_scores(z, split.val, r), pair_scores(z, split.val_non_edges, r)) for r in ROWS}
    best = result.settings["rows"]
    assert best == max(val, key=lambda r: val[r]) and result["val_auc"] == pytest.approx(100 * val[best])
    p, q = pair_scores(z, split.test, best), pair_scores(z, split.test_non_edges, best)
    assert result["auc"] == pytest.approx(100 * metrics.auc(p, q)) and result["auc"] > 75
    assert result["ap"] == pytest.approx(100 * metrics.average_precision(p, q))
    assert result["hits_at_10"] == pytest.approx(100 * metrics.hits_at_k(p, q, 10))
    assert result["mrr"] == pytest.approx(100 * metrics.mrr(p, q))
    assert "hits_at_100" not in result.values  # fewer test non-edges than that
    assert result.sizes == {"train": split.graph.n_edges, "val": len(split.val), "test": len(split.test)}


def test_test_edges_do_not_choose_the_rows() -> None:
    graph = community_graph()
    split = split_edges(graph, seed=0)
    swapped = EdgeSplit(split.graph, split.val, split.test_non_edges, split.val_non_edges, split.test)
    z = smoothed(split.graph)
    a, b = score_links(z, split), score_links(z, swapped)
    assert a.settings == b.settings and a["auc"] == pytest.approx(100 - b["auc"])


class Seen(Smoother):
    """Notes the graphs that any clone of it was given, in the list that its class holds."""

    graphs: ClassVar[list[Graph]] = []

    def fit_transform(self, graph: Graph) -> np.ndarray:
        self.graphs.append(graph)
        return super().fit_transform(graph)


def test_estimator_is_cloned_and_gets_the_training_graph() -> None:
    graph = community_graph()
    estimator = Seen(seed=5)
    Seen.graphs.clear()
    for given in (None, split_edges(graph, seed=2)):
        predict_links(estimator, graph, split=given, seed=2)
    split = split_edges(graph, seed=2)
    held_out = {tuple(pair) for pair in np.sort(np.concatenate([split.val, split.test]), axis=1).tolist()}
    assert len(Seen.graphs) == 2 and not hasattr(estimator, "seen_")
    for seen in Seen.graphs:
        edges = {tuple(pair) for pair in seen.edges().tolist()}
        assert not edges & held_out and edges | held_out == {tuple(pair) for pair in graph.edges().tolist()}


def test_rewiring_held_out_edges_changes_no_bit_of_the_vectors() -> None:
    graph = community_graph()
    split = split_edges(graph, val=0.1, test=0.2)
    moved = rewire(graph, split, seed=7)
    assert split.leaked(moved) == 0 and moved.fingerprint() != graph.fingerprint()
    again = split_edges_like(moved, split)
    assert again.fingerprint() == split.graph.fingerprint()
    assert np.array_equal(again.degrees, split.graph.degrees)
    assert np.array_equal(smoothed(again), smoothed(split.graph))


def split_edges_like(graph: Graph, split: EdgeSplit) -> Graph:
    """The training graph of `split` cut anew out of `graph`: without every edge that the split does not train on."""
    keys = {tuple(pair) for pair in split.train.tolist()}
    return without_edges(graph, np.array([pair for pair in graph.edges().tolist() if tuple(pair) not in keys]))


def test_a_leak_by_edges_degrees_or_a_cache_is_detected() -> None:
    graph = community_graph()
    split = split_edges(graph, val=0.1, test=0.2)
    assert not leaks(lambda full, s: smoothed(s.graph), graph, split)
    assert leaks(lambda full, s: smoothed(full), graph, split)
    assert leaks(lambda full, s: smoothed(s.graph) * full.degrees[:, None], graph, split)
    one_edge = split.test[:1]
    assert leaks(lambda full, s: smoothed(s.graph) + float(full.adj[one_edge[0, 0], one_edge[0, 1]]), graph, split)
    assert split.leaked(split.graph) == 0 and split.leaked(graph) == len(split.val) + len(split.test)


@pytest.mark.parametrize("direction", ["symmetric", "in"])
def test_our_filter_never_sees_a_held_out_edge(direction: str) -> None:
    from tuplet.filters import GraphFilter

    graph = random_graph(60, directed=direction == "in", p=0.1)
    split = split_edges(graph, val=0.1, test=0.2)
    graph_filter = GraphFilter(direction=direction)
    graph_filter.transform(graph)  # whatever it might keep of the full graph must not come back
    assert not leaks(lambda full, s: graph_filter.transform(s.graph), graph, split)
    assert leaks(lambda full, s: graph_filter.transform(full), graph, split)


@pytest.mark.slow
def test_dmati_never_sees_a_held_out_edge() -> None:
    from tuplet.models.dmat import DMATi

    graph = random_graph(60, p=0.1)
    split = split_edges(graph, val=0.1, test=0.2)
    model = DMATi(layers=(8, 8), max_steps=3, batch_size=32, device="cpu")
    assert not leaks(lambda full, s: model.fit(full) and model.fit_transform(s.graph), graph, split)


def test_leak_on_cora_scores_visibly_higher_and_is_detected(data_dir: Path) -> None:
    with np.load(data_dir / "cora.npz") as file:
        n = len(file["adj_indptr"]) - 1
        ones = np.ones(len(file["adj_indices"]), np.float32)
        adj = sp.csr_array((ones, file["adj_indices"], file["adj_indptr"]), shape=(n, n))
        x = sp.csr_array((file["x_data"], file["x_indices"], file["x_indptr"]), shape=tuple(file["x_shape"]))
    graph = Graph.from_scipy(adj, x)
    split = split_edges(graph, seed=0)
    honest, leaking = score_links(smoothed(split.graph), split), score_links(smoothed(graph), split)
    assert leaking["auc"] > honest["auc"] + 2 and leaking["ap"] > honest["ap"] + 2
    assert leaks(lambda full, s: smoothed(full), graph, split)
    assert not leaks(lambda full, s: smoothed(s.graph), graph, split)


def test_equal_vectors_score_half_and_say_so() -> None:
    graph = community_graph()
    split = split_edges(graph)
    result = score_links(np.ones((120, 3)), split)
    assert result["auc"] == 50 and "same score" in result.notes[0]
    assert np.isfinite(list(result.values.values())).all()


def test_what_is_no_estimator_says_so() -> None:
    with pytest.raises(InputError, match="ndarray has no fit_transform"):
        predict_links(np.ones((120, 3)), community_graph())
    with pytest.raises(InputError, match="rows 'round' is not known"):
        predict_links(Smoother(), community_graph(), rows="round")
    with pytest.raises(InputError, match="NaN"):
        score_links(np.full((120, 2), np.nan), split_edges(community_graph()))
