"""SelfDMAT: vectors without labels and without tuning. The graph proposes the labels, the DMAT loss learns them.

    far rows (long filter) -> columns -> K-Means, groups of any size: a label for most nodes | groups
    near rows (short filter) -> columns -> encoder, DMAT loss on those labels                | learned
    near rows -> centred columns                                                             | detail
    vector = groups, learned and detail side by side; a node's label is the nearest mean of the learned part

The labels come from one view of the graph and the encoder sees another one, so it cannot just repeat them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np

from tuplet._check import InputError, check_int, check_number
from tuplet._threads import one_pool
from tuplet.filters import GraphFilter
from tuplet.filters.weights import ppr
from tuplet.graph import Graph
from tuplet.metrics import modularity
from tuplet.models._self_labels import confident, group_means, of_any_size
from tuplet.models._spectrum import FilteredRows, Spectrum, filtered_rows, fit_spectrum, rarity
from tuplet.models.contract import NodeEstimator, Pass, Progress, Rows
from tuplet.models.saving import filled_encoder
from tuplet.rows.kmeans import Labels, kmeans, nearest, scale_rows, simplified_silhouette
from tuplet.rows.svd import truncated_svd
from tuplet.training.batches import pick_device
from tuplet.training.config import TrainConfig
from tuplet.training.criteria import sample_edges, sample_rows, sampled_modularity
from tuplet.training.encoder import encode, layer_sizes, make_encoder
from tuplet.training.loop import train
from tuplet.training.state import History

log = logging.getLogger("tuplet")
_MOST_CLUSTERS = 200  # that are tried where n_clusters is not given
_K_SAMPLE = 4000  # rows, and edges, that judge a number of clusters
_UNLIKE = 0.2  # modularity of the groups below which neighbours are not alike
_STEPS, _STEPS_A_GROUP = 60, 3  # of training, whichever is more
_COLUMNS_A_GROUP = 4  # of the near rows, that the encoder sees at least
_PASSES = 16  # filter passes of a fit, for the progress callback


class SelfDMAT(NodeEstimator):
    """Node vectors for clusters, classes and links at once; no label is read and nothing needs tuning.

    Parameters
    ----------
    n_clusters : number of groups. None: the smallest of 2..200 whose modularity times silhouette comes within 5% of
        the best; give it where you know it. `k_range_` then tells which other numbers do as well.
    far, near : teleport probabilities of the two PageRank filters; the groups are found in the far rows, learned
        and detailed from the near ones.
    tol : tolerance of the filters.
    columns, detail : columns of the near rows that the encoder sees (at least; four for each group where that is
        more), and that stand in the vectors.
    share : of each group, the share of nodes nearest to its centre that keep the label.
    layers, temperature, mask_fraction, n_views, max_steps, batch_size, lr, weight_decay : the encoder and its
        training, see `TrainConfig`. max_steps None: 60, or three for each group where that is more.
    part_weights : lengths of the three parts of a vector: groups, learned, detail.
    dim : columns of the vectors, by their principal directions. None: all, 2 n_clusters + layers[-1] + detail.
    n_init : starts of K-Means.  seed : everything random follows from it.  device : "auto", "cpu", "cuda".

    Attributes after `fit`: `embedding_` (n, d) float32, unit rows; `labels_` (n,), the groups; `n_clusters_`;
    `modularity_` of the far groups (below 0.2 neighbours are not alike, a warning is logged; None without edges);
    `encoder_`, `history_`, `n_features_in_`, `feature_names_in_`. Where n_clusters was None: `k_scores_`, `k_range_`.

    >>> from tuplet.graph.synth import block_model
    >>> graph = block_model([40, 20, 20], seed=0)
    >>> model = SelfDMAT(3, max_steps=5).fit(graph)
    >>> model.embedding_.shape[0], np.unique(model.labels_).size
    (80, 3)
    """

    clusters = True
    keeps_rows = True
    dim_parameter = "dim"

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        far: float = 0.05,
        near: float = 0.2,
        tol: float = 1e-2,
        columns: int = 64,
        detail: int = 256,
        share: float = 0.9,
        layers: Sequence[int] = (256, 64),
        temperature: float = 0.5,
        mask_fraction: float = 0.3,
        n_views: int = 1,
        max_steps: int | None = None,
        batch_size: int = 512,
        lr: float = 1e-3,
        weight_decay: float = 0.02,
        part_weights: tuple[float, float, float] = (0.5, 0.5, 1.0),
        dim: int | None = None,
        n_init: int = 50,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.n_clusters = n_clusters
        self.far = far
        self.near = near
        self.tol = tol
        self.columns = columns
        self.detail = detail
        self.share = share
        self.layers = layers
        self.temperature = temperature
        self.mask_fraction = mask_fraction
        self.n_views = n_views
        self.max_steps = max_steps
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.part_weights = part_weights
        self.dim = dim
        self.n_init = n_init
        self.seed = seed
        self.device = device

    @one_pool()
    def _fit(self, graph: Graph, y: Any, progress: Progress | None) -> None:
        """Find groups, learn them, embed all nodes; `y` is not read."""
        config = self._checked(graph)
        self.rarity_ = rarity(graph.x)
        far, near = self._filtered(graph, progress)
        balance = not _has_negative(graph.x)
        self.far_, far_rows = fit_spectrum(far, max(64, 4 * (self.n_clusters or 20)), balance=balance, seed=self.seed)
        self.near_, near_rows = fit_spectrum(near, self.detail, balance=balance, seed=self.seed)

        self.n_clusters_ = self.n_clusters or self._chosen_k(graph, far_rows)
        k = self.n_clusters_
        groups = self.far_.groups(far_rows, 2 * k)
        found = kmeans(groups, k, seed=self.seed, n_init=self.n_init, unit_rows=False, device=self.device)
        found = of_any_size(groups, found)
        labels = confident(groups, found.labels, found.centres, self.share)
        learn_from = self.near_.groups(near_rows, max(self.columns, _COLUMNS_A_GROUP * k))
        self.encoder_ = make_encoder(learn_from.shape[1], self.layers, self.seed)
        self.history_ = train(
            self.encoder_,
            learn_from,
            replace(config, max_steps=self.max_steps or max(_STEPS, _STEPS_A_GROUP * k)),
            labels=labels,
            seed=self.seed,
            device=self.device,
            progress=progress,
        )

        parts = self._parts(far_rows, near_rows)
        self.centres_ = group_means(parts[1], found.labels, k)
        self.labels_ = nearest(parts[1], self.centres_)
        self.turn_ = self._chosen_turn(parts)
        self.embedding_ = self._joined(parts)
        self._judge(graph, found.labels)

    @one_pool()
    def _embed(self, graph: Graph, progress: Progress | None) -> Rows:
        far, near = self._filtered(graph, progress)
        return self._joined(self._parts(self.far_.project(far), self.near_.project(near)))

    def passes(self) -> tuple[Pass, ...]:
        """Both filters; the columns that are filtered are the spectrum's and those that measure lengths."""
        return tuple(
            Pass(self._graph_filter(alpha), partial(spectrum.start, weights=self.rarity_, seed=self.seed))
            for alpha, spectrum in ((self.far, self.far_), (self.near, self.near_))
        )

    def finish(self, *rows: Rows) -> Rows:
        """Vectors of filtered rows, the far ones first."""
        far, near = rows
        return self._joined(self._parts(self.far_.finish(far), self.near_.finish(near)))

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays: dict[str, Any] = {"rarity": self.rarity_, "centres": self.centres_, "turn": self.turn_}
        numbers: dict[str, float] = {}
        for name, spectrum in (("far", self.far_), ("near", self.near_)):
            for part in fields(Spectrum):
                value = getattr(spectrum, part.name)
                (numbers if isinstance(value, float) else arrays)[f"{name}.{part.name}"] = value
        arrays |= {f"encoder.{name}": value for name, value in self.encoder_.state_dict().items()}
        values = {
            "layers": layer_sizes(self.encoder_),
            "n_clusters": self.n_clusters_,
            "numbers": numbers,
            "history": self.history_.to_dict(),
        }
        return values, arrays

    def _restore(self, values: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        encoder = {name.removeprefix("encoder."): t for name, t in arrays.items() if name.startswith("encoder.")}
        self.encoder_ = filled_encoder(values["layers"], encoder)
        known = {name: t.numpy() for name, t in arrays.items()} | values["numbers"]
        self.far_, self.near_ = (
            Spectrum(**{part.name: known[f"{name}.{part.name}"] for part in fields(Spectrum)})
            for name in ("far", "near")
        )
        self.rarity_, self.centres_, self.turn_ = known["rarity"], known["centres"], known["turn"]
        self.n_features_in_, self.n_clusters_ = len(self.rarity_), int(values["n_clusters"])
        self._check_sizes()
        self.history_ = History.from_dict(values["history"])

    def _check_sizes(self) -> None:
        """Raise unless the arrays of a saved model fit each other; sets `_n_features_out`."""
        for spectrum in (self.far_, self.near_):
            f, d = spectrum.right.shape
            if (
                f != self.n_features_in_
                or spectrum.turn.shape != (d, d)
                or {spectrum.centre.shape, spectrum.mass.shape} != {(d,)}
            ):
                raise ValueError("spectra of the wrong shape")
        sizes = layer_sizes(self.encoder_)
        width = min(2 * self.n_clusters_, self.far_.turn.shape[1]) + sizes[-1] + self.near_.right.shape[1]
        if sizes[0] > self.near_.turn.shape[1] or self.turn_.shape[0] not in (0, width):
            raise ValueError("an encoder or a turn of the wrong shape")
        self._n_features_out = self.turn_.shape[1] or width

    def _checked(self, graph: Graph) -> TrainConfig:
        if self.n_clusters is None and graph.n_nodes < 3:
            raise InputError(f"The graph has {graph.n_nodes} nodes: too few to choose n_clusters. Give it (-k 2).")
        if self.n_clusters is not None:
            check_int("n_clusters", self.n_clusters, minimum=2, maximum=graph.n_nodes)
        if self.dim is not None:
            check_int("dim", self.dim)
        for name in ("columns", "detail", "n_init"):
            check_int(name, getattr(self, name))
        check_int("seed", self.seed, minimum=0)
        check_number("share", self.share, low=0, high=1, open_low=True)
        if len(self.part_weights) != 3 or min(self.part_weights) < 0 or max(self.part_weights) <= 0:
            raise InputError(f"part_weights is {self.part_weights}. Give three lengths of 0 or more, not all 0.")
        pick_device(self.device)
        names = TrainConfig.__dataclass_fields__.keys() & self.get_params(deep=False).keys() - {"n_clusters"}
        return TrainConfig(**{name: getattr(self, name) for name in names}, loss="dmat")

    def _filtered(self, graph: Graph, progress: Progress | None) -> tuple[FilteredRows, FilteredRows]:
        done = 0

        def tick() -> None:
            nonlocal done
            done += 1
            if progress is not None:
                progress("filter", min(1.0, done / _PASSES))

        def rows(alpha: float) -> FilteredRows:
            return filtered_rows(graph, self._graph_filter(alpha), self.rarity_, seed=self.seed, tick=tick)

        return rows(self.far), rows(self.near)

    def _graph_filter(self, alpha: float) -> GraphFilter:
        return GraphFilter(ppr(alpha), tol=self.tol, device=self.device)

    def _chosen_k(self, graph: Graph, far_rows: Rows) -> int:
        """The smallest k of 2..200 whose modularity times silhouette is within 5% of the best, both on samples."""
        edges = sample_edges(graph, self.seed, size=_K_SAMPLE)
        sample = sample_rows(graph.n_nodes, self.seed, size=_K_SAMPLE)
        scores: dict[int, float] = {}
        for k in _candidates(min(_MOST_CLUSTERS, len(sample) // 4)):
            rows = self.far_.groups(far_rows[sample], 2 * k)
            found = kmeans(rows, k, seed=self.seed, n_init=4, unit_rows=False, device="cpu")
            scores[k] = simplified_silhouette(rows, found.centres)
            if edges is not None:
                ends = (
                    self.far_.groups(far_rows[edges[:, 0]], 2 * k),
                    self.far_.groups(far_rows[edges[:, 1]], 2 * k),
                )
                scores[k] *= max(0.0, sampled_modularity(ends, found))
            if k > 20 and max(list(scores.values())[-3:]) < 0.8 * max(scores.values()):
                break  # three in a row are far from the best
        return self._smallest_of(scores)

    def _smallest_of(self, scores: dict[int, float]) -> int:
        """The smallest k whose score is near the best; says so where others do as well."""
        good = [k for k, score in scores.items() if score >= 0.95 * max(scores.values())]
        self.k_scores_, self.k_range_ = scores, (good[0], good[-1])
        if good[-1] > good[0] + 1:
            log.warning(
                "n_clusters was not given: %d to %d groups fit this graph about equally well, %d are taken. "
                "Give n_clusters where you know it; k_scores_ has the score of each.",
                *self.k_range_,
                good[0],
            )
        return good[0]

    def _judge(self, graph: Graph, groups: Labels) -> None:
        """Measure by the groups of the far rows whether neighbours are alike, and say where they are not."""
        self.modularity_ = modularity(graph, groups) if graph.n_stored else None
        if self.modularity_ is not None and self.modularity_ < _UNLIKE:
            log.warning(
                "Neighbours are seldom in the same group (modularity %.2f; below %.1f the edges may join unlike "
                "nodes, or be noise). Compare with the features alone (tuplet.baselines.KMeansFeatures) or with a "
                "short filter, SelfDMAT(far=0.5, near=0.8).",
                self.modularity_,
                _UNLIKE,
            )

    def _parts(self, far_rows: Rows, near_rows: Rows) -> list[Rows]:
        """The three parts of the vectors, unit rows each."""
        columns = layer_sizes(self.encoder_)[0]
        learned = encode(self.encoder_, self.near_.groups(near_rows, columns), device=pick_device(self.device))
        groups = self.far_.groups(far_rows, 2 * self.n_clusters_)
        return [groups, scale_rows(learned), self.near_.detail(near_rows)]

    def _chosen_turn(self, parts: list[Rows]) -> Rows:
        """(width, dim), or empty where all columns stay."""
        width = sum(part.shape[1] for part in parts)
        if self.dim is None or self.dim == width:
            return np.empty((0, 0), np.float32)
        if self.dim > min(width, len(parts[0])):
            raise InputError(
                f"dim={self.dim}, but the vectors of this graph have {width} columns and {len(parts[0])} rows. "
                "Give a smaller dim, a larger detail, or leave dim out."
            )
        self.turn_ = np.empty((0, 0), np.float32)
        return truncated_svd(self._joined(parts), self.dim, seed=self.seed).right

    def _joined(self, parts: list[Rows]) -> Rows:
        joined = np.hstack([weight * part for weight, part in zip(self.part_weights, parts)]).astype(np.float32)
        unit: Rows = scale_rows(joined @ self.turn_ if self.turn_.size else joined)
        return unit


def _candidates(most: int) -> list[int]:
    """Every k from 2 to 20, then steps of a sixth, up to `most`."""
    found = [k for k in range(2, 21) if k <= most] or [2]
    while found[-1] >= 20 and (following := round(found[-1] * 7 / 6)) <= most:
        found.append(following)
    return found


def _has_negative(x: Any) -> bool:
    values = x.data if hasattr(x, "indptr") else x
    return bool(len(values)) and float(np.min(values)) < 0
