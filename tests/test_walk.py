"""Random walks: the kernel against plain Python integers, its law, and independence of the thread count."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import random_graph
from tuplet.kernels.walk import random_walks

WORD = 2**64 - 1


def mix(state: int) -> int:
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB & WORD
    return state ^ (state >> 31)


def slow_walk(indptr, indices, start: int, number: int, length: int, seed: int) -> list[int]:
    walk, state = [start], mix((mix(seed) + number) & WORD)
    while len(walk) < length:
        neighbours = indices[indptr[walk[-1]] : indptr[walk[-1] + 1]]
        if len(neighbours) == 0:
            return walk + [-1] * (length - len(walk))
        state = (state + 0x9E3779B97F4A7C15) & WORD
        walk.append(int(neighbours[(mix(state) >> 32) * len(neighbours) >> 32]))
    return walk


@pytest.mark.parametrize("directed", [False, True])
def test_walks_equal_the_plain_python_ones(directed: bool) -> None:
    g = random_graph(directed=directed, p=0.05)
    starts = np.repeat(np.arange(g.n_nodes), 3)
    walks = random_walks(g.indptr, g.indices, starts, 9, seed=5)
    slow = [slow_walk(g.indptr, g.indices, int(s), i, 9, 5) for i, s in enumerate(starts)]
    np.testing.assert_array_equal(walks, slow)
    assert (walks == -1).any()  # the graph has isolated nodes, so the ending is exercised


def test_every_step_follows_an_edge() -> None:
    g = random_graph(n=40, p=0.1)
    walks = random_walks(g.indptr, g.indices, np.arange(40), 20, seed=1)
    a, b = walks[:, :-1].ravel(), walks[:, 1:].ravel()
    assert (g.adj.toarray()[a[b >= 0], b[b >= 0]] == 1).all()


def test_steps_are_uniform_over_the_neighbours() -> None:
    g = random_graph(n=12, p=0.5)
    walks = random_walks(g.indptr, g.indices, np.zeros(60_000, np.int64), 2, seed=3)
    neighbours = g.indices[g.indptr[0] : g.indptr[1]]
    counts = np.bincount(walks[:, 1], minlength=12)
    expected = 60_000 / len(neighbours)
    assert counts.sum() == counts[neighbours].sum()
    assert np.abs(counts[neighbours] - expected).max() < 5 * np.sqrt(expected)


def test_walks_do_not_depend_on_the_thread_count_and_do_on_the_seed() -> None:
    import numba

    g = random_graph(n=50, p=0.1)
    starts = np.arange(50)
    many = random_walks(g.indptr, g.indices, starts, 30, seed=2)
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        one = random_walks(g.indptr, g.indices, starts, 30, seed=2)
    finally:
        numba.set_num_threads(before)
    np.testing.assert_array_equal(one, many)
    assert (random_walks(g.indptr, g.indices, starts, 30, seed=4) != many).any()


def test_a_walk_does_not_depend_on_the_walks_after_it() -> None:
    g = random_graph()
    starts = np.arange(g.n_nodes)
    whole = random_walks(g.indptr, g.indices, starts, 8, seed=0)
    np.testing.assert_array_equal(random_walks(g.indptr, g.indices, starts[:5], 8, seed=0), whole[:5])
