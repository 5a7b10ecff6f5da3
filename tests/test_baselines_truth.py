"""Each baseline against something independent: a dense formula, a double loop, another library, a planted answer."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
import torch

from tests.conftest import random_graph
from tuplet import Graph, metrics
from tuplet.baselines import AGC, MS2CAG, SSGC, DeepWalk, FilterSVD, KMeansFeatures
from tuplet.baselines._gcn import Adjacency, GraphConv, SparseMatrix, to_device
from tuplet.baselines._infonce import info_nce
from tuplet.baselines._input import rows_of_sum_one
from tuplet.baselines._pairs import PairSampler, pair_similarities, rank_thresholds
from tuplet.baselines._spectral import spectral_labels
from tuplet.baselines._views import centrality, drop_probabilities, view_probabilities
from tuplet.baselines.agc import intra_cluster_distance
from tuplet.baselines.age import AGE, largest_eigenvalue, scaled
from tuplet.baselines.bgrl import bootstrap_loss, move_towards
from tuplet.baselines.ccassg import cca_loss, standardised
from tuplet.baselines.dgi import _Infomax
from tuplet.baselines.dinknet import cluster_loss, discrimination_loss
from tuplet.baselines.gca import GCA, ViewSettings
from tuplet.baselines.ns4gc import similarity_terms
from tuplet.baselines.progcl import BetaMixture, fit_mixture, negative_weights
from tuplet.baselines.s2cag import without_mean
from tuplet.baselines.sdcn import _Network, divergence, student_t, target_distribution

CPU = torch.device("cpu")


def blocks(sizes=(20, 25, 15), *, inside=0.4, outside=0.02, noise=1.0, seed=0) -> Graph:
    """A planted partition whose features are the class's unit vector plus noise."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    chance = np.where(y[:, None] == y[None], inside, outside)
    adj = np.triu(rng.random(chance.shape) < chance, 1)
    x = np.eye(len(sizes), 12)[y] + noise * rng.random((len(y), 12))
    return Graph.from_scipy((adj | adj.T).astype(float), x.astype(np.float32), y)


def dense_operator(graph: Graph, *, loops: bool = True) -> np.ndarray:
    a = graph.adj.toarray().astype(float) + loops * np.eye(graph.n_nodes)
    root = 1 / np.sqrt(a.sum(axis=1))
    return root[:, None] * a * root


def unit(n: int, d: int, seed: int = 0, *, grad: bool = False) -> torch.Tensor:
    z = torch.from_numpy(np.random.default_rng(seed).normal(size=(n, d))).float()
    return torch.nn.functional.normalize(z).requires_grad_(grad)


# graph convolution


@pytest.mark.parametrize("weighted", [False, True])
def test_normalised_adjacency_equals_the_dense_formula_with_and_without_dropped_edges(weighted: bool) -> None:
    graph = random_graph(weighted=weighted)
    adj = Adjacency.of(graph, CPU)
    np.testing.assert_allclose(adj.normalised().a.to_dense(), dense_operator(graph), atol=1e-6)
    keep = torch.from_numpy(np.random.default_rng(1).integers(0, 2, adj.n_edges)).float()
    a, b = (end.numpy() for end in adj.ends())
    np.testing.assert_array_equal(np.column_stack([a, b]), graph.edges())
    dense = graph.adj.toarray()
    for i, j in zip(a[keep.numpy() == 0], b[keep.numpy() == 0]):
        dense[i, j] = dense[j, i] = 0
    np.testing.assert_allclose(adj.normalised(keep).a.to_dense(), dense_operator(Graph.from_scipy(dense)), atol=1e-6)


def test_graph_convolution_equals_torch_geometric_with_gradients() -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    graph = random_graph(weighted=True)
    layer = GraphConv(7, 5, torch.Generator().manual_seed(0))
    theirs = pyg.GCNConv(7, 5)
    theirs.lin.weight.data = layer.weight.data.T.clone()
    x = torch.from_numpy(graph.x)
    coo = graph.adj.tocoo()
    edges = torch.from_numpy(np.stack([coo.row, coo.col])).long()
    ours, expected = layer(Adjacency.of(graph, CPU).normalised(), x), theirs(x, edges, torch.from_numpy(coo.data))
    torch.testing.assert_close(ours, expected)
    ours.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(layer.weight.grad, theirs.lin.weight.grad.T)


def test_sparse_features_give_the_same_products_and_gradients_as_dense_ones() -> None:
    import scipy.sparse as sp

    x = sp.random_array((20, 9), density=0.08, format="csr", rng=np.random.default_rng(0))
    sparse = to_device(x, CPU)
    assert isinstance(sparse, SparseMatrix) and isinstance(
        to_device(sp.csr_array(np.ones((3, 3))), CPU), torch.Tensor
    )
    w = torch.randn(9, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    weights = torch.rand(20, 4, generator=torch.Generator().manual_seed(1))
    (one,) = torch.autograd.grad(((sparse @ w) * weights).sum(), w)
    (two,) = torch.autograd.grad(((torch.from_numpy(x.toarray()).float() @ w) * weights).sum(), w)
    torch.testing.assert_close(one, two)


def test_masked_columns_and_reordered_rows_act_on_the_features() -> None:
    graph = random_graph()
    layer, adj = GraphConv(7, 4, torch.Generator().manual_seed(0)), Adjacency.of(graph, CPU).normalised()
    x, mask = torch.from_numpy(graph.x), torch.tensor([1.0, 0, 1, 1, 0, 0, 1])
    order = torch.randperm(30, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(layer(adj, x, mask=mask), layer(adj, x * mask))
    torch.testing.assert_close(layer(adj, x, order=order), layer(adj, x[order]))


# spectral clustering


@pytest.mark.parametrize("normalise", [False, True])
def test_spectral_clusters_equal_those_of_the_whole_kernel(normalise: bool) -> None:
    graph = blocks(noise=0.5)
    h = dense_operator(graph) @ graph.x
    kernel = h @ h.T
    if normalise:
        root = 1 / np.sqrt(kernel.sum(axis=1))
        kernel = root[:, None] * kernel * root
    vectors = np.linalg.eigh(kernel)[1][:, -3:].astype(np.float32)
    whole = KMeansFeatures(3).fit(Graph.from_scipy(graph.adj, vectors)).labels_
    ours = spectral_labels(h.astype(np.float32), 3, seed=0, normalise=normalise)
    assert metrics.ari(whole, ours) == pytest.approx(1)


# AGC and SSGC


def test_intra_cluster_distance_equals_the_double_loop() -> None:
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(12, 3)).astype(np.float32), np.array([0] * 5 + [1] * 6 + [2])
    means = []
    for c in range(3):
        rows = x[labels == c]
        pairs = [np.sum((a - b) ** 2) for i, a in enumerate(rows) for j, b in enumerate(rows) if i != j]
        means.append(np.mean(pairs) if pairs else 0)
    assert intra_cluster_distance(x, labels) == pytest.approx(np.mean(means), rel=1e-5)


def test_agc_stops_at_the_first_growth_and_holds_the_power_before() -> None:
    graph = blocks((30, 40, 30), inside=0.3, outside=0.05, noise=3.0, seed=1)
    model = AGC(3, max_power=30, n_init=5).fit(graph)
    steps = np.diff(model.distances_)
    assert (steps[:-1] <= 0).all() and steps[-1] > 0 and model.power_ == len(model.distances_) - 1 > 1
    step = (np.eye(graph.n_nodes) + dense_operator(graph)) / 2
    expected = np.linalg.matrix_power(step, model.power_) @ graph.x
    np.testing.assert_allclose(model.embedding_, expected, atol=1e-5)
    assert intra_cluster_distance(model.embedding_, model.labels_) == pytest.approx(model.distances_[-2], rel=1e-4)
    assert metrics.accuracy(graph.y, model.labels_) == 1
    assert metrics.accuracy(graph.y, KMeansFeatures(3).fit(graph).labels_) < 0.6  # features alone do not do it


def test_agc_takes_at_most_max_power() -> None:
    model = AGC(3, max_power=2).fit(blocks())
    assert model.power_ == 2 and len(model.distances_) == 2


def test_ssgc_equals_the_dense_mean_over_the_hops() -> None:
    graph, alpha, hops = blocks(), 0.2, 4
    s = dense_operator(graph)
    mean = sum(np.linalg.matrix_power(s, k) for k in range(1, hops + 1)) / hops
    model = SSGC(3, hops=hops, alpha=alpha).fit(graph)
    np.testing.assert_allclose(model.embedding_, alpha * graph.x + (1 - alpha) * mean @ graph.x, atol=1e-5)
    assert metrics.accuracy(graph.y, model.labels_) == 1


def test_adaptive_ssgc_stops_at_the_first_growth_without_self_loops() -> None:
    graph = blocks()
    s = graph.adj.toarray().astype(float)
    root = 1 / np.sqrt(np.maximum(s.sum(axis=1), 1e-300))
    s = root[:, None] * s * root
    how = {"alpha": 0.0, "self_loops": False, "columns": 5, "unit_rows": False, "n_init": 3}
    model = SSGC(3, hops=12, adaptive=True, **how).fit(graph)
    powers = [np.linalg.matrix_power(s, k) @ graph.x for k in range(1, 13)]
    rows = [np.mean(powers[:k], axis=0).astype(np.float32) for k in range(1, 13)]
    labels = [spectral_labels(r, 3, seed=0, n_init=3, columns=5) for r in rows]
    spreads = [intra_cluster_distance(r, found) for r, found in zip(rows, labels)]
    grown = [k for k in range(1, 12) if spreads[k] > spreads[k - 1]]
    assert model.hops_ == (grown[0] if grown else 12)
    np.testing.assert_allclose(model.embedding_, rows[model.hops_ - 1], atol=1e-5)
    np.testing.assert_allclose(model.transform(graph), model.embedding_, atol=1e-5)


def test_filter_svd_equals_the_dense_pipeline_up_to_a_rotation() -> None:
    graph, alpha = blocks(), 0.15
    x = graph.x / np.linalg.norm(graph.x, axis=1, keepdims=True)
    h = alpha * np.linalg.solve(np.eye(graph.n_nodes) - (1 - alpha) * dense_operator(graph), x)
    h /= np.linalg.norm(h, axis=1, keepdims=True)
    u, s, _ = np.linalg.svd(h)
    z = u[:, :6] * s[:6]
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    model = FilterSVD(3, alpha=alpha, tol=1e-7).fit(graph)
    np.testing.assert_allclose(model.embedding_ @ model.embedding_.T, z @ z.T, atol=1e-4)
    assert metrics.accuracy(graph.y, model.labels_) == 1


@pytest.mark.parametrize("gamma", [0.0, 0.6, 1.0])
def test_ms2cag_takes_the_leading_eigenvectors_of_the_modularity_matrix(gamma: float) -> None:
    graph, hops, alpha = blocks(), 4, 0.8
    graph = graph.with_(x=np.abs(graph.x))
    x = graph.x / np.sqrt((graph.x @ graph.x.T).sum(axis=1))[:, None]
    a = graph.adj.toarray() + np.eye(graph.n_nodes)
    walk = a / a.sum(axis=1, keepdims=True)
    weights = alpha ** np.arange(hops + 1) * (1 - alpha) / (1 - alpha ** (hops + 1))
    z = sum(w * np.linalg.matrix_power(walk, t) @ x for t, w in enumerate(weights))
    kernel = z @ z.T
    w = kernel.sum(axis=1)
    vectors = np.linalg.eigh(kernel - gamma * np.outer(w, w) / w.sum())[1][:, -3:]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    model = MS2CAG(3, hops=hops, alpha=alpha, gamma=gamma).fit(graph)
    np.testing.assert_allclose(model.embedding_ @ model.embedding_.T, vectors @ vectors.T, atol=1e-3)


@pytest.mark.parametrize("gamma", [0.0, 0.6, 1.0])
def test_ms2cag_products_of_rows_are_the_modularity_matrix(gamma: float) -> None:
    z = np.random.default_rng(0).random((9, 4)).astype(np.float32)
    kernel = z @ z.T
    w = kernel.sum(axis=1)
    rows = without_mean(z, gamma)
    np.testing.assert_allclose(rows @ rows.T, kernel - gamma * np.outer(w, w) / w.sum(), atol=1e-5)


# DeepWalk


def test_deepwalk_puts_nodes_of_one_component_together() -> None:
    pytest.importorskip("gensim")
    graph = Graph.from_scipy(np.kron(np.eye(2), np.ones((8, 8))))
    z = DeepWalk(8, walk_length=20, window=4).fit(graph).embedding_
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    similarity = z @ z.T
    assert similarity[:8, :8].mean() > similarity[:8, 8:].mean() + 0.3


# SDCN


def test_student_t_and_target_equal_their_loops_and_rows_sum_to_one() -> None:
    codes, centres = unit(6, 3) * 2, unit(4, 3, seed=1)
    q, p = student_t(codes, centres), target_distribution(student_t(codes, centres))
    for i in range(6):
        near = [1 / (1 + float(((codes[i] - c) ** 2).sum())) for c in centres]
        np.testing.assert_allclose(q[i], np.array(near) / sum(near), rtol=1e-5)
        sharp = [float(q[i, j] ** 2 / q[:, j].sum()) for j in range(4)]
        np.testing.assert_allclose(p[i], np.array(sharp) / sum(sharp), rtol=1e-5)
    torch.testing.assert_close(q.sum(dim=1), torch.ones(6))
    torch.testing.assert_close(p.sum(dim=1), torch.ones(6))
    assert float((p.max(dim=1).values - q.max(dim=1).values).mean()) > 0  # sharper
    assert float(divergence(p, p)) == pytest.approx(0, abs=1e-6) and float(divergence(p, q)) > 0
    expected = torch.nn.functional.kl_div(q.log(), p, reduction="batchmean")
    torch.testing.assert_close(divergence(p, q), expected)


def test_sdcn_feeds_each_convolution_half_from_the_autoencoder() -> None:
    graph = random_graph()
    model, adj, x = _Network([7, 6, 4], 3, 0.5, seed=0), dense_operator(graph), torch.from_numpy(graph.x)
    s = torch.from_numpy(adj).float()
    hidden, _ = model.autoencoder(x)
    first, second, third = (layer.weight for layer in model.convolutions)
    h = torch.relu(s @ x @ first)
    h = torch.relu(s @ ((h + hidden[0]) / 2) @ second)
    expected = torch.softmax(s @ ((h + hidden[1]) / 2) @ third, dim=1)
    torch.testing.assert_close(model(Adjacency.of(graph, CPU).normalised(), x)[2], expected, atol=1e-5, rtol=1e-4)


# DGI


def test_dgi_loss_equals_the_loop_over_true_and_shuffled_nodes() -> None:
    graph = random_graph()
    model, adj = _Infomax(7, 5, seed=0), Adjacency.of(graph, CPU).normalised()
    x, order = torch.from_numpy(graph.x), torch.randperm(30, generator=torch.Generator().manual_seed(1))
    loss = model(adj, x, order).item()
    s = torch.from_numpy(dense_operator(graph)).float()

    def encode(rows: torch.Tensor) -> torch.Tensor:
        return model.encoder.slope(s @ rows @ model.encoder.conv.weight + model.encoder.conv.bias)

    true, fake = encode(x), encode(x[order])
    target = model.bilinear @ torch.sigmoid(true.mean(dim=0))
    terms = [-math.log(1 / (1 + math.exp(-(h @ target).item()))) for h in true]
    terms += [-math.log(1 - 1 / (1 + math.exp(-(h @ target).item()))) for h in fake]
    assert loss == pytest.approx(np.mean(terms), rel=1e-4)


def test_rows_of_sum_one() -> None:
    import scipy.sparse as sp

    x = np.array([[1.0, 3.0], [0, 0], [-2, 2]])
    expected = [[0.25, 0.75], [0, 0], [-0.5, 0.5]]
    np.testing.assert_allclose(rows_of_sum_one(x), expected)
    np.testing.assert_allclose(rows_of_sum_one(sp.csr_array(x)).toarray(), expected)


# GCA


@pytest.mark.parametrize("kind", ["degree", "pagerank", "eigenvector"])
def test_centrality_equals_networkx(kind: str) -> None:
    nx = pytest.importorskip("networkx")
    graph = random_graph(p=0.3)
    theirs = nx.from_scipy_sparse_array(graph.adj)
    if kind == "degree":
        expected = np.array([d for _, d in theirs.degree()], dtype=float)
    elif kind == "pagerank":
        expected = np.array(list(nx.pagerank(theirs, 0.85, tol=1e-12, max_iter=500).values()))
    else:
        expected = np.array(list(nx.eigenvector_centrality_numpy(theirs).values()))
    np.testing.assert_allclose(centrality(graph, kind), expected, rtol=1e-5)


def test_drop_probabilities_follow_centrality_and_never_exceed_the_cutoff() -> None:
    weights = np.exp(np.random.default_rng(0).normal(size=500))
    p = drop_probabilities(weights, 0.5, 0.7)
    assert p.max() == 0.7 and p.min() == 0 and 0 < np.mean(p == 0.7) < 0.5
    assert (np.diff(p[np.argsort(weights)]) <= 1e-12).all()
    assert drop_probabilities(weights, 0.3, 1e9).mean() == pytest.approx(0.3)  # without the cut-off, the mean
    np.testing.assert_allclose(drop_probabilities(np.ones(5), 0.3, 0.7), 0.3)
    assert drop_probabilities(np.zeros(0), 0.3, 0.7).shape == (0,)


def test_edges_and_columns_of_central_nodes_are_dropped_less() -> None:
    graph = random_graph(n=40, p=0.2)
    x = np.abs(graph.x)
    settings = ViewSettings.of(GCA(drop_edges=(0.2, 0.4), drop_features=(0.3, 0.1)))
    adj = Adjacency.of(graph, CPU)
    edges, columns = view_probabilities(graph.with_(x=x), adj, settings)
    a, b = graph.edges().T
    edge_centrality, column_centrality = graph.degrees[a] + graph.degrees[b], x.T @ graph.degrees
    for p, value in zip([*edges, *columns], [edge_centrality] * 2 + [column_centrality] * 2):
        assert scipy.stats.spearmanr(p, value).statistic == pytest.approx(-1, abs=1e-3)
        assert float(p.max()) <= 0.7


def naive_contrast(u, v, temperature, weights_between=None, weights_within=None) -> float:
    """Loops over anchors and negatives; the diagonal of the weights is not read."""
    n, total = len(u), 0.0
    one = np.ones((n, n))
    wb, ww = (one if w is None else w for w in (weights_between, weights_within))
    for i in range(n):
        positive = math.exp(float(u[i] @ v[i]) / temperature)
        others = [k for k in range(n) if k != i]
        negative = sum(wb[i][k] * math.exp(float(u[i] @ v[k]) / temperature) for k in others)
        negative += sum(ww[i][k] * math.exp(float(u[i] @ u[k]) / temperature) for k in others)
        total += -math.log(positive / (positive + negative))
    return total / n


@pytest.mark.parametrize("block", [1, 30, 1000])
def test_info_nce_equals_the_double_loop(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuplet.baselines._infonce._BLOCK", block)
    u, v = unit(9, 4), unit(9, 4, seed=1)
    expected = (naive_contrast(u, v, 0.5) + naive_contrast(v, u, 0.5)) / 2
    assert float(info_nce(u, v, 0.5)) == pytest.approx(expected, rel=1e-5)


def plain_contrast(u, v, temperature, weights_between=None, weights_within=None) -> torch.Tensor:
    """`naive_contrast` in whole matrices, for its gradient."""
    other = 1 - torch.eye(len(u))
    wb, ww = (other if w is None else w for w in (weights_between, weights_within))
    h = [(s / temperature).exp() for s in (u @ v.T, u @ u.T)]
    positive = h[0].diagonal()
    return (torch.log(positive + (wb * h[0]).sum(dim=1) + (ww * h[1]).sum(dim=1)) - torch.log(positive)).mean()


@pytest.mark.parametrize("block", [30, 1000])
def test_gradients_of_info_nce_equal_those_of_whole_matrices(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuplet.baselines._infonce._BLOCK", block)
    u, v = unit(9, 4, grad=True), unit(9, 4, seed=1, grad=True)
    ours = torch.autograd.grad(info_nce(u, v, 0.5), (u, v))
    plain = (plain_contrast(u, v, 0.5) + plain_contrast(v, u, 0.5)) / 2
    for one, two in zip(ours, torch.autograd.grad(plain, (u, v))):
        torch.testing.assert_close(one, two)


# ProGCL


def test_mixture_recovers_planted_components() -> None:
    rng = np.random.default_rng(0)
    s = np.r_[rng.beta(2, 9, 17_000), rng.beta(14, 4, 3_000)]
    mixture = fit_mixture(s, 0.05)
    assert mixture.means() == pytest.approx((2 / 11, 14 / 18), abs=0.01)
    assert mixture.share == pytest.approx((0.85, 0.15), abs=0.02)
    assert mixture.a + mixture.b == pytest.approx((2, 14, 9, 4), rel=0.2)


def test_posterior_equals_bayes_rule_on_scipys_densities() -> None:
    mixture = BetaMixture((2.0, 8.0), (7.0, 3.0), (0.8, 0.2))
    s = np.linspace(0.01, 0.99, 50)
    true, false = (w * scipy.stats.beta(a, b).pdf(s) for a, b, w in zip(mixture.a, mixture.b, mixture.share))
    np.testing.assert_allclose(mixture.posterior(torch.from_numpy(s)), true / (true + false), rtol=1e-6)


def dense_weights(u, v, mixture) -> list[np.ndarray]:
    """The weights of u_i with v_k and u_i with u_k: posterior times similarity in its range, of mean 1 for each i."""
    found = []
    for other in (v, u):
        s = (u @ other.T).detach().double().numpy()
        s = (s - s.min()) / (s.max() - s.min())
        weights = mixture.posterior(torch.from_numpy(s)).numpy() * s
        np.fill_diagonal(weights, 0)
        found.append(weights * (len(u) - 1) / weights.sum(axis=1, keepdims=True))
    return found


def test_weighted_info_nce_equals_the_loop_and_does_not_move_the_weights() -> None:
    u, v = unit(8, 4, grad=True), unit(8, 4, seed=1, grad=True)
    mixture = BetaMixture((2.0, 8.0), (7.0, 3.0), (0.8, 0.2))
    loss = info_nce(u, v, 0.5, negative_weights(u, v, mixture))
    sides = [(u, v, *dense_weights(u, v, mixture)), (v, u, *dense_weights(v, u, mixture))]
    expected = sum(naive_contrast(a.detach(), b.detach(), 0.5, *weights) for a, b, *weights in sides) / 2
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-5)
    constant = sum(plain_contrast(a, b, 0.5, *(torch.from_numpy(w).float() for w in ws)) for a, b, *ws in sides) / 2
    for one, two in zip(torch.autograd.grad(loss, (u, v)), torch.autograd.grad(constant, (u, v))):
        torch.testing.assert_close(one, two)


# AGE


def test_rank_thresholds_equal_the_sorted_similarities() -> None:
    z = scaled(unit(60, 5))
    ordered = (z @ z.T).flatten().sort(descending=True).values
    ranks = (1, 7, 400, 3599, 3600)
    for rank, threshold in zip(ranks, rank_thresholds(z, ranks)):
        assert float(threshold) == float(ordered[rank - 1])


def test_rank_thresholds_do_not_depend_on_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    z = scaled(unit(50, 4))
    whole = [float(t) for t in rank_thresholds(z, (30, 900))]
    monkeypatch.setattr("tuplet.baselines._pairs._BLOCK", 50 * 7)
    assert [float(t) for t in rank_thresholds(z, (30, 900))] == pytest.approx(whole, abs=1e-6)


@pytest.mark.parametrize("margin", [0.0, 5.0])
def test_rank_thresholds_are_exact_where_zeros_tie_or_the_sample_is_off(margin: float) -> None:
    z = torch.cat([scaled(unit(40, 5)), torch.zeros(20, 5)])
    ordered = (z @ z.T).flatten().sort(descending=True).values
    ranks = (3, 800, 1601, 3600)
    found = [float(threshold) for threshold in rank_thresholds(z, ranks, margin=margin)]
    assert found == [float(ordered[rank - 1]) for rank in ranks]
    assert found[1] > 0 == found[2] == found[3]


def test_pair_similarities_and_their_gradient_equal_the_products_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuplet.baselines._pairs._CACHED", 5 * 7)
    z, rng = unit(20, 5, grad=True), np.random.default_rng(0)
    pairs = torch.from_numpy(np.concatenate([rng.integers(0, 20, (2, 60)), [[3, 3, 4], [3, 4, 3]]], axis=1))
    weights = torch.from_numpy(rng.normal(size=63)).float()
    ours, plain = pair_similarities(z, pairs), (z[pairs[0]] * z[pairs[1]]).sum(dim=1)
    torch.testing.assert_close(ours, plain)
    (one,), (two,) = (torch.autograd.grad((s * weights).sum(), z) for s in (ours, plain))
    torch.testing.assert_close(one, two)


def test_age_ends_where_it_does_with_sorted_similarities_and_plain_products(monkeypatch: pytest.MonkeyPatch) -> None:
    def fit() -> AGE:
        settings = {
            "positive": (0.2, 0.1),
            "negative": (0.3, 0.5),
            "hidden": 16,
            "epochs": 8,
            "update_every": 3,
            "batch_size": 200,
        }
        return AGE(3, **settings, device="cpu").fit(blocks())

    def sort(z: torch.Tensor, ranks: tuple[int, ...]) -> list[torch.Tensor]:
        ordered = (z @ z.T).clamp(min=0).flatten().sort(descending=True).values
        return [ordered[rank - 1] for rank in ranks]

    ours = fit()
    monkeypatch.setattr("tuplet.baselines._pairs.rank_thresholds", sort)
    for module in ("age", "_pairs"):
        monkeypatch.setattr(
            f"tuplet.baselines.{module}.pair_similarities", lambda z, p: (z[p[0]] * z[p[1]]).sum(dim=1)
        )
    plain = fit()
    np.testing.assert_allclose(ours.embedding_, plain.embedding_, atol=1e-5)
    np.testing.assert_array_equal(ours.labels_, plain.labels_)
    assert ours.scores_ == pytest.approx(plain.scores_, rel=1e-4)


def test_pairs_are_the_most_similar_and_negatives_lie_after_their_rank() -> None:
    z = scaled(unit(60, 5))
    sampler = PairSampler(z, 200, 1800)
    similarity = (z @ z.T).numpy()
    i, j = sampler.positives.numpy()
    expected = similarity >= np.sort(similarity, axis=None)[-200]
    assert set(zip(i.tolist(), j.tolist())) == set(zip(*map(np.ndarray.tolist, np.nonzero(expected))))
    a, b = sampler.negatives(500, torch.Generator().manual_seed(0)).numpy()
    assert len(a) == 500 and similarity[a, b].max() < np.sort(similarity, axis=None)[1801]
    assert len(set(zip(a.tolist(), b.tolist()))) > 350  # spread over the 1800 candidates


def test_largest_eigenvalue_equals_the_dense_one() -> None:
    graph = random_graph(weighted=True)
    expected = 1 - np.linalg.eigvalsh(dense_operator(graph)).min()
    assert largest_eigenvalue(graph, seed=0) == pytest.approx(expected, rel=1e-5)


def test_scaled_rows_have_unit_length_and_no_negative_entry() -> None:
    z = scaled(torch.cat([unit(5, 4), torch.zeros(1, 4)]))
    assert float(z.min()) == 0
    torch.testing.assert_close(z[:5].norm(dim=1), torch.ones(5))
    assert torch.equal(z[5], torch.zeros(4))


def test_scaled_rows_are_those_stretched_to_one_first_as_in_the_paper() -> None:
    z = 3 * unit(8, 6)
    low, high = z.amin(dim=1, keepdim=True), z.amax(dim=1, keepdim=True)
    torch.testing.assert_close(scaled(z), torch.nn.functional.normalize((z - low) / (high - low)))


# CCA-SSG, BGRL, NS4GC, Dink-Net


def test_cca_loss_is_the_distance_of_the_views_and_of_their_correlations_from_one() -> None:
    rng = np.random.default_rng(0)
    u, v = (standardised(torch.from_numpy(rng.normal(size=(40, 3)) * [1, 5, 0.1] + 2)) for _ in range(2))
    assert u.mean(0).abs().max() < 1e-9 and np.allclose(u.std(0), 1)
    far = ((u - v) ** 2).sum().item() / (2 * 40)
    spread = sum(((np.corrcoef(z.numpy().T) * 39 / 40 - np.eye(3)) ** 2).sum() for z in (u, v))
    trace = 3 * 39 / 40 - far  # a standardised column has squared length n - 1
    assert cca_loss(u, v, 0.2).item() == pytest.approx(0.2 * spread - trace, rel=1e-6)


def test_bgrl_predicts_the_other_view_of_a_target_that_gets_no_gradient_and_follows() -> None:
    online, target, head = (torch.nn.Linear(3, 3) for _ in range(3))
    one, two = unit(5, 3, 1), unit(5, 3, 2)
    loss = bootstrap_loss(online, target, head, (one,), (two,))
    loss.backward()
    expected = 2.0
    for x, other in ((one, two), (two, one)):
        for i in range(5):
            g, a = head(online(x[i])), target(other[i])
            expected -= (g @ a / (g.norm() * a.norm())).item() / 5
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert target.weight.grad is None and online.weight.grad is not None
    before = target.weight.detach().clone()
    move_towards(target, online, 0.9)
    assert torch.allclose(target.weight, 0.9 * before + 0.1 * online.weight)


def test_ns4gc_terms_equal_the_double_loop() -> None:
    graph = random_graph()
    u, v = unit(30, 4, 1), unit(30, 4, 2)
    own, near, far = similarity_terms(u, v, Adjacency.of(graph, CPU).ends(), 0.3, 0.2)
    adj = graph.adj.toarray() > 0
    s = (u @ v.T).numpy()
    others = [
        1 / (1 + math.exp(-(s[i, j] - 0.3) / 0.2)) for i in range(30) for j in range(30) if i != j and not adj[i, j]
    ]
    assert own.item() == pytest.approx(np.diag(s).mean(), abs=1e-6)
    assert near.item() == pytest.approx(s[adj].mean(), abs=1e-6)
    assert far.item() == pytest.approx(np.mean(others), rel=1e-4)


def test_dinknet_losses_equal_their_loops() -> None:
    z, centres = unit(9, 4, 1), unit(3, 4, 2)
    together = np.mean([((a - c) ** 2).sum().item() for a in z for c in centres])
    apart = np.mean([((centres[i] - centres[j]) ** 2).sum().item() for i in range(3) for j in range(3) if i != j])
    assert cluster_loss(z, centres).item() == pytest.approx(together - apart, rel=1e-5)
    terms = [math.log1p(math.exp(-row.sum().item())) for row in z] + [
        math.log1p(math.exp(c.sum().item())) for c in centres
    ]
    assert discrimination_loss(z, centres).item() == pytest.approx(np.mean(terms), rel=1e-5)
