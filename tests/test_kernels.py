"""The compiled loops against their slow twins: one hop, index types, threads, push, walks, CSR surgery."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests import reference
from tests.conftest import random_graph
from tuplet.filters._operator import make_operator
from tuplet.kernels import csr, push, spmm


def one_hop(graph, z, *, dtype=np.int32, loop=1.0, threads=None, **factors):
    out = np.full_like(z, 7.0)
    inverse = (1 / (graph.degrees + 1)).astype(np.float32)
    indices = graph.indices.astype(dtype)
    spmm.hop(graph.indptr, indices, graph.weights, inverse, z, z, out, loop=loop, threads=threads, **factors)
    return out


@pytest.mark.parametrize("columns", [1, 7, 16, 64, 127, 128, 129, 192, 300])
@pytest.mark.parametrize("weighted", [False, True])
def test_hop_equals_the_dense_product(columns, weighted):
    g = random_graph(60, columns, weighted=weighted)
    a, x = g.adj.toarray().astype(np.float64), g.x.astype(np.float64)
    mean = (a @ x + 0.5 * x) / (g.degrees + 1)[:, None]
    out = one_hop(g, g.x, loop=0.5, scale=0.9, shift=0.3, keep=-2.0)
    assert np.allclose(out, 0.9 * mean + 0.3 * x - 2.0 * 7.0, atol=1e-5)


def test_hop_with_64_bit_indices_is_the_same():
    g = random_graph(60, 130)
    assert np.array_equal(one_hop(g, g.x), one_hop(g, g.x, dtype=np.int64))


@pytest.mark.parametrize("threads", [1, 3, 8])
def test_hop_does_not_depend_on_the_number_of_pieces(threads):
    g = random_graph(200, 40, p=0.3)
    assert np.array_equal(one_hop(g, g.x, threads=2), one_hop(g, g.x, threads=threads))


def test_factors_of_zero_read_nothing():
    g = random_graph(20, 5)
    out = np.full_like(g.x, np.nan)
    x = np.full_like(g.x, np.nan)
    one = np.ones(20, np.float32)
    spmm.hop(g.indptr, g.indices, None, one, g.x, x, out, loop=0.0)
    assert np.allclose(out, g.adj.toarray() @ g.x, atol=1e-5)


def test_a_hub_keeps_its_precision_in_float32():
    n = 200_000
    indptr = np.r_[0, np.full(n, n - 1)].astype(np.int64)  # node 0 is joined to all others
    z = np.random.default_rng(0).random((n, 3), dtype=np.float32)
    out = np.empty_like(z)
    spmm.hop(indptr, np.arange(1, n, dtype=np.int32), None, np.ones(n, np.float32), z, z, out, loop=0.0)
    exact = z[1:].astype(np.float64).sum(0)
    assert np.abs(out[0] / exact - 1).max() < 1e-6


def test_row_pointers_past_2_to_the_31_are_not_cut_off():
    # The arithmetic on row pointers is 64-bit: two rows whose edges lie past 2^31 in a sparse, virtual edge array.
    indptr = np.array([0, 2**31 + 5, 2**32 + 10], np.int64)
    assert spmm.balanced_pieces(indptr, 2).tolist() == [0, 1, 2]
    assert spmm._first_row_past(indptr, 2**32) == 2


@pytest.mark.slow
def test_edges_past_2_to_the_31_are_reached(tmp_path):
    """A sparse file of more than 2^31 edges: only the last few are written, the rest are zeros on no disk at all."""
    edges = 2**31 + 8
    indices = np.memmap(tmp_path / "indices", np.int32, "w+", shape=(edges,))
    indices[-3:] = [1, 2, 3]
    n = 4
    indptr = np.array([edges - 3, edges - 3, edges - 3, edges - 3, edges], np.int64)
    z = np.arange(8, dtype=np.float32).reshape(4, 2)
    out = np.empty_like(z)
    spmm.hop(indptr, indices, None, np.ones(n, np.float32), z, z, out, loop=0.0)
    assert np.array_equal(out[3], z[1:].sum(0)) and not out[:3].any()


def test_pieces_hold_equal_work_whatever_the_hubs():
    indptr = np.r_[0, 1000, 1000 + np.arange(1, 1001)]
    bounds = spmm.balanced_pieces(indptr, 4).astype(int)
    work = [(indptr[b] + b) - (indptr[a] + a) for a, b in pairwise(bounds)]
    assert bounds[0] == 0 and bounds[-1] == 1001 and max(work) <= 1001 and sum(work) == 3001


@pytest.mark.parametrize("weighted", [False, True])
def test_transpose_and_union_equal_scipys(weighted):
    g = random_graph(40, directed=True, weighted=weighted, p=0.1)
    a = (g.indptr, g.indices, g.weights)
    b = csr.transpose(*a)
    joined = csr.unite(a, b)
    for got, want in ((b, sp.csr_array(g.adj.T)), (joined, sp.csr_array(g.adj.maximum(g.adj.T)))):
        want.sort_indices()
        assert np.array_equal(got[0], want.indptr) and np.array_equal(got[1], want.indices)
        assert got[2] is None if not weighted else np.array_equal(got[2], want.data)


def test_cut_columns_is_a_dense_slice():
    x = sp.random_array((30, 50), density=0.2, format="csr", rng=np.random.default_rng(0), dtype=np.float32)
    scale = np.linspace(1, 2, 30, dtype=np.float32)
    out = np.full((10, 7), np.nan, np.float32)
    csr.cut_columns(x.indptr, x.indices, x.data, 5, 11, scale, out)
    assert np.allclose(out, x.toarray()[5:15, 11:18] * scale[5:15, None])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("loops", [False, True])
def test_push_leaves_what_the_dense_twin_explains(weighted, directed, loops):
    """Q + (whole series of R) is the exact answer, in any order of pushes; no residue is above the threshold."""
    g = random_graph(40, weighted=weighted, directed=directed, p=0.06)
    op = make_operator(g, direction="out", self_loops=loops)
    start = np.abs(g.x[:, :1])
    reserve, residue = np.empty_like(start), np.empty_like(start)
    push.push_columns(op.transposed(), 0.2, 1e-3, start, reserve, residue)
    t = reference.dense_operator(g.adj, 0.0, self_loops=loops)
    exact = reference.dense_pagerank(t, 0.2, start)
    assert np.allclose(reserve + reference.dense_pagerank(t, 0.2, residue), exact, atol=1e-6)
    assert residue.max() <= 1e-3 * start.sum() * (1 + 1e-6) and residue.min() >= 0
    a = g.adj.toarray().astype(np.float64) + np.eye(40) * loops
    q, r = reference.push_column(a, 0.2, 1e-3 * float(start.sum()), start[:, 0])
    assert np.allclose(q + reference.dense_pagerank(t, 0.2, r), exact[:, 0], atol=1e-6)


def test_signed_residues_are_pushed_too():
    g = random_graph(40)
    op = make_operator(g)
    residue, reserve = g.x[:, 0].astype(np.float64), np.zeros(40)
    before = residue.copy()
    active = np.flatnonzero(np.abs(residue) > 1e-4)
    edges = push.push_residues(
        op.indptr, op.indices, op.weights, 1 / op.degrees, 1.0, 0.3, 1e-4, residue, reserve, active
    )
    t = reference.dense_operator(g.adj, 0.0)
    assert edges > 0 and np.abs(residue).max() <= 1e-4
    left = reference.dense_pagerank(t, 0.3, before) - reserve
    assert np.allclose(left, reference.dense_pagerank(t, 0.3, residue), atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_walks_end_where_pagerank_says(weighted):
    g = random_graph(12, weighted=weighted, p=0.3)
    op = make_operator(g)
    walks = 40_000
    ends = push.walk_ends(op, 0.3, walks, seed=1).reshape(12, walks)
    share = np.stack([np.bincount(row, minlength=12) / walks for row in ends])
    t = reference.dense_operator(g.adj, 0.0)
    exact = reference.dense_pagerank(t, 0.3, t)  # one step first, then geometric
    assert np.abs(share - exact).max() < 5 * np.sqrt(0.25 / walks)


def test_walks_die_where_there_is_no_edge():
    g = random_graph(5, p=0.0)
    ends = push.walk_ends(make_operator(g, self_loops=False), 0.3, 4, seed=0)
    assert (ends == 5).all()


def test_compiled_code_is_cached_for_the_sources_of_all_kernels() -> None:
    """A kernel that calls one of another file is compiled again when that file changes."""
    import tuplet.kernels.csr as kernels
    from tuplet._jit import source_stamp

    compiled = [f for f in vars(kernels).values() if hasattr(f, "_cache")]
    assert compiled and all(f._cache._cache_file._source_stamp == source_stamp() for f in compiled)
    assert {name for name, _, _ in source_stamp()} >= {"csr.py", "spmm.py", "push.py"}


def test_processes_that_compile_at_once_do_not_get_each_others_code(tmp_path: Path) -> None:
    """One writes its file while another is between index and file: nobody may load the code of other types."""
    import tuplet.kernels.csr as kernels

    compiled = next(f for f in vars(kernels).values() if hasattr(f, "_cache"))
    kind = type(compiled._cache._cache_file)
    one, other, reader = (kind(str(tmp_path), "kernel", "stamp") for _ in range(3))
    write, other._load_index = one._save_data, lambda: {}  # it looked before the first wrote its index

    def interrupted(name: str, data: Any) -> None:
        other.save("float64", "code for float64")
        write(name, data)

    one._save_data = interrupted
    one.save("float32", "code for float32")
    assert reader.load("float32") == "code for float32"
    assert reader.load("float64") in ("code for float64", None)
