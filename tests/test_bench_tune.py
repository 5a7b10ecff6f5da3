"""Tuning under docs/protocol.md: what a trial may see, what is chosen, and what the committed rows show of it."""

from __future__ import annotations

import json
import tomllib
from collections import Counter, defaultdict
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from tests.conftest import random_graph
from tuplet._check import InputError
from tuplet.bench import fitting
from tuplet.bench.protocol import edge_split, node_split, validation_nodes
from tuplet.bench.rows import read_rows
from tuplet.bench.spec import digest, load_spec
from tuplet.bench.tune import FINALISTS, OBJECTIVES, SETTINGS, choose, draw_settings, tune_and_test, tuned_cells
from tuplet.graph import Graph
from tuplet.graph.edges import joined

ROOT = Path(__file__).resolve().parents[1]
SPEC = """
task = ["clustering", "links"]
datasets = ["toy"]
seeds = 2
[settings]
layers = [6, 4]
batch_size = 32
[[methods]]
name = "DMAT-i"
settings_from = "chosen.toml"
[methods.space]
alpha = [0.1, 0.5, 0.9]
max_steps = [1, 2]
[methods.space.clustering]
"evaluate.unit_rows" = [true, false]
"""


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Graph:
    graph = random_graph(120, 9, p=0.1, seed=1)
    monkeypatch.setattr(fitting, "bench_graph", lambda name: graph.with_(name=name))
    return graph


def test_the_validation_nodes_are_the_same_for_every_seed_and_never_test_nodes(toy: Graph) -> None:
    assert toy.y is not None
    val = validation_nodes(toy.y, 0.1)
    assert len(val) == 12 and np.isin(val, validation_nodes(toy.y, 0.2)).all()
    trains = set()
    for seed in range(5):
        split = node_split(toy.y, seed)
        assert np.array_equal(split.val, val)
        assert not np.isin(val, np.concatenate([split.train, split.test])).any()
        assert sorted([*split.train, *split.val, *split.test]) == list(range(120))
        assert len(np.unique(toy.y[split.train])) == toy.n_classes
        trains.add(split.train.tobytes())
    assert len(trains) == 5


def test_validation_edges_are_fixed_and_held_out_edges_leave_the_graph(toy: Graph) -> None:
    first, second = edge_split(toy, 0), edge_split(toy, 1)
    assert np.array_equal(first.val, second.val) and np.array_equal(first.val_non_edges, second.val_non_edges)
    assert not np.array_equal(first.test, second.test)
    for split in (first, second):
        held = np.concatenate([split.val, split.test])
        assert len(np.unique(held, axis=0)) == len(held) == round(0.05 * toy.n_edges) + round(0.1 * toy.n_edges)
        assert joined(toy, held).all() and not joined(split.graph, held).any()
        assert split.graph.n_edges + len(held) == toy.n_edges
        others = np.concatenate([split.val_non_edges, split.test_non_edges])
        assert not joined(toy, others).any()


def test_drawn_settings_are_different_and_follow_the_name() -> None:
    space = {"a": list(range(10)), "b": list(range(10)), "clustering": {"e.f": [1, 2]}}
    drawn = draw_settings(space, "clustering", "one")
    assert len({digest(s) for s in drawn}) == len(drawn) == SETTINGS
    assert drawn == draw_settings(space, "clustering", "one") != draw_settings(space, "clustering", "two")
    assert {s["e"]["f"] for s in drawn} == {1, 2} and "e" not in draw_settings(space, "links", "one")[0]


def test_trials_keep_validation_scores_only_and_the_best_is_run_with_the_test_seeds(
    toy: Graph, tmp_path: Path
) -> None:
    (tmp_path / "tuned.toml").write_text(SPEC)
    spec = load_spec(tmp_path / "tuned.toml")
    with pytest.raises(InputError, match="There is no"):
        spec.jobs()
    trials, tests = tmp_path / "trials.jsonl", tmp_path / "tests.jsonl"
    tune_and_test(spec, trials=trials, tests=tests, device="cpu")
    rows = read_rows(trials)
    assert Counter((row["task"], row["seed"]) for row in rows) == {
        **{("clustering", 100): 12, ("links", 100): 6},
        **{(task, seed): FINALISTS for task in ("clustering", "links") for seed in (101, 102)},
    }
    assert all(name.startswith("val_") for row in rows for name in row["metrics"])
    assert not any("kmeans_on_vectors" in row for row in rows)
    check_choices(rows, tomllib.loads((tmp_path / "chosen.toml").read_text()))
    tested = read_rows(tests)
    assert sorted((row["task"], row["seed"]) for row in tested) == [
        *[("clustering", 0), ("clustering", 1), ("links", 0), ("links", 1)]
    ]
    assert all("test_accuracy" in row["metrics"] for row in tested if row["task"] == "clustering")


def test_nothing_is_chosen_before_the_second_round_is_whole(toy: Graph, tmp_path: Path) -> None:
    (tmp_path / "tuned.toml").write_text(SPEC)
    spec = load_spec(tmp_path / "tuned.toml")
    tune_and_test(spec, trials=tmp_path / "t.jsonl", tests=tmp_path / "r.jsonl", device="cpu", only=["task=links"])
    rows = read_rows(tmp_path / "t.jsonl")
    (trials,) = tuned_cells(spec, ["task=links"]).values()
    assert choose(trials, rows) is not None
    assert choose(trials, rows[:-1]) is None
    with pytest.raises(InputError, match="no chosen settings for clustering on toy"):
        spec.jobs()


def check_choices(rows: list[dict], chosen: dict) -> None:
    """Each choice is the settings with the best mean objective among those that ran with all three seeds."""
    cells: dict = defaultdict(lambda: defaultdict(dict))
    settings = {}
    for row in rows:
        value = row["metrics"].get(OBJECTIVES[row["task"]])
        name = json.dumps(row["settings"], sort_keys=True)
        settings[name] = row["settings"]
        if value is not None:
            method = row["method"] if row["usage"] == "all" else f"{row['method']}:{row['usage']}"
            cells[method, row["dataset"], row["task"]][name][row["seed"]] = value
    found = {(m, d, t): s for m, ds in chosen.items() for d, ts in ds.items() for t, s in ts.items()}
    assert found
    for cell, best in found.items():
        means = {name: fmean(seeds.values()) for name, seeds in cells[cell].items() if len(seeds) == 3}
        assert means[json.dumps(best, sort_keys=True)] == max(means.values()), cell
        once = {name: seeds[100] for name, seeds in cells[cell].items()}
        assert min(once[name] for name in means) >= max([once[n] for n in once if n not in means], default=0), cell


@pytest.mark.parametrize("file", sorted((ROOT / "benchmarks/results").glob("trials*.jsonl")), ids=lambda f: f.name)
def test_committed_trials_hold_no_test_seed_and_no_test_score_and_no_more_than_the_budget(file: Path) -> None:
    rows = read_rows(file)
    assert min(row["seed"] for row in rows) >= 100
    assert all(name.startswith("val_") for row in rows for name in row["metrics"])
    fits = [row for row in rows if "error" not in row]
    counts = Counter((row["task"], row["dataset"], row["method"], row["usage"]) for row in fits)
    assert max(counts.values()) <= 40


def test_committed_results_hold_no_trial_seed() -> None:
    for file in (ROOT / "benchmarks/results").glob("*.jsonl"):
        if not file.name.startswith("trials"):
            assert all(int(row["seed"]) < 100 for row in read_rows(file)), file.name


@pytest.mark.parametrize("kind", ["", "-labels", "-start"])
def test_committed_choices_are_those_of_the_committed_trials(kind: str) -> None:
    chosen = ROOT / f"benchmarks/blocks/chosen{kind}.toml"
    if not chosen.is_file():
        pytest.skip("nothing was tuned yet")
    check_choices(read_rows(ROOT / f"benchmarks/results/trials{kind}.jsonl"), tomllib.loads(chosen.read_text()))
