"""The ladder and the studies on toy sizes; graphs that a spec can name."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import random_graph
from tuplet._check import InputError
from tuplet.bench import fitting, graphs
from tuplet.bench.fitting import Bench
from tuplet.bench.rmat import fill_random, nodes_of, parse_size
from tuplet.bench.spec import Job
from tuplet.bench.tasks import scale, work_folder
from tuplet.bench.tasks.work_folder import rung_bytes

SMALL = {"edges_per_node": 3, "n_features": 12, "epochs": 1, "layers": [8, 4], "clusters": 3, "batch_size": 64}


def rung(**settings: Any) -> Job:
    return Job("scale", "rmat-300", "DMAT-i", "all", 0, {**SMALL, **settings})


def test_a_rung_times_every_phase_in_memory() -> None:
    row = Bench("cpu").run(rung(store="memory"))
    assert "error" not in row, row
    assert list(row["seconds"]) == ["generate", "filter", "train", "embed", "kmeans"]
    facts = row["metrics"]
    assert facts["nodes"] == 300 and facts["stored_edges"] == 2 * 3 * 300 and facts["disk_mb"] == 0
    parts = sum(v for k, v in row["seconds"].items() if k != "generate")
    assert facts["total_seconds"] == pytest.approx(parts, abs=1e-3)
    assert row["peak_mb"] == facts["peak_mb"] == max(note["peak_mb"] for note in row["series"]["phases"].values())


def test_the_time_limit_is_for_the_method_not_for_its_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, plain = (lambda self: time.sleep(1.2)), scale.Rung._generate
    job = Job("scale", "rmat-300", "FilterSVD", "all", 0, SMALL, limit_s=1.0)
    monkeypatch.setattr(scale.Rung, "_fit", slow)
    assert "TimeoutError" in Bench("cpu").run(job)["error"]
    monkeypatch.setattr(scale.Rung, "_fit", lambda self: None)
    monkeypatch.setattr(scale.Rung, "_kmeans", lambda self: None)
    monkeypatch.setattr(scale.Rung, "_generate", lambda self: (plain(self), slow(self)))
    assert "error" not in Bench("cpu").run(job)


def test_a_rung_on_disk_goes_on_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUPLET_WORK", str(tmp_path))
    plain = scale.Rung._embed

    def killed(self: scale.Rung) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(scale.Rung, "_embed", killed)
    with pytest.raises(KeyboardInterrupt):
        Bench("cpu").run(rung(store="disk"))
    (folder,) = tmp_path.iterdir()
    before = (folder / "phases.json").read_text()
    assert '"train"' in before and '"embed"' not in before
    monkeypatch.setattr(scale.Rung, "_embed", plain)

    def again(self: scale.Rung) -> None:
        raise AssertionError("a finished phase ran again")

    for name in ("_generate", "_filter", "_train"):
        monkeypatch.setattr(scale.Rung, name, again)
    row = Bench("cpu").run(rung(store="disk"))
    assert "error" not in row, row
    assert row["metrics"]["disk_mb"] > 0 and list(tmp_path.iterdir()) == []


def test_disk_and_memory_give_the_same_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    plain = scale.Rung._kmeans

    def keep(self: scale.Rung) -> None:
        found.append(np.array(self.vectors))
        plain(self)

    monkeypatch.setattr(scale.Rung, "_kmeans", keep)
    monkeypatch.setenv("TUPLET_WORK", str(tmp_path))
    for store in ("memory", "disk"):
        assert "error" not in Bench("cpu").run(rung(store=store))
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)


def test_a_rung_that_does_not_fit_says_so_before_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUPLET_WORK", str(tmp_path))
    usage = shutil.disk_usage("/")._replace(free=10)
    monkeypatch.setattr(work_folder.shutil, "disk_usage", lambda path: usage)
    row = Bench("cpu").run(rung(store="disk"))
    assert "TUPLET_WORK" in row["error"] and row["seconds"] == {} and list(tmp_path.iterdir()) == []


def test_a_baseline_climbs_the_same_ladder() -> None:
    row = Bench("cpu").run(Job("scale", "rmat-300", "SSGC", "all", 0, {**SMALL, "store": "memory"}))
    assert "error" not in row, row
    assert list(row["seconds"]) == ["generate", "fit", "kmeans"]


def test_the_ladder_stops_at_the_largest_wanted_rung() -> None:
    spec = Path(__file__).parents[1] / "benchmarks" / "paper" / "scalability.toml"
    jobs = scale.scale_jobs(spec, max_nodes=10**5, only=["method=DMAT-i"])
    assert [job.dataset for job in jobs] == ["rmat-1e4", "rmat-1e5"]
    with pytest.raises(InputError, match="no rung"):
        scale.scale_jobs(spec, max_nodes=10)


def test_sizes_are_read_from_names() -> None:
    assert nodes_of("rmat-1e6") == 10**6
    assert parse_size("rmat:n=2e4,e=10,f=256,b=512")["n"] == 20_000
    for name in ("rmat", "cora"):
        with pytest.raises(InputError, match="rmat-1e6"):
            nodes_of(name)
    for name in ("rmat:n=5", "grid:n=1,e=1,f=1,b=1", "rmat"):
        with pytest.raises(InputError, match="does not state a size"):
            parse_size(name)


def test_disk_need_counts_every_array() -> None:
    settings = {**scale.DEFAULTS, "n_features": 100, "edges_per_node": 5}
    assert rung_bytes(1000, settings) >= 1000 * 100 * 4 * 2 + 1000 * 10 * 4
    assert rung_bytes(1000, settings, streamed=False) == 1000 * 100 * 4 + 1000 * 10 * 4 + 8 * 1000


def test_random_features_have_unit_length_and_follow_the_seed() -> None:
    a, b, c = (np.empty((50, 7), np.float32) for _ in range(3))
    fill_random(a, 0)
    fill_random(b, 0)
    fill_random(c, 1)
    np.testing.assert_allclose(np.linalg.norm(a, axis=1), 1, rtol=1e-5)
    assert np.array_equal(a, b) and not np.array_equal(a, c)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(150, 9, p=0.1, seed=1)
    monkeypatch.setattr(fitting, "bench_graph", lambda name: graph.with_(name=name))


TINY = {"layers": [8, 4], "max_steps": 2, "batch_size": 32}


def test_tau0_has_ordered_quartiles_and_a_histogram(toy: None) -> None:
    row = Bench("cpu").run(Job("tau0", "toy", "DMAT-i", "all", 0, TINY))
    assert "error" not in row, row
    q = row["metrics"]
    assert 0 < q["q1"] < q["median"] < q["q3"]
    assert len(row["series"]["edges"]) == len(row["series"]["counts"]) + 1


def test_hardness_compares_three_sets_of_vectors(toy: None) -> None:
    row = Bench("cpu").run(Job("hardness", "toy", "DMAT-i", "all", 0, TINY))
    assert "error" not in row, row
    for name in ("features", "filtered", "vectors"):
        assert sum(row["series"][name]) == pytest.approx(1, abs=1e-4)
        assert -1 <= row["metrics"][f"mean_{name}"] <= 1


def test_a_convergence_curve_ends_where_the_plain_run_of_that_length_does(toy: None) -> None:
    settings = {**TINY, "max_steps": 3, "evaluate": {"curve": [1, 3]}}
    row = Bench("cpu").run(Job("convergence", "toy", "DMAT-i", "all", 0, settings))
    assert "error" not in row, row
    series = row["series"]
    assert series["steps"] == [1, 3] and len(series["seconds"]) == 2
    assert series["accuracy"][1] == row["metrics"]["accuracy"]
    assert row["metrics"]["convergence_seconds"] > 0


def test_complexity_measures_a_step_and_the_filter() -> None:
    job = Job("complexity", "rmat:n=300,e=3,f=16,b=32", "DMAT-i", "all", 0, {"layers": [8, 4], "max_steps": 2})
    row = Bench("cpu").run(job)
    assert "error" not in row, row
    assert row["metrics"]["step_ms"] > 0 and row["metrics"]["filter_ms"] > 0 and row["metrics"]["f"] == 16


def test_named_damage_drops_the_stated_share() -> None:
    whole = graphs.bench_graph("cora")
    fewer = graphs.bench_graph("cora~edges=0.1")
    assert fewer.n_edges == whole.n_edges - round(0.1 * whole.n_edges) and fewer.name == "cora~edges=0.1"
    thin = graphs.bench_graph("cora~features=0.25")
    assert thin.x.nnz == pytest.approx(0.75 * whole.x.nnz, rel=0.02)  # type: ignore[union-attr]
    assert graphs.n_clusters_of(whole) == 7 and graphs.n_clusters_of(graphs.bench_graph("cora~k=-2")) == 5
    with pytest.raises(InputError, match="edges=SHARE"):
        graphs.bench_graph("cora~labels=1")


@pytest.mark.parametrize("name", list(graphs.OWN))
def test_own_graphs_have_features_labels_and_the_stated_classes(name: str) -> None:
    graph = graphs.bench_graph(name)
    assert graph.n_classes == 4 and graph.x is not None and graph.name == name
    assert graph.fingerprint() == graphs.bench_graph(name).fingerprint()


def test_results_on_disk_with_inputs_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(work_folder.tempfile, "mkdtemp", lambda prefix: str(tmp_path / "rung"))
    seen = []
    embed = scale.Rung._embed
    monkeypatch.setattr(
        scale.Rung, "_embed", lambda self: (embed(self), seen.extend(f.name for f in (tmp_path / "rung").iterdir()))
    )
    row = Bench("cpu").run(rung(store="results", dtype="float16", clusters=0))
    assert "error" not in row, row
    assert {"rows.npy", "vectors.npy"} <= set(seen) and not {"x.npy", "indices.npy"} & set(seen)
    assert "kmeans" not in row["seconds"] and not (tmp_path / "rung").exists()
