"""DMT, DMAT and DMATi: what is theirs: files, pipelines, labels, warm starts. tests/test_contract.py has the rest."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import tuplet
from tests.conftest import anywhere, random_graph, write_json
from tuplet._check import InputError
from tuplet.filters import GraphFilter
from tuplet.filters.weights import heat, ppr
from tuplet.graph import Graph
from tuplet.models.dmat import DMAT, DMT, DMATi, load
from tuplet.rows import unit as features
from tuplet.rows.unit import unit_features

QUICK: dict[str, Any] = {"layers": (8, 4), "max_steps": 3, "batch_size": 16}
ALL = [DMATi, DMAT, DMT]


def test_fit_is_the_filter_then_the_loop_then_the_encoder(small_graph: Graph) -> None:
    """fit written out with the public functions gives the same bits."""
    from tuplet.training.encoder import encode, make_encoder
    from tuplet.training.loop import TrainConfig, train

    model = DMATi(**QUICK, alpha=0.2, temperature=0.8, mask_fraction=0.4, seed=3).fit(small_graph)
    x = small_graph.x / np.linalg.norm(small_graph.x, axis=1, keepdims=True)
    rows = GraphFilter(ppr(0.2)).transform(small_graph, x=x)
    encoder = make_encoder(7, (8, 4), 3)
    config = TrainConfig(max_steps=3, batch_size=16, temperature=0.8, mask_fraction=0.4)
    train(encoder, rows, config, seed=3)
    np.testing.assert_allclose(model.embedding_, encode(encoder, rows), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cls", ALL)
def test_transform_of_the_training_graph_is_the_embedding(cls: Any, small_graph: Graph) -> None:
    model = cls(**QUICK).fit(small_graph)
    np.testing.assert_array_equal(model.transform(small_graph), model.embedding_)
    out = np.empty_like(model.embedding_)
    assert model.transform(small_graph, out=out) is out and np.array_equal(out, model.embedding_)


@pytest.mark.parametrize("cls", [DMAT, DMT])
def test_labels_come_from_the_argument_or_the_graph(cls: Any, small_graph: Graph) -> None:
    y = np.where(anywhere(30, 20), small_graph.y, -1)
    given = cls(**QUICK).fit(small_graph, y).embedding_
    inside = cls(**QUICK).fit(small_graph.with_(y=y)).embedding_
    whole = cls(**QUICK).fit(small_graph).embedding_
    assert np.array_equal(given, inside) and not np.array_equal(given, whole)
    with pytest.raises(InputError, match="needs labels"):
        cls(**QUICK).fit(small_graph.with_(y=None))
    with pytest.raises(InputError, match="y has shape"):
        cls(**QUICK).fit(small_graph, y[:5])


@pytest.mark.parametrize("cls", [DMAT, DMT])
def test_some_labels_pull_the_classes_apart(cls: Any) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    x = np.eye(3, 10)[y] + 0.5 * rng.normal(size=(90, 10))
    graph = Graph.from_scipy(sp.csr_array((90, 90)), x, np.where(anywhere(90, 45), y, -1))
    z = cls(layers=(16, 8), epochs=40, batch_size=45, lr=0.01).fit_transform(graph)
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    similarity = z[45:] @ z[:45].T
    same = y[45:, None] == y[None, :45]
    assert similarity[same].mean() > similarity[~same].mean() + 0.5


@pytest.mark.parametrize("cls", ALL)
def test_a_saved_model_embeds_as_before(cls: Any, small_graph: Graph, tmp_path: Path) -> None:
    model = cls(**QUICK, graph_filter=GraphFilter(heat(2.0), r=0.4), seed=np.int64(5)).fit(small_graph)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert type(again) is cls and np.array_equal(again.transform(small_graph), model.embedding_)
    assert again.get_params() == model.get_params() and again.history_.loss == model.history_.loss
    assert again.n_features_in_ == 7 and clone(again).get_params() == model.get_params()
    assert tuplet.load is load


@pytest.mark.parametrize("damage", ["class", "params", "layers", "history", "unknown parameter", "sizes"])
def test_a_damaged_model_is_reported(damage: str, small_graph: Graph, tmp_path: Path) -> None:
    DMATi(**QUICK).fit(small_graph).save(tmp_path / "m")
    file = tmp_path / "m" / "model.json"
    meta = json.loads(file.read_text())
    if damage == "unknown parameter":
        meta["params"]["colour"] = "blue"
    elif damage == "sizes":
        meta["layers"] = [7, 8, 5]
    else:
        del meta[damage]
    write_json(file, meta)
    with pytest.raises(InputError, match=r"damaged|do not fit"):
        load(tmp_path / "m")


def test_a_filter_that_reduces_columns_and_a_cache_of_rows(small_graph: Graph, tmp_path: Path) -> None:
    model = DMATi(**QUICK, graph_filter=GraphFilter(columns=3), cache=tmp_path / "rows").fit(small_graph)
    assert model.n_features_in_ == 7 and model.encoder_[0].in_features == 3
    assert len(list((tmp_path / "rows").glob("*.npy"))) == 1
    out = np.empty((30, 4), np.float32)
    again = DMATi(**QUICK, graph_filter=GraphFilter(columns=3), cache=tmp_path / "rows")
    assert again.fit_transform(small_graph, out=out) is out and np.array_equal(out, model.embedding_)
    model.save(tmp_path / "m")
    assert np.array_equal(load(tmp_path / "m").transform(small_graph), model.embedding_)


def test_saving_before_fitting_and_to_a_bad_place_is_explained(small_graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not fitted yet"):
        DMATi().save(tmp_path / "m")
    with pytest.raises(InputError, match="does not exist"):
        DMATi(**QUICK).fit(small_graph).save(tmp_path / "absent" / "m")
    assert not list(tmp_path.iterdir())


def test_it_stands_in_a_pipeline(small_graph: Graph) -> None:
    line = make_pipeline(DMATi(**QUICK), LogisticRegression())
    line.set_params(dmati__seed=4, logisticregression__C=2.0)
    line.fit(small_graph, small_graph.y)
    assert line.predict(small_graph).shape == (30,) and line.named_steps["dmati"].seed == 4
    assert line.score(small_graph, small_graph.y) > 0.3
    assert clone(line).named_steps["dmati"].seed == 4


def test_warm_start_goes_on_and_a_plain_fit_forgets(small_graph: Graph) -> None:
    cold, warm = DMATi(**QUICK), DMATi(**QUICK, warm_start=True)
    first = cold.fit_transform(small_graph).copy()
    assert np.array_equal(warm.fit_transform(small_graph), first)
    assert np.array_equal(cold.fit_transform(small_graph), first)
    second = warm.fit_transform(small_graph).copy()
    assert not np.array_equal(second, first) and warm.history_.loss != cold.history_.loss
    again = DMATi(**QUICK, warm_start=True).fit(small_graph).fit(small_graph)
    assert np.array_equal(again.embedding_, second)
    with pytest.raises(InputError, match="warm_start"):
        warm.fit(random_graph(f=6))


def test_a_warm_start_sees_other_batches_and_views_than_the_first_fit(small_graph: Graph) -> None:
    from tuplet._seed import seed_of
    from tuplet.training.encoder import encode
    from tuplet.training.loop import TrainConfig, train

    model = DMATi(**QUICK, warm_start=True, seed=4).fit(small_graph)
    same, other = (copy.deepcopy(model.encoder_) for _ in range(2))
    second = model.fit_transform(small_graph)
    x = small_graph.x / np.linalg.norm(small_graph.x, axis=1, keepdims=True)
    rows = GraphFilter(ppr(0.1)).transform(small_graph, x=x)
    config = TrainConfig(max_steps=3, batch_size=16)
    train(same, rows, config, seed=4)
    train(other, rows, config, seed=seed_of(4, "fit 2"))
    assert np.allclose(second, encode(other, rows), atol=1e-5)
    assert not np.allclose(second, encode(same, rows), atol=1e-5)


def test_a_warm_start_works_on_a_loaded_model(small_graph: Graph, tmp_path: Path) -> None:
    model = DMATi(**QUICK, warm_start=True).fit(small_graph)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert np.array_equal(again.fit(small_graph).embedding_, model.fit(small_graph).embedding_)


def test_fit_resumes_from_a_checkpoint(small_graph: Graph, tmp_path: Path) -> None:
    def stop(phase: str, done: float) -> None:
        if phase == "train" and done > 0.5:
            raise KeyboardInterrupt

    whole = DMATi(**QUICK).fit(small_graph)
    part = DMATi(**QUICK)
    with pytest.raises(KeyboardInterrupt, match="resume=True goes on"):
        part.fit(small_graph, checkpoint=tmp_path, progress=stop)
    assert not hasattr(part, "embedding_") and not hasattr(part, "encoder_")
    resumed = DMATi(**QUICK).fit(small_graph, checkpoint=tmp_path, resume=True)
    assert np.array_equal(resumed.embedding_, whole.embedding_)


def test_criteria_are_recorded(small_graph: Graph) -> None:
    names = ("silhouette", "davies_bouldin", "stability", "modularity", "effective_rank")
    model = DMATi(**QUICK, criteria=names, n_clusters=3).fit(small_graph)
    assert all(len(model.history_[name]) == 3 for name in names)
    auto = DMATi(layers=(8, 4), stop="auto", criterion="modularity", n_clusters=3, patience=2).fit(small_graph)
    assert auto.history_.best_step is not None


def test_progress_reports_both_phases(small_graph: Graph) -> None:
    seen: list[str] = []
    DMATi(**QUICK).fit(small_graph, progress=lambda phase, done: seen.append(phase))
    assert set(seen) == {"filter", "train"}


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"temperature": -1}, "temperature"),
        ({"layers": ()}, "layers is empty"),
        ({"alpha": 0}, "alpha"),
        ({"device": "gpu"}, "device 'gpu' is not known"),
        ({"stop": "soon"}, "stop 'soon'"),
    ],
)
def test_bad_parameters_are_explained_by_fit(params: dict[str, Any], text: str, small_graph: Graph) -> None:
    with pytest.raises(InputError, match=text):
        DMATi(**params).fit(small_graph)


def test_unit_features_scales_dense_sparse_and_mapped_rows_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "BLOCK_VALUES", 20)
    x = np.random.default_rng(0).normal(size=(11, 6)).astype(np.float32)
    x[3] = 0
    expected = x / np.where(x.any(axis=1), np.linalg.norm(x, axis=1), 1)[:, None]
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    with unit_features(x) as a, unit_features(sp.csr_array(x)) as b, unit_features(mapped) as c:
        assert isinstance(c, np.memmap) and len(list(tmp_path.iterdir())) == 2
        for scaled in (a, b.toarray(), c):
            assert scaled.dtype == np.float32
            np.testing.assert_allclose(scaled, expected, rtol=1e-6)
    assert [p.name for p in tmp_path.iterdir()] == ["x.npy"]
    with unit_features(expected) as same:
        assert same is expected


def test_a_memory_mapped_graph_gives_the_vectors_of_one_in_memory(small_graph: Graph, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", small_graph.x)
    mapped = small_graph.with_(x=np.load(tmp_path / "x.npy", mmap_mode="r"))
    np.testing.assert_allclose(
        DMATi(**QUICK).fit(mapped).embedding_, DMATi(**QUICK).fit(small_graph).embedding_, rtol=1e-4, atol=1e-6
    )


def test_torch_threads_and_random_state_are_left_alone(small_graph: Graph) -> None:
    before = torch.random.get_rng_state()
    DMATi(**QUICK).fit(small_graph)
    assert torch.equal(before, torch.random.get_rng_state())
