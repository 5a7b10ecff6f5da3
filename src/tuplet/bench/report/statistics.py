"""When a difference counts: wins, ties, losses by t-tests over seeds, mean ranks over graphs (docs/protocol.md)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tuplet.bench.report.published import Number

LOWER_IS_BETTER = frozenset({"conductance", "convergence_seconds"})
LEVEL = 0.05
WIN, TIE, LOSS, UNTESTED = "win", "tie", "loss", "untested"


def verdict(ours: Number, other: Number, metric: str = "accuracy") -> str:
    """ "win", "tie" or "loss" of `ours` by Welch's test from means, deviations and numbers of runs; "untested" where
    one of them has a single run.

    >>> verdict(Number(80.0, 1.0, n=10), Number(78.0, 1.0)), verdict(Number(80.0, 3.0, n=10), Number(79.0, 3.0))
    ('win', 'tie')
    """
    from scipy.stats import ttest_ind_from_stats

    if min(ours.n, other.n) < 2:
        return UNTESTED
    spreads = [number.std * math.sqrt(number.n / (number.n - 1)) for number in (ours, other)]
    if max(spreads) == 0:
        return _named(ours.mean - other.mean, 0.0 if ours.mean != other.mean else 1.0, metric)
    result = ttest_ind_from_stats(ours.mean, spreads[0], ours.n, other.mean, spreads[1], other.n, equal_var=False)
    return _named(ours.mean - other.mean, float(result.pvalue), metric)


def paired_verdict(ours: Mapping[int, float], other: Mapping[int, float], metric: str = "accuracy") -> str:
    """The same by a paired t-test over the seeds (seed -> value) of both; for tasks where a seed is a split."""
    from scipy.stats import ttest_rel

    seeds = sorted(ours.keys() & other.keys())
    if len(seeds) < 2:
        return UNTESTED
    gaps = np.array([ours[seed] - other[seed] for seed in seeds])
    if np.ptp(gaps) == 0:
        return _named(float(gaps[0]), 0.0 if gaps[0] else 1.0, metric)
    p = float(ttest_rel([ours[seed] for seed in seeds], [other[seed] for seed in seeds]).pvalue)
    return _named(float(gaps.mean()), p, metric)


def _named(gap: float, p: float, metric: str) -> str:
    if not p < LEVEL:
        return TIE
    return WIN if (gap > 0) != (metric in LOWER_IS_BETTER) else LOSS


def tally(verdicts: Iterable[str]) -> str:
    """ "5 wins, 2 ties, 1 loss", and how many could not be tested.

    >>> tally(["win", "tie", "win", "loss"])
    '2 wins, 1 tie, 1 loss'
    """
    counts = Counter(verdicts)
    words = {WIN: ("win", "wins"), TIE: ("tie", "ties"), LOSS: ("loss", "losses")}
    parts = [f"{counts[kind]} {one if counts[kind] == 1 else many}" for kind, (one, many) in words.items()]
    rest = f" ({counts[UNTESTED]} with a single run, not tested)" if counts[UNTESTED] else ""
    return ", ".join(parts) + rest


def mean_ranks(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the graphs (rows) of each method's (column's) rank, 1 the largest; equal scores share their ranks.

    >>> mean_ranks(np.array([[3.0, 2.0, 1.0], [3.0, 1.0, 1.0]]))
    array([1.  , 2.25, 2.75])
    """
    from scipy.stats import rankdata

    ranks: NDArray[np.float64] = rankdata(-scores, axis=1).mean(axis=0)
    return ranks


def critical_difference(methods: int, graphs: int) -> float:
    """Nemenyi's: mean ranks closer than this are a tie, at 5% over all pairs (Demsar 2006).

    >>> round(critical_difference(5, 30), 3)
    1.114
    """
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - LEVEL, methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * graphs))


def cliques(ranks: Sequence[float], width: float) -> list[tuple[float, float]]:
    """The widest runs of sorted ranks whose ends are less than `width` apart: what a bar joins in the figure.

    >>> cliques([1.0, 1.5, 3.0], 1.0)
    [(1.0, 1.5)]
    """
    order = sorted(ranks)
    found: list[tuple[float, float]] = []
    for low in order:
        high = max(rank for rank in order if rank - low < width)
        if high > low and not any(a <= low and high <= b for a, b in found):
            found.append((low, high))
    return found
