"""The paper's statements: each number against a loop over nodes, Lemma 1 as a property of any vectors."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import anywhere, random_graph
from tuplet._check import InputError
from tuplet.evaluation import theory


def vectors(n: int = 60, k: int = 3, d: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % k)
    return rng.normal(size=(n, d)) + np.eye(k, d)[y], y


def h(z: np.ndarray, t: float) -> np.ndarray:
    """All similarities, the slow way."""
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    return np.array([[math.exp(float(a @ b) / t) for b in z] for a in z])


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_expectations_equal_the_loop(temperature: float) -> None:
    z, y = vectors()
    y[anywhere(len(y), 5)] = -1
    t = theory.sample_tuples(z, y, size=10, temperature=temperature)
    table = h(z, temperature)
    known = np.flatnonzero(y >= 0).tolist()
    assert sorted(t.anchors) == known and t.n_labelled == 55 and t.n_classes == 3
    for i, x in enumerate(t.anchors):
        same = [j for j in known if y[j] == y[x] and j != x]
        other = [j for j in known if y[j] != y[x]]
        assert t.plus_mean[i] == pytest.approx(np.mean(table[x, same]))
        assert t.minus_mean[i] == pytest.approx(np.mean(table[x, other]))
        assert t.tau_plus[i] == pytest.approx((len(same) + 1) / 55)
        assert t.m[i] + t.q[i] == 10 and t.m[i] == round(10 * (len(same) + 1) / 55)
        assert np.isclose(t.shared[i], table[x, same]).any()
        assert t.view[i] == pytest.approx(math.exp(1 / temperature))


def test_sampled_sums_have_the_right_mean_and_leave_the_anchor_out() -> None:
    z, y = vectors(40, 2)
    t = theory.sample_tuples(z, y, size=20_000)
    assert t.plus / t.m == pytest.approx(t.plus_mean, rel=0.05)
    assert t.minus / t.q == pytest.approx(t.minus_mean, rel=0.05)
    assert t.minus_more / t.m == pytest.approx(t.minus_mean, rel=0.05)
    twins = np.array([0, 0, 1, 1])
    pair = theory.sample_tuples(np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]]), twins, size=4)
    assert pair.plus / pair.m == pytest.approx(math.exp(-1))  # the only positive is the opposite vector, never x


def test_views_enter_the_similarity_to_the_counterpart() -> None:
    z, y = vectors()
    views = z + 0.3
    t = theory.sample_tuples(z, y, views=views)
    cos = [z[i] @ views[i] / np.linalg.norm(z[i]) / np.linalg.norm(views[i]) for i in t.anchors]
    assert t.view == pytest.approx(np.exp(cos)) and t.with_views


points = st.lists(st.lists(st.integers(-3, 3).map(float), min_size=3, max_size=3), min_size=6, max_size=14)


@given(points, st.integers(2, 40), st.sampled_from([0.1, 0.5, 1.0, 3.0]), st.integers(0, 5))
@settings(max_examples=80, deadline=None)
def test_lemma_1_holds_for_any_vectors(rows: list[list[float]], size: int, temperature: float, seed: int) -> None:
    y = np.arange(len(rows)) % 3
    losses = theory.lemma1(np.array(rows), y, size=size, temperature=temperature, seed=seed)
    for form in ("", "expected_"):
        dmt, dmat, unbiased = (losses[f"{form}{name}"] for name in ("dmt", "dmat", "unbiased"))
        assert (dmt <= dmat + 1e-12).all() and (dmat <= unbiased + 1e-12).all()


def test_lemma_1_losses_equal_their_formulas() -> None:
    z, y = vectors()
    t = theory.sample_tuples(z, y, size=12, temperature=0.7)
    losses = theory.lemma1(t)
    for i in range(len(t.anchors)):
        top = t.shared[i] + t.plus[i]
        assert losses["dmat"][i] == pytest.approx(-math.log(top / (top + t.minus[i])))
        top += math.exp(1 / 0.7)
        assert losses["dmt"][i] == pytest.approx(-math.log(top / (top + t.minus[i])))
        bottom = t.shared[i] + t.minus[i] + t.minus_more[i]
        assert losses["unbiased"][i] == pytest.approx(-math.log(t.shared[i] / bottom))


def test_tau0_is_equation_8() -> None:
    z, y = vectors()
    t = theory.sample_tuples(z, y, size=12)
    found = theory.tau0(t)
    for i in range(len(t.anchors)):
        mean = t.plus[i] / t.m[i]
        expected = t.tau_plus[i] * abs(mean - t.minus_mean[i]) / abs(mean - t.plus_mean[i])
        assert found[i] == pytest.approx(expected)
    assert np.array_equal(theory.tau0(z, y, size=12), found)  # vectors or tuples: the same


def test_tau0_is_defined_where_differences_vanish() -> None:
    y = np.arange(12) % 3
    assert (theory.tau0(np.ones((12, 4)), y) == 0).all()
    assert (theory.tau0(np.zeros((12, 4)), y) == 0).all()
    ends = theory.tau0(np.eye(3)[y], y)  # positives never vary, negatives differ from them
    assert np.isinf(ends).all()
    marks = theory.quartiles(ends)
    assert marks["median"] == math.inf and marks["median_error"] == math.inf


def test_quartiles_have_the_error_of_sampling_anchors() -> None:
    values = np.random.default_rng(0).normal(size=4000)
    marks = theory.quartiles(values)
    assert marks["q1"] == pytest.approx(-0.674, abs=0.07) and marks["q3"] == pytest.approx(0.674, abs=0.07)
    assert marks["median_error"] == pytest.approx(math.sqrt(math.pi / 2 / 4000), rel=0.3)  # known for a Gaussian


@pytest.mark.parametrize("seed", range(3))
def test_theorem_1_holds_and_equals_its_formula(seed: int) -> None:
    z, y = vectors(90, seed=seed)
    t = theory.sample_tuples(z, y, size=30, seed=seed)
    sides = theory.theorem1(t)
    assert sides.holds == 1 and sides.gap <= sides.left.mean()
    c, tau = math.e**3 - math.e, theory.tau0(t)
    for i in range(len(t.anchors)):
        x = t.view[i]
        unbiased = -math.log(x / (x + 30 * t.minus_mean[i]))
        dmati = -math.log(x / (x + t.plus[i] + t.minus[i]))
        assert sides.left[i] == pytest.approx(abs(unbiased - dmati))
        terms = [math.sqrt(2 * c * tau[i] ** 2 * math.pi / t.m[i])]
        terms.append(math.sqrt(2 * c * (1 - t.tau_plus[i]) ** 2 * math.pi / t.q[i]))
        assert sides.right[i] == pytest.approx(sum(terms))
        assert sides.right_hoeffding[i] == pytest.approx(sum(terms) * math.sqrt((math.e**2 - 1) ** 2 / c))


def test_lemma_a1_is_the_tail_of_the_gap_and_its_formula() -> None:
    z, y = vectors()
    t = theory.sample_tuples(z, y, size=20)
    left = theory.theorem1(t).left
    for epsilon in (0.05, 0.3, 2.0):
        found = theory.lemma_a1(t, epsilon=epsilon)
        bounds = [
            2 * math.exp(-m * epsilon**2 / (2 * (math.e**3 - math.e) * tau**2))
            + 2 * math.exp(-q * epsilon**2 / (2 * (math.e**3 - math.e) * (1 - share) ** 2))
            for m, q, tau, share in zip(t.m, t.q, theory.tau0(t), t.tau_plus)
        ]
        assert found["share"] == pytest.approx(np.mean(left >= epsilon))
        assert found["bound"] == pytest.approx(np.mean(bounds)) and found["share"] <= found["bound"]


def test_theorem_2_terms_equal_their_formulas() -> None:
    z, y = vectors()
    t = theory.sample_tuples(z, y, size=12)
    terms = theory.theorem2(t, d=5, delta=0.1, rademacher=7.0)
    assert terms["lambda"] == pytest.approx(12 * math.e / (12 + math.e)) and terms["gamma"] == math.log(12)
    assert terms["complexity"] == pytest.approx(terms["lambda"] * 7 / 60)
    assert terms["confidence"] == pytest.approx(math.log(12) * math.sqrt(math.log(10) / 60))
    assert terms["negatives"] == pytest.approx((2 / 3) / math.sqrt(8)) and terms["enough_negatives"] == 1
    assert terms["dmati"] == pytest.approx(theory.theorem1(t).dmati.mean())
    assert theory.theorem2(z, y, size=12) == theory.theorem2(t, d=5)


def test_default_rademacher_term_bounds_the_supremum() -> None:
    """For ||W||_F <= sqrt(d), sup of <sigma, (W z_j)> is sqrt(d) ||sum of sigma_j z_j^T||_F: draw sigma and look."""
    rng = np.random.default_rng(0)
    n, d, k = 30, 4, 6
    rows = rng.normal(size=(n * (k + 2), d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    draws = [math.sqrt(d) * np.linalg.norm(rng.choice([-1, 1], (len(rows), d)).T @ rows) for _ in range(200)]
    bound = d * math.sqrt((k + 2) * n)
    assert 0.9 * bound < np.mean(draws) <= bound


def test_supervised_loss_is_below_the_unbiased_one_and_falls_with_separation() -> None:
    z, y = vectors(200)
    near = theory.supervised_loss(z, y)
    far = theory.supervised_loss(z + 9 * np.eye(3, 5)[y], y)
    unbiased = theory.lemma1(z, y)["expected_unbiased"].mean()
    assert far < near < math.log(3) and near < unbiased
    assert theory.supervised_loss(np.ones((200, 2)), y) == pytest.approx(math.log(3), abs=1e-3)


def test_sampled_reference_agrees_with_all_nodes() -> None:
    z, y = vectors(3000, seed=1)
    y[y == 2] = np.where(np.arange((y == 2).sum()) % 10 == 0, 2, 0)  # classes of unequal size
    full = theory.sample_tuples(z, y, n_anchors=100)
    part = theory.sample_tuples(z, y, n_anchors=100, n_reference=600)
    assert len(full.anchors) == len(part.anchors) == 100
    assert part.plus_mean.mean() == pytest.approx(full.plus_mean.mean(), rel=0.1)
    assert part.minus_mean.mean() == pytest.approx(full.minus_mean.mean(), rel=0.1)
    a, b = (theory.quartiles(theory.tau0(t)) for t in (full, part))
    assert abs(a["median"] - b["median"]) < 5 * math.hypot(a["median_error"], b["median_error"])


def test_negative_pairs_have_different_labels_and_every_space_sees_the_same_ones() -> None:
    z, y = vectors(30)
    y[0] = -1
    one_hot = np.eye(3)[y]
    assert (theory.negative_similarities(one_hot, y) == 0).all()  # equal labels would give 1
    unlabelled = np.where(np.arange(30) == 0, -1.0, 1.0)[:, None]  # node 0 would give -1
    assert theory.negative_similarities(unlabelled, y) == pytest.approx(1)
    similar = theory.negative_similarities(z, y, n_pairs=20_000)
    cosines = np.log(h(z, 1.0))
    expected = np.mean([cosines[i, j] for i in range(1, 30) for j in range(1, 30) if y[i] != y[j]])
    assert similar.mean() == pytest.approx(expected, abs=4 * similar.std() / math.sqrt(20_000))
    assert np.array_equal(similar, theory.negative_similarities(2 * z, y, n_pairs=20_000))
    sparse = theory.negative_similarities(sp.csr_array(z), y, n_pairs=20_000)
    assert sparse == pytest.approx(similar, abs=1e-6)


def test_hardness_is_the_histogram_of_the_similarities() -> None:
    z, y = vectors()
    edges = np.linspace(-1, 1, 11)
    counts = theory.negative_hardness(z, y, edges=edges, n_pairs=500)
    similar = theory.negative_similarities(z, y, n_pairs=500)
    assert counts.sum() == 500 and counts[3] == np.sum((similar >= edges[3]) & (similar < edges[4]))
    assert len(theory.negative_hardness(z, y)) == 40


def test_measure_gathers_every_statement_in_finite_numbers() -> None:
    graph = random_graph(60)
    z, _ = vectors(60)
    result = theory.measure(z, graph, spaces={"filtered": 2 * z}, size=20)
    assert np.isfinite(list(result.values.values())).all()
    assert result["lemma1_holds"] == 1 and result["theorem1_holds"] == 1
    assert result["hardness_filtered"] == result["hardness_learned"] != result["hardness_raw"]
    assert result.settings == {"size": 20, "temperature": 1.0} and "x' is x" in result.notes[0]
    assert np.isfinite(list(theory.measure(np.ones((60, 2)), graph).values.values())).all()


@pytest.mark.parametrize(
    ("y", "text"),
    [
        (np.zeros(6, int), "fewer than two classes"),
        (np.full(6, -1), "fewer than two classes"),
        (np.arange(6), "No class has two nodes"),
        (np.zeros(5, int), "6 nodes"),
        (None, "give the labels"),
    ],
)
def test_labels_without_pairs_say_why(y, text: str) -> None:
    with pytest.raises(InputError, match=text):
        theory.tau0(np.ones((6, 2)), y)


def test_a_class_of_one_node_is_no_anchor_but_stays_a_negative() -> None:
    z, y = vectors(13, 2)
    y[4] = 7
    t = theory.sample_tuples(z, y, size=6)
    assert 4 not in t.anchors and len(t.anchors) == 12 and t.n_classes == 3 and t.n_labelled == 13
