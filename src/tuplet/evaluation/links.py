"""predict_links: hide some edges, learn vectors from the rest, and see whether the hidden edges score high."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet import metrics
from tuplet._check import InputError
from tuplet.evaluation.results import Result
from tuplet.graph import Graph
from tuplet.graph.splits import EdgeSplit, rewire, split_edges
from tuplet.rows.unit import checked_vectors, scale_rows

ROWS = ("plain", "unit", "centred", "centred unit")
_BLOCK = 2**22  # numbers gathered together


def predict_links(
    estimator: Any,
    graph: Graph,
    *,
    val: float = 0.05,
    test: float = 0.1,
    seed: int = 0,
    split: EdgeSplit | None = None,
    rows: str | None = None,
    hits: Sequence[int] = (10, 50, 100),
) -> Result:
    """AUC, average precision, hits@k and MRR of dot products: held-out edges against as many non-edges.

    A clone of `estimator` gets the training graph of `split_edges(graph, ...)` (or of the given `split`), nothing
    else: filter, degrees and training see no held-out edge. How the rows of Z enter the dot product (one of
    `ROWS`) is the choice with the best validation AUC unless `rows` says; it stands in the result's settings.
    `hits` beyond the number of test non-edges are left out. Ranks are among all test non-edges.
    """
    from sklearn.base import clone

    if not hasattr(estimator, "fit_transform"):
        raise InputError(
            f"{type(estimator).__name__} has no fit_transform(graph). Give an estimator such as DMATi()."
        )
    start = time.perf_counter()
    split = split_edges(graph, val=val, test=test, seed=seed) if split is None else split
    z = clone(estimator, safe=False).fit_transform(split.graph)
    fit_seconds = round(time.perf_counter() - start, 3)
    result = score_links(z, split, seed=seed, rows=rows, hits=hits)
    settings = {"estimator": type(estimator).__name__, **result.settings, "fit_seconds": fit_seconds}
    return Result("links", result.values, seed, result.sizes, time.perf_counter() - start, settings, result.notes)


def score_links(
    z: Any, split: EdgeSplit, *, seed: int = 0, rows: str | None = None, hits: Sequence[int] = (10, 50, 100)
) -> Result:
    """As `predict_links`, for vectors `z` (n, d) that were made from `split.graph`. The caller vouches for that."""
    start = time.perf_counter()
    z = checked_vectors(z, split.graph.n_nodes)
    if rows is not None and rows not in ROWS:
        raise InputError(f"rows {rows!r} is not known. Choose one of: {', '.join(ROWS)}.")
    mean = _mean_row(z)
    scores = {r: _auc_on(z, mean, r, split.val, split.val_non_edges) for r in (ROWS if rows is None else (rows,))}
    best = max(scores, key=lambda r: scores[r])
    edges, others = (pair_scores(z, pairs, best, mean) for pairs in (split.test, split.test_non_edges))
    values = {
        "auc": 100 * metrics.auc(edges, others),
        "ap": 100 * metrics.average_precision(edges, others),
        **{f"hits_at_{k}": 100 * metrics.hits_at_k(edges, others, k) for k in hits if k <= len(others)},
        "mrr": 100 * metrics.mrr(edges, others),
        "val_auc": 100 * scores[best],
    }
    notes: tuple[str, ...] = ()
    if np.ptp(np.concatenate([edges, others])) == 0:
        notes = ("all pairs have the same score: the vectors say nothing about links",)
    sizes = {"train": split.graph.n_edges, "val": len(split.val), "test": len(split.test)}
    settings = {"rows": best, "rows_from": "validation" if rows is None else "given"}
    return Result("links", values, seed, sizes, time.perf_counter() - start, settings, notes)


def pair_scores(z: Any, pairs: NDArray[Any], rows: str = "unit", mean: Any = None) -> NDArray[np.float64]:
    """Dot products of the rows of `z` (n, d) named by `pairs` (p, 2), rows taken as `rows` (one of ROWS) says.

    `mean` (d,) is subtracted where rows are centred; by default it is the mean of all rows.

    >>> pair_scores(np.array([[3.0, 4.0], [4.0, 3.0]]), np.array([[0, 1]]))
    array([0.96])
    """
    centre = (_mean_row(z) if mean is None else mean) if "centred" in rows else None
    step = max(1, _BLOCK // z.shape[1])
    parts = [np.empty(0)]
    for i in range(0, len(pairs), step):
        u, v = (_taken(z, pairs[i : i + step, side], "unit" in rows, centre) for side in (0, 1))
        parts.append(np.einsum("ij,ij->i", u, v, dtype=np.float64))
    return np.concatenate(parts)


def leaks(embed: Callable[[Graph, EdgeSplit], Any], graph: Graph, split: EdgeSplit, *, seed: int = 0) -> bool:
    """Whether the vectors `embed(graph, split)` depend on where the held-out edges lie.

    They are computed twice, the second time from a graph whose held-out edges were moved elsewhere. A pipeline
    that uses `split.graph` alone gives the same bits; one that touches held-out edges, by degrees or a cache, does
    not. `embed` must be deterministic.
    """
    moved = rewire(graph, split, seed=seed)
    first, second = (np.asarray(embed(g, split)) for g in (graph, moved))
    return not np.array_equal(first, second)


def _auc_on(z: Any, mean: Any, rows: str, edges: NDArray[Any], others: NDArray[Any]) -> float:
    return metrics.auc(pair_scores(z, edges, rows, mean), pair_scores(z, others, rows, mean))


def _taken(z: Any, nodes: NDArray[Any], unit: bool, centre: Any) -> NDArray[np.float32]:
    taken = z[nodes]
    taken = taken.toarray() if hasattr(taken, "toarray") else np.asarray(taken)
    scaled: NDArray[np.float32] = scale_rows(taken if centre is None else taken - centre, unit)
    return scaled


def _mean_row(z: Any) -> NDArray[np.float64]:
    step = max(1, _BLOCK // z.shape[1])
    sums = [np.asarray(z[i : i + step].sum(axis=0, dtype=np.float64)) for i in range(0, z.shape[0], step)]
    mean: NDArray[np.float64] = np.sum(sums, axis=0) / z.shape[0]
    return mean
