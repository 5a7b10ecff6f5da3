"""Graph: what the door lets in, what it cleans, and what it counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from tests.conftest import random_graph
from tuplet import Graph, InputError

PATH = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
X = np.ones((3, 2))


def test_an_edge_given_once_counts_in_both_directions() -> None:
    g = Graph.from_scipy(np.triu(PATH), X)
    np.testing.assert_array_equal(g.adj.toarray(), PATH)
    assert (g.n_nodes, g.n_edges, g.n_stored, g.n_features) == (3, 2, 4, 2)
    np.testing.assert_array_equal(g.edges(), [[0, 1], [1, 2]])


def test_a_directed_graph_keeps_its_direction() -> None:
    g = Graph.from_scipy(np.triu(PATH), X, directed=True)
    np.testing.assert_array_equal(g.adj.toarray(), np.triu(PATH))
    assert g.n_edges == 2


def test_self_loops_and_zeros_are_dropped_and_duplicates_summed() -> None:
    rows, cols, data = [0, 0, 1, 2, 2], [0, 1, 2, 1, 0], [5.0, 1.0, 2.0, 3.0, 0.0]
    duplicated = sp.coo_array((data + [1.0], (rows + [0], cols + [1])), shape=(3, 3))
    g = Graph.from_scipy(duplicated, X, directed=True)
    np.testing.assert_array_equal(g.adj.toarray(), [[0, 2, 0], [0, 0, 2], [0, 3, 0]])


def test_both_directions_of_an_edge_take_the_larger_weight() -> None:
    g = Graph.from_scipy([[0, 2.0], [3.0, 0]])
    np.testing.assert_array_equal(g.adj.toarray(), [[0, 3], [3, 0]])


def test_a_graph_without_weights_stores_none() -> None:
    assert Graph.from_scipy(PATH).weights is None
    assert Graph.from_scipy(PATH * 2.0).weights is not None


@pytest.mark.parametrize("weighted", [False, True])
def test_degrees_equal_the_row_sums_also_with_isolated_nodes(weighted: bool) -> None:
    g = random_graph(40, p=0.02, weighted=weighted)
    assert np.any(np.diff(g.indptr) == 0)
    np.testing.assert_allclose(g.degrees, g.adj.toarray().sum(1), rtol=1e-6)


def test_rows_are_sorted_and_indices_are_32_bit() -> None:
    g = random_graph(50, p=0.2)
    assert g.indptr.dtype == np.int64
    assert g.indices.dtype == np.int32
    for u in range(g.n_nodes):
        row = g.indices[g.indptr[u] : g.indptr[u + 1]]
        assert np.all(np.diff(row) > 0)


def test_the_fingerprint_sees_structure_weights_and_features_but_not_labels() -> None:
    g = random_graph(20)
    moved = g.indices.copy()
    moved[0], moved[1] = moved[1], moved[0]
    x = np.array(g.x)
    x[3, 3] += 1e-3
    weights = np.full(g.n_stored, 2, np.float32)
    changed = [g.with_(indices=moved), g.with_(x=x), g.with_(weights=weights), g.with_(x=sp.csr_array(g.x))]
    prints = {g.fingerprint(), *(c.fingerprint() for c in changed)}
    assert len(prints) == 5
    assert g.with_(y=None, ids=np.arange(20) + 5, name="other").fingerprint() == g.fingerprint()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Graph.from_scipy(np.ones((2, 3))), r"shape \(2, 3\).*square"),
        (lambda: Graph.from_scipy(np.zeros((0, 0))), "0 nodes"),
        (lambda: Graph.from_scipy(np.zeros((1, 1))), "1 nodes"),
        (lambda: Graph.from_scipy(-PATH), "negative weight -1"),
        (lambda: Graph.from_scipy(PATH * np.nan), "NaN or infinity"),
        (lambda: Graph.from_scipy([["a", "b"], ["c", "d"]]), "numbers"),
        (lambda: Graph.from_scipy(PATH, np.ones((2, 2))), r"\(2, 2\) but the graph has 3 nodes"),
        (lambda: Graph.from_scipy(PATH, np.ones(3)), r"\(3,\)"),
        (lambda: Graph.from_scipy(PATH, np.ones((3, 0))), "no columns"),
        (lambda: Graph.from_scipy(PATH, [[1.0], [np.inf], [0]]), r"NaN or infinity, first at \(1, 0\)"),
        (lambda: Graph.from_scipy(PATH, sp.csr_array([[1.0], [np.nan], [0]])), "NaN or infinity"),
        (lambda: Graph.from_scipy(PATH, [["a"], ["b"], ["c"]]), "must hold numbers"),
        (lambda: Graph.from_scipy(PATH, X, [0, 1]), "one label a node"),
        (lambda: Graph.from_scipy(PATH, X, [0.5, 1, 2]), "integers"),
        (lambda: Graph.from_scipy(PATH, X, [0, 1, -2]), "-2"),
        (lambda: Graph.from_scipy(PATH, X, ids=[1, 1, 2]), "repeated"),
        (lambda: Graph.from_scipy(PATH, X, ids=[1, 2]), "one id a node"),
    ],
)
def test_bad_input_says_what_was_given(make, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_whole_numbers_and_booleans_become_float32_and_floats_stay() -> None:
    assert Graph.from_scipy(PATH, np.ones((3, 1), dtype=bool)).x.dtype == np.float32
    assert Graph.from_scipy(PATH, np.ones((3, 1), dtype=int)).x.dtype == np.float32
    assert Graph.from_scipy(PATH, np.ones((3, 1), dtype=np.float16)).x.dtype == np.float16


@pytest.mark.parametrize("size", [1e300, 1e19, 1e16, 1e-16, 1e-200])
@pytest.mark.parametrize("kind", ["dense", "sparse", "map", "graph"])
def test_features_beyond_float32_are_refused_before_they_make_all_vectors_equal(
    size: float, kind: str, tmp_path: Path
) -> None:
    from tuplet import GraphFilter

    g = random_graph()
    x = g.x.astype(np.float64) * size
    with pytest.raises(InputError, match=r"The largest feature is .* in size.*Scale the columns"):
        if kind == "map":
            np.save(tmp_path / "x.npy", x)
            GraphFilter().transform(g, x=np.load(tmp_path / "x.npy", mmap_mode="r"))
        elif kind == "graph":
            GraphFilter().transform(g.with_(x=x))  # unchecked, as a stored graph is
        else:
            Graph.from_scipy(g.adj, sp.csr_array(x) if kind == "sparse" else x)


@pytest.mark.parametrize("size", [1e14, 1e-14, 0.0])
def test_features_of_a_size_that_fits_give_the_vectors_of_their_scaled_selves(size: float) -> None:
    from tuplet import DMATi, SelfDMAT

    g = random_graph(60, 12)
    large = Graph.from_scipy(g.adj, g.x.astype(np.float64) * size)
    if not size:
        assert (large.x == 0).all()
        return
    for model in (SelfDMAT(3, max_steps=3), DMATi((8, 4), max_steps=3)):
        np.testing.assert_allclose(model.fit_transform(large), model.fit_transform(g), atol=1e-3)
