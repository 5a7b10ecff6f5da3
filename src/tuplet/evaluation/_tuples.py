"""Similarities of sampled tuples (x, x', x0+, m positives, q negatives): what the paper's theory is stated in.

Expectations over p+ and p- are means over all nodes of the class and of the other classes, or over a sample
stratified by class where there are more than `n_reference`. Rows are scaled to unit length and
h(x, y) = exp(cos / t), t = 1 as in the proofs. Nodes without a label are left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuplet._check import InputError, check_int, check_labels, check_number
from tuplet._seed import stream
from tuplet.rows.unit import checked_vectors

Doubles = NDArray[np.float64]
_BLOCK = 2**22  # similarities computed together


@dataclass(frozen=True, eq=False)
class Tuples:
    """Similarities of sampled tuples, one entry an anchor x; each array is (a,).

    `m` positives and `q` negatives are drawn i.i.d. beside the one shared positive, m / (m + q) being the share
    tau+ of x's class. `view` = h(x, x'), x' the augmented counterpart; `shared` = h(x, x0+); `plus` and `minus` are
    sums over the m positives and q negatives, `minus_more` over m more negatives; `plus_mean` and `minus_mean`
    estimate E h(x, x+) and E h(x, x-).
    """

    anchors: NDArray[np.int64]
    m: NDArray[np.int64]
    q: NDArray[np.int64]
    tau_plus: Doubles
    view: Doubles
    shared: Doubles
    plus: Doubles
    minus: Doubles
    minus_more: Doubles
    plus_mean: Doubles
    minus_mean: Doubles
    temperature: float
    n_classes: int
    n_labelled: int
    with_views: bool


def sample_tuples(
    z: Any,
    y: ArrayLike,
    *,
    size: int = 1022,
    n_anchors: int = 2000,
    n_reference: int = 50_000,
    temperature: float = 1.0,
    views: Any = None,
    seed: int = 0,
) -> Tuples:
    """Tuples of `size` = m + q samples for up to `n_anchors` nodes; batches of b nodes have 2b - 2 (512: 1022).

    `views` (n, d) are the vectors of augmented nodes; without them x' = x, which the bounds on differences of two
    losses hardly feel. Classes of one node are no anchors: they have no positive.
    """
    z = checked_vectors(z)
    labels = check_labels("y", y, z.shape[0])
    size = check_int("size", size, minimum=2)
    t = check_number("temperature", temperature, low=0, open_low=True)
    rng = stream(seed, "theory")
    reference = _Reference(z, labels, check_int("n_reference", n_reference), rng)
    usable = np.flatnonzero((labels >= 0) & (reference.sizes[labels.clip(min=0)] > 1))
    if not len(usable):
        raise InputError("No class has two nodes, so there is no positive pair. Give more labels.")
    anchors = np.sort(rng.choice(usable, min(check_int("n_anchors", n_anchors), len(usable)), replace=False))
    parts = []
    for c in np.unique(labels[anchors]):
        nodes = anchors[labels[anchors] == c]
        for block in np.array_split(nodes, math.ceil(len(nodes) * len(reference.nodes) / _BLOCK)):
            parts.append(_similarities(z, views, block, c, reference, size, t, rng))
    return Tuples(
        **{name: np.concatenate([part[name] for part in parts]) for name in parts[0]},
        temperature=t,
        n_classes=int(np.count_nonzero(reference.sizes)),
        n_labelled=int(reference.sizes.sum()),
        with_views=views is not None,
    )


class _Reference:
    """Nodes that stand for all nodes, sorted by class: all labelled ones, or a sample stratified by class."""

    def __init__(self, z: Any, labels: NDArray[np.int64], limit: int, rng: np.random.Generator) -> None:
        self.sizes = np.bincount(labels[labels >= 0])
        if np.count_nonzero(self.sizes) < 2:
            raise InputError("The labels hold fewer than two classes, so there is no negative pair.")
        share = min(1.0, limit / self.sizes.sum())
        groups = [np.flatnonzero(labels == c) for c in range(len(self.sizes))]
        if share < 1:
            wanted = [min(len(g), max(100, round(share * len(g)))) for g in groups]
            groups = [np.sort(rng.choice(g, w, replace=False)) for g, w in zip(groups, wanted)]
        self.nodes = np.concatenate(groups)
        self.counts = np.array([len(g) for g in groups])
        self.starts = np.concatenate([[0], np.cumsum(self.counts)])
        self.rows = _unit(z, self.nodes)

    def expectations(self, h: Doubles, c: int, own: NDArray[np.int64]) -> tuple[Doubles, Doubles]:
        """Means of h (a, reference) over class c, each anchor itself left out, and over all other classes."""
        filled = np.flatnonzero(self.counts)
        sums = np.zeros((len(h), len(self.counts)))
        sums[:, filled] = np.add.reduceat(h, self.starts[filled], axis=1)
        itself = np.where(own >= 0, h[np.arange(len(h)), own], 0.0)
        plus = (sums[:, c] - itself) / (self.counts[c] - (own >= 0))
        shares = np.where(np.arange(len(self.sizes)) == c, 0, self.sizes)
        return plus, sums @ (shares / np.maximum(self.counts, 1)) / shares.sum()

    def draw_positives(self, c: int, own: NDArray[np.int64], m: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """(a, m) places of class c, each row without its own place `own` (a,), which is -1 where not in here."""
        free = self.counts[c] - (own >= 0)
        places = self.starts[c] + np.floor(rng.random((len(own), m)) * free[:, None]).astype(np.int64)
        shifted: NDArray[np.int64] = places + ((own[:, None] >= 0) & (places >= own[:, None]))
        return shifted

    def draw_negatives(self, c: int, shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.int64]:
        """Places of other classes, a class as likely as it is large."""
        shares = np.where(np.arange(len(self.sizes)) == c, 0, self.sizes)
        classes = np.searchsorted(np.cumsum(shares), rng.random(shape) * shares.sum(), "right")
        places: NDArray[np.int64] = self.starts[classes] + (rng.random(shape) * self.counts[classes]).astype(np.int64)
        return places

    def places_of(self, nodes: NDArray[np.int64], c: int) -> NDArray[np.int64]:
        own = self.nodes[self.starts[c] : self.starts[c + 1]]
        found = np.searchsorted(own, nodes).clip(max=len(own) - 1)
        return np.where(own[found] == nodes, self.starts[c] + found, -1)


def _similarities(
    z: Any,
    views: Any,
    nodes: NDArray[np.int64],
    c: int,
    ref: _Reference,
    size: int,
    t: float,
    rng: np.random.Generator,
) -> dict[str, NDArray[Any]]:
    """The arrays of Tuples for anchors `nodes`, all of class c."""
    rows = _unit(z, nodes)
    h = np.exp(rows @ ref.rows.T / t)
    share = ref.sizes[c] / ref.sizes.sum()
    m = min(size - 1, max(1, round(share * size)))
    own = ref.places_of(nodes, c)
    positives = np.take_along_axis(h, ref.draw_positives(c, own, m + 1, rng), axis=1)
    negatives = np.take_along_axis(h, ref.draw_negatives(c, (len(nodes), size), rng), axis=1)
    plus_mean, minus_mean = ref.expectations(h, c, own)
    seen = rows if views is None else _unit(views, nodes)
    return {
        "anchors": nodes,
        "m": np.full(len(nodes), m),
        "q": np.full(len(nodes), size - m),
        "tau_plus": np.full(len(nodes), share),
        "view": np.exp(np.einsum("ij,ij->i", rows, seen) / t),
        "shared": positives[:, 0],
        "plus": positives[:, 1:].sum(axis=1),
        "minus": negatives[:, : size - m].sum(axis=1),
        "minus_more": negatives[:, size - m :].sum(axis=1),
        "plus_mean": plus_mean,
        "minus_mean": minus_mean,
    }


def _unit(z: Any, nodes: NDArray[np.int64]) -> Doubles:
    rows = z[nodes]
    rows = (rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)).astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled: Doubles = rows / np.where(lengths > 0, lengths, 1)
    return scaled
