"""The groups of SelfDMAT: found in rows, agreed on with the edges; and what is said where they cannot be trusted."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from tuplet.graph import Graph
from tuplet.metrics import modularity
from tuplet.models._agreement import agreed, beliefs_of
from tuplet.models._choose_k import Choice
from tuplet.models._self_labels import group_means, of_any_size
from tuplet.models.contract import Rows
from tuplet.rows.kmeans import kmeans
from tuplet.rows.lloyd import Labels

log = logging.getLogger("tuplet")
_UNLIKE = 0.2  # modularity of the groups below which neighbours are not alike


def found_groups(
    rows: Rows, k: int, *, seed: int, device: str, n_init: int = 1, known: Labels | None = None
) -> Labels:
    """Groups (n,) of the rows: those of K-Means, then of any size. K-Means goes on from those `known`, if any are."""
    centres = None if known is None else group_means(rows, known, k)
    found = kmeans(rows, k, seed=seed, n_init=n_init, unit_rows=False, device=device, centres=centres)
    return of_any_size(rows, found).labels


def agreed_groups(
    graph: Graph, labels: Labels, k: int, *sources: Rows, held: Callable[[Callable[[slice], Rows], list[Rows]], Rows]
) -> Labels:
    """`labels` (n,) after rounds in which the rows of all `sources` and the edges have a say.

    `held` makes what the sources say (n, k) by blocks of their rows, once for all rounds.
    """
    if not graph.n_stored:
        return labels
    rows = list(sources)
    return agreed(graph, held(beliefs_of(labels, k, rows), rows), labels, len(rows))


def alike(graph: Graph, labels: Labels) -> float | None:
    """The modularity of groups, None without edges: whether neighbours are alike; it is said where they are not."""
    if not graph.n_stored:
        return None
    found = modularity(graph, labels)
    if found < _UNLIKE:
        log.warning(
            "Neighbours are seldom in the same group (modularity %.2f; below %.1f the edges may join unlike "
            "nodes, or be noise). Compare with the features alone (tuplet.baselines.KMeansFeatures) or with a "
            "short filter, SelfDMAT(far=0.5, near=0.8).",
            found,
            _UNLIKE,
        )
    return found


def tell_empty(labels: Labels, k: int) -> None:
    """Say where fewer than the k groups that were asked for have nodes."""
    found = len(np.unique(labels))
    if found < k:
        log.warning(
            "%d groups were asked for, and %d have nodes: the rows do not tell more apart. Give a smaller n_clusters "
            "(-k), or look at the features: columns that are constant or empty say nothing.",
            k,
            found,
        )


def tell_unsure(choice: Choice, edges: int | None) -> None:
    """Say where the graph does not tell clearly how many groups it has; `edges` is how many they tell apart."""
    if choice.sure:
        return
    more: Any = f"; the edges alone tell {edges} or more apart" if (edges or 0) > choice.range[1] else ""
    log.warning(
        "n_clusters was not given, and the graph does not say it clearly: %d to %d groups fit it, %d are "
        "taken%s. Give n_clusters (-k) where you know it; k_table_ tells what each number would give.",
        *choice.range,
        choice.k,
        more,
    )
