"""PyG as a citizen: nothing is lost on the way there and back; AddVectors adds what the estimator gives."""

from __future__ import annotations

import logging
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from tuplet import InputError, load_dataset
from tuplet.graph import Graph

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    pytest.importorskip("torch_geometric", reason="extra [baselines] is not installed")
    from torch_geometric.data import Data
    from torch_geometric.transforms import Compose, NormalizeFeatures

from tuplet.pyg import AddVectors


def full_graph(*, sparse: bool, directed: bool) -> Graph:
    rng = np.random.default_rng(0)
    adj = (rng.random((12, 12)) < 0.3) * rng.random((12, 12)).round(3)
    x = (rng.random((12, 4)) < 0.5) * 1.0
    x[:, 0] = 1
    return Graph.from_scipy(
        adj, sp.csr_array(x.astype(np.float32)) if sparse else x.astype(np.float32),
        rng.integers(-1, 3, 12), ids=[f"n{i}" for i in range(12)], directed=directed, name="small",
        label_names=("a", "b", "c"), feature_names=("p", "q", "r", "s"),
    ).with_(split=(np.arange(5), np.arange(5, 8), np.arange(8, 12)))  # fmt: skip


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_there_and_back_keeps_everything(sparse: bool, directed: bool) -> None:
    g = full_graph(sparse=sparse, directed=directed)
    back = Graph.from_pyg(g.to_pyg())
    assert back.fingerprint() == g.fingerprint()
    assert sp.issparse(back.x) == sparse
    for name in ("directed", "name", "label_names", "feature_names"):
        assert getattr(back, name) == getattr(g, name)
    np.testing.assert_array_equal(back.y, g.y)
    np.testing.assert_array_equal(back.ids, g.ids)
    for one, two in zip(back.split or (), g.split or (), strict=True):
        np.testing.assert_array_equal(one, two)


def test_sparse_tensors_and_missing_labels_are_read() -> None:
    index = torch.tensor([[0, 1], [1, 0]])
    data = Data(x=torch.eye(2).to_sparse(), edge_index=index, y=torch.tensor([[1.0], [float("nan")]]))
    g = Graph.from_pyg(data)
    assert sp.issparse(g.x) and g.y is not None and g.y.tolist() == [1, -1]


def test_several_labels_a_node_are_refused() -> None:
    data = Data(x=torch.eye(2), edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.ones(2, 3))
    with pytest.raises(InputError, match=r"\(2, 3\): several labels"):
        Graph.from_pyg(data)


def test_what_a_graph_cannot_hold_is_told(caplog: pytest.LogCaptureFixture) -> None:
    data = Data(x=torch.eye(2), edge_index=torch.tensor([[0, 1], [1, 0]]), pos=torch.zeros(2, 3))
    with caplog.at_level(logging.INFO, logger="tuplet"):
        Graph.from_pyg(data)
    assert "no place for pos" in caplog.text


def test_add_vectors_is_what_the_estimator_gives() -> None:
    from tuplet.models.registry import make_estimator

    g = load_dataset("cora")
    data = AddVectors("FilterSVD")(g.to_pyg())
    expected = make_estimator("FilterSVD").fit(g).embedding_
    assert data.z.dtype == torch.float32
    np.testing.assert_array_equal(data.z.numpy(), expected)


def test_a_fitted_estimator_is_applied_and_transforms_compose() -> None:
    from tuplet import DMATi

    g = load_dataset("cora")
    fitted = DMATi(epochs=1, layers=(16, 8), max_steps=2, seed=0).fit(g)
    data = Compose([AddVectors(fitted, attr="emb"), NormalizeFeatures()])(g.to_pyg())
    np.testing.assert_allclose(data.emb.numpy(), fitted.transform(g), atol=1e-6)
    assert data.x.sum(dim=1).max() <= 1.0001


def test_load_dataset_takes_a_dataset_object() -> None:
    class OneGraph:
        name = "Toy"

        def __len__(self) -> int:
            return 1

        def __getitem__(self, i: int) -> Data:
            return full_graph(sparse=False, directed=False).with_(name="").to_pyg()

    g = load_dataset(OneGraph())
    assert g.name == "toy" and g.n_nodes == 12
    with pytest.raises(InputError, match="a name or a PyG Dataset of one graph"):
        load_dataset(3)
    with pytest.raises(InputError, match="from_pyg takes a single Data"):
        load_dataset(full_graph(sparse=False, directed=False).to_pyg())


def test_bad_use_is_refused() -> None:
    with pytest.raises(InputError, match="Leave one of them out"):
        AddVectors(object(), seed=1)
    with pytest.raises(InputError, match="no features"):
        AddVectors()(Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2))
