"""Graphs made up on the spot: R-MAT of any size, and block models whose features and edges know the class."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError, check_int, check_number
from tuplet._seed import seed_of, stream
from tuplet.graph._graph import Graph


def rmat(
    n_nodes: int, edges_per_node: int = 20, *, a: float = 0.45, b: float = 0.22, c: float = 0.22, seed: int = 0
) -> Graph:
    """An undirected R-MAT graph with exactly n_nodes * edges_per_node edges, no duplicates or loops, no features.

    Each edge falls into a cell of the adjacency matrix by repeated quartering, with probability `a`, `b`, `c` and
    1 - a - b - c for the four quarters; the defaults are PaRMAT's. A large `a` makes hubs and leaves many nodes
    without an edge. Edges come from counters, so the same seed gives the same graph on any number of threads.

    >>> rmat(1000, 5, seed=1)
    Graph(rmat-1000: 1000 nodes, 5000 edges, 0 features)
    """
    n, per_node = (
        check_int("n_nodes", n_nodes, minimum=2, maximum=2**31 - 1),
        check_int("edges_per_node", edges_per_node),
    )
    check_number("a + b + c", a + b + c, low=0, high=1)
    if min(a, b, c) < 0:
        raise InputError(f"a, b and c are probabilities, got {a}, {b}, {c}. Give numbers from 0 to 1.")
    if per_node > (n - 1) // 4:
        raise InputError(f"{per_node} edges a node are too many for {n} nodes. Give at most {(n - 1) // 4}.")
    keys = _distinct_keys(n, n * per_node, (a, a + b, a + b + c), seed_of(seed, "rmat"))
    return _from_keys(keys, n).with_(name=f"rmat-{n}")


def _distinct_keys(n: int, count: int, bounds: tuple[float, float, float], key: int) -> NDArray[np.uint64]:
    """`count` distinct sorted keys u * n + v, u < v. Draws again for duplicates, until all are there."""
    from tuplet.kernels.rmat import draw_keys, drop_duplicates, thin_out

    keys, drawn = np.empty(0, np.uint64), 0
    while len(keys) < count:
        missing = count - len(keys)
        share = len(keys) / drawn if drawn else 1.0
        fresh = np.empty(int(missing / max(0.05, share) * (1.02 if drawn else 1.0)) + 16, np.uint64)
        draw_keys(fresh, drawn, n, *bounds, np.uint64(key))
        drawn += len(fresh)
        fresh = sorted_keys(fresh)
        if len(keys):
            fresh = np.concatenate([keys, fresh])
            fresh.sort(kind="stable")  # merges two sorted runs
        keys = fresh[: drop_duplicates(fresh)]
        if drawn > 100 * count:
            raise InputError(f"R-MAT with these a, b, c has too few distinct edges: {len(keys)} of {count} found.")
    return keys if len(keys) == count else keys[: thin_out(keys, count)]


def _from_keys(keys: NDArray[np.uint64], n: int) -> Graph:
    """The undirected graph of distinct sorted keys u * n + v, u < v."""
    from tuplet.kernels.csr import join_rows

    size = np.uint64(n)
    turned = keys % size
    turned *= size
    turned += keys // size
    turned = sorted_keys(turned)
    starts = keys[np.linspace(0, len(keys), min(64, len(keys)), endpoint=False).astype(np.int64)] // size
    bounds = np.unique(np.concatenate([starts, np.array([0, n], np.uint64)]))
    indptr = np.full(n + 1, 2 * len(keys), np.int64)
    indices = np.empty(2 * len(keys), np.int32)
    join_rows(turned, keys, size, bounds, indices, indptr)  # smaller neighbours, then larger ones: rows are sorted
    return Graph(indptr, indices)


def sorted_keys(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """`keys` sorted, by threads: runs are sorted in place, then each thread merges one range of values of all runs.

    >>> sorted_keys(np.array([3, 1, 2], np.uint64))
    array([1, 2, 3], dtype=uint64)
    """
    from tuplet.kernels import spmm

    threads = spmm.thread_count()
    if threads == 1 or len(keys) < 2**20:
        return np.sort(keys)
    runs = np.array_split(keys, threads)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda run: run.sort(), runs))
        fences = np.sort(np.concatenate([run[:: max(1, len(run) // 256)] for run in runs]))
        fences = fences[np.linspace(0, len(fences), threads, endpoint=False).astype(np.int64)[1:]]
        cuts = np.array([[0, *np.searchsorted(run, fences), len(run)] for run in runs])
        ends = np.cumsum((cuts[:, 1:] - cuts[:, :-1]).sum(axis=0))
        merged = np.empty_like(keys)

        def merge(part: int) -> None:
            pieces = [run[cut[part] : cut[part + 1]] for run, cut in zip(runs, cuts)]
            room = merged[ends[part] - sum(map(len, pieces)) : ends[part]]
            np.concatenate(pieces, out=room)
            room.sort(kind="stable")  # merges sorted pieces

        list(pool.map(merge, range(threads)))
    return merged


def block_model(
    sizes: Sequence[int],
    *,
    mean_degree: float = 10.0,
    structure: float = 0.8,
    n_features: int = 64,
    signal: float = 1.0,
    words: int | None = None,
    seed: int = 0,
) -> Graph:
    """An undirected graph of len(sizes) classes with features `x` and labels `y`, in random node order.

    About n * mean_degree / 2 edges are drawn: one end is any node, the other is of the same class with probability
    `structure` and any node otherwise (0: the edges know nothing of the class, 1: no edge leaves its class).
    Features are the class's centre, a Gaussian vector of length about `signal`, plus Gaussian noise of variance 1
    a column. With `words`, features are a bag of so many words a node instead (CSR of ones): each word comes from
    the class's own list with probability signal / (1 + signal), else from the whole vocabulary.

    >>> block_model([30, 20, 10], seed=0)
    Graph(blocks-3: 60 nodes, ... edges, 64 features, 3 classes)
    """
    counts = [check_int("sizes", size) for size in sizes]
    check_number("structure", structure, low=0, high=1)
    check_number("mean_degree", mean_degree, low=0)
    check_number("signal", signal, low=0)
    check_int("n_features", n_features)
    n = sum(counts)
    if n < 2:
        raise InputError(f"sizes {list(sizes)} make {n} nodes. At least 2 are needed.")
    y = stream(seed, "blocks labels").permutation(np.repeat(np.arange(len(counts)), counts))
    keys = _block_keys(y, np.array(counts), mean_degree, structure, stream(seed, "blocks edges"))
    rng = stream(seed, "blocks features")
    x = _gaussian(y, n_features, signal, rng) if words is None else _bag(y, n_features, signal, words, rng)
    return _from_keys(keys, n).with_(x=x, y=y, name=f"blocks-{len(counts)}")


def _block_keys(
    y: NDArray[Any], counts: NDArray[Any], mean_degree: float, structure: float, rng: np.random.Generator
) -> NDArray[np.uint64]:
    n, m = len(y), round(len(y) * mean_degree / 2)
    order = np.argsort(y, kind="stable")  # nodes of class k stand at order[first[k] : first[k] + counts[k]]
    first = np.cumsum(counts) - counts
    u, v = rng.integers(n, size=m), rng.integers(n, size=m)
    inside = rng.random(m) < structure
    k = y[u[inside]]
    v[inside] = order[first[k] + rng.integers(counts[k])]
    keys = np.minimum(u, v) * n + np.maximum(u, v)
    return np.unique(keys[u != v]).astype(np.uint64)


def _gaussian(y: NDArray[Any], f: int, signal: float, rng: np.random.Generator) -> NDArray[np.float32]:
    centres = rng.standard_normal((int(y.max()) + 1, f), dtype=np.float32) * np.float32(signal / np.sqrt(f))
    x = rng.standard_normal((len(y), f), dtype=np.float32)
    x += centres[y]
    return x


def _bag(y: NDArray[Any], f: int, signal: float, words: int, rng: np.random.Generator) -> Any:
    import scipy.sparse as sp

    length = max(1, f // 10)  # of a class's own list
    lists = np.stack([rng.choice(f, size=length, replace=False) for _ in range(int(y.max()) + 1)])
    drawn = rng.integers(f, size=(len(y), check_int("words", words)))
    own = rng.random(drawn.shape) < signal / (1 + signal)
    drawn[own] = lists[y[np.nonzero(own)[0]], rng.integers(length, size=int(own.sum()))]
    rows = np.repeat(np.arange(len(y)), words)
    x = sp.csr_array((np.ones(drawn.size, np.float32), (rows, drawn.ravel())), shape=(len(y), f))
    x.sum_duplicates()
    x.data[:] = 1
    return x
