"""The rivals: their registry, refusals, and a quality floor on Cora. tests/test_contract.py has the rest."""

from __future__ import annotations

import tomllib
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.conftest import random_graph
from tests.test_contract import QUICK as CONTRACT
from tuplet import InputError, baselines, load_dataset, metrics
from tuplet._check import MissingExtraError
from tuplet.baselines import AGC, AGE, DGI, GCA, SDCN, DeepWalk, ProGCL
from tuplet.datasets import datasets
from tuplet.evaluation.tasks import cluster_nodes
from tuplet.models.registry import make_estimator, method_class

RIVALS = list(baselines.NAMES)
QUICK = {name: partial(make_estimator, name, **CONTRACT[name]) for name in RIVALS}
ASSIGNING = [name for name in RIVALS if method_class(name).clusters]


def test_the_registry_has_the_methods_of_the_paper_under_its_names_and_then_the_newer_ones() -> None:
    paper = "KMeans DeepWalk SDCN AGC SSGC AGE DGI GCA ProGCL FilterSVD".split()  # noqa: SIM905
    assert list(baselines.registry)[:10] == paper
    assert list(baselines.registry)[10:] == ["M-S2CAG", "CCA-SSG", "BGRL", "NS4GC", "Dink-Net"]
    assert all(getattr(baselines, name) is baselines.registry[paper] for paper, name in baselines.NAMES.items())


@pytest.mark.parametrize("name", ASSIGNING)
def test_the_number_of_clusters_is_that_of_the_classes_or_must_be_given(name: str) -> None:
    graph = random_graph()
    free = QUICK[name]().set_params(n_clusters=None)
    np.testing.assert_array_equal(free.fit(graph).labels_, QUICK[name]().fit(graph).labels_)
    with pytest.raises(InputError, match="Give n_clusters"):
        free.fit(graph.with_(y=None))


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("name", ["SDCN", "AGE", "DGI", "GCA", "ProGCL", "CCA-SSG", "BGRL", "NS4GC", "Dink-Net"])
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
    [("GCA", {"coauthor-phy"}), ("ProGCL", {"coauthor-phy"}), ("AGE", set())],
)
def test_at_the_memory_of_the_paper_the_largest_of_its_empty_cells_are_refused(name: str, empty: set[str]) -> None:
    settings = tomllib.loads((Path(__file__).parents[1] / "benchmarks/paper/baselines.toml").read_text())[name]
    refused = set()
    for dataset, entry in datasets().items():
        if not entry.content:  # not a graph of the paper
            continue
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


def test_a_memory_limit_above_what_is_free_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuplet.baselines._limit.free_on", lambda device: 2000)
    with pytest.raises(InputError, match=r"above 0.0 GB \(what cpu has free\). Use DMATi"):
        QUICK["GCA"]().set_params(memory_limit="60GB").fit(random_graph())


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
    "M-S2CAG": ("cora", {}, 50),
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
