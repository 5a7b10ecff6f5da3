"""What a page keeps of the node features: the few that tell most of each node, and columns to colour the map by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet.graph import Graph

TELLING = 4  # features of a node that are shown
BUDGET = 12_000_000  # bytes of feature columns that a page keeps, before compression
_LEVELS = 254
_TOLD = 0.05  # nats; what tells less is not shown
_BLOCK = 2**22  # feature values handled at once


@dataclass(frozen=True, eq=False)
class Telling:
    """For each shown node up to four features: `column` int32 (m, 4), -1 for none, and `value` float32 (m, 4)."""

    column: NDArray[np.int32]
    value: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Columns:
    """Features of the shown nodes in 254 levels: sparse ones as (start, node, level), dense ones (n, columns)."""

    facts: list[dict[str, Any]]  # name, low, high, and "sparse" or "dense" with its place there
    start: NDArray[np.uint32]
    node: NDArray[np.uint32]
    level: NDArray[np.uint8]
    dense: NDArray[np.uint8]
    left_out: int


def feature_names(graph: Graph) -> list[str]:
    """The names of the columns, or "feature 0", "feature 1", .."""
    return list(graph.feature_names) or [f"feature {j}" for j in range(graph.n_features)]


def telling_features(graph: Graph, shown: NDArray[np.intp], about: tuple[Any, Any, Any]) -> Telling:
    """The features of each of the nodes `shown` that are least expected, `about` being `column_facts`.

    A feature that nodes have or lack (no negative value, zero for a tenth of the nodes or more): -log of the share
    of nodes that have it, for those that do. A number: half its squared distance from the mean, in deviations.
    """
    x: Any = graph.x
    column = np.full((len(shown), TELLING), -1, np.int32)
    value = np.zeros((len(shown), TELLING), np.float32)
    if sp.issparse(x):
        _sparse_telling(x[shown], about, column, value)
        return Telling(column, value)
    step = max(1, _BLOCK // x.shape[1])
    for i in range(0, len(shown), step):
        column[i : i + step], value[i : i + step] = told_of(x[shown[i : i + step]], about)
    return Telling(column, value)


def told_of(x: Any, about: tuple[Any, Any, Any]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Columns and values (m, 4) of the features that are least expected in each of the dense rows `x`."""
    column, value = np.full((len(x), TELLING), -1, np.int32), np.zeros((len(x), TELLING), np.float32)
    rows = np.asarray(x, dtype=np.float64)
    surprise = _surprise(rows, *about)
    best = np.argsort(-surprise, axis=1, kind="stable")[:, :TELLING]
    told = np.take_along_axis(surprise, best, 1) > _TOLD
    width = best.shape[1]
    column[:, :width] = np.where(told, best, -1)
    value[:, :width] = np.where(told, np.take_along_axis(rows, best, 1), 0)
    return column, value


def _surprise(values: NDArray[np.float64], share: Any, mean: Any, spread: Any) -> NDArray[np.float64]:
    rarity = np.where(values != 0, -np.log(np.maximum(share, 1e-12)), 0)
    return np.where(number_columns(share), deviations(values, mean, spread) ** 2 / 2, rarity)


def number_columns(share: Any) -> Any:
    """Whether each column is a number, not something that nodes have or lack, by its `column_facts`."""
    return share >= 0.9


def deviations(values: Any, mean: Any, spread: Any) -> Any:
    """How far `values` lie from their mean, in standard deviations."""
    return (values - mean) / np.where(spread > 0, spread, 1)


def _sparse_telling(x: Any, about: tuple[Any, Any, Any], column: Any, value: Any) -> None:
    every = _surprise(x.data.astype(np.float64), *(facts[x.indices] for facts in about))
    for i in range(x.shape[0]):
        part = slice(x.indptr[i], x.indptr[i + 1])
        best = np.argsort(-every[part], kind="stable")[:TELLING]
        best = best[every[part][best] > _TOLD]
        column[i, : len(best)] = x.indices[part][best]
        value[i, : len(best)] = x.data[part][best]


def column_facts(x: Any, blocks: Iterable[Any] | None = None) -> tuple[Any, Any, Any]:
    """Of each column: share of rows that are not zero (1 where a value is negative), mean and deviation.

    `blocks` are the `block_facts` of all blocks in order, where they were found elsewhere.
    """
    n, f = x.shape
    filled, total, squares, low = np.zeros(f), np.zeros(f), np.zeros(f), np.zeros(f)
    for found in map(block_facts, feature_blocks(x)) if blocks is None else blocks:
        filled += found[0]
        total += found[1]
        squares += found[2]
        low = np.minimum(low, found[3])
    mean = total / n
    spread = np.sqrt(np.maximum(squares / n - mean**2, 0))
    return np.where(low < 0, 1.0, filled / n), mean, spread


def feature_blocks(x: Any) -> Iterator[Any]:
    """The rows in blocks of some four million values."""
    step = max(1, _BLOCK // x.shape[1])
    return (x[i : i + step] for i in range(0, x.shape[0], step))


def block_facts(rows: Any) -> tuple[Any, Any, Any, Any]:
    """Of each column of a block: values that are not zero, their sum, sum of squares, and the least value or 0."""
    if sp.issparse(rows):
        f, values = rows.shape[1], rows.data.astype(np.float64)
        low = np.zeros(f)
        np.minimum.at(low, rows.indices, rows.data)
        filled = np.bincount(rows.indices[rows.data != 0], minlength=f)
        total, squares = (np.bincount(rows.indices, weights=w, minlength=f) for w in (values, values**2))
        return filled, total, squares, low
    rows = np.asarray(rows, dtype=np.float64)
    return np.count_nonzero(rows, axis=0), rows.sum(axis=0), (rows**2).sum(axis=0), np.minimum(0, rows.min(axis=0))


def stored_columns(graph: Graph, shown: NDArray[np.intp], first: list[str], budget: int = BUDGET) -> Columns:
    """As many feature columns as `budget` bytes hold, those named in `first` before the others in table order."""
    x: Any = graph.x
    names = feature_names(graph)
    place = {name: j for j, name in enumerate(names)}
    order = list(dict.fromkeys([*(place[name] for name in first if name in place), *range(len(names))]))
    rows = sp.csc_array(x[shown]) if sp.issparse(x) else None
    facts: list[dict[str, Any]] = []
    starts, nodes, levels = [0], [], []
    dense: list[NDArray[np.uint8]] = []
    spent = 0
    for j in order:
        values = _column(rows, j, len(shown)) if rows is not None else np.asarray(x[shown, j], dtype=np.float32)
        filled = np.flatnonzero(values)
        sparse = 5 * len(filled) < len(values)
        spent += 5 * len(filled) if sparse else len(values)
        if spent > budget:
            break
        low, high = _range(values, sparse)
        level = _levels(values[filled] if sparse else values, low, high)
        facts.append({"name": names[j], "low": low, "high": high, "sparse" if sparse else "dense": len(starts) - 1})
        if sparse:
            nodes.append(filled.astype(np.uint32))
            levels.append(level)
            starts.append(starts[-1] + len(filled))
        else:
            facts[-1]["dense"] = len(dense)
            dense.append(level)
    return Columns(
        facts=facts,
        start=np.array(starts, np.uint32),
        node=np.concatenate(nodes) if nodes else np.empty(0, np.uint32),
        level=np.concatenate(levels) if levels else np.empty(0, np.uint8),
        dense=np.concatenate(dense) if dense else np.empty(0, np.uint8),  # column after column
        left_out=len(names) - len(facts),
    )


def _column(rows: Any, j: int, n: int) -> NDArray[np.float32]:
    part = slice(rows.indptr[j], rows.indptr[j + 1])
    column = np.zeros(n, np.float32)
    column[rows.indices[part]] = rows.data[part]
    return column


def _range(values: NDArray[Any], sparse: bool) -> tuple[float, float]:
    """The ends of the colour scale: least and largest value; without the outer half percents of a dense column."""
    if sparse:
        return min(0.0, float(values.min())), max(0.0, float(values.max()))
    low, high = np.quantile(values, [0.005, 0.995])
    return (float(low), float(high)) if high > low else (float(values.min()), float(values.max()))


def _levels(values: NDArray[Any], low: float, high: float) -> NDArray[np.uint8]:
    share = (values - low) / (high - low) if high > low else np.zeros(len(values))
    return np.asarray(np.rint(_LEVELS * np.clip(share, 0, 1)), dtype=np.uint8)
