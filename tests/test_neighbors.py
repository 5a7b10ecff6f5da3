"""Nearest rows against a full sort."""

from __future__ import annotations

import numpy as np
import pytest

from tuplet._check import InputError
from tuplet.rows import neighbors


def brute(z: np.ndarray, q: np.ndarray, k: int) -> np.ndarray:
    cosine = (q @ z.T) / (np.linalg.norm(q, axis=1)[:, None] * np.linalg.norm(z, axis=1)[None, :])
    return np.argsort(-cosine, axis=1, kind="stable")[:, :k]


def vectors(n: int = 500, d: int = 8) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)


@pytest.mark.parametrize("block", [2**24, 600])  # 600: forty rows at a time, so blocks are merged
def test_exact_search_equals_a_full_sort(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbors, "BLOCK", block)
    z = vectors()
    index, similarity = neighbors.nearest(z, z[:7], k=5)
    np.testing.assert_array_equal(index, brute(z, z[:7], 5))
    assert np.all(np.diff(similarity, axis=1) <= 0)
    np.testing.assert_allclose(similarity[:, 0], 1, atol=1e-5)


def test_k_larger_than_n_gives_all_rows() -> None:
    assert neighbors.nearest(vectors(4), vectors(4)[:1], k=10)[0].shape == (1, 4)


def test_a_zero_row_is_similar_to_nothing() -> None:
    z = np.zeros((3, 2), dtype=np.float32)
    assert np.all(neighbors.nearest(z, z[:1], k=3)[1] == 0)


def test_hnsw_finds_nearly_the_same() -> None:
    pytest.importorskip("faiss")
    z = vectors(2000, 16)
    found, _ = neighbors.nearest(z, z[:50], k=10, method="hnsw")
    truth = brute(z, z[:50], 10)
    recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, truth)])
    assert recall > 0.95


@pytest.mark.parametrize("bad", [{"k": 0}, {"method": "magic"}])
def test_bad_arguments(bad: dict) -> None:
    with pytest.raises(InputError):
        neighbors.nearest(vectors(5), vectors(5)[:1], **bad)


def test_a_query_of_other_width_is_refused() -> None:
    with pytest.raises(InputError, match="8 columns"):
        neighbors.nearest(vectors(5), np.ones((1, 3), dtype=np.float32))
