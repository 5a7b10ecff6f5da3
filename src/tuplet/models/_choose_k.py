"""How many groups? Without labels there is an answer, a range around it, and what each number would give.

For each k K-Means runs on a sample of rows. Its score is modularity times silhouette. Then the sample is cut into
halves that are clustered apart: do both find the same groups (adjusted Rand index)? The answer is, of the numbers
whose score comes near the best, the one on which the halves agree most. Where the edges alone clearly tell more
groups apart (`edge_groups`), it is their number. The range holds those numbers, larger ones on which the halves
agree, and reaches up to where modularity no longer grows: the edges would bear so many groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._seed import stream
from tuplet.graph import Graph
from tuplet.models._edge_groups import EdgeGroups, edge_groups
from tuplet.rows.kmeans import kmeans
from tuplet.rows.lloyd import nearest_centre, simplified_silhouette
from tuplet.training.criteria import sample_edges, sample_rows, sampled_modularity

MOST = 200  # groups that are tried
_SAMPLE = 4000  # rows, and edges, that judge a number of groups
_NEAR_BEST = 0.95  # of the best score: does as well
_AGREE, _BY_AND_LARGE, _EQUAL = 0.9, 0.75, 0.02  # index of two halves: the same groups; alike; no difference
_ROWS_EACH = 8  # of half the sample, a group at least
_STARTS = 4

RowsOf = Callable[[Any, int], NDArray[np.float32]]


@dataclass(frozen=True)
class Candidate:
    """What `k` groups would be like. `agreement` of two halves of the sample: 1 where they find the same groups."""

    k: int
    score: float
    silhouette: float
    modularity: float | None
    agreement: float
    smallest: float
    largest: float


@dataclass(frozen=True)
class Choice:
    """The number of groups, the range in which others do as well, and all that were tried."""

    k: int
    range: tuple[int, int]
    candidates: tuple[Candidate, ...]
    edges: EdgeGroups | None = None

    @property
    def sure(self) -> bool:
        """Whether no number but its neighbour does as well, halves agree on the groups, and edges tell no more."""
        own = next(one for one in self.candidates if one.k == self.k)
        more = self.edges is not None and self.edges.count > self.k + 1
        return self.range[1] - self.range[0] <= 1 and own.agreement >= _AGREE and not more

    def table(self) -> list[dict[str, Any]]:
        """One row for each number that was tried."""
        return [asdict(one) for one in self.candidates]


def choose_groups(rows_of: RowsOf, graph: Graph, seed: int) -> Choice:
    """The choice for rows that `rows_of(nodes, k)` gives for a clustering into k groups."""
    edges, sample = sample_edges(graph, seed, size=_SAMPLE), sample_rows(graph.n_nodes, seed, size=_SAMPLE)
    tried: list[Candidate] = []
    most = min(MOST, len(sample) // (2 * _ROWS_EACH))
    for k in candidates(most):
        tried.append(_candidate(rows_of, k, sample, edges, seed))
        if k > 20 and _is_past(tried):
            break
    more = _between([one.k for one in tried], _chosen(tried).k)
    told = edge_groups(graph, most, seed)
    if told is not None and told.clear and told.count not in {one.k for one in tried} | set(more):
        more.append(told.count)
    tried += [_candidate(rows_of, k, sample, edges, seed) for k in more]
    return _chosen(sorted(tried, key=lambda one: one.k), told)


def _is_past(tried: list[Candidate]) -> bool:
    """Whether the last four are no answer, and their edges lie inside of groups no more than before."""
    last, before = tried[-4:], tried[:-4]
    best = _good(tried)[0].score
    level = max((one.modularity or 0.0 for one in before), default=0.0)
    return all(
        one.score < 0.8 * best and one.agreement < _AGREE and (one.modularity or 0.0) <= 1.01 * level for one in last
    )


def _between(tried: list[int], k: int) -> list[int]:
    """Numbers around k that were stepped over, eight at most."""
    place = tried.index(k)
    low, high = tried[max(0, place - 1)], tried[min(len(tried) - 1, place + 1)]
    missing = [other for other in range(low, high) if other not in tried]
    return missing[:: -(-len(missing) // 8) or 1]


def _candidate(rows_of: RowsOf, k: int, sample: NDArray[np.int64], edges: Any, seed: int) -> Candidate:
    rows = rows_of(sample, k)
    found = kmeans(rows, k, seed=seed, n_init=_STARTS, unit_rows=False, device="cpu")
    silhouette, modular = simplified_silhouette(rows, found.centres), None
    if edges is not None:
        modular = sampled_modularity((rows_of(edges[:, 0], k), rows_of(edges[:, 1], k)), found)
    score = silhouette * (1.0 if modular is None else max(0.0, modular))
    shares = np.bincount(found.labels, minlength=k) / len(rows)
    agreement = _agreement(rows, k, seed)
    return Candidate(k, score, silhouette, modular, agreement, float(shares.min()), float(shares.max()))


def _agreement(rows: NDArray[np.float32], k: int, seed: int) -> float:
    """Adjusted Rand index on one half of the rows: its own clusters against those of the other half's centres."""
    from sklearn.metrics import adjusted_rand_score

    if len(rows) < 2 * _ROWS_EACH * k:
        return 0.0
    order = stream(seed, "halves").permutation(len(rows))
    one, two = rows[order[::2]], rows[order[1::2]]
    theirs, own = (kmeans(half, k, seed=seed, n_init=_STARTS, unit_rows=False, device="cpu") for half in (one, two))
    return float(adjusted_rand_score(own.labels, nearest_centre(two, theirs.centres)))


def _chosen(tried: list[Candidate], edges: EdgeGroups | None = None) -> Choice:
    """Of the numbers with a score near the best: the one that halves agree on most, the smallest of equals.

    The number of groups that the edges tell apart is taken instead, where it is clear and larger.
    """
    good = _good(tried)
    most = max(one.agreement for one in good)
    k = next(one.k for one in good if one.agreement >= most - _EQUAL)
    stable = [one.k for one in tried if one.k > k and one.agreement >= _AGREE]
    told = edges.count if edges is not None and edges.clear else 0
    upper = max([good[-1].k, *stable, *_enough_modularity(tried), told])
    return Choice(max(k, told), (good[0].k, upper), tuple(tried), edges)


def _good(tried: list[Candidate]) -> list[Candidate]:
    """Those with a score near the best, among the numbers on whose groups the halves agree by and large."""
    known = [one for one in tried if one.agreement >= _BY_AND_LARGE] or tried
    best = max(one.score for one in known)
    return [one for one in known if one.score >= _NEAR_BEST * best]


def _enough_modularity(tried: list[Candidate]) -> list[int]:
    """The smallest number whose modularity comes near the largest: the edges would bear so many groups."""
    largest = max(one.modularity or 0.0 for one in tried)
    return [one.k for one in tried if largest > 0 and (one.modularity or 0.0) >= _NEAR_BEST * largest][:1]


def candidates(most: int) -> list[int]:
    """Every k from 2 to 20, then steps of a sixth, up to `most`.

    >>> candidates(30)[-4:]
    [19, 20, 23, 27]
    """
    found = [k for k in range(2, 21) if k <= most] or [2]
    while found[-1] >= 20 and (following := round(found[-1] * 7 / 6)) <= most:
        found.append(following)
    return found
