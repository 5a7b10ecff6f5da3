"""Where the nodes stand on the map: t-SNE by openTSNE, seeded; new nodes are placed without moving the old ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet._check import MissingExtraError
from tuplet._seed import seed_of, stream
from tuplet.rows.kmeans import kmeans
from tuplet.rows.lloyd import nearest_centre
from tuplet.rows.svd import truncated_svd

NEIGHBOURS = 30  # of each node, for the map; t-SNE's perplexity is a third of it
REDUCED = 64  # columns in which the neighbours of many nodes are looked for
EXACT_UP_TO = 20_000  # nodes; their neighbours are found in all columns
WITHOUT_EXTRA = 5000  # nodes that scikit-learn's slower t-SNE draws where openTSNE is not installed
_PROBES = 24  # nearest cells that are searched
_BLOCK = 2**25  # similarities held at once

Near = tuple[NDArray[np.int64], NDArray[np.float32]]
Find = Callable[["Search"], Iterable[tuple[NDArray[Any], NDArray[np.int64], NDArray[np.float32]]]]


@dataclass(frozen=True, eq=False)
class Search:
    """The nearest `k` rows of each row of `z` (unit rows) in pieces that can be found apart.

    A group is (members, sorted candidates, among which the members are); `narrow` (n, at most 64), where it is given,
    has the directions in which three times as many candidates are compared first.
    """

    z: NDArray[np.float32]
    k: int
    groups: Sequence[tuple[NDArray[np.intp], NDArray[np.intp]]]
    narrow: NDArray[np.float32] | None = None

    def pieces(self) -> list[tuple[int, int, int]]:
        """(group, first, last) of the members that are handled at once."""
        found = []
        for g, (members, candidates) in enumerate(self.groups):
            step = max(1, _BLOCK // max(len(candidates), self._wide(candidates) * self.z.shape[1]))
            found += [(g, i, min(len(members), i + step)) for i in range(0, len(members), step)]
        return found

    def nearest(self, piece: tuple[int, int, int]) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.float32]]:
        """The members of a piece, and indices and cosines (m, k) of the rows nearest to them."""
        group, first, last = piece
        members, candidates = self.groups[group]
        some, whole = members[first:last], torch.from_numpy(self.z)
        rows = whole if self.narrow is None else torch.from_numpy(self.narrow)
        found = _best(rows, some, candidates, self._wide(candidates))
        exact = torch.einsum("ij,ikj->ik", whole[some], whole[found])
        order = torch.argsort(exact, dim=1, descending=True, stable=True)[:, : self.k]
        return some, found.gather(1, order).numpy(), exact.gather(1, order).numpy()

    def _wide(self, candidates: NDArray[np.intp]) -> int:
        return min(self.k if self.narrow is None else 3 * self.k, len(candidates) - 1)


def near_rows(
    z: NDArray[np.float32], k: int, *, seed: int = 0, progress: Any = None, find: Find | None = None
) -> Near:
    """Indices and cosines (n, k) of the rows of `z` (unit rows) nearest to each row, itself left out, best first.

    Up to `EXACT_UP_TO` rows every pair is compared. Beyond, the candidates of a row are the rows of the cells
    (K-Means, some sqrt(n) of them) nearest to its own, compared in 64 principal directions and then ordered by the
    cosine in all columns: near to exact, not exact. `find` finds the pieces elsewhere.
    """
    z, k = np.ascontiguousarray(z), min(k, len(z) - 1)
    index, cosine = np.empty((len(z), k), np.int64), np.empty((len(z), k), np.float32)
    search, done = _search(z, k, seed), 0
    for some, near, exact in find(search) if find else map(search.nearest, search.pieces()):
        index[some], cosine[some] = near, exact
        done += len(some)
        if progress is not None:
            progress("neighbours", done / len(z))
    return index, cosine


def _search(z: NDArray[np.float32], k: int, seed: int) -> Search:
    if len(z) <= EXACT_UP_TO:
        return Search(z, k, [(np.arange(len(z)), np.arange(len(z)))])
    narrow = _narrow(z, seed)
    return Search(z, k, _cells(narrow, 4 * k, seed), narrow)


def _best(rows: torch.Tensor, some: NDArray[np.intp], candidates: NDArray[np.intp], k: int) -> torch.Tensor:
    """Of the sorted `candidates` the k most similar to each of the rows `some` (which are among them), not itself."""
    block = rows[some] @ rows[candidates].T
    block[torch.arange(len(some)), torch.from_numpy(np.searchsorted(candidates, some))] = -torch.inf
    return torch.from_numpy(candidates)[torch.topk(block, k, dim=1).indices]


def _narrow(z: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    if z.shape[1] <= REDUCED:
        return np.ascontiguousarray(z)
    return np.ascontiguousarray(z @ truncated_svd(z, REDUCED, seed=seed).right, dtype=np.float32)


def _cells(rows: NDArray[np.float32], least: int, seed: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """For each cell its rows and the sorted rows of the cells nearest to it: `_PROBES` of them, and `least` rows."""
    sample = np.sort(stream(seed, "report cells").permutation(len(rows))[:EXACT_UP_TO])
    centres = kmeans(rows[sample], int(len(rows) ** 0.5), seed=seed, n_init=1, unit_rows=False).centres
    place = nearest_centre(rows, centres)
    members = np.split(np.argsort(place, kind="stable"), np.cumsum(np.bincount(place, minlength=len(centres)))[:-1])
    squares = np.sum(centres**2, axis=1)
    order = np.argsort(squares - 2 * centres @ centres.T, axis=1, kind="stable")
    sizes = np.array([len(part) for part in members])
    found = []
    for cell, own in enumerate(members):
        enough = max(_PROBES, int(np.searchsorted(np.cumsum(sizes[order[cell]]), least)) + 1)
        around = np.unique(np.concatenate([own, *(members[other] for other in order[cell][:enough])]))
        if len(own):
            found.append((own, around))
    return found


def map_nodes(z: NDArray[np.float32], near: Near, *, seed: int = 0, progress: Any = None) -> NDArray[np.float32]:
    """Two coordinates in [-1, 1] for each row of `z` (unit rows), from its neighbours `near`; seeded."""
    if len(z) < 8:
        return _framed(_circle(len(z)))
    try:
        import openTSNE
    except ImportError:
        return _framed(_plain_tsne(z, seed))
    from openTSNE.affinity import PerplexityBasedNN
    from openTSNE.nearest_neighbors import PrecomputedNeighbors

    index, cosine = near
    away = np.sqrt(np.maximum(2 - 2 * cosine.astype(np.float64), 0)) + 1e-9
    perplexity = max(1.5, min(10.0, index.shape[1] / 3))
    affinities = PerplexityBasedNN(knn_index=PrecomputedNeighbors(index, away), perplexity=perplexity, n_jobs=-1)

    done = 0

    def tell(iteration: int, error: float, embedding: Any) -> bool:
        nonlocal done
        done += 50
        if progress is not None:
            progress("map", min(1.0, done / 750))
        return False

    model = openTSNE.TSNE(
        random_state=seed_of(seed, "tsne") % 2**32,
        negative_gradient_method="bh" if len(z) < 5000 else "fft",
        callbacks=tell,
        callbacks_every_iters=50,
        n_jobs=-1,
    )
    return _framed(np.asarray(model.fit(affinities=affinities, initialization=_start(z, seed))))


def place_new(
    z: NDArray[np.float32], old: NDArray[np.intp], places: NDArray[np.float32], *, k: int = 10
) -> NDArray[np.float32]:
    """Places (n, 2) of all rows of `z`: those of the rows `old` stay as `places`; each other row stands at the
    median of its `k` nearest old rows, by cosine, nudged to the nearest of them (a third of the way).
    """
    out = np.empty((len(z), 2), np.float32)
    out[old] = places
    new = np.setdiff1d(np.arange(len(z)), old)
    base = torch.from_numpy(np.ascontiguousarray(z[old]))
    step = max(1, _BLOCK // max(1, len(old)))
    for i in range(0, len(new), step):
        rows = torch.from_numpy(np.ascontiguousarray(z[new[i : i + step]]))
        found = torch.topk(rows @ base.T, min(k, len(old)), dim=1).indices.numpy()
        around = places[found]
        out[new[i : i + step]] = (2 * np.median(around, axis=1) + around[:, 0]) / 3
    return out


def check_layout(n: int) -> None:
    """Raise, before any work, where `n` nodes need a package that is not installed."""
    if n <= WITHOUT_EXTRA:
        return
    try:
        import openTSNE  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            f"A map of {n} nodes needs openTSNE, which is not installed. Run: pip install 'tuplet[report]'. "
            f"Up to {WITHOUT_EXTRA} nodes (--sample {WITHOUT_EXTRA}) work without it."
        ) from error


def _start(z: NDArray[np.float32], seed: int) -> NDArray[np.float64]:
    """The two leading principal directions, scaled as t-SNE wants its start, a little noise between equal rows."""
    centred = z - z.mean(axis=0)
    rng = np.random.default_rng(seed_of(seed, "map start"))
    noise = rng.normal(scale=1e-6, size=(len(z), 2))
    if z.shape[1] < 2 or not centred.any():
        return np.asarray(1e-4 * rng.normal(size=(len(z), 2)))
    flat = np.asarray(centred @ truncated_svd(centred, 2, seed=seed).right, dtype=np.float64)
    return np.asarray(1e-4 * flat / max(float(flat[:, 0].std()), 1e-12) + noise)


def _plain_tsne(z: NDArray[np.float32], seed: int) -> NDArray[np.float64]:
    from sklearn.manifold import TSNE

    perplexity = min(10.0, (len(z) - 1) / 3)
    model = TSNE(perplexity=perplexity, init=_start(z, seed), random_state=seed_of(seed, "tsne") % 2**32)
    return np.asarray(model.fit_transform(z), dtype=np.float64)


def _circle(n: int) -> NDArray[np.float64]:
    angle = 2 * np.pi * np.arange(n) / max(1, n)
    return np.column_stack([np.cos(angle), np.sin(angle)])


def _framed(places: NDArray[Any]) -> NDArray[np.float32]:
    """Turned so that it spreads sidewards, centred, and scaled by one factor to -0.92..0.92 along the longer side."""
    places = places - places.mean(axis=0)
    turn = np.linalg.eigh(places.T @ places)[1][:, ::-1]
    places = places @ (turn * np.where(turn.sum(axis=0) < 0, -1, 1))
    low, high = places.min(axis=0), places.max(axis=0)
    return np.asarray((places - (low + high) / 2) * (1.84 / max(float((high - low).max()), 1e-12)), dtype=np.float32)
