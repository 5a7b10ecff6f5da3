"""K-Means: Lloyd's steps against the loops of its definition, bounds, blocks, starts, and the pool of threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet.models._self_labels import group_means, of_any_size
from tuplet.rows.kmeans import kmeans
from tuplet.rows.lloyd import Clusters, _State, lloyd
from tuplet.rows.starts import plus_plus, swapped
from tuplet.rows.unit import scale_rows


def blobs(n: int = 900, k: int = 6, d: int = 5, spread: float = 0.6, seed: int = 0) -> NDArray[np.float32]:
    """n rows around k centres, overlapping."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(k, d))[rng.integers(k, size=n)] + spread * rng.normal(size=(n, d))).astype(np.float32)


def naive_lloyd(rows: Any, centres: Any, steps: int) -> tuple[Any, Any]:
    """Lloyd's algorithm by its definition; ends where no row moves."""
    labels = np.full(len(rows), -1)
    for _ in range(steps):
        new = np.array([((row - centres) ** 2).sum(axis=1).argmin() for row in rows])
        done = np.array_equal(new, labels)
        labels = new
        centres = np.array(
            [rows[labels == c].mean(axis=0) if (labels == c).any() else centres[c] for c in range(len(centres))]
        )
        if done:
            break
    return labels, centres


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("block", [2**5, 2**19])
def test_lloyd_with_bounds_and_blocks_is_lloyd_by_its_definition(
    seed: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuplet.rows.lloyd._BLOCK", block)
    rows = blobs(seed=seed)
    start = rows[:6].copy()
    labels, centres = naive_lloyd(rows.astype(np.float64), start.astype(np.float64), 300)
    found = lloyd(rows, start, settled=0.0)
    assert np.array_equal(found.labels, labels)
    np.testing.assert_allclose(found.centres, centres, atol=1e-5)
    exact = sum(((rows[labels == c] - centres[c]) ** 2).sum() for c in range(6))
    assert found.inertia == pytest.approx(exact, rel=1e-5)


def test_bounds_skip_most_rows_once_the_centres_stand_still() -> None:
    rows = blobs(n=4000, spread=0.3)
    state = _State.begin(rows, lloyd(rows, rows[:6].copy()).centres, unit_rows=False)
    looked: list[int] = []
    plain = state._assign
    state._assign = lambda block, which: looked.append(len(which)) or plain(block, which)  # type: ignore[method-assign, func-returns-value]
    for step in range(2):
        parts = [(state.assign if step else state.assign_all)(block) for block in state.blocks()]
        for part in parts:
            state.sums += part.sums
            state.counts += part.counts
        state.update()
    assert sum(looked[: len(looked) // 2]) == 4000 and sum(looked[len(looked) // 2 :]) < 1000


def test_the_best_start_is_as_good_as_scikit_learns() -> None:
    from sklearn.cluster import KMeans

    rows = scale_rows(blobs(n=3000, k=12, d=8))
    rival = KMeans(12, n_init=10, random_state=0).fit(rows).inertia_
    assert kmeans(rows, 12, n_init=10, unit_rows=False).inertia <= 1.001 * rival


def far_blobs(k: int = 12, each: int = 40) -> NDArray[np.float32]:
    """k groups far apart, `each` rows or three times as many in turn."""
    rng = np.random.default_rng(3)
    which = np.repeat(np.arange(k), [each * (3 if c % 2 else 1) for c in range(k)])
    return (20 * rng.normal(size=(k, 6))[which] + rng.normal(size=(len(which), 6))).astype(np.float32)


def test_swaps_leave_an_optimum_in_which_lloyd_stays() -> None:
    rows, k = far_blobs(), 12
    best = lloyd(rows, np.array([rows[start] for start in np.cumsum([0, *([40, 120] * 5), 40])]))
    bad = best.centres.copy()
    bad[[0, 2, 4]] = best.centres[[1, 3, 5]] + 0.1  # three groups with two centres each, three with none
    stuck = lloyd(rows, bad)
    found = swapped(rows, stuck, seed=0)
    assert stuck.inertia > 5 * best.inertia
    assert lloyd(rows, found.centres).inertia == pytest.approx(best.inertia, rel=1e-4)
    again = swapped(rows, best, seed=0)
    assert again.inertia <= best.inertia and len(again.centres) == k


@pytest.mark.parametrize("rows", [np.ones((20, 3)), np.repeat(np.eye(3), 4, axis=0), np.arange(4.0)[:, None]])
def test_swaps_of_rows_that_cannot_be_split_end(rows: Any) -> None:
    assert kmeans(rows, 4, unit_rows=False).inertia == pytest.approx(0, abs=1e-6)


def test_one_start_with_swaps_is_as_good_as_ten_without(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = blobs(n=2000, k=40, d=3, spread=0.1)
    few = kmeans(rows, 40, n_init=1, unit_rows=False).inertia
    monkeypatch.setattr("tuplet.rows.starts._ROUNDS", 0)
    assert few <= kmeans(rows, 40, n_init=10, unit_rows=False).inertia
    assert few < 0.98 * kmeans(rows, 40, n_init=1, unit_rows=False).inertia


@pytest.mark.parametrize("sample", [2**14, 300])
def test_from_given_centres_it_goes_on_as_lloyd_does_and_swaps(monkeypatch: pytest.MonkeyPatch, sample: int) -> None:
    rows = far_blobs(each=60)
    best = np.array([rows[start] for start in np.cumsum([0, *([60, 180] * 5), 60])])
    wanted = lloyd(rows, best).inertia
    monkeypatch.setattr("tuplet.rows.starts._SAMPLE", sample)
    monkeypatch.setattr("tuplet.rows.starts._SAMPLE_EACH", 0)
    stuck = best.copy()
    stuck[[0, 2]] = best[[1, 3]] + 0.1
    swapped_from = kmeans(rows, 12, unit_rows=False, centres=stuck)
    assert swapped_from.inertia == pytest.approx(wanted, rel=1e-4)
    monkeypatch.setattr("tuplet.rows.starts._ROUNDS", 0)
    assert kmeans(rows, 12, unit_rows=False, centres=best).inertia == pytest.approx(wanted, rel=1e-6)
    left = kmeans(rows, 12, unit_rows=False, centres=stuck)  # the centres given, and no others
    assert left.inertia == pytest.approx(lloyd(rows, stuck).inertia, rel=1e-3) and left.inertia > 2 * wanted


def test_short_starts_on_a_sample_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = blobs(n=6000, k=8, d=6, spread=0.4)
    whole = kmeans(rows, 8)
    monkeypatch.setattr("tuplet.rows.starts._SAMPLE", 500)
    monkeypatch.setattr("tuplet.rows.starts._SAMPLE_EACH", 60)
    monkeypatch.setattr("tuplet.rows.starts._SEEDING", 200)
    assert kmeans(rows, 8).inertia <= 1.001 * whole.inertia


def test_the_same_bits_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = blobs(n=3000)
    found = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("TUPLET_NUM_THREADS", threads)
        found.append(kmeans(rows, 6, seed=3))
    for other in found[1:]:
        assert np.array_equal(found[0].labels, other.labels) and np.array_equal(found[0].centres, other.centres)


def test_a_memory_map_gives_what_an_array_gives(tmp_path: Path) -> None:
    rows = blobs(n=2000)
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert np.array_equal(kmeans(mapped, 4).labels, kmeans(rows, 4).labels)


def test_sparse_and_dense_rows_find_the_same_groups() -> None:
    rows = np.repeat(np.eye(4, dtype=np.float32), 20, axis=0)
    dense, sparse = kmeans(rows, 4).labels, kmeans(sp.csr_array(rows), 4).labels
    assert len(set(zip(dense.tolist(), sparse.tolist(), strict=True))) == 4


def test_fewer_distinct_rows_than_clusters_leave_clusters_empty() -> None:
    found = kmeans(np.repeat(np.eye(2), 5, axis=0), 4)
    assert found.found == 2 and found.inertia == pytest.approx(0, abs=1e-5)


def test_plus_plus_draws_rows_far_apart() -> None:
    rows = np.repeat(np.eye(5, dtype=np.float32), 30, axis=0)
    drawn = plus_plus(rows, 5, np.random.default_rng(0))
    assert np.array_equal(np.sort(drawn.argmax(axis=1)), np.arange(5))


def test_a_device_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="device"):
        kmeans(np.eye(3), 2, device="gpu")


def test_groups_of_any_size_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(1)
    rows = np.concatenate([rng.normal(size=(400, 2)), rng.normal(size=(40, 2)) + [3.0, 0]]).astype(np.float32)
    start = kmeans(rows, 2, unit_rows=False)
    found = of_any_size(rows, start)
    labels = start.labels
    for _ in range(30):
        centres = np.array([rows[labels == c].mean(axis=0) for c in range(2)])
        distance = ((rows[:, None] - centres) ** 2).sum(axis=2)
        variance = distance[np.arange(len(rows)), labels].mean() / 2
        labels = (distance / (2 * variance) - np.log(np.bincount(labels) / len(rows))).argmin(axis=1)
    assert np.array_equal(found.labels, labels)
    truth = np.repeat([0, 1], [400, 40])
    assert _errors(truth, found.labels) < _errors(truth, start.labels)


def _errors(truth: Any, labels: Any) -> int:
    wrong = int((truth != labels).sum())
    return min(wrong, len(truth) - wrong)


def test_a_group_without_rows_keeps_a_mean_of_zero() -> None:
    means = group_means(np.ones((3, 2), np.float32), np.array([0, 0, 2]), 3)
    assert np.array_equal(means, [[1, 1], [0, 0], [1, 1]])
    assert isinstance(of_any_size(np.eye(3, dtype=np.float32), Clusters(np.zeros(3, np.int64), np.eye(3))), Clusters)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("unit_rows", [False, True])
def test_a_gpu_finds_the_clusters_of_the_cpu(unit_rows: bool) -> None:
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((12, 20)).astype(np.float32)
    which = rng.integers(12, size=40_000)
    rows = centres[which] + 0.2 * rng.standard_normal((40_000, 20)).astype(np.float32)
    cpu = kmeans(rows, 12, n_init=8, unit_rows=unit_rows, device="cpu")
    gpu = kmeans(rows, 12, n_init=8, unit_rows=unit_rows, device="cuda")
    assert gpu.inertia == pytest.approx(cpu.inertia, rel=1e-3)
    assert np.mean(gpu.labels == cpu.labels) > 0.999
    scaled = rows / np.linalg.norm(rows, axis=1, keepdims=True) if unit_rows else rows
    naive = np.square(scaled - gpu.centres[gpu.labels]).sum()
    assert gpu.inertia == pytest.approx(float(naive), rel=1e-3)
