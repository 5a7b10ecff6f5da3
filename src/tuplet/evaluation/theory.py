"""The paper's theory measured on vectors and labels: Lemma 1, Theorem 1, Theorem 2, tau0, negative hardness.

Each function takes vectors and labels (and what `sample_tuples` takes, to sample anchors with), or in their place
the Tuples that `sample_tuples` gave; `measure` runs them all on one sample. Any number of nodes will do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuplet._check import InputError, check_int, check_labels, check_number
from tuplet._seed import stream
from tuplet.evaluation._tuples import Tuples, sample_tuples
from tuplet.evaluation.links import pair_scores
from tuplet.evaluation.results import Result
from tuplet.graph import Graph
from tuplet.rows.unit import checked_vectors, scale_rows

__all__ = ["Theorem1", "Tuples", "lemma1", "measure", "negative_hardness", "negative_similarities", "quartiles"]
__all__ += ["lemma_a1", "sample_tuples", "supervised_loss", "tau0", "theorem1", "theorem2"]

Doubles = NDArray[np.float64]
_RESAMPLES = 200


def lemma1(z: Any, y: ArrayLike | None = None, **sampling: Any) -> dict[str, Doubles]:
    """DMT, DMAT and unbiased loss of each tuple, in the sampled and in the expected form; each array is (a,).

    Sampled: the unbiased loss has the q negatives of the others and m more (Eq. 2, 4, 5 on one tuple). Expected:
    means in place of the sums, as in the proof. Lemma 1 says that "dmt" and "dmat" never exceed "unbiased".
    """
    s = _as_tuples(z, y, sampling)
    itself = math.exp(1 / s.temperature)
    k = s.m + s.q
    forms = {"": (s.plus, s.minus, s.minus + s.minus_more)}
    forms["expected_"] = (s.m * s.plus_mean, s.q * s.minus_mean, k * s.minus_mean)
    losses = {}
    for name, (plus, minus, all_minus) in forms.items():
        losses[f"{name}dmt"] = np.log1p(minus / (itself + s.shared + plus))
        losses[f"{name}dmat"] = np.log1p(minus / (s.shared + plus))
        losses[f"{name}unbiased"] = np.log1p(all_minus / s.shared)
    return losses


def tau0(z: Any, y: ArrayLike | None = None, **sampling: Any) -> Doubles:
    """tau0 of each anchor (Eq. 8): tau+ |mean of m positives - E h-| / |mean of m positives - E h+|.

    The denominator is a sampling error of order 1 / sqrt(m), so tau0 has a heavy tail: look at quartiles, not at
    the mean. Where both differences vanish (all vectors equal) it is 0, where only the denominator does, infinite.
    """
    tuples = _as_tuples(z, y, sampling)
    mean = tuples.plus / tuples.m
    above, below = np.abs(mean - tuples.minus_mean), np.abs(mean - tuples.plus_mean)
    nothing = 1e-12 * mean
    ratio = np.divide(above, below, out=np.full_like(mean, np.inf), where=below > nothing)
    return np.where(above <= nothing, 0.0, tuples.tau_plus * ratio)


def quartiles(values: Doubles, *, seed: int = 0) -> dict[str, float]:
    """q1, median and q3 of `values` (a,), each with its standard error over the choice of anchors (bootstrap)."""
    marks = {"q1": 0.25, "median": 0.5, "q3": 0.75}
    found = np.quantile(values, list(marks.values()), method="inverted_cdf")
    draws = stream(seed, "bootstrap").integers(0, len(values), (_RESAMPLES, len(values)))
    again = np.quantile(values[draws], list(marks.values()), axis=1, method="inverted_cdf")
    errors = [float(row.std()) if np.isfinite(row).all() else math.inf for row in again]
    result = {name: float(value) for name, value in zip(marks, found)}
    return result | {f"{name}_error": error for name, error in zip(marks, errors)}


@dataclass(frozen=True, eq=False)
class Theorem1:
    """Both sides of |L_unbiased - L_DMAT-i| <= right. `left` and `right` (a,) are those of each anchor's tuple.

    `right` has the paper's constant e^3 - e. Hoeffding's inequality with the squared range gives (e^2 - 1)^2
    instead, 2.3 times as much: `right_hoeffding`. `gap` is the difference of the two mean losses, `gap_error` its
    standard error over anchors.
    """

    unbiased: Doubles
    dmati: Doubles
    left: Doubles
    right: Doubles
    right_hoeffding: Doubles

    @property
    def gap(self) -> float:
        return float(abs(np.mean(self.unbiased - self.dmati)))

    @property
    def gap_error(self) -> float:
        return float(np.std(self.unbiased - self.dmati) / math.sqrt(len(self.left)))

    @property
    def holds(self) -> float:
        """Share of anchors whose left side is at most the right one."""
        return float(np.mean(self.left <= self.right))


def theorem1(z: Any, y: ArrayLike | None = None, **sampling: Any) -> Theorem1:
    """Both losses and both sides of Theorem 1 for each anchor."""
    s = _as_tuples(z, y, sampling)
    t = s.temperature
    unbiased = np.log1p((s.m + s.q) * s.minus_mean / s.view)
    dmati = np.log1p((s.plus + s.minus) / s.view)
    spread = math.exp(1 / t) - math.exp(-1 / t)
    terms = tau0(s) / np.sqrt(s.m) + (1 - s.tau_plus) / np.sqrt(s.q)
    sides = [terms * math.sqrt(2 * math.pi * math.exp(2 / t) * c) for c in (spread, spread**2)]
    return Theorem1(unbiased, dmati, np.abs(unbiased - dmati), *sides)


def lemma_a1(z: Any, y: ArrayLike | None = None, *, epsilon: float, **sampling: Any) -> dict[str, float]:
    """Lemma A.1: the share of anchors whose two losses differ by `epsilon` or more, and the mean of its bound,
    2 exp(-m e^2 / (2 c tau0^2)) + 2 exp(-q e^2 / (2 c (1 - tau+)^2)), c = e^3 - e. Above 1 it says nothing.

    tau0 is a quotient of the very draws that the bound is about, so the bound varies from anchor to anchor.
    """
    s = _as_tuples(z, y, sampling)
    e = check_number("epsilon", epsilon, low=0, open_low=True)
    width = 2 * (math.exp(3) - math.e)
    with np.errstate(divide="ignore"):
        parts = [np.exp(-n * e**2 / (width * tau**2)) for n, tau in ((s.m, tau0(s)), (s.q, 1 - s.tau_plus))]
    return {"share": float(np.mean(theorem1(s).left >= e)), "bound": float(np.mean(2 * parts[0] + 2 * parts[1]))}


def theorem2(
    z: Any,
    y: ArrayLike | None = None,
    *,
    d: int | None = None,
    delta: float = 0.05,
    rademacher: float | None = None,
    **sampling: Any,
) -> dict[str, float]:
    """The terms of Theorem 2: DMAT-i loss, and the four under the O(..), medians over anchors where they vary.

    `rademacher` is R_S(F) of the encoders F. Without it, F are the linear maps of the measured unit vectors (n, d)
    with Frobenius norm at most sqrt(d) (the identity is one), where R_S(F) <= d sqrt((m + q + 2) N). `d` is read
    from `z` unless that is Tuples.
    """
    tuples = _as_tuples(z, y, sampling)
    d = check_int("d", np.shape(z)[1] if d is None and not isinstance(z, Tuples) else d)
    delta = check_number("delta", delta, low=0, high=1, open_low=True, open_high=True)
    k, n = int(tuples.m[0] + tuples.q[0]), tuples.n_labelled
    complexity = d * math.sqrt((k + 2) * n) if rademacher is None else check_number("rademacher", rademacher, low=0)
    lam, gamma = k * math.e / (k + math.e), math.log(k)
    return {
        "dmati": float(theorem1(tuples).dmati.mean()),
        "false_negatives": float(np.quantile(tau0(tuples) / np.sqrt(tuples.m), 0.5, method="inverted_cdf")),
        "negatives": float(np.median((1 - tuples.tau_plus) / np.sqrt(tuples.q))),
        "complexity": lam * complexity / n,
        "confidence": gamma * math.sqrt(math.log(1 / delta) / n),
        "lambda": lam,
        "gamma": gamma,
        "enough_negatives": float(tuples.q.min() >= tuples.n_classes - 1),
    }


def supervised_loss(z: Any, y: ArrayLike, *, sample: int = 20_000, seed: int = 0) -> float:
    """L_Sup: cross entropy of the best linear classifier f W^T on unit rows, fitted to at most `sample` of them."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    z = checked_vectors(z)
    labels = check_labels("y", y, z.shape[0])
    known = np.flatnonzero(labels >= 0)
    if len(np.unique(labels[known])) < 2:
        raise InputError("The labels hold fewer than two classes, so there is nothing to classify.")
    if len(known) > sample:
        known = np.sort(stream(seed, "supervised").choice(known, sample, replace=False))
    rows = scale_rows(z[known])
    model = LogisticRegression(C=1e4, fit_intercept=False, max_iter=5000).fit(rows, labels[known])
    return float(log_loss(labels[known], model.predict_proba(rows), labels=model.classes_))


def negative_similarities(z: Any, y: ArrayLike, *, n_pairs: int = 100_000, seed: int = 0) -> Doubles:
    """Cosine similarity of random pairs of nodes with different labels: (n_pairs,).

    Vectors may be dense, CSR or a memory map; a row of zeros has similarity 0. The pairs depend on labels and seed
    alone, so that raw, filtered and learned vectors are compared on the same ones.
    """
    z = checked_vectors(z)
    labels = check_labels("y", y, z.shape[0])
    pairs = _negative_pairs(labels, check_int("n_pairs", n_pairs), stream(seed, "hardness"))
    return pair_scores(z, pairs, "unit").clip(-1, 1)


def negative_hardness(
    z: Any, y: ArrayLike, *, edges: ArrayLike | None = None, n_pairs: int = 100_000, seed: int = 0
) -> NDArray[np.int64]:
    """Histogram (bins,) of `negative_similarities` over `edges` (bins + 1,), 40 bins from -1 to 1 by default.

    A bin that holds the share p of the pairs has the standard error sqrt(p (1 - p) / n_pairs).
    """
    marks = np.linspace(-1, 1, 41) if edges is None else np.asarray(edges)
    return np.histogram(negative_similarities(z, y, n_pairs=n_pairs, seed=seed), marks)[0].astype(np.int64)


def measure(
    z: Any,
    graph: Graph,
    *,
    temperature: float = 1.0,
    seed: int = 0,
    y: ArrayLike | None = None,
    spaces: Mapping[str, Any] | None = None,
    **sampling: Any,
) -> Result:
    """Every statement on the vectors `z` (n, d) and the labels of `graph` (or `y`), as plain numbers, not percent.

    The negative hardness is also measured for graph.x ("raw") and for further vectors given as `spaces`, such as
    {"filtered": h}. `*_error` are standard errors over the sample. `sampling` goes to `sample_tuples`.
    """
    start = time.perf_counter()
    labels = graph.y if y is None else y
    if labels is None:
        raise InputError("The theory is about classes, and the graph has no labels. Give y=...")
    tuples = sample_tuples(z, labels, temperature=temperature, seed=seed, **sampling)
    losses, sides = lemma1(tuples), theorem1(tuples)
    below = (losses["dmt"] <= losses["dmat"]) & (losses["dmat"] <= losses["unbiased"])
    raw = {} if graph.x is None else {"raw": graph.x}
    values = {
        **{f"lemma1_{name}": float(losses[name].mean()) for name in ("dmt", "dmat", "unbiased")},
        "lemma1_holds": float(below.mean()),
        "theorem1_left": sides.gap,
        "theorem1_left_error": sides.gap_error,
        "theorem1_right": float(np.quantile(sides.right, 0.5, method="inverted_cdf")),
        "theorem1_holds": sides.holds,
        **{f"tau0_{name}": value for name, value in quartiles(tau0(tuples), seed=seed).items()},
        "theorem2_supervised": supervised_loss(z, labels, seed=seed),
        **{f"theorem2_{name}": value for name, value in theorem2(tuples, d=np.shape(z)[1]).items()},
        **_hardness_values({**raw, **(spaces or {}), "learned": z}, labels, seed),
    }
    sizes = {"anchors": len(tuples.anchors), "labelled": tuples.n_labelled, "classes": tuples.n_classes}
    settings = {"size": int(tuples.m[0] + tuples.q[0]), "temperature": tuples.temperature}
    notes = () if tuples.with_views else ("no views given: the augmented counterpart x' is x itself",)
    return Result("theory", values, seed, sizes, time.perf_counter() - start, settings, notes)


def _as_tuples(z: Any, y: ArrayLike | None, sampling: dict[str, Any]) -> Tuples:
    if isinstance(z, Tuples):
        return z
    if y is None:
        raise InputError("The theory is about classes: give the labels y beside the vectors.")
    return sample_tuples(z, y, **sampling)


def _hardness_values(spaces: Mapping[str, Any], y: ArrayLike, seed: int) -> dict[str, float]:
    values = {}
    for name, vectors in spaces.items():
        cosines = negative_similarities(vectors, y, seed=seed)
        values[f"hardness_{name}"] = float(cosines.mean())
        values[f"hardness_{name}_error"] = float(cosines.std() / math.sqrt(len(cosines)))
    return values


def _negative_pairs(labels: NDArray[np.int64], size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    known = np.flatnonzero(labels >= 0)
    if len(np.unique(labels[known])) < 2:
        raise InputError("The labels hold fewer than two classes, so there is no negative pair.")
    pairs = np.empty((0, 2), np.int64)
    while len(pairs) < size:
        draws = known[rng.integers(0, len(known), (2 * (size - len(pairs)) + 16, 2))]
        pairs = np.concatenate([pairs, draws[labels[draws[:, 0]] != labels[draws[:, 1]]]])
    return pairs[:size]
