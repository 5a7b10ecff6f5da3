"""The estimator contract: one list of checks that every estimator of the package passes, ours and the rivals.

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_contract(check): check(lambda: DMATi(max_steps=3, layers=(8, 4)))

A check takes a function that makes an unfitted estimator, quick to fit on thirty nodes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

from tests.conftest import random_graph
from tuplet._check import InputError

Maker = Callable[[], Any]


def constructor_only_stores(make: Maker) -> None:
    """get_params gives what was stored, unchanged, and nothing else is set before fit."""
    model = make()
    names = set(inspect.signature(type(model).__init__).parameters) - {"self"}
    assert isinstance(model, BaseEstimator) and set(model.get_params(deep=False)) == names
    assert set(vars(model)) == names


def constructor_does_not_check(make: Maker) -> None:
    """A bad value is stored as it is; fit complains."""
    model = make()
    model.set_params(seed=-1)
    assert model.seed == -1
    with pytest.raises(InputError):
        model.fit(random_graph())


def parameters_can_be_set_and_cloned(make: Maker) -> None:
    """clone copies parameters and no result; set_params refuses unknown names."""
    model = make().set_params(seed=7)
    copy = clone(model.fit(random_graph()))
    assert copy is not model and copy.seed == 7 and not hasattr(copy, "embedding_")
    assert repr(copy) == repr(clone(copy)) and type(model).__name__ in repr(model)
    with pytest.raises(ValueError, match="no_such_parameter"):
        model.set_params(no_such_parameter=1)


def fit_returns_self_and_an_embedding(make: Maker) -> None:
    """embedding_ is float32 (n, d), finite; parameters stay as they were."""
    model, graph = make(), random_graph()
    before = model.get_params(deep=False)
    assert model.fit(graph) is model
    z = model.embedding_
    assert z.dtype == np.float32 and z.ndim == 2 and z.shape[0] == graph.n_nodes and np.isfinite(z).all()
    after = model.get_params(deep=False)
    assert all(after[name] is before[name] or after[name] == before[name] for name in before)


def fit_transform_is_fit_then_embedding(make: Maker) -> None:
    graph = random_graph()
    assert np.array_equal(make().fit_transform(graph), make().fit(graph).embedding_)


def same_seed_same_bits(make: Maker) -> None:
    """Also after another fit: refitting forgets."""
    graph, other = random_graph(), random_graph(n=24, seed=5)
    first = make().fit(graph).embedding_
    assert np.array_equal(first, make().fit(graph).embedding_)
    assert np.array_equal(first, make().fit(other).fit(graph).embedding_)


def the_graph_is_not_changed(make: Maker) -> None:
    graph = random_graph()
    before = graph.fingerprint()
    make().fit(graph)
    assert graph.fingerprint() == before


def sparse_features_are_taken(make: Maker) -> None:
    import scipy.sparse as sp

    graph = random_graph()
    dense = make().fit(graph).embedding_
    sparse = make().fit(graph.with_(x=sp.csr_array(graph.x))).embedding_
    assert sparse.shape == dense.shape and np.isfinite(sparse).all()


def isolated_nodes_and_empty_rows_are_finite(make: Maker) -> None:
    graph = random_graph(p=0.03)
    x = np.array(graph.x)
    x[:2] = 0
    assert np.isfinite(make().fit(graph.with_(x=x)).embedding_).all()


CHECKS: list[Callable[[Maker], None]] = [
    constructor_only_stores,
    constructor_does_not_check,
    parameters_can_be_set_and_cloned,
    fit_returns_self_and_an_embedding,
    fit_transform_is_fit_then_embedding,
    same_seed_same_bits,
    the_graph_is_not_changed,
    sparse_features_are_taken,
    isolated_nodes_and_empty_rows_are_finite,
]


def labels_do_not_matter(make: Maker) -> None:
    """For methods without labels: absent, shuffled or unknown labels give the same bits."""
    graph = random_graph()
    expected = make().fit(graph).embedding_
    assert graph.y is not None
    shuffled = np.random.default_rng(0).permutation(graph.y)
    for y in (None, shuffled, np.full(graph.n_nodes, -1)):
        assert np.array_equal(expected, make().fit(graph.with_(y=y)).embedding_)
    assert np.array_equal(expected, make().fit(graph, shuffled).embedding_)


UNSUPERVISED_CHECKS = [*CHECKS, labels_do_not_matter]
