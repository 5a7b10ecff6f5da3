"""Label-free criteria: how clustered an embedding looks, measured on a fixed sample. No label is read here.

They watch training (`TrainConfig.criteria`) and may end it (`stop="auto"`). docs/LOG.md says how well each one
finds the best epoch: none of them does so reliably.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError, check_choice
from tuplet._seed import seed_of, stream
from tuplet.rows.kmeans import kmeans
from tuplet.rows.lloyd import Clusters, nearest_centre, simplified_silhouette
from tuplet.rows.unit import scale_rows

# name -> +1 where larger is better, -1 where smaller is
CRITERIA = {"silhouette": 1, "davies_bouldin": -1, "stability": 1, "modularity": 1, "effective_rank": -1}
SAMPLE = 2000  # rows, and edges


def criterion_values(
    z: NDArray[np.float32],
    names: Sequence[str],
    *,
    k: int = 10,
    seed: int = 0,
    ends: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None,
) -> dict[str, float]:
    """The criteria `names` of the vectors `z` (m, d), clustered into `k` by K-Means on unit rows.

    `ends` are the vectors of both ends of a sample of edges, (e, d) each; only "modularity" needs them.
    """
    rows = scale_rows(z)
    k = min(k, len(rows))
    found = kmeans(rows, k, seed=seed, n_init=3)
    values = {}
    for name in names:
        check_choice("criterion", name, CRITERIA)
        if name == "silhouette":
            values[name] = simplified_silhouette(rows, found.centres)
        elif name == "davies_bouldin":
            values[name] = davies_bouldin(rows, found)
        elif name == "stability":
            values[name] = stability(rows, k, seed=seed)
        elif name == "modularity":
            values[name] = sampled_modularity(ends, found)
        else:
            values[name] = effective_rank(rows)
    return values


def davies_bouldin(rows: NDArray[np.float32], found: Clusters) -> float:
    """Mean over clusters of the worst (spread_i + spread_j) / distance_ij; smaller is better.

    inf where there is one cluster, or as many as rows, or where all rows are alike.
    """
    from sklearn.metrics import davies_bouldin_score

    if not 2 <= len(np.unique(found.labels)) < len(rows) or np.ptp(rows, axis=0).max() < 1e-6:
        return math.inf
    return float(davies_bouldin_score(rows, found.labels))


def stability(rows: NDArray[np.float32], k: int, *, seed: int = 0, runs: int = 4) -> float:
    """Mean adjusted Rand index between K-Means runs with one start each; 1 where all find the same."""
    from sklearn.metrics import adjusted_rand_score

    labels = [kmeans(rows, k, seed=seed_of(seed, f"stability {run}") % 2**31, n_init=1).labels for run in range(runs)]
    pairs = [adjusted_rand_score(labels[i], labels[j]) for i in range(runs) for j in range(i)]
    return float(np.mean(pairs))


def sampled_modularity(ends: tuple[NDArray[np.float32], NDArray[np.float32]] | None, found: Clusters) -> float:
    """Modularity of the clusters, estimated on a sample of edges whose ends go to the nearest centre.

    The share of edges inside a cluster minus the sum of squared shares of edge ends: an end is drawn in proportion
    to its degree, so those shares are the ones that modularity asks for.
    """
    if ends is None:
        raise InputError('The criterion "modularity" needs edges. Give edges=... to train, or choose another one.')
    near = [nearest_centre(scale_rows(side), found.centres) for side in ends]
    share = np.bincount(np.concatenate(near), minlength=len(found.centres)) / (2 * len(near[0]))
    return float(np.mean(near[0] == near[1]) - np.sum(share**2))


def effective_rank(rows: NDArray[np.float32]) -> float:
    """exp of the entropy of the normalised singular values: how many directions the rows use.

    >>> round(effective_rank(np.eye(4, dtype=np.float32)), 3)
    4.0
    """
    values = np.linalg.svd(np.asarray(rows, np.float64), compute_uv=False)
    share = values[values > 0] / max(values.sum(), 1e-300)
    return float(np.exp(-np.sum(share * np.log(share))))


def sample_rows(n: int, seed: int, size: int = SAMPLE) -> NDArray[np.int64]:
    """Row numbers of the fixed sample, sorted: at most `size` of n."""
    if n <= size:
        return np.arange(n)
    return np.sort(stream(seed, "criteria rows").choice(n, size, replace=False, shuffle=False))


def sample_edges(graph: Any, seed: int, size: int = SAMPLE) -> NDArray[np.int64] | None:
    """(e, 2) ends of at most `size` stored edges of `graph`, drawn uniformly; None for a graph without edges."""
    if graph.n_stored == 0:
        return None
    rng = stream(seed, "criteria edges")
    picked = np.sort(rng.choice(graph.n_stored, min(size, graph.n_stored), replace=False, shuffle=False))
    source = np.searchsorted(graph.indptr, picked, side="right") - 1
    return np.column_stack([source, np.asarray(graph.indices[picked], dtype=np.int64)])
