"""The contract of all registered methods: one list of checks, run on each with quick parameters.

A new rival gets its checks by one entry in QUICK. What is a method's own has its own test module.
"""

from __future__ import annotations

import inspect
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone

import tuplet
from tests.conftest import random_graph, write_json
from tuplet._check import InputError
from tuplet.graph import Graph
from tuplet.models.contract import NodeEstimator
from tuplet.models.new_nodes import check_live, embed_changed, embed_new, enlarged, follow
from tuplet.models.registry import (
    class_path,
    default_method,
    defaults,
    dim_settings,
    make_estimator,
    method_class,
    method_names,
    register,
    unregister,
)

ENCODER = {"layers": (8, 4), "max_steps": 3, "batch_size": 16, "tol": 1e-6, "device": "cpu"}
QUICK: dict[str, dict[str, Any]] = {
    "DMAT-i": ENCODER,
    "DMAT": ENCODER,
    "DMT": ENCODER,
    "SelfDMAT": {"n_clusters": 3, "max_steps": 3, "layers": (8, 4), "n_init": 2, "tol": 1e-6, "device": "cpu"},
    "KMeans": {"n_clusters": 3, "n_init": 1},
    "DeepWalk": {"dimensions": 8, "n_walks": 2, "walk_length": 6, "window": 2},
    "SDCN": {"n_clusters": 3, "layers": (8, 4), "pretrain_epochs": 2, "epochs": 3, "n_init": 1, "device": "cpu"},
    "AGC": {"n_clusters": 3, "max_power": 3, "n_init": 1},
    "SSGC": {"n_clusters": 3, "hops": 3, "n_init": 1},
    "AGE": {"n_clusters": 3, "power": 2, "hidden": 6, "epochs": 4, "update_every": 2, "n_init": 1, "device": "cpu"},
    "DGI": {"hidden": 8, "epochs": 4, "device": "cpu"},
    "GCA": {"hidden": 8, "projection": 4, "epochs": 3, "device": "cpu"},
    "ProGCL": {"hidden": 8, "projection": 4, "epochs": 4, "start": 2, "device": "cpu"},
    "FilterSVD": {"n_clusters": 3, "n_init": 1, "tol": 1e-6},
    "M-S2CAG": {"n_clusters": 3, "n_init": 1},
    "CCA-SSG": {"hidden": 8, "epochs": 3, "device": "cpu"},
    "BGRL": {"layers": (8, 4), "predictor": 6, "epochs": 4, "warmup": 1, "device": "cpu"},
    "NS4GC": {"layers": (8, 4), "epochs": 3, "device": "cpu"},
    "Dink-Net": {"n_clusters": 3, "hidden": 8, "pretrain_epochs": 3, "epochs": 2, "n_init": 1, "device": "cpu"},
}
METHODS = list(QUICK)
INDUCTIVE = [name for name in METHODS if method_class(name).inductive]
LABEL_FREE = [name for name in METHODS if not method_class(name).needs_labels]
CLUSTERING = [name for name in METHODS if method_class(name).clusters]
LIVE = [name for name in METHODS if method_class(name).keeps_rows]

each = pytest.mark.parametrize("name", METHODS)


def make(name: str, **params: Any) -> Any:
    if name == "DeepWalk":
        pytest.importorskip("gensim")
    return make_estimator(name, **{**QUICK[name], **params})


def named_graph(n: int = 30) -> Graph:
    """Features that are never negative, with names."""
    graph = random_graph(n, 7)
    return graph.with_(x=np.abs(graph.x), feature_names=tuple("abcdefg"))


_FITTED: dict[str, Any] = {}


def fitted(name: str) -> tuple[Any, Graph]:
    """One fit a method for the checks that only look at it."""
    graph = named_graph()
    if name not in _FITTED:
        _FITTED[name] = make(name).fit(graph)
    return _FITTED[name], graph


def test_every_method_is_checked_here() -> None:
    assert method_names() == METHODS


# --- the constructor, parameters, cloning


@each
def test_the_constructor_only_stores(name: str) -> None:
    model = make(name)
    names = set(inspect.signature(type(model).__init__).parameters) - {"self"}
    assert isinstance(model, BaseEstimator) and set(model.get_params(deep=False)) == names == set(vars(model))
    model.set_params(seed=-1)  # stored as it is; fit complains
    with pytest.raises(InputError):
        model.fit(random_graph())


@each
def test_parameters_can_be_set_and_cloned(name: str) -> None:
    model, _ = fitted(name)
    copy = clone(model).set_params(seed=7)
    assert copy is not model and copy.seed == 7 and not hasattr(copy, "embedding_")
    assert repr(copy) == repr(clone(copy)) and type(model).__name__ in repr(model)
    with pytest.raises(ValueError, match="no_such_parameter"):
        copy.set_params(no_such_parameter=1)


# --- fit


@each
def test_fit_returns_itself_with_an_embedding(name: str) -> None:
    model, graph = make(name), named_graph()
    before, print_ = model.get_params(deep=False), graph.fingerprint()
    assert model.fit(graph) is model and graph.fingerprint() == print_
    z = model.embedding_
    assert z.dtype == np.float32 and z.ndim == 2 and z.shape[0] == graph.n_nodes and np.isfinite(z).all()
    after = model.get_params(deep=False)
    assert all(after[key] is before[key] or after[key] == before[key] for key in before)
    assert model.n_features_in_ == 7 and model.feature_names_in_ == tuple("abcdefg")


@each
@pytest.mark.parametrize("f", [3, 40])
def test_the_width_is_known_before_training_or_not_said(name: str, f: int) -> None:
    """Of narrow and of wide features; a table of another width is refused by it before the work."""
    graph = random_graph(60, f)
    for params in ({}, {"layers": 16} if name.startswith("DM") else {}):
        model = make(name, **params)
        before = model.width_on(graph)
        width = model.fit(graph).embedding_.shape[1]
        assert before in (None, width) and model.width_on(graph) == width
        assert before is not None or model.dim_parameter is None


@each
def test_the_same_seed_gives_the_same_bits_also_after_another_fit(name: str) -> None:
    graph, other = random_graph(), random_graph(n=24, seed=5)
    first = make(name).fit_transform(graph)
    assert np.array_equal(first, make(name).fit(other).fit(graph).embedding_)


@each
def test_sparse_features_isolated_nodes_and_empty_rows(name: str) -> None:
    graph = random_graph(p=0.03)
    x = np.array(graph.x)
    x[:2] = 0
    z = make(name).fit(graph.with_(x=x)).embedding_
    sparse = make(name).fit(graph.with_(x=sp.csr_array(x))).embedding_
    assert sparse.shape == z.shape and np.isfinite(z).all() and np.isfinite(sparse).all()


@pytest.mark.parametrize("name", LABEL_FREE)
def test_labels_do_not_matter_to_a_method_that_needs_none(name: str) -> None:
    graph = random_graph()
    expected = make(name).fit(graph).embedding_
    shuffled = np.random.default_rng(0).permutation(graph.y)
    for y in (None, shuffled):
        assert np.array_equal(expected, make(name).fit(graph.with_(y=y)).embedding_)
    assert np.array_equal(expected, make(name).fit(graph, shuffled).embedding_)


@pytest.mark.parametrize("name", [name for name in METHODS if name not in LABEL_FREE])
def test_a_method_that_needs_labels_says_so(name: str) -> None:
    with pytest.raises(InputError, match="needs labels"):
        make(name).fit(random_graph().with_(y=None))


@each
def test_fit_takes_what_a_graph_can_be_given_as(name: str) -> None:
    graph = named_graph().with_(feature_names=())
    expected = make(name).fit(graph).embedding_
    assert np.array_equal(make(name).fit(graph.x, graph.y, adjacency=graph.adj).embedding_, expected)
    nx = pytest.importorskip("networkx")
    assert isinstance(graph.to_networkx(), nx.Graph)
    found = make(name).fit(graph.to_networkx()).embedding_
    assert found.shape == expected.shape and np.allclose(found, expected, atol=1e-4)
    with pytest.raises(InputError, match="without a graph"):
        make(name).fit(graph.x)
    with pytest.raises(InputError, match="Both a Graph and adjacency"):
        make(name).fit(graph, adjacency=graph.adj)


def test_igraph_and_scipy_graphs_are_taken() -> None:
    graph = random_graph()
    pytest.importorskip("igraph")
    assert make("SSGC").fit(graph.to_igraph()).n_features_in_ == graph.n_features
    assert make("SSGC").fit(graph.adj).embedding_.shape[0] == 30  # on structural columns
    assert make("DeepWalk").fit(graph.adj).embedding_.shape == (30, 8)


@each
def test_a_graph_without_features_gets_structural_columns(name: str, caplog: pytest.LogCaptureFixture) -> None:
    bare = random_graph().with_(x=None)
    with caplog.at_level("INFO", logger="tuplet"):
        assert np.isfinite(make(name).fit(bare).embedding_).all()
    assert ("structural columns" in caplog.text) == method_class(name).needs_features


@each
def test_progress_is_told_and_ends_at_one(name: str) -> None:
    heard: list[tuple[str, float]] = []
    make(name).fit(random_graph(), progress=lambda phase, done: heard.append((phase, done)))
    assert heard and all(0 <= done <= 1 for _, done in heard) and heard[-1][1] == pytest.approx(1)


@pytest.mark.parametrize("name", CLUSTERING)
def test_a_method_that_clusters_leaves_labels(name: str) -> None:
    labels = fitted(name)[0].labels_
    assert labels.shape == (30,) and labels.dtype == np.int64 and set(labels) <= {0, 1, 2}


@each
def test_only_a_method_that_clusters_leaves_labels(name: str) -> None:
    assert hasattr(fitted(name)[0], "labels_") == method_class(name).clusters


# --- transform, names, set_output


@pytest.mark.parametrize("name", INDUCTIVE)
def test_transform_of_the_training_graph_is_the_embedding(name: str) -> None:
    model, graph = fitted(name)
    np.testing.assert_allclose(model.transform(graph), model.embedding_, atol=2e-5)
    np.testing.assert_allclose(model.transform(graph.x, adjacency=graph.adj), model.embedding_, atol=2e-5)
    assert model.transform(random_graph(n=24, seed=3)).shape == (24, model.embedding_.shape[1])


@pytest.mark.parametrize("name", [name for name in METHODS if name not in INDUCTIVE])
def test_a_method_without_transform_says_so_beforehand(name: str) -> None:
    with pytest.raises(InputError, match="has none for others"):
        method_class(name).check_inductive()
    model, graph = fitted(name)
    for call in (lambda: model.transform(graph), lambda: embed_new(model, graph, np.ones((1, 7)), [(30, 1)])):
        with pytest.raises(InputError, match="has none for others"):
            call()


@pytest.mark.parametrize("name", INDUCTIVE)
def test_other_columns_are_refused(name: str) -> None:
    model, graph = fitted(name)
    with pytest.raises(InputError, match="5 feature columns but the model was fitted on 7"):
        model.transform(random_graph(f=5))
    with pytest.raises(InputError, match=r"column 0 of the graph is 'b'.*fitted on 'a'"):
        model.transform(graph.with_(feature_names=tuple("bacdefg")))
    with pytest.raises(InputError, match="not fitted yet"):
        clone(model).transform(graph)


@each
def test_columns_have_names_and_set_output_gives_frames(name: str) -> None:
    model, graph = fitted(name)
    names = model.get_feature_names_out()
    assert len(names) == model.embedding_.shape[1] and names[0] == f"{type(model).__name__.lower()}0"
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for library, frame in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        told = make(name).set_output(transform=library)
        z = told.fit_transform(graph)
        assert isinstance(z, frame) and list(z.columns) == list(names) and z.shape == model.embedding_.shape
        if told.inductive:
            assert isinstance(told.transform(graph), frame)
    with pytest.raises(InputError, match="not fitted yet"):
        clone(model).get_feature_names_out()


# --- files


@each
def test_a_saved_model_comes_back(name: str, tmp_path: Path) -> None:
    model, graph = fitted(name)
    model.save(tmp_path / "a model")
    again = tuplet.load(tmp_path / "a model")
    assert type(again) is type(model) and again.get_params() == model.get_params()
    assert again.n_features_in_ == 7 and again.feature_names_in_ == tuple("abcdefg")
    assert list(again.get_feature_names_out()) == list(model.get_feature_names_out())
    if model.inductive:
        assert np.array_equal(again.transform(graph), model.transform(graph)) and not hasattr(again, "embedding_")
    else:
        assert np.array_equal(again.embedding_, model.embedding_)
    if model.clusters:
        assert np.array_equal(again.labels_, model.labels_)
    again.save(tmp_path / "copy")
    first, second = ((tmp_path / where / "weights.safetensors").read_bytes() for where in ("a model", "copy"))
    assert first == second
    assert {p.name for p in (tmp_path / "copy").iterdir()} == {"weights.safetensors", "model.json"}
    assert {p.name for p in tmp_path.iterdir()} == {"a model", "copy"}


@each
def test_only_a_fitted_model_is_saved(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not fitted yet"):
        make(name).save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


@each
def test_a_model_can_be_sent_to_another_process(name: str) -> None:
    model, _ = fitted(name)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).embedding_, model.embedding_)


@each
def test_damage_of_a_model_is_an_input_error(name: str, tmp_path: Path) -> None:
    """Each key dropped or of another kind, each number huge: refused, or read as if nothing were there."""
    fitted(name)[0].save(tmp_path / "m")
    file = tmp_path / "m" / "model.json"
    good = json.loads(file.read_text())
    cases = [{k: v for k, v in good.items() if k != key} for key in good]
    cases += [good | {key: value} for key in good for value in (None, [], {"a": 1}, "x", -1, 10**12, [10**12] * 3)]
    cases += [good | {"params": good["params"] | {key: 10**12}} for key in good["params"]]
    for case in cases:
        write_json(file, case)
        try:
            assert tuplet.load(tmp_path / "m").n_features_in_ == 7
        except InputError as error:
            assert "\n" not in str(error)


# --- new nodes


@pytest.mark.parametrize("name", INDUCTIVE)
def test_new_nodes_get_the_vectors_of_a_full_transform(name: str) -> None:
    model, graph = fitted(name)
    x, edges = np.abs(random_graph(3, 7, seed=9).x), [(30, 2), (30, 31), (31, 5), (32, 8), (32, 9)]
    whole = enlarged(graph, x, edges)
    expected = model.transform(whole)[30:]
    np.testing.assert_allclose(embed_new(model, graph, x, edges, tol=1e-7), expected, atol=2e-3)
    sparse = graph.with_(x=sp.csr_array(graph.x))
    np.testing.assert_allclose(embed_new(model, sparse, sp.csr_array(x), edges, tol=1e-7), expected, atol=2e-3)


@pytest.mark.parametrize("name", LIVE)
def test_changes_give_the_vectors_of_a_full_transform(name: str) -> None:
    model, graph = fitted(name)
    live = follow(model, graph, tol=1e-7)
    changes = [
        live.add_nodes(np.abs(random_graph(3, 7, seed=9).x), [(30, 2), (30, 31), (31, 5)]),
        live.change_edges(add=[(3, 8)], remove=graph.edges()[:2]),
        live.change_features([5], np.ones((1, 7))),
    ]
    expected = model.transform(live.graph())
    assert live.n_nodes == 33 and changes[0].new.tolist() == [30, 31, 32]
    for change in changes:
        np.testing.assert_allclose(embed_changed(model, live, change), expected[change.nodes], atol=2e-3)


@pytest.mark.parametrize("name", [name for name in INDUCTIVE if name not in LIVE])
def test_a_method_whose_rows_cannot_be_kept_says_so(name: str) -> None:
    model, graph = fitted(name)
    with pytest.raises(InputError, match=r"cannot be updated|no filtered rows that can be kept"):
        follow(model, graph)
    with pytest.raises(InputError, match=r"cannot be updated|no filtered rows that can be kept"):
        check_live(model, graph)


@pytest.mark.parametrize("name", LIVE)
def test_a_model_saved_with_rows_uses_them(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, graph = fitted(name)
    model.save(tmp_path / "m", rows=graph)
    again = tuplet.load(tmp_path / "m")
    x, edges = np.ones((1, 7)), [(30, 2), (30, 4)]
    expected = model.transform(enlarged(graph, x, edges))[30:]

    def not_this_way(*args: Any, **options: Any) -> None:
        raise AssertionError("the neighbourhood was followed, or the graph filtered")

    with monkeypatch.context() as patched:
        patched.setattr("tuplet.models.new_nodes.local_rows", not_this_way)
        patched.setattr("tuplet.filters.GraphFilter.transform", not_this_way)
        np.testing.assert_allclose(embed_new(again, graph, x, edges, tol=1e-7), expected, atol=2e-3)
    other = random_graph(30, 7, seed=8)  # the rows are of another graph
    np.testing.assert_allclose(
        embed_new(again, other, x, edges, tol=1e-7), again.transform(enlarged(other, x, edges))[30:], atol=2e-3
    )


# --- the registry


def test_dim_is_the_length_of_the_vectors() -> None:
    for name in METHODS:
        if method_class(name).dim_parameter is None:
            with pytest.raises(InputError, match="Leave the dimension out"):
                dim_settings(name, 5)
        else:
            assert make(name, **dim_settings(name, 5)).fit(named_graph()).embedding_.shape[1] == 5, name
    assert dim_settings("DMAT-i", 32) == {"layers": 32}


def test_a_default_method_for_each_case() -> None:
    assert method_class(default_method(labels=True)).needs_labels
    assert not method_class(default_method()).needs_labels
    assert defaults(default_method(recipe=True)) == defaults("DMAT-i")
    assert hasattr(method_class(default_method(rows=True)), "transform_rows")
    assert method_class(default_method(labels=True, rows=True)).needs_labels


class Degrees(NodeEstimator):
    """A toy: the degree of a node."""

    needs_features = False

    def __init__(self, power: float = 1.0, *, seed: int = 0, device: str = "auto") -> None:
        self.power, self.seed, self.device = power, seed, device

    def _fit(self, graph: Graph, y: Any, progress: Any) -> None:
        self.embedding_ = self._embed(graph, progress)

    def _embed(self, graph: Graph, progress: Any) -> Any:
        return graph.degrees[:, None].astype(np.float32) ** self.power


def test_a_new_method_is_one_class_and_one_registration(tmp_path: Path) -> None:
    graph = random_graph()
    register("Degrees", Degrees)
    try:
        model = make_estimator("Degrees", power=2.0).fit(graph)
        model.save(tmp_path / "m")
        again = tuplet.load(tmp_path / "m")
        assert again.power == 2 and np.array_equal(again.transform(graph), model.embedding_)
        assert embed_new(again, graph, np.ones((1, 7)), [(30, 0), (30, 1)]).tolist() == [[4.0]]
        with pytest.raises(InputError, match="already"):
            register("DGI", Degrees)
        with pytest.raises(InputError, match="has no fit"):
            register("Dict", dict)  # type: ignore[arg-type]
    finally:
        unregister("Degrees")
    with pytest.raises(InputError, match="not one of tuplet's methods"):
        tuplet.load(tmp_path / "m")


@pytest.mark.parametrize(
    "path", ["tuplet.cli.__main__:main", "os:system", "tuplet.models.dmat:MetricEstimator", "", ":"]
)
def test_only_registered_classes_are_loaded(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted("SSGC")[0].save(tmp_path / "m")
    file = tmp_path / "m" / "model.json"
    write_json(file, json.loads(file.read_text()) | {"class": path})
    imported, load = [], tuplet.load  # which is itself imported at its first use
    monkeypatch.setattr("importlib.import_module", lambda name: imported.append(name))
    with pytest.raises(InputError, match="not one of tuplet's methods"):
        load(tmp_path / "m")
    assert not imported


def test_a_class_is_named_by_its_place() -> None:
    assert all(class_path(method_class(name)).startswith("tuplet.") for name in METHODS)
