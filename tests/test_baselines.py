"""Every baseline under the estimator contract, the registry, refusals, and a quality floor on Cora."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.conftest import random_graph
from tests.estimator_checks import UNSUPERVISED_CHECKS
from tuplet import InputError, baselines, load_dataset, metrics
from tuplet._check import MissingExtraError
from tuplet.baselines import AGC, AGE, DGI, GCA, SDCN, SSGC, DeepWalk, FilterSVD, KMeansFeatures, ProGCL
from tuplet.datasets import datasets
from tuplet.evaluation.tasks import cluster_nodes

QUICK = {
    "KMeans": lambda: KMeansFeatures(3, n_init=1),
    "DeepWalk": lambda: DeepWalk(8, n_walks=2, walk_length=6, window=2),
    "SDCN": lambda: SDCN(3, layers=(8, 4), pretrain_epochs=2, epochs=3, n_init=1, device="cpu"),
    "AGC": lambda: AGC(3, max_power=3, n_init=1),
    "SSGC": lambda: SSGC(3, hops=3, n_init=1),
    "AGE": lambda: AGE(3, power=2, hidden=6, epochs=4, update_every=2, n_init=1, device="cpu"),
    "DGI": lambda: DGI(8, epochs=4, device="cpu"),
    "GCA": lambda: GCA(8, projection=4, epochs=3, device="cpu"),
    "ProGCL": lambda: ProGCL(8, projection=4, epochs=4, start=2, device="cpu"),
    "FilterSVD": lambda: FilterSVD(3, n_init=1),
}
ASSIGNING = ("KMeans", "SDCN", "AGC", "SSGC", "AGE", "FilterSVD")


def test_the_registry_has_the_ten_methods_under_the_names_of_the_paper() -> None:
    assert list(baselines.registry) == list(QUICK)
    assert all(type(make()) is baselines.registry[name] for name, make in QUICK.items())


@pytest.mark.parametrize("check", UNSUPERVISED_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", QUICK)
def test_contract(name: str, check) -> None:
    if name == "DeepWalk":
        pytest.importorskip("gensim")
    check(QUICK[name])


@pytest.mark.parametrize("name", [name for name in QUICK if name != "DeepWalk"])
def test_transform_of_the_same_graph_gives_the_embedding(name: str) -> None:
    graph = random_graph()
    model = QUICK[name]().fit(graph)
    np.testing.assert_allclose(model.transform(graph), model.embedding_, atol=2e-5)
    assert model.transform(random_graph(n=24, seed=3)).shape == (24, model.embedding_.shape[1])
    with pytest.raises(InputError, match=r"5 features but .* was fitted on 7"):
        model.transform(random_graph(f=5))


def test_deepwalk_has_no_vectors_for_other_graphs() -> None:
    pytest.importorskip("gensim")
    graph = random_graph()
    with pytest.raises(InputError, match="has none for others"):
        QUICK["DeepWalk"]().fit(graph).transform(graph)


@pytest.mark.parametrize("name", ASSIGNING)
def test_methods_that_assign_clusters_give_labels(name: str) -> None:
    graph = random_graph()
    labels = QUICK[name]().fit(graph).labels_
    assert labels.shape == (graph.n_nodes,) and labels.dtype == np.int64
    assert set(labels) <= {0, 1, 2}


@pytest.mark.parametrize("name", ASSIGNING)
def test_the_number_of_clusters_is_that_of_the_classes_or_must_be_given(name: str) -> None:
    graph = random_graph()
    free = QUICK[name]().set_params(n_clusters=None)
    np.testing.assert_array_equal(free.fit(graph).labels_, QUICK[name]().fit(graph).labels_)
    with pytest.raises(InputError, match="Give n_clusters"):
        free.fit(graph.with_(y=None))


@pytest.mark.parametrize("name", [name for name in QUICK if name != "DeepWalk"])
def test_a_graph_without_features_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="needs node features"):
        QUICK[name]().fit(random_graph().with_(x=None))


@pytest.mark.parametrize("name", QUICK)
def test_what_is_not_a_graph_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="takes a Graph, got ndarray"):
        QUICK[name]().fit(np.eye(3))


@pytest.mark.parametrize("name", QUICK)
def test_progress_is_told_and_ends_at_one(name: str) -> None:
    if name == "DeepWalk":
        pytest.importorskip("gensim")
    heard: list[tuple[str, float]] = []
    QUICK[name]().fit(random_graph(), progress=lambda phase, done: heard.append((phase, done)))
    assert heard and all(0 <= done <= 1 for _, done in heard)
    assert heard[-1][1] == pytest.approx(1)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("name", ["SDCN", "AGE", "DGI", "GCA", "ProGCL"])
def test_weighted_and_directed_graphs_are_taken(name: str, directed: bool) -> None:
    model = QUICK[name]().fit(random_graph(weighted=True, directed=directed))
    assert np.isfinite(model.embedding_).all()


def test_a_missing_extra_names_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "gensim.models.word2vec", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tuplet\[baselines\]'"):
        DeepWalk().fit(random_graph())


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: AGE(3, positive=(0.5, 0.4), negative=(0.1, 0.5)), "overlap"),
        (lambda: GCA(centrality="closeness"), "centrality 'closeness' is not known"),
        (lambda: GCA(activation="tanh"), "activation 'tanh' is not known"),
        (lambda: GCA(drop_edges=(0.2, 1.0)), "drop_edges"),
        (lambda: ProGCL(init=0.0), "init"),
        (lambda: SDCN(3, layers=(10,)), "too short"),
        (lambda: DGI(device="tpu9"), "device"),
        (lambda: AGC(1), "n_clusters"),
    ],
)
def test_bad_settings_are_refused_by_fit(make, text: str) -> None:
    with pytest.raises(InputError, match=text):
        make().fit(random_graph())


def sized_graph(n: int, f: int):
    """A graph of n nodes and f features as the memory estimate sees it: nothing is stored."""
    return random_graph().with_(indptr=np.zeros(n + 1, np.int64), x=np.broadcast_to(np.float32(0), (n, f)))


@pytest.mark.parametrize(
    ("name", "empty"),
    [("GCA", {"coauthor-phy"}), ("ProGCL", {"pubmed", "coauthor-cs", "coauthor-phy"}), ("AGE", set())],
)
def test_at_the_memory_of_the_paper_exactly_its_empty_cells_are_refused(name: str, empty: set[str]) -> None:
    settings = tomllib.loads((Path(__file__).parents[1] / "benchmarks/paper/baselines.toml").read_text())[name]
    refused = set()
    for dataset, entry in datasets().items():
        table = {**settings, **settings.get(dataset, {})}
        params = {key: value["value"] for key, value in table.items() if "value" in value}
        assert params.pop("memory_limit") == "16GB"
        model = baselines.registry[name](**params)
        if model.memory_needed(sized_graph(entry.nodes, entry.features)) > 16e9:
            refused.add(dataset)
    assert refused == empty


@pytest.mark.parametrize("name", ["AGE", "GCA", "ProGCL"])
def test_above_the_memory_limit_fit_refuses_with_both_numbers(name: str) -> None:
    with pytest.raises(InputError, match=rf"{name} compares all 30 nodes .* above 0.0 GB \(memory_limit='1KB'\)"):
        QUICK[name]().set_params(memory_limit="1KB").fit(random_graph())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("name", ["SDCN", "AGE", "DGI", "GCA", "ProGCL"])
def test_the_gpu_starts_where_the_cpu_does_and_ends_with_vectors(name: str) -> None:
    graph = random_graph(n=60)
    one = QUICK[name]().set_params(device="cuda").fit(graph)
    assert one.embedding_.shape == QUICK[name]().fit(graph).embedding_.shape
    assert np.isfinite(one.embedding_).all()
    np.testing.assert_allclose(one.transform(graph), one.embedding_, atol=1e-3)


# settings of a shortened run, and the accuracy in percent that it must reach; K-Means where a method has no labels
FLOORS = {
    "KMeans": ("cora", {}, 28),
    "DeepWalk": ("cora", {"walk_length": 40, "window": 5, "negative": 5, "epochs": 2}, 52),
    "SDCN": ("acm", {"layers": (128, 64, 10), "pretrain_epochs": 10, "epochs": 30}, 75),
    "AGC": ("cora", {"n_init": 3}, 60),
    "SSGC": ("cora", {}, 65),
    "AGE": ("cora", {"epochs": 6, "update_every": 3, "hidden": 64}, 58),
    "DGI": ("cora", {"epochs": 60, "hidden": 256}, 55),
    "GCA": ("cora", {"epochs": 15, "hidden": 64}, 50),
    "ProGCL": ("cora", {"epochs": 12, "start": 8, "hidden": 64}, 50),
    "FilterSVD": ("cora", {}, 55),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOORS)
def test_a_real_graph_is_clustered_well_enough(name: str, request: pytest.FixtureRequest) -> None:
    dataset, settings, floor = FLOORS[name]
    if name == "DeepWalk":
        pytest.importorskip("gensim")
    if dataset != "cora":  # which ships with the package
        request.getfixturevalue("data_dir")
    graph = load_dataset(dataset)
    known = {"n_clusters": graph.n_classes} if name in ASSIGNING else {}
    model = baselines.registry[name](**known, **settings).fit(graph.with_(y=None))
    if name in ASSIGNING:
        reached = 100 * metrics.accuracy(graph.y, model.labels_)
    else:
        reached = cluster_nodes(model.embedding_, graph, seed=0).values["accuracy"]
    assert reached >= floor
