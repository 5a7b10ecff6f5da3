"""SelfDMAT: new graphs, and what its pieces promise. tests/test_contract.py has what all methods keep."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import tuplet
from tests.conftest import random_graph
from tuplet._check import InputError
from tuplet.filters import GraphFilter
from tuplet.filters.weights import ppr
from tuplet.graph import Graph
from tuplet.graph.synth import block_model
from tuplet.metrics import accuracy
from tuplet.models._agreement import agreed, beliefs_of
from tuplet.models._choose_k import Candidate, Choice
from tuplet.models._edge_groups import EdgeGroups
from tuplet.models._self_labels import confident, group_means, of_any_size
from tuplet.models._spectrum import Spectrum, filtered_rows, fit_spectrum, rarity, spectrum_of
from tuplet.models.selfdmat import SelfDMAT
from tuplet.rows.kmeans import kmeans
from tuplet.rows.unit import scale_rows
from tuplet.training.config import TrainConfig
from tuplet.training.encoder import encode, layer_sizes, make_encoder
from tuplet.training.loop import train

QUICK: dict[str, Any] = {"n_clusters": 3, "max_steps": 3, "layers": (8, 4), "n_init": 2}


@pytest.fixture(scope="module")
def blocks() -> Graph:
    """Two large groups and a small one, bags of words."""
    return block_model([120, 60, 60], seed=1)


def test_the_groups_of_a_block_model_are_found(blocks: Graph) -> None:
    model = SelfDMAT(3, max_steps=20).fit(blocks.with_(y=None))
    assert accuracy(blocks.y, model.labels_) > 0.95
    assert tuplet.cluster_nodes(model.embedding_, blocks, seed=0).values["accuracy"] > 95


def learned_from(model: SelfDMAT, columns: Any, labels: Any) -> Any:
    """What an encoder from scratch gives for the columns after it learned the labels."""
    config = TrainConfig("dmat", 0.5, 0.3, 1, max_steps=model.max_steps, lr=1e-3)
    encoder = make_encoder(columns.shape[1], model.layers, model.seed)
    train(encoder, columns, config, labels=labels, seed=model.seed)
    return scale_rows(encode(encoder, columns))


def test_labels_are_what_rows_and_edges_agree_on_and_what_the_vectors_have_learned() -> None:
    graph = block_model([240, 120, 120], structure=0.45, signal=0.25, seed=1)
    model = SelfDMAT(**{**QUICK, "max_steps": 40}).fit(graph)
    far_rows, near_rows = (
        spectrum.project(filtered_rows(graph, GraphFilter(ppr(alpha), tol=model.tol), model.rarity_))
        for spectrum, alpha in ((model.far_, model.far), (model.near_, model.near))
    )
    far, near, columns = (
        model.far_.groups(far_rows, 6),
        model.near_.groups(near_rows, 6),
        model.near_.groups(near_rows, 64),
    )
    found = of_any_size(far, kmeans(far, 3, seed=0, n_init=2, unit_rows=False)).labels
    proposed = agreed(graph, beliefs_of(found, 3, [far])(slice(None)), found)
    first = confident(far, proposed, group_means(far, proposed, 3), model.share)
    learned = learned_from(model, columns, first)
    joined = scale_rows(np.hstack([0.4 * far, 0.3 * learned, model.near_.detail(near_rows)]))
    principal = joined @ np.linalg.eigh(joined.T @ joined)[1][:, :-13:-1]
    so_far = group_means(principal, proposed, 3)
    start = of_any_size(principal, kmeans(principal, 3, seed=0, unit_rows=False, centres=so_far)).labels

    def last(*some: Any) -> Any:
        return agreed(graph, beliefs_of(start, 3, some)(slice(None)), start, len(some))

    sources = [far, near, learned, principal]
    assert accuracy(model.labels_, last(*sources)) > 0.995  # rows are projected again: rounding may move a node
    for i in range(4):
        assert accuracy(model.labels_, last(*sources[:i], *sources[i + 1 :])) < 0.99
    by_last = learned_from(model, columns, model.labels_)
    found_learned = model._parts().learned(near_rows)
    assert np.abs(found_learned - by_last).mean() < 0.2 * np.abs(found_learned - learned).mean()


def test_groups_that_stay_empty_are_told(caplog: pytest.LogCaptureFixture) -> None:
    two_kinds = Graph.from_scipy(sp.csr_array((30, 30)), np.eye(4, dtype=np.float32)[np.arange(30) % 2])
    SelfDMAT(**{**QUICK, "n_clusters": 5}).fit(two_kinds)
    assert "5 groups were asked for, and 2 have nodes" in caplog.text
    caplog.clear()
    SelfDMAT(**{**QUICK, "n_clusters": 2}).fit(two_kinds)
    assert "asked for" not in caplog.text


def test_rows_have_unit_length_and_three_parts(blocks: Graph) -> None:
    model = SelfDMAT(**{**QUICK, "part_weights": (1.0, 2.0, 2.0)}).fit(blocks)
    z = model.embedding_
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1, atol=1e-5)
    assert z.shape[1] == 2 * 3 + 4 + model.near_.right.shape[1]
    for columns, length in ((slice(0, 6), 1 / 3), (slice(6, 10), 2 / 3), (slice(10, None), 2 / 3)):
        np.testing.assert_allclose(np.linalg.norm(z[:, columns], axis=1), length, atol=1e-4)


def test_the_widest_columns_of_the_detail_are_no_wider_than_the_next_one(blocks: Graph) -> None:
    rows = filtered_rows(blocks, GraphFilter(ppr(0.2)), rarity(blocks.x))
    spectrum, projected = fit_spectrum(rows, 12, balance=True)
    plain = projected - projected.mean(axis=0)

    def unit(some: Any) -> Any:
        return some / np.linalg.norm(some, axis=1, keepdims=True)

    np.testing.assert_allclose(spectrum.detail(projected), unit(plain), atol=1e-4)
    width = plain.std(axis=0)
    lowered = plain * np.minimum(1, np.sort(width)[-4] / width)
    np.testing.assert_allclose(spectrum.lowered(3).detail(projected), unit(lowered), atol=1e-4)
    half = spectrum.lowered(50).detail(projected)
    np.testing.assert_allclose(half, spectrum.lowered(6).detail(projected), atol=1e-6)


def test_columns_without_spread_do_not_flatten_the_others() -> None:
    spread = np.array([1, 1e-12, 0, 0], np.float32)
    some = np.zeros(4, np.float32)
    spectrum = Spectrum(np.eye(4, dtype=np.float32), some, spread, 1.0, some, 0.0, 0.0, np.eye(4, dtype=np.float32))
    assert np.isclose(spectrum.lowered(2).level, 1e-3)
    assert np.isfinite(spectrum.lowered(2).detail(np.eye(4, dtype=np.float32))).all()
    nothing = spectrum_of(np.eye(2, dtype=np.float32), np.ones((5, 2), np.float32), balance=False)
    assert np.array_equal(nothing.lowered(1).detail(np.ones((5, 2), np.float32)), np.zeros((5, 2)))


def test_transform_of_the_training_graph_is_the_embedding_and_new_graphs_are_taken(blocks: Graph) -> None:
    model = SelfDMAT(**QUICK).fit(blocks)
    np.testing.assert_allclose(model.transform(blocks), model.embedding_, atol=1e-5)
    some = np.arange(0, 240, 2)
    part = Graph.from_scipy(blocks.adj[some][:, some], blocks.x[some])
    assert model.transform(part).shape == (120, model.embedding_.shape[1])
    with pytest.raises(InputError, match="feature columns but the model was fitted on"):
        model.transform(random_graph(f=5))


def test_a_node_among_the_same_neighbours_gets_nearly_the_same_vector(blocks: Graph) -> None:
    """A twin of node 0, with its features and its edges, joins the graph."""
    model = SelfDMAT(**QUICK).fit(blocks)
    row = blocks.adj[[0]]
    adj = sp.block_array([[blocks.adj, row.T], [row, None]]).tocsr()
    x = sp.vstack([blocks.x, blocks.x[[0]]]) if sp.issparse(blocks.x) else np.vstack([blocks.x, blocks.x[:1]])
    z = model.transform(Graph.from_scipy(adj, x))
    assert z[0] @ z[-1] > 0.95


def test_dim_keeps_the_angles_it_can(blocks: Graph) -> None:
    whole = SelfDMAT(**QUICK).fit(blocks).embedding_
    short = SelfDMAT(**QUICK, dim=60).fit(blocks).embedding_
    assert short.shape == (240, 60)
    assert np.corrcoef((whole @ whole.T).ravel(), (short @ short.T).ravel())[0, 1] > 0.95
    with pytest.raises(InputError, match="Give a smaller dim"):
        SelfDMAT(**QUICK, dim=10**4).fit(blocks)


def test_the_number_of_clusters_is_chosen_without_labels(blocks: Graph) -> None:
    model = SelfDMAT(max_steps=2).fit(blocks)
    assert model.n_clusters_ == 3 == len(np.unique(model.labels_))
    assert model.k_range_[0] == 3 and model.k_scores_[3] >= 0.95 * max(model.k_scores_.values())
    assert np.array_equal(model.labels_, SelfDMAT(max_steps=2).fit(blocks.with_(y=None)).labels_)


@pytest.mark.parametrize("k", [2, 5, 12, 45, pytest.param(100, marks=pytest.mark.slow)])
def test_two_to_a_hundred_even_groups_lie_in_the_range(k: int) -> None:
    n = max(1200, 40 * k)
    graph = block_model([n // k] * k, n_features=600, words=20, signal=1.5, structure=0.85, mean_degree=10, seed=k)
    model = SelfDMAT(max_steps=1, n_init=1, detail=16).fit(graph.with_(y=None))
    low, high = model.k_range_
    near = [row["k"] for row in model.k_table_ if abs(row["k"] - k) <= max(1, k // 6)]
    assert low <= model.n_clusters_ <= high and any(low <= other <= high for other in near)
    assert {"k", "score", "agreement", "smallest", "largest"} <= model.k_table_[0].keys()


def test_groups_that_are_not_there_leave_it_unsure(caplog: pytest.LogCaptureFixture) -> None:
    graph = random_graph(n=400, f=30)
    model = SelfDMAT(max_steps=1, n_init=1).fit(graph)
    assert not model.k_sure_ and "does not say it clearly" in caplog.text


@pytest.mark.parametrize(("agreement", "upper", "sure"), [(0.95, 4, True), (0.5, 4, False), (0.95, 6, False)])
def test_halves_that_disagree_or_a_wide_range_leave_it_unsure(agreement: float, upper: int, sure: bool) -> None:
    candidate = Candidate(4, 0.5, 0.5, 0.5, agreement, 0.1, 0.4)
    assert Choice(4, (4, upper), (candidate,)).sure is sure
    assert Choice(4, (4, upper), (candidate,), EdgeGroups(5, False)).sure is sure
    assert not Choice(4, (4, upper), (candidate,), EdgeGroups(9, False)).sure


def test_edges_that_join_unlike_nodes_are_told(blocks: Graph, caplog: pytest.LogCaptureFixture) -> None:
    assert SelfDMAT(**QUICK).fit(blocks).modularity_ > 0.2 and "Neighbours" not in caplog.text
    rng = np.random.default_rng(0)
    sides = rng.permutation(240) < 120
    u, v = np.flatnonzero(sides), np.flatnonzero(~sides)
    adj = np.zeros((240, 240))
    adj[rng.choice(u, 600), rng.choice(v, 600)] = 1
    model = SelfDMAT(**QUICK).fit(Graph.from_scipy(np.maximum(adj, adj.T), np.eye(2)[sides.astype(int)]))
    assert model.modularity_ < 0.2 and "Neighbours are seldom in the same group" in caplog.text


def test_many_groups_get_more_columns_and_steps() -> None:
    graph = block_model([12] * 40, n_features=300, words=20, signal=2.0, seed=0)
    model = SelfDMAT(40, n_init=2).fit(graph)
    assert layer_sizes(model.encoder_)[0] == 160 and model.history_.rows[-1]["step"] == 120
    np.testing.assert_allclose(model.transform(graph), model.embedding_, atol=1e-4)


@pytest.mark.parametrize(
    "bad", [{"n_clusters": 1}, {"n_clusters": 99}, {"share": 0}, {"part_weights": (0, 0, 0)}, {"far": 0}, {"lr": 0}]
)
def test_bad_settings_are_named(bad: dict[str, Any], small_graph: Graph) -> None:
    with pytest.raises(InputError, match=next(iter(bad)) if "far" not in bad else "alpha"):
        SelfDMAT(**{**QUICK, **bad}).fit(small_graph)


def test_progress_names_its_phases(blocks: Graph) -> None:
    seen: list[tuple[str, float]] = []
    SelfDMAT(**QUICK).fit(blocks, progress=lambda phase, share: seen.append((phase, share)))
    assert {phase for phase, _ in seen} == {"filter", "groups", "train"} and all(0 <= share <= 1 for _, share in seen)


def test_confident_keeps_the_share_of_largest_margin() -> None:
    rng = np.random.default_rng(0)
    rows, centres = rng.normal(size=(50, 2)).astype(np.float32), np.array([[-1, 0], [1, 0], [0, 2]], np.float32)
    distance = np.linalg.norm(rows[:, None] - centres, axis=2)
    labels, ordered = distance.argmin(axis=1), np.sort(distance, axis=1)
    margin = (ordered[:, 1] - ordered[:, 0]) / ordered[:, 1]
    kept = confident(rows, labels, centres, 0.4)
    for group in range(3):
        members = labels == group
        inside = members & (kept == group)
        assert inside.sum() == round(0.4 * members.sum())
        assert margin[inside].min() >= margin[members & (kept == -1)].max()
    assert np.array_equal(confident(rows, labels, centres, 1.0), labels)


def dense_rows(graph: Graph, alpha: float) -> Any:
    """H by its definition: every step on dense arrays."""
    x = graph.x.toarray() if sp.issparse(graph.x) else np.asarray(graph.x)
    df = (x != 0).sum(axis=0)
    x = x * np.where(df > 0, np.log(1 + len(x) / np.maximum(df, 1)), 0)
    x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    a = graph.adj.toarray() + np.eye(graph.n_nodes)
    d = a.sum(axis=1) ** -0.5
    h = alpha * np.linalg.solve(np.eye(len(a)) - (1 - alpha) * d[:, None] * a * d, x)
    return h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), 1e-12)


@pytest.mark.parametrize("sparse", [True, False])
def test_filtered_rows_are_those_of_the_dense_definition(blocks: Graph, sparse: bool) -> None:
    x = sp.csr_array(blocks.x) if sparse else np.asarray(blocks.x.toarray() if sp.issparse(blocks.x) else blocks.x)
    graph = blocks.with_(x=x)
    h = dense_rows(graph, 0.2)
    rows = filtered_rows(graph, GraphFilter(ppr(0.2), tol=1e-6), rarity(x))
    rng = np.random.default_rng(0)
    q, y = rng.normal(size=(h.shape[1], 3)), rng.normal(size=(len(h), 3))
    ratio = np.linalg.norm(rows.forward(np.eye(h.shape[1], dtype=np.float32)), axis=1)
    assert ratio.min() > 0.8 and ratio.max() < 1.25 and abs(ratio.mean() - 1) < 0.02  # lengths are estimates
    exact = h * ratio[:, None]
    np.testing.assert_allclose(rows.forward(q.astype(np.float32)), exact @ q, atol=1e-4)
    np.testing.assert_allclose(rows.backward(y.astype(np.float32)), exact.T @ y, atol=1e-3)


def test_transposed_features_are_made_once_and_where_they_are_small(blocks: Graph) -> None:
    made: list[Any] = []
    x = sp.csr_array(blocks.x)

    def across() -> Any:
        made.append(x.T.tocsr())
        return made[0]

    make = partial(filtered_rows, blocks.with_(x=x), GraphFilter(ppr(0.2)), rarity(x))
    plain, shared = make(), make(across=across)
    for columns, uses in ((1, 0), (2 * x.nnz // len(plain.before) + 1, 1)):
        y = np.random.default_rng(0).normal(size=(len(plain.before), columns)).astype(np.float32)
        assert np.array_equal(shared.backward(y.copy()), plain.backward(y.copy())) and len(made) == uses


def test_groups_are_the_balanced_rows_with_a_lowered_head(blocks: Graph) -> None:
    """With all dimensions kept: divide by similarity to all rows ^ 0.4, SVD, first value := second, unit rows."""
    rows = filtered_rows(blocks, GraphFilter(ppr(0.2), tol=1e-6), rarity(blocks.x))
    h = rows.forward(np.eye(rows.shape[1], dtype=np.float32)).astype(np.float64)
    spectrum, projected = fit_spectrum(rows, min(rows.shape), balance=True)
    similar = h @ h.sum(axis=0)
    u, s, _ = np.linalg.svd(h * np.maximum(similar, 0.01 * np.median(similar))[:, None] ** -0.4, full_matrices=False)
    s[0] = s[1]
    expected = u[:, :4] * s[:4]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    found = spectrum.groups(projected, 4)
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=5e-3)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-2)


def test_features_below_zero_are_not_balanced(small_graph: Graph) -> None:
    model = SelfDMAT(**QUICK).fit(small_graph)
    assert model.far_.typical == 0 and np.isfinite(model.embedding_).all()


@pytest.mark.slow
def test_cora_reaches_its_accuracy() -> None:
    graph = tuplet.load_dataset("cora")
    model = SelfDMAT(7).fit(graph.with_(y=None))
    assert accuracy(graph.y, model.labels_) > 0.70
