"""K-Means on a folder of parts: the labels of `kmeans` on all vectors, whatever the engine and whoever was killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from tests.conftest import Run
from tests.test_engines import tasks_run_here
from tuplet._check import InputError
from tuplet.io import cluster_parts as module
from tuplet.io import remote
from tuplet.io.cluster_parts import cluster_parts
from tuplet.io.vectors import read_vectors, write_vectors
from tuplet.rows import kmeans as km
from tuplet.rows import starts

N, K = 3000, 5


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five overlapping blobs in eleven parts; samples are small, so that Lloyd's steps go over the parts."""
    monkeypatch.setattr(starts, "_SAMPLE", 400)
    monkeypatch.setattr(starts, "_SAMPLE_EACH", 60)
    monkeypatch.setattr("tuplet.io._vector_parts.PART_BYTES", 280 * 12 * 4)
    rng = np.random.default_rng(0)
    z = rng.standard_normal((N, 12)) + 2.0 * rng.standard_normal((K, 12))[rng.integers(0, K, N)]
    folder = tmp_path / "parts with space"
    write_vectors(f"{folder}/", z.astype(np.float32), [f"n{i}" for i in range(N)], metadata={"model": "m"})
    assert len(list(folder.iterdir())) == 11
    return folder


@pytest.mark.parametrize("unit_rows", [True, False])
def test_labels_are_those_of_one_matrix(unit_rows: bool, parts: Path, tmp_path: Path) -> None:
    before = read_vectors(parts)
    want = km.kmeans(before.z, K, seed=3, unit_rows=unit_rows, device="cpu")
    counts, inertia = cluster_parts(parts, K, tmp_path / "out", seed=3, unit_rows=unit_rows)
    back = read_vectors(tmp_path / "out")
    assert np.array_equal(back.cluster, want.labels) and counts.tolist() == np.bincount(want.labels).tolist()
    assert inertia == pytest.approx(want.inertia, rel=1e-6)
    assert np.array_equal(back.z, before.z) and np.array_equal(back.ids, before.ids)
    assert back.metadata == before.metadata
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "parts with space"]


def test_parts_in_a_bucket_get_the_labels_of_one_matrix(
    bucket: str, parts: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUPLET_CACHE", str(tmp_path / "cache"))
    remote.upload(parts, f"{bucket}/v")
    remote.upload(parts / "part-00000.parquet", f"{bucket}/out/part-00077.parquet")  # of a larger set before
    with tasks_run_here():
        code, _, err = run("cluster", f"{bucket}/v/", "-k", str(K), "--engine", "ray", "-o", f"{bucket}/out/", "-q")
    assert code == 0, err
    back, before = read_vectors(f"{bucket}/out/"), read_vectors(parts)
    assert np.array_equal(back.cluster, km.kmeans(before.z, K, device="cpu").labels)
    assert np.array_equal(back.ids, before.ids) and back.metadata == before.metadata
    assert not any((tmp_path / "cache" / "clusters").iterdir())
    for source, out, word in (
        ("v/", "v", "Choose another place"),
        ("none/", "o/", "holds no vectors"),
        ("v/", "../absent/o/", "no bucket"),
    ):
        place = f"s3://{out[3:]}" if out.startswith("..") else f"{bucket}/{out}"
        code, _, err = run("cluster", f"{bucket}/{source}", "-k", "2", "--engine", "local", "-o", place, "-q")
        assert code == 1 and word in err and err.count("\n") == 1, err


def test_few_vectors_are_their_own_sample(parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "_SAMPLE", N)
    cluster_parts(parts, K, tmp_path / "out")
    want = km.kmeans(read_vectors(parts).z, K, device="cpu").labels
    assert np.array_equal(read_vectors(tmp_path / "out").cluster, want)


def test_a_killed_driver_goes_on_from_its_last_step(parts: Path, tmp_path: Path) -> None:
    cluster_parts(parts, K, tmp_path / "whole")
    steps: list[int] = []
    real = module.assign_part

    def dies(item: Any) -> Any:
        steps.append(item["step"])
        if item["step"] == 2 and item["part"] == 4 and steps.count(2) == 5:
            raise KeyboardInterrupt
        return real(item)

    with mock.patch.object(module, "assign_part", dies), pytest.raises(KeyboardInterrupt):
        cluster_parts(parts, K, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    done = len(steps)
    with mock.patch.object(module, "assign_part", dies):
        cluster_parts(parts, K, tmp_path / "out")
    assert min(steps[done:]) == 2
    assert np.array_equal(read_vectors(tmp_path / "out").cluster, read_vectors(tmp_path / "whole").cluster)


def test_other_settings_do_not_go_on_from_there(parts: Path, tmp_path: Path) -> None:
    with mock.patch.object(module, "write_clusters", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        cluster_parts(parts, K, tmp_path / "out")
    cluster_parts(parts, 3, tmp_path / "out")
    assert read_vectors(tmp_path / "out").cluster.max() == 2


def test_a_folder_may_get_its_clusters_in_place_and_again(parts: Path) -> None:
    for k in (4, 2):
        cluster_parts(parts, k, parts)
        assert read_vectors(parts).cluster.max() == k - 1


def test_the_verb_clusters_parts_and_refuses_in_one_line(parts: Path, tmp_path: Path, run: Run) -> None:
    words = ["cluster", str(parts), "--engine", "ray", "-q"]
    with tasks_run_here():
        code, out, _ = run(*words, "-k", "5", "-o", str(tmp_path / "out"), "--json")
    assert code == 0 and sum(json.loads(out)["counts"]) == N
    for more, word in (
        (["-o", str(tmp_path / "x")], "give -k"),
        (["-k", "3"], "-o FOLDER"),
        (["-k", "3", "-o", str(tmp_path / "x"), "--graph", "cora"], "only the vectors"),
        (["-k", str(N + 1), "-o", str(tmp_path / "x")], "k must be"),
    ):
        with tasks_run_here():
            code, _, err = run(*words, *more)
        assert code == 1 and word in err and err.count("\n") == 1, err


def test_parts_that_are_not_whole_are_refused(parts: Path, tmp_path: Path) -> None:
    (parts / "part-00003.parquet").unlink()
    with pytest.raises(InputError, match=r"part-00003\.parquet is missing"):
        cluster_parts(parts, K, tmp_path / "out")
    (parts / "part-00003.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="not a readable Parquet"):
        cluster_parts(parts, K, tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("x")
    with pytest.raises(InputError, match="no part-00000"):
        cluster_parts(tmp_path / "full", K, tmp_path / "out")
