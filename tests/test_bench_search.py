"""The stacked models of the recipe search against the library: the same filter, losses, steps and scores."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from tests.conftest import random_graph
from tuplet import losses, metrics
from tuplet.filters import GraphFilter
from tuplet.filters.weights import ppr
from tuplet.graph.splits import split_edges, split_nodes

SCRIPTS = Path(__file__).parents[1] / "scripts"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


stacked = load("stacked")


@pytest.mark.parametrize(("alpha", "r"), [(0.3, 0.5), (0.1, 0.4)])
def test_the_filter_equals_the_librarys(alpha: float, r: float) -> None:
    graph = random_graph(40, 6)
    ours = stacked.filter_rows(graph.indptr, graph.indices, torch.as_tensor(graph.x), alpha, r, tol=1e-6)
    np.testing.assert_allclose(ours, GraphFilter(ppr(alpha), r=r, tol=1e-6).transform(graph), atol=1e-4)


def stack_of(m: int = 3, f: int = 6) -> object:
    models = [stacked.Model(0.3 + 0.2 * i, 0.5, 0.01 * (i + 1), l2=0.05 * (i % 2), seed=i) for i in range(m)]
    return stacked.Stack(models, f, (5, 4), weight_decay=0.1, device="cpu")


@pytest.mark.parametrize("kind", ["dmt", "dmat", "dmati"])
def test_each_model_has_the_librarys_loss(kind: str) -> None:
    stack = stack_of()
    x, y = torch.randn(8, 6, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 3
    found = stacked.losses(stack, x, y, kind, 1, torch.Generator().manual_seed(5))
    keep = stack.masks(torch.Generator().manual_seed(5))
    u, v = stack.forward(x), stack.forward(x, keep)
    own = torch.stack([x] * 3)  # the same as a batch for each model
    again = stacked.losses(stack, own, torch.stack([y] * 3), kind, 1, torch.Generator().manual_seed(5))
    torch.testing.assert_close(again, found)
    for i, model in enumerate(stack.models):
        t = model.temperature
        expected = {
            "dmt": losses.dmt_loss(u[i], y, temperature=t),
            "dmat": losses.dmat_loss(u[i], v[i], y, temperature=t),
            "dmati": losses.dmati_loss(u[i], v[i], temperature=t),
        }[kind]
        torch.testing.assert_close(found[i], expected)


def test_a_mask_leaves_out_whole_columns_of_the_stated_share() -> None:
    stack = stack_of(2, f=10)
    keep = stack.masks(torch.Generator().manual_seed(1))
    assert keep.sum(1).tolist() == [5, 5] and (keep[0] != keep[1]).any()
    x = torch.randn(4, 10)
    torch.testing.assert_close(stack.forward(x, keep)[1], stack.forward(x * keep[1])[1])


def optimizer_of(model: object, weights: list) -> torch.optim.Optimizer:
    if model.l2:
        return torch.optim.Adam(weights, lr=model.lr, weight_decay=model.l2)
    return torch.optim.AdamW(weights, lr=model.lr, weight_decay=0.1)


def test_a_step_is_adamw_or_adam_with_each_models_own_rate() -> None:
    stack = stack_of()
    copies = [[w[i].detach().clone().requires_grad_() for w in stack.weights] for i in range(3)]
    x = torch.randn(8, 6, generator=torch.Generator().manual_seed(0))
    optimizers = [optimizer_of(model, c) for model, c in zip(stack.models, copies)]
    for _ in range(3):
        stack.step(stacked.losses(stack, x, torch.arange(8) % 2, "dmt", 1, torch.Generator()))
        for c, optimizer, model in zip(copies, optimizers, stack.models):
            z = torch.relu(x @ c[0] + c[1]) @ c[2] + c[3]
            optimizer.zero_grad()
            losses.dmt_loss(z, torch.arange(8) % 2, temperature=model.temperature).backward()
            optimizer.step()
    for i, c in enumerate(copies):
        torch.testing.assert_close(stack.weights[0][i], c[0], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(stack.weights[2][i], c[2], atol=1e-5, rtol=1e-4)


def test_training_lowers_the_loss_and_stops_where_told() -> None:
    rows = stacked.unit(torch.randn(60, 6, generator=torch.Generator().manual_seed(0)))
    stack = stack_of()
    rng = torch.Generator().manual_seed(9)
    before = stacked.losses(stack, rows, None, "dmati", 1, rng)
    assert list(stacked.train(stack, rows, (10, 40), batch=30)) == [10, 40]
    assert (stacked.losses(stack, rows, None, "dmati", 1, rng) < before).all()


def test_models_of_a_stack_have_their_own_batches() -> None:
    rows = stacked.unit(torch.randn(60, 6, generator=torch.Generator().manual_seed(0)))
    stack = stacked.Stack([stacked.Model(0.5, 0.0, 0.01)] * 2, 6, (5, 4), 0.1, "cpu")  # equal in all but the batches
    assert torch.equal(stack.weights[0][0], stack.weights[0][1])
    list(stacked.train(stack, rows, (3,), batch=20))
    assert not torch.allclose(stack.weights[0][0], stack.weights[0][1])


def test_cluster_scores_equal_the_librarys() -> None:
    rng = np.random.default_rng(0)
    y, clusters = rng.integers(0, 4, 50), rng.integers(0, 4, (3, 50))
    found = stacked.cluster_scores(torch.as_tensor(clusters), torch.as_tensor(y), 4)
    for labels, scores in zip(clusters, found):
        for name, score in (("accuracy", metrics.accuracy), ("nmi", metrics.nmi), ("ari", metrics.ari)):
            assert scores[name] == pytest.approx(100 * score(y, labels), abs=2e-3)
        assert scores["f1"] == pytest.approx(100 * metrics.macro_f1(y, labels), abs=2e-3)


def test_kmeans_finds_far_groups_in_every_model() -> None:
    rng = torch.Generator().manual_seed(0)
    y = torch.arange(90) % 3
    z = torch.randn(2, 90, 5, generator=rng) * 0.1 + 5 * torch.eye(5)[y]
    for labels in stacked.kmeans(z, 3):
        assert metrics.accuracy(y.numpy(), labels.numpy()) == 1


def test_link_scores_equal_the_librarys() -> None:
    from tuplet.evaluation.links import score_links

    graph = random_graph(60, 6, p=0.2)
    split = split_edges(graph, seed=0)
    z = torch.randn(2, 60, 5, generator=torch.Generator().manual_seed(3))
    for rows in ("unit", "centred unit"):
        found = stacked.link_scores(z, split, rows)
        for i in range(2):
            expected = score_links(z[i].numpy(), split, rows=rows).values
            assert float(found["auc"][i]) == pytest.approx(expected["auc"], abs=1e-2)
            assert float(found["ap"][i]) == pytest.approx(expected["ap"], abs=1e-2)


def test_a_probe_reads_separable_classes_and_guesses_on_noise() -> None:
    y = np.arange(200) % 2
    rng = np.random.default_rng(0)
    clear, noise = rng.normal(size=(200, 4)) + 8 * y[:, None], rng.normal(size=(200, 4))
    z = torch.as_tensor(np.stack([clear, noise]), dtype=torch.float32)
    val, test = stacked.probe_scores(z, torch.as_tensor(y), 2, split_nodes(y, seed=0))
    assert test[0] == 100 and test[1] < 70 and val.shape == (2,)


def test_the_winner_is_a_setting_that_ran_with_the_most_seeds() -> None:
    search = load("search_recipes")
    shared = {"dataset": "cora", "task": "clustering", "kind": "dmati", "refined": True, "split": 0}
    shared |= dict.fromkeys(search.KEYS, 1)
    lucky = [shared | {"lr": 0.1, "seed": 11, "score": 9.0}]
    steady = [shared | {"lr": 0.2, "seed": seed, "score": score} for seed, score in ((11, 1.0), (12, 3.0), (12, 3.0))]
    worse = [shared | {"lr": 0.3, "seed": seed, "score": 1.9} for seed in (11, 12)]
    found = search.winners(lucky + steady + worse)["cora", "clustering", "dmati"]
    assert found["lr"] == 0.2 and found["mean"]["score"] == 2.0 and found["runs"] == 2


def test_a_winner_for_clustering_leaves_the_other_tasks_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json
    import tomllib

    search = load("search_recipes")
    log, book = tmp_path / "log.jsonl", tmp_path / "recipes.toml"
    values = {"alpha": 0.1, "temperature": 1.0, "mask_fraction": 0.2, "lr": 0.01, "max_steps": 3, "layers": [4]}
    values |= {"n_views": 2, "batch_size": 512, "optimizer": "adamw", "weight_decay": 0.05}
    before = {key: {"value": value, "source": "guess"} for key, value in values.items()}
    before |= {"links": {"lr": {"value": 0.02, "source": "tuned"}}, "classification": {}}
    book.write_text("# head\n" + search._toml_block("dblp", before))
    monkeypatch.setattr(search, "RECIPES", book)
    row = {"dataset": "dblp", "task": "clustering", "kind": "dmati", "refined": True, "split": 0, "seed": 11}
    row |= {"alpha": 0.9, "layers": [7], "temperature": 3.0, "mask_fraction": 0.7, "lr": 0.5, "l2": 0.25}
    log.write_text(json.dumps(row | {"n_views": 9, "batch_size": 8, "max_steps": 5, "rows": "unit", "score": 1.0}))
    search.apply(log)
    after = tomllib.loads(book.read_text())["dblp"]
    assert after["optimizer"] == {"value": "adam", "source": "tuned"} and after["weight_decay"]["value"] == 0.25
    for task in ("classification", "links"):
        shared = {key: value for key, value in before.items() if "source" in value}
        assert shared | before[task] == {key: v for key, v in after.items() if "source" in v} | after[task]


@pytest.mark.slow
def test_the_search_runs_and_its_winners_become_recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tomllib

    search = load("search_recipes")
    log, book = tmp_path / "log.jsonl", tmp_path / "recipes.toml"
    book.write_text(search.RECIPES.read_text())
    monkeypatch.setattr(search, "RECIPES", book)
    monkeypatch.setattr(
        sys, "argv", ["search", "--quick", "--datasets", "cora", "--out", str(log), "--device", "cpu"]
    )
    with pytest.raises(SystemExit) as end:
        search.main()
    assert end.value.code == 0
    again = ["search", "--quick", "--datasets", "cora", "--tasks", "clustering", "--again", str(log), "--top", "1"]
    monkeypatch.setattr(sys, "argv", [*again, "--out", str(tmp_path / "again.jsonl"), "--device", "cpu"])
    with pytest.raises(SystemExit):
        search.main()
    rows = search.read_log(tmp_path / "again.jsonl")
    assert len({(row["temperature"], row["mask_fraction"], row["lr"]) for row in rows}) == 1
    assert all(row["refined"] for row in rows) and {row["seed"] for row in rows} == {11, 12}
    monkeypatch.setattr(sys, "argv", ["search", "--apply", "--out", str(log)])
    before = tomllib.loads(book.read_text())
    search.main()
    after = tomllib.loads(book.read_text())
    assert after["cora"]["alpha"]["source"] == after["cora"]["lr"]["source"] == "tuned"
    assert after["cora"]["layers"] == {"value": [32, 32], "source": "guess"}  # held fixed by the search
    decay = {"adamw": {"value": 0.02, "source": "paper"}, "adam": {"value": 1e-4, "source": "tuned"}}
    assert after["cora"]["weight_decay"] == decay[after["cora"]["optimizer"]["value"]]
    assert after["cora"]["links"]["max_steps"]["source"] == "tuned"
    assert after["cora"]["classification"]["DMT"]["lr"]["source"] == "tuned"
    assert after["cora"]["classification"]["DMT"]["layers"]["value"] == [32, 32]  # its own, whatever its task's are
    assert {k: v for k, v in after.items() if k != "cora"} == {k: v for k, v in before.items() if k != "cora"}
