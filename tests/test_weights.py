"""Coefficient sequences: sums, closed forms, tails, and the Chebyshev expansion against the plain series."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tuplet._check import InputError
from tuplet.filters.weights import custom, heat, laplacian, markov, ppr

FAMILIES = [
    ppr(0.1),
    ppr(0.6),
    ppr(1.0),
    heat(3.0),
    markov(16, 0.05),
    laplacian(8),
    laplacian(5, 0.7),
    custom([1, -2, 3]),
]
S = np.linspace(-1, 1, 401)


@pytest.mark.parametrize("weights", FAMILIES, ids=repr)
def test_response_is_the_sum_of_the_coefficients_times_powers(weights):
    w = weights.coefficients(600)
    assert np.allclose(weights.response(S), np.polynomial.polynomial.polyval(S, w), atol=1e-10)


@pytest.mark.parametrize("weights", FAMILIES[:-1], ids=repr)
def test_weights_are_positive_and_sum_to_one(weights):
    w = weights.coefficients(600)
    assert (w >= 0).all() and math.isclose(w.sum(), 1, rel_tol=1e-9)


@pytest.mark.parametrize("weights", FAMILIES, ids=repr)
@pytest.mark.parametrize("hops", [0, 1, 4, 7])
def test_tail_is_the_sum_of_what_is_left_out(weights, hops):
    assert math.isclose(weights.tail(hops), np.abs(weights.coefficients(600)[hops + 1 :]).sum(), abs_tol=1e-10)


@pytest.mark.parametrize("weights", FAMILIES, ids=repr)
@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6])
def test_hops_and_degree_are_the_smallest_that_keep_the_tolerance(weights, tol):
    hops, degree = weights.hops(tol), weights.degree(tol)
    assert weights.tail(hops) <= tol and (hops == 0 or weights.tail(hops - 1) > tol)
    assert weights.chebyshev_tail(degree) <= tol and (degree == 0 or weights.chebyshev_tail(degree - 1) > tol)


@pytest.mark.parametrize("weights", FAMILIES, ids=repr)
@pytest.mark.parametrize("tol", [1e-2, 1e-5])
def test_truncated_chebyshev_expansion_stays_within_its_tail_on_the_whole_spectrum(weights, tol):
    degree = weights.degree(tol)
    value = np.polynomial.chebyshev.chebval(S, weights.chebyshev(degree))
    assert np.abs(value - weights.response(S)).max() <= weights.chebyshev_tail(degree) + 1e-12


def test_chebyshev_coefficients_of_pagerank_match_the_closed_form():
    alpha, k = 0.1, np.arange(40)
    root = math.sqrt(1 - (1 - alpha) ** 2)
    exact = 2 * alpha / root * ((1 - root) / (1 - alpha)) ** k
    exact[0] /= 2
    assert np.allclose(ppr(alpha).chebyshev(39), exact, atol=1e-14)


def test_chebyshev_needs_far_fewer_products_for_small_alpha():
    assert ppr(0.01).degree(1e-4) * 8 < ppr(0.01).hops(1e-4)
    assert laplacian(60).degree(1e-4) < 25


def test_named_families_have_the_coefficients_of_their_papers():
    assert np.allclose(heat(2).coefficients(3), np.exp(-2) * np.array([1, 2, 2, 8 / 6]))
    assert np.allclose(markov(4, 0.2).coefficients(5), [0.2, 0.2, 0.2, 0.2, 0.2, 0])
    assert np.allclose(laplacian(3, 0.5).coefficients(3), [1 / 8, 3 / 8, 3 / 8, 1 / 8])
    assert np.allclose(laplacian(2, 1.0).coefficients(2), [0, 0, 1])


@pytest.mark.parametrize("make", [lambda: ppr(0), lambda: ppr(1.5), lambda: heat(-1), lambda: markov(0)])
@pytest.mark.filterwarnings("error")
def test_values_out_of_range_are_refused(make):
    with pytest.raises(InputError, match="must"):
        make()


def test_an_empty_sequence_is_refused():
    with pytest.raises(InputError, match="empty"):
        custom([])


def test_equal_weights_are_equal_and_show_their_parameters():
    assert ppr(0.1) == ppr(0.1) != ppr(0.2) and hash(ppr(0.1)) == hash(ppr(0.1))
    assert repr(markov(4, 0.1)) == "markov(hops=4, alpha=0.1)" and repr(custom([1, 2])) == "custom([1.0, 2.0])"
