"""Running jobs: rows that survive a kill, jobs that fail alone, and what each task hands to an estimator."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Run, random_graph
from tuplet._check import InputError
from tuplet.baselines import KMeansFeatures
from tuplet.bench import fitting
from tuplet.bench.fitting import Bench, SharedFilter
from tuplet.bench.meter import Meter, Told, time_limit
from tuplet.bench.rows import KEYS, append_row, done_keys, read_rows, row_key
from tuplet.bench.run import RunState, _groups, run_jobs, run_spec
from tuplet.bench.spec import Job
from tuplet.filters import GraphFilter
from tuplet.filters.weights import ppr
from tuplet.graph import Graph

TINY = {"layers": [8, 4], "max_steps": 2, "batch_size": 16}


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Graph:
    """A graph of 120 nodes that every dataset name stands for."""
    graph = random_graph(120, 9, p=0.1, seed=1)
    monkeypatch.setattr(fitting, "bench_graph", lambda name: graph.with_(name=name))
    return graph


def jobs_of(count: int = 2, method: str = "DMAT-i", task: str = "clustering", **settings: Any) -> list[Job]:
    given = {**TINY, **settings} if method in ("DMAT-i", "DMAT", "DMT") else settings
    return [Job(task, "toy", method, "all", seed, given, "toy:00") for seed in range(count)]


def test_a_row_has_every_key_and_metrics_in_percent(toy: Graph, tmp_path: Path) -> None:
    state = run_jobs(jobs_of(), out=tmp_path / "rows.jsonl")
    rows = read_rows(tmp_path / "rows.jsonl")
    assert (state.done, state.failed, state.skipped) == (2, 0, 0)
    for row in rows:
        assert set(KEYS) <= set(row) and "error" not in row
        assert {"accuracy", "nmi", "ari", "f1", "modularity", "conductance"} <= set(row["metrics"])
        assert 20 < row["metrics"]["accuracy"] <= 100
        assert {"filter", "train", "embed", "evaluate"} <= set(row["seconds"])
        assert row["peak_mb"] > 10


def test_two_tasks_share_the_fit_of_one_seed_and_its_seconds(
    toy: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = []
    fit = Bench.fit
    monkeypatch.setattr(Bench, "fit", lambda self, job, *args, **kw: fits.append(job) or fit(self, job, *args, **kw))
    todo = [*jobs_of(2), *jobs_of(2, task="classification")]
    run_jobs(todo, out=tmp_path / "rows.jsonl")
    rows = read_rows(tmp_path / "rows.jsonl")
    assert [(job.task, job.seed) for job in fits] == [("clustering", 0), ("clustering", 1)]
    assert [(row["task"], row["seed"]) for row in rows] == [
        ("clustering", 0),
        ("classification", 0),
        ("clustering", 1),
        ("classification", 1),
    ]
    assert all(rows[0]["seconds"][part] == rows[1]["seconds"][part] for part in ("filter", "train", "embed"))
    alone = run_jobs(jobs_of(1, task="classification"), out=tmp_path / "alone.jsonl")
    assert alone.done == 1
    assert read_rows(tmp_path / "alone.jsonl")[0]["metrics"] == rows[1]["metrics"]
    other = [*jobs_of(1), *jobs_of(1, task="classification", max_steps=3)]
    run_jobs(other, out=tmp_path / "other.jsonl")
    assert len(fits) == 5  # other settings are another fit


def test_done_jobs_are_skipped_and_a_torn_line_is_run_again(toy: Graph, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    run_jobs(jobs_of(3), out=out)
    first = read_rows(out)
    out.write_bytes(out.read_bytes()[:-40])  # a kill in the middle of the last write
    state = run_jobs(jobs_of(3), out=out)
    assert (state.skipped, state.done) == (2, 1)
    again = read_rows(out)
    assert [row_key(r) for r in again] == [row_key(r) for r in first]
    assert again[2]["metrics"] == first[2]["metrics"]
    assert run_jobs(jobs_of(3), out=out).done == 0


def test_other_settings_are_another_job(toy: Graph, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    run_jobs(jobs_of(1), out=out)
    assert run_jobs(jobs_of(1, max_steps=3), out=out).done == 1


def test_a_failing_job_writes_its_error_and_the_others_go_on(toy: Graph, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    bad = jobs_of(1, temperature=-1.0)
    state = run_jobs([*bad, *jobs_of(1)], out=out)
    rows = read_rows(out)
    assert (state.done, state.failed) == (2, 1)
    assert "temperature" in rows[0]["error"] and rows[0]["metrics"] == {}
    assert "error" not in rows[1]
    assert run_jobs(bad, out=out).done == 0
    assert run_jobs(bad, out=out, retry_errors=True).done == 1
    assert done_keys(rows) - done_keys(rows, errors=False) == {bad[0].key}


def test_the_command_ends_with_1_where_a_job_failed_now_or_before(
    toy: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer.testing import CliRunner

    from tuplet.cli import app

    def bench(text: str, *more: str) -> int:
        (tmp_path / "s.toml").write_text(text)
        command = ["bench", "run", str(tmp_path / "s.toml"), "--quiet", "--device", "cpu", *more]
        return CliRunner().invoke(app, [*command, "--out", str(tmp_path / "rows.jsonl")]).exit_code

    head = 'task = "clustering"\ndatasets = ["toy"]\nseeds = 1\n[[methods]]\nname = "KMeans"\n'
    assert bench(head) == 0
    bad = head + "settings = { n_init = -1 }"
    assert [bench(bad), bench(bad), bench(bad, "--retry-errors"), bench(head)] == [1, 1, 1, 0]


def test_a_bad_spec_is_one_line_and_no_table(run: Run, tmp_path: Path) -> None:
    for text in ('task = "clustering"\ndatasets = "cora"\n', "task = 3\n", "methods = [3]\n"):
        (tmp_path / "s.toml").write_text(text)
        code, out, err = run("bench", "run", tmp_path / "s.toml", "--out", tmp_path / "rows.jsonl")
        assert code == 1 and out == "" and len(err.splitlines()) == 1 and err.startswith("error: "), err


def test_a_row_that_no_job_wrote_is_an_error() -> None:
    with pytest.raises(InputError, match="has no 'dataset'"):
        row_key({"task": "links", "method": "AGE"})


def test_an_unknown_setting_is_an_error_row(toy: Graph) -> None:
    row = Bench().run(jobs_of(1, temprature=1.0)[0])
    assert "no setting 'temprature'" in row["error"]


def test_a_job_past_its_limit_ends_with_an_error(toy: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: Any) -> dict[str, Any]:
        while True:
            pass

    monkeypatch.setattr(fitting, "task_function", lambda name: slow)
    row = Bench().run(replace(jobs_of(1)[0], limit_s=0.05))
    assert row["error"] == "TimeoutError: stopped after 0.05 s"
    with time_limit(None):
        pass


def test_a_process_that_waits_keeps_its_seconds_but_not_for_ever() -> None:
    start = time.monotonic()
    with time_limit(0.1, stretch=20):
        time.sleep(0.3)
    with pytest.raises(TimeoutError), time_limit(0.1, stretch=2):
        time.sleep(5)
    with pytest.raises(TimeoutError), time_limit(0.1):
        time.sleep(5)
    assert time.monotonic() - start < 3


def test_a_stopped_fit_says_how_far_it_was(toy: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(self: Any, graph: Graph, y: Any, progress: Any) -> None:
        progress("train", 1 / 3)
        while True:
            pass

    monkeypatch.setattr(KMeansFeatures, "_fit", slow)
    row = Bench().run(replace(jobs_of(1, "KMeans")[0], limit_s=0.3))
    assert row["error"].startswith("TimeoutError: stopped after 0.3 s with 33% of train done: about ")
    assert 0.2 < sum(row["seconds"].values()) < 3, "a stopped run has seconds too"

    def silent(self: Any, graph: Graph, y: Any, progress: Any) -> None:
        while True:
            pass

    monkeypatch.setattr(KMeansFeatures, "_fit", silent)
    row = Bench().run(replace(jobs_of(1, "KMeans")[0], limit_s=0.3))
    assert row["error"].endswith("stopped after 0.3 s before the first part of the fit was done")


def test_a_limit_of_a_run_takes_the_place_of_the_specs(toy: Graph, tmp_path: Path) -> None:
    spec, out = tmp_path / "one.toml", tmp_path / "rows.jsonl"
    spec.write_text(
        'task = "clustering"\ndatasets = ["toy"]\nseeds = 1\n[[methods]]\nname = "KMeans"\nlimit_s = 600\n'
    )
    assert run_spec(spec, out=out, device="cpu", limit=1e-6).failed == 1
    with pytest.raises(InputError, match="limit"):
        run_spec(spec, out=out, device="cpu", limit=0)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (None, ""),
        (Told("train", 0.0, 1, 1), "before the first part of train was done"),
        (Told("walk", 1.0, 1, 1), "with walk done"),
        (Told("train", 0.5, 20, 30), "with 50% of train done: about 80 s of CPU time a fit"),
    ],
)
def test_how_far_a_meter_is(told: Any, said: str) -> None:
    meter = Meter()
    meter.told = told
    assert meter.how_far() == said


def test_a_fit_that_opens_a_gpu_on_its_way_is_timed_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    held = 0
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: held > 0)
    monkeypatch.setattr("torch.cuda.synchronize", lambda: None)
    monkeypatch.setattr("torch.cuda.reset_peak_memory_stats", lambda: None)
    monkeypatch.setattr("torch.cuda.max_memory_allocated", lambda: held)
    meter = Meter()
    with meter.fit_phases() as progress:
        held = 2**20
        time.sleep(0.2)
        progress("train", 0.01)
        told = meter.told
        assert told is not None and 0.2 < told.before + told.inside < 10
        assert re.fullmatch("with 1% of train done: about [2-9][0-9] s a fit by the clock, on a GPU", meter.how_far())
        held = 0  # open, but this job does not use it
        monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
        assert meter.how_far().endswith(" of CPU time a fit")


def test_a_clock_keeps_the_phases_apart() -> None:
    meter = Meter()
    with meter.fit_phases() as progress:
        progress("filter", 1.0)
        spin(0.2)
        progress("filter", 1.0)
        progress("train", 0.1)
        spin(0.1)
        progress("train", 0.5)
    assert meter.told is not None and (meter.told.phase, meter.told.share) == ("train", 0.5)
    assert 0.15 < meter.told.before < 0.5 and 0.05 < meter.told.inside < 0.3


def spin(seconds: float) -> None:
    """Keep the processor busy for so long."""
    start = time.process_time()
    while time.process_time() - start < seconds:
        pass


def test_rows_of_several_files_and_none(tmp_path: Path) -> None:
    append_row(tmp_path / "a.jsonl", {"task": "x", "n": 1})
    (tmp_path / "b.jsonl").write_text('{"task": "y"}\n{"tas')
    append_row(tmp_path / "b.jsonl", {"task": "z"})
    found = read_rows([tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "none.jsonl"])
    assert [row["task"] for row in found] == ["x", "y", "z"]


def test_groups_share_a_graph_and_are_split_for_idle_workers() -> None:
    jobs = jobs_of(5) + jobs_of(1, alpha=0.3) + jobs_of(2, "KMeans")
    assert [len(g) for g in _groups(jobs, 1)] == [5, 1, 2]
    parts = _groups(jobs_of(8), 2)
    assert sorted(len(g) for g in parts) == [1, 1, 1, 1, 2, 2]
    assert len(_groups(jobs_of(2), 8)) == 2


def test_the_time_left_counts_each_kind_at_its_own_cost() -> None:
    state = RunState(total=4, workers=2, open_jobs={"a x": 2, "b x": 1})
    assert state.seconds_left() is None
    state.seconds = {"a x": [10.0, 20.0]}
    assert state.seconds_left() == pytest.approx((2 * 15 + 15) / 2)


def test_the_shared_filter_gives_the_same_rows_and_computes_them_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, calls = random_graph(40, 5), []
    plain = GraphFilter.transform

    def spy(self: GraphFilter, *args: Any, **how: Any) -> Any:
        calls.append(1)
        return plain(self, *args, **how)

    monkeypatch.setattr(GraphFilter, "transform", spy)
    shared = SharedFilter(ppr(0.2))
    first = shared.transform(graph)
    assert shared.transform(graph) is first and len(calls) == 1
    np.testing.assert_array_equal(first, plain(GraphFilter(ppr(0.2)), graph))
    other = shared.transform(graph, x=graph.x * 2)  # type: ignore[operator]
    np.testing.assert_allclose(other, 2 * first, rtol=1e-5)
    assert len(calls) == 2


def test_seeds_that_share_rows_equal_seeds_that_do_not(toy: Graph) -> None:
    together, job = Bench(), jobs_of(2)[1]
    together.run(jobs_of(1)[0])
    assert together.run(job)["metrics"] == Bench().run(job)["metrics"]


class Spy:
    """Stands in for an estimator: notes what it is given and returns random vectors."""

    seen: list[Graph]

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit(self, graph: Graph, y: Any = None, progress: Any = None) -> Spy:
        Spy.seen.append(graph if y is None else graph.with_(y=y))
        self.embedding_ = np.random.default_rng(self.seed).normal(size=(graph.n_nodes, 4)).astype(np.float32)
        return self


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> type[Spy]:
    Spy.seen = []
    monkeypatch.setattr(fitting, "make_estimator", lambda method, **settings: Spy(**settings))
    return Spy


@pytest.mark.parametrize("task", ["clustering", "classification", "links"])
def test_no_label_reaches_an_unsupervised_fit(toy: Graph, spy: type[Spy], task: str) -> None:
    row = Bench().run(Job(task, "toy", "SSGC", "all", 0, {}))
    assert "error" not in row, row
    assert spy.seen[0].y is None


def test_supervised_training_sees_the_labels_of_the_training_nodes_only(toy: Graph, spy: type[Spy]) -> None:
    row = Bench().run(Job("classification", "toy", "SSGC", "train", 3, {}))
    assert "error" not in row, row
    from tuplet.graph.splits import split_nodes

    split = split_nodes(toy.y, seed=3)  # type: ignore[arg-type]
    y = spy.seen[0].y
    assert y is not None
    assert np.array_equal(np.flatnonzero(y >= 0), split.train)
    assert np.array_equal(y[split.train], toy.y[split.train])  # type: ignore[index]


def test_link_prediction_fits_on_the_graph_without_the_held_out_edges(toy: Graph, spy: type[Spy]) -> None:
    from tuplet.graph.splits import split_edges

    row = Bench().run(Job("links", "toy", "SSGC", "all", 5, {}))
    assert {"auc", "ap"} <= set(row["metrics"])
    assert split_edges(toy, val=0.05, test=0.1, seed=5).leaked(spy.seen[0]) == 0
    assert spy.seen[0].n_edges < toy.n_edges


def test_dmati_on_the_training_nodes_trains_on_their_rows_only(toy: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    import tuplet.training.loop

    sizes, plain = [], tuplet.training.loop.train

    def watched(encoder: Any, rows: Any, *args: Any, **how: Any) -> Any:
        sizes.append(rows.shape[0])
        assert how.get("labels") is None
        return plain(encoder, rows, *args, **how)

    monkeypatch.setattr(tuplet.training.loop, "train", watched)
    row = Bench().run(Job("classification", "toy", "DMAT-i", "train", 0, TINY))
    assert "error" not in row, row
    assert sizes == [12]


def test_clusters_that_a_method_assigns_itself_are_scored(toy: Graph) -> None:
    from tuplet.bench.tasks.clustering import label_values

    assert toy.y is not None
    values = label_values((toy.y + 1) % 3, toy)
    assert values["accuracy"] == values["nmi"] == values["ari"] == values["f1"] == 100


def test_a_meter_splits_the_time_of_a_fit_by_phase() -> None:
    meter = Meter()
    with meter.fit_phases() as progress:
        progress("filter", 0.5)
        progress("filter", 1.0)
        progress("train", 1.0)
    assert list(meter.seconds) == ["filter", "train", "embed"]
    with meter.phase("embed"):
        pass
    assert all(seconds >= 0 for seconds in meter.seconds.values())


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="peaks cannot be reset here")
def test_the_peak_of_memory_counts_from_the_last_reset() -> None:
    code = """
import numpy as np
from tuplet._memory import reset_peak
from tuplet.bench.meter import Meter
meter = Meter()
before = meter.peak_mb
block = np.ones(2**24)
assert meter.peak_mb > before + 100
del block
reset_peak()
assert meter.peak_mb < before + 60
"""
    subprocess.run([sys.executable, "-c", code], check=True)  # a process of its own: its memory holds nothing else


@pytest.mark.slow
def test_a_killed_worker_costs_its_job_in_flight_only(tmp_path: Path) -> None:
    import multiprocessing

    out, killed = tmp_path / "rows.jsonl", []
    settings = {**TINY, "alpha": 0.5}
    jobs = [Job("clustering", "cora", "DMAT-i", "all", seed, settings) for seed in range(4)]

    def kill_one(state: RunState) -> None:
        children = multiprocessing.active_children()
        if not killed and children:
            os.kill(children[0].pid or 0, signal.SIGKILL)
            killed.append(children[0].pid)

    state = run_jobs(jobs, out=out, jobs=2, device="cpu", on_state=kill_one)
    rows = read_rows(out)
    assert (state.done, state.failed) == (4, 1)
    assert sum("ended with code -9" in row.get("error", "") for row in rows) == 1
    assert all(row["workers"] == 2 for row in rows)
    assert run_jobs(jobs, out=out, retry_errors=True, device="cpu").done == 1
    assert len(done_keys(read_rows(out), errors=False)) == 4


@pytest.mark.slow
def test_the_smoke_spec_runs_end_to_end_and_makes_a_report(tmp_path: Path) -> None:
    from tuplet.bench.report import report

    spec = Path(__file__).parents[1] / "benchmarks" / "smoke.toml"
    out = tmp_path / "smoke.jsonl"
    state = run_spec(spec, out=out, device="cpu")
    rows = read_rows(out)
    assert state.failed == 0 and state.done == state.total == len(rows)
    for line in out.read_text().splitlines():
        assert set(KEYS) <= set(json.loads(line))
    assert {row["dataset"] for row in rows} == {"cora"} and {row["seed"] for row in rows} == {0, 1}
    text = report(out)
    assert "70.57" in text and "| Cora |" in text  # the paper's accuracy stands beside ours
