"""Truncated SVD against LAPACK, on arrays, CSR, memory maps and operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tuplet._check import InputError
from tuplet.rows import blocks as row_blocks
from tuplet.rows import svd
from tuplet.rows.svd import left_singular_vectors, operator_svd, orthonormal, times, transposed_times, truncated_svd


def low_rank(n: int = 60, f: int = 25, rank: int = 6, seed: int = 0, noise: float = 1e-3) -> Any:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(n, rank)), rng.normal(size=(rank, f))
    return (a * 2.0 ** -np.arange(rank) @ b + noise * rng.normal(size=(n, f))).astype(np.float32)


@pytest.mark.parametrize("kind", ["array", "csr", "map"])
def test_it_finds_the_singular_triples_of_lapack(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "BLOCK_VALUES", 100)  # many blocks
    matrix = low_rank()
    rows: Any = sp.csr_array(matrix) if kind == "csr" else matrix
    if kind == "map":
        np.save(tmp_path / "rows.npy", matrix)
        rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    found = truncated_svd(rows, 5)
    u, s, vt = np.linalg.svd(matrix, full_matrices=False)
    np.testing.assert_allclose(found.values, s[:5], rtol=1e-4)
    np.testing.assert_allclose(np.abs(np.sum(found.left * u[:, :5], axis=0)), 1, atol=1e-3)
    np.testing.assert_allclose(np.abs(np.sum(found.right * vt[:5].T, axis=0)), 1, atol=1e-3)
    np.testing.assert_allclose(found.left * found.values @ found.right.T, (u[:, :5] * s[:5]) @ vt[:5], atol=1e-2)


def test_an_operator_is_the_matrix_that_it_stands_for() -> None:
    matrix = low_rank(seed=3)
    whole = truncated_svd(matrix, 4, iterations=2)
    found = operator_svd(lambda q: matrix @ q, lambda y: matrix.T @ y, matrix.shape, 4)
    np.testing.assert_allclose(found.values, whole.values, rtol=1e-5)
    np.testing.assert_allclose(found.left, whole.left, atol=1e-4)


def test_a_symmetric_matrix_needs_no_transpose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svd, "EXACT_UP_TO", 0)
    monkeypatch.setattr(svd, "WHOLE_UP_TO", 0)
    half = sp.random_array((120, 120), density=0.1, rng=np.random.default_rng(0))
    matrix = sp.csr_array(half + half.T, dtype=np.float32)
    whole = svd.symmetric_svd(matrix, 4, iterations=30)
    u, s, _ = np.linalg.svd(matrix.toarray())
    np.testing.assert_allclose(whole.values, s[:4], rtol=1e-4)
    np.testing.assert_allclose(np.abs(np.sum(whole.left * u[:, :4], axis=0)), 1, atol=1e-3)
    found, old = svd.symmetric_svd(matrix, 4), truncated_svd(matrix, 4)  # as many products, half the passes
    np.testing.assert_allclose(found.values, old.values, rtol=1e-5)


def test_same_seed_same_bits_and_signs_that_do_not_depend_on_it() -> None:
    matrix = low_rank(seed=1)
    first, again, other = truncated_svd(matrix, 3), truncated_svd(matrix, 3), truncated_svd(matrix, 3, seed=9)
    assert np.array_equal(first.left, again.left) and np.array_equal(first.right, again.right)
    np.testing.assert_allclose(first.left, other.left, atol=1e-3)


@pytest.mark.parametrize("matrix", [np.zeros((6, 4), np.float32), np.ones((6, 4), np.float32), np.eye(4)[:, :3]])
def test_poor_rank_stays_finite(matrix: Any) -> None:
    found = truncated_svd(np.asarray(matrix, np.float32), 3)
    assert np.isfinite(found.left).all() and np.isfinite(found.right).all()
    np.testing.assert_allclose(found.left * found.values @ found.right.T, matrix, atol=1e-3)


def test_too_many_dimensions_are_an_error() -> None:
    with pytest.raises(InputError, match="d must"):
        truncated_svd(np.ones((5, 3)), 4)


@settings(deadline=None, max_examples=25)
@given(n=st.integers(2, 30), c=st.integers(1, 6), seed=st.integers(0, 99))
def test_orthonormal_columns_span_the_same_space(n: int, c: int, seed: int) -> None:
    y = np.random.default_rng(seed).normal(size=(n, min(c, n))).astype(np.float32)
    before = y.copy()
    q = orthonormal(y)
    assert q is y
    gram = q.T.astype(np.float64) @ q
    kept = np.diag(gram) > 0.5
    np.testing.assert_allclose(gram[np.ix_(kept, kept)], np.eye(kept.sum()), atol=1e-4)
    np.testing.assert_allclose(q @ (q.T @ before), before, atol=2e-2 * np.abs(before).max())


def test_products_by_blocks_are_the_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "BLOCK_VALUES", 30)
    rows, q = low_rank(17, 5, 3), np.ones((5, 2), np.float32)
    y = rows @ q
    for kind in (rows, sp.csr_array(rows)):
        np.testing.assert_allclose(times(kind, q), y, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(transposed_times(kind, y), rows.T @ y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(40, 12), (12, 40), (1700, 1650)])
def test_left_singular_vectors_equal_those_of_the_full_decomposition(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    spectrum = np.r_[9.0, 7, 5, 3, np.linspace(1, 0.1, min(shape) - 4)]
    if shape[1] < 1000:
        left, right = (np.linalg.qr(rng.normal(size=(n, min(shape))))[0] for n in shape)
        h = (left * spectrum) @ right.T
    else:  # a full decomposition of this size is slow: planted vectors instead, and a small rest
        left, right = (np.linalg.qr(rng.normal(size=(n, 4)))[0] for n in shape)
        h = (left * spectrum[:4]) @ right.T + 1e-4 * rng.normal(size=shape)
    u = left_singular_vectors(h.astype(np.float32), 4, seed=0)
    assert u.dtype == np.float32
    np.testing.assert_allclose(np.abs(np.sum(u * left[:, :4], axis=0)), 1, atol=1e-3)


def test_more_vectors_than_columns_gives_the_columns() -> None:
    h = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
    assert left_singular_vectors(h, 5, seed=0).shape == (10, 3)


def test_signs_do_not_follow_rounding_where_two_entries_are_as_large() -> None:
    """(a, -a): which of them is the largest is a matter of the last bit; the sign is not."""
    for shake in (1e-7, 0, -1e-7):
        right = np.array([[0.1, 0.0], [-0.7, 0.6 + shake], [0.7 + shake, -0.6]])
        found, sign = svd.signed_right(right)
        assert found[1, 0] > 0 > found[2, 0] and found[1, 1] > 0 > found[2, 1]
        assert sign.tolist() == [-1, 1]
