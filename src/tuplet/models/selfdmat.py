"""SelfDMAT: vectors without labels and without tuning. The graph proposes the labels, the DMAT loss learns them.

    far rows (long filter) -> columns -> K-Means, groups of any size: a label for most nodes | groups
    near rows (short filter) -> columns -> encoder, DMAT loss on the labels                  | learned
    near rows -> centred columns                                                             | detail
    vector = groups, learned and detail side by side

The labels come from one view of the graph and the encoder sees another one, so it cannot just repeat them. They are
made to agree with the edges. Then the three parts together are clustered and made to agree once more: `labels_`. The
encoder of the vectors learns these from scratch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, Self

import numpy as np

from tuplet._check import InputError, check_int, check_number
from tuplet._progress import silent
from tuplet._threads import one_pool
from tuplet.engines import connected
from tuplet.filters import GraphFilter
from tuplet.filters.weights import ppr
from tuplet.graph import Graph
from tuplet.models._choose_k import choose_groups
from tuplet.models._cost import FitEstimate, fit_cost
from tuplet.models._groups import agreed_groups, alike, found_groups, tell_empty, tell_unsure
from tuplet.models._parts import Parts
from tuplet.models._self_labels import confident, group_means
from tuplet.models._selfdmat_disk import Work, work_of
from tuplet.models._selfdmat_state import fill_from, state_of
from tuplet.models._spectrum import (
    FilteredRows,
    GroupRows,
    Spectrum,
    filtered_rows,
    fit_spectrum,
    has_negative,
    inverse,
    rarity,
    weighted_lengths,
)
from tuplet.models._spectrum_gpu import spectra_on_device
from tuplet.models.contract import NodeEstimator, Pass, Progress, Rows
from tuplet.rows.blocks import gathered
from tuplet.rows.lloyd import Labels
from tuplet.rows.unit import scale_rows
from tuplet.training.batches import pick_device
from tuplet.training.config import TrainConfig
from tuplet.training.encoder import layer_sizes, make_encoder
from tuplet.training.loop import train

_STEPS, _STEPS_A_GROUP = 60, 3  # of each training, whichever is more
_COLUMNS_A_GROUP = 4  # of the near rows, that the encoder sees at least
_PRINCIPAL_A_GROUP = 4  # columns of the vectors, in which the last groups are found
_FEW = 20  # groups, as long as nobody knows how many there are
_PASSES = 12  # filter passes of a fit, for the progress callback


class SelfDMAT(NodeEstimator):
    """Node vectors for clusters, classes and links at once; no label is read and nothing needs tuning.

    Parameters
    ----------
    n_clusters : number of groups. None: of 2..200 the number whose modularity times silhouette comes within 5% of the
        best and on which two halves of the nodes agree most, or the larger one that the edges clearly tell apart;
        give it where you know it. `k_range_` then tells which other numbers do as well, `k_edges_` how many groups
        the edges tell apart, `k_sure_` whether all of it says the same, `k_table_` what each number would give.
    far, near : teleport probabilities of the two PageRank filters; the groups are found in the far rows, learned
        and detailed from the near ones.
    tol : tolerance of the filters.
    columns, detail : columns of the near rows that the encoder sees (at least; four for each group where that is
        more), and that stand in the vectors.
    share : of each group, the share of nodes nearest to its centre that keep the label.
    layers, temperature, mask_fraction, n_views, max_steps, batch_size, lr, weight_decay : the encoder and its
        training, see `TrainConfig`. It is trained twice, by the first labels and by the last ones, max_steps each
        time. None: 60, or three for each group where that is more.
    part_weights : lengths of the three parts of a vector: groups, learned, detail.
    dim : columns of the vectors, by their principal directions. None: all, 2 n_clusters + layers[-1] + detail.
    n_init : starts of the first K-Means; the second one goes on from the groups so far.
    memory : bytes (or "8GB") that the process may use: every array that grows with the nodes is then a file, and
        `embedding_` a memory map. The vectors are those of a fit in memory, to rounding.
    cache : a folder for the filtered rows, which are then files too; found again by graph and filters.
    engine : where the filters run: "local", "ray" or "ray://host:port", see `GraphFilter.transform`.
    seed : everything random follows from it.  device : "auto", "cpu", "cuda".

    Attributes after `fit`: `embedding_` (n, d) float32, unit rows; `labels_` (n,), the groups; `n_clusters_`;
    `modularity_` of the far groups (below 0.2 neighbours are not alike, a warning is logged; None without edges);
    `encoder_`, `history_`, `n_features_in_`, `feature_names_in_`. Where n_clusters was None: `k_range_`, `k_edges_`,
    `k_sure_`, `k_scores_` and `k_table_`.

    >>> from tuplet.graph.synth import block_model
    >>> graph = block_model([40, 20, 20], seed=0)
    >>> model = SelfDMAT(3, max_steps=5).fit(graph)
    >>> model.embedding_.shape[0], np.unique(model.labels_).size
    (80, 3)
    """

    clusters = True
    keeps_rows = True
    dim_parameter = "dim"
    near_: Spectrum

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
        part_weights: tuple[float, float, float] = (0.4, 0.3, 1.0),
        dim: int | None = None,
        n_init: int = 50,
        memory: int | str | None = None,
        cache: str | os.PathLike[str] | None = None,
        engine: str = "local",
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
        self.memory = memory
        self.cache = cache
        self.engine = engine
        self.seed = seed
        self.device = device

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        adjacency: Any = None,
        progress: Progress | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
    ) -> Self:
        """Learn from a graph and embed its nodes: `embedding_`; no label is read.

        `X` and `progress` as in every method. `checkpoint` is a folder in which the steps of the work are kept as
        files; `resume` goes on after the last whole one, to the same bits, also after a kill.
        """
        graph = self._checked_graph(X, adjacency)
        self._fit(graph, y, progress, checkpoint=checkpoint, resume=resume)
        return self._fitted_on(graph)

    @one_pool()
    def _fit(
        self, graph: Graph, y: Any, progress: Progress | None, *, checkpoint: Any = None, resume: bool = False
    ) -> None:
        config = self._checked(graph)
        with (
            work_of(self, graph, checkpoint, resume) as work,
            connected(self.engine),
        ):  # one connection for all passes
            self._learn(graph, config, work, progress)

    def _learn(self, graph: Graph, config: TrainConfig, work: Work | None, progress: Progress | None) -> None:
        """Find groups, learn them, embed all nodes."""
        far_rows, near_rows = self._spectra(graph, work, progress)
        tell = partial(progress or silent, "groups")
        tell(0.0)
        self.n_clusters_ = self.n_clusters or self._chosen_k(graph, far_rows)
        k = self.n_clusters_
        self.near_ = self.near_.lowered(2 * k)
        groups = self._groups("groups", self.far_, far_rows, work)
        found = found_groups(groups, k, n_init=self.n_init, seed=self.seed, device=self.device)
        self.modularity_ = alike(graph, found)
        tell(0.25)
        proposed = agreed_groups(graph, found, k, groups, held=self._held_as("first-beliefs", work))
        tell(0.5)
        first = confident(groups, proposed, group_means(groups, proposed, k), self.share)
        columns: Any = GroupRows(self.near_, near_rows, max(self.columns, _COLUMNS_A_GROUP * k))
        columns = columns[:] if work is None else columns
        config = replace(config, max_steps=self.max_steps or max(_STEPS, _STEPS_A_GROUP * k))
        self._train(columns, first, config, _half(progress, 0))
        self.labels_ = self._agreed(graph, proposed, groups, far_rows, near_rows, work)
        tell(1.0)
        tell_empty(self.labels_, k)
        self._train(columns, self.labels_, config, _half(progress, 1))
        self.embedding_ = self._vectors(far_rows, near_rows, work, progress)

    def _train(self, columns: Any, labels: Labels, config: TrainConfig, progress: Progress | None) -> None:
        """`encoder_` and `history_`: the labels (n,), -1 unknown, learned from scratch by the columns (n, c)."""
        self.encoder_ = make_encoder(columns.shape[1], self.layers, self.seed)
        self.history_ = train(
            self.encoder_, columns, config, labels=labels, seed=self.seed, device=self.device, progress=progress
        )

    def _spectra(self, graph: Graph, work: Work | None, progress: Progress | None) -> tuple[Rows, Rows]:
        """The spectra of both filters, and the rows (n, d) projected on them."""
        widths = self._far_columns(), self.detail
        if work is not None:
            balance, self.rarity_ = work.features(graph, progress)
            (self.far_, far_rows), (self.near_, near_rows) = work.spectra(graph, balance, widths, progress)
            return far_rows, near_rows
        balance, self.rarity_ = not has_negative(graph.x), rarity(graph.x)
        there = self._on_device(graph, balance, widths, progress)
        if there is not None:
            (self.far_, far_rows), (self.near_, near_rows) = there
            return far_rows, near_rows
        far, near = self._filtered(graph, progress)
        self.far_, far_rows = fit_spectrum(far, widths[0], balance=balance, seed=self.seed)
        self.near_, near_rows = fit_spectrum(near, widths[1], balance=balance, seed=self.seed)
        _tell_filtered(progress)
        return far_rows, near_rows

    def _on_device(
        self, graph: Graph, balance: bool, widths: tuple[int, int], progress: Progress | None
    ) -> list[tuple[Spectrum, Rows]] | None:
        """The same by a GPU, where there is one that is worth it and has the room."""
        if self.engine != "local":
            return None

        def tick(i: int, part: float) -> None:
            if progress is not None:
                progress("filter", (i + part) / len(widths))

        def before() -> Rows:
            return inverse(weighted_lengths(graph.x, self.rarity_))

        return spectra_on_device(
            graph,
            self._filters(),
            widths,
            self.rarity_,
            before,
            balance=balance,
            seed=self.seed,
            steps=None,
            tick=tick,
        )

    def _filters(self) -> list[GraphFilter]:
        """The far and the near filter."""
        return [self._graph_filter(alpha) for alpha in (self.far, self.near)]

    def _far_columns(self) -> int:
        return max(64, 4 * (self.n_clusters or _FEW))

    def _groups(self, name: str, spectrum: Spectrum, projected: Rows, work: Work | None) -> Rows:
        """Rows (n, 2k) that tell the groups apart, of one spectrum; where there are files, one called `name`."""
        groups = GroupRows(spectrum, projected, 2 * self.n_clusters_)
        return self._made(name, groups.__getitem__, groups.shape[1], [projected], work)

    def _made(
        self, name: str, some: Callable[[slice], Rows], columns: int, sources: list[Rows], work: Work | None
    ) -> Rows:
        """Rows (n, columns), `some` for the blocks of `sources`; where there are files, one called `name`."""
        shape = len(sources[0]), columns
        if work is None:
            return gathered(some, shape, sum(rows.shape[1] for rows in sources))
        found: Rows = work.kept(name, some, shape, sources)
        return found

    def _agreed(
        self, graph: Graph, proposed: Labels, groups: Rows, far_rows: Rows, near_rows: Rows, work: Work | None
    ) -> Labels:
        """The label of each node (n,): groups of what the vectors would be now, made to agree.

        They are found in the principal columns of those vectors (4k; on all of them K-Means ends in worse optima),
        from the `proposed` ones on. Far, near, learned and principal rows and the edges have a say.
        """
        k, parts = self.n_clusters_, self._parts()
        turn = parts.principal(far_rows, near_rows, _PRINCIPAL_A_GROUP * k)

        def learned(block: slice) -> Rows:
            return parts.learned(near_rows[block])

        def turned(block: slice) -> Rows:
            return parts.joined(far_rows[block], near_rows[block]) @ turn

        rows = self._made("principal", turned, turn.shape[1], [far_rows, near_rows], work)
        found = found_groups(rows, k, seed=self.seed, device=self.device, known=proposed)
        near = self._groups("near-groups", self.near_, near_rows, work)
        own = self._made("learned", learned, layer_sizes(self.encoder_)[-1], [near_rows], work)
        held = self._held_as("last-beliefs", work)
        return agreed_groups(graph, found, k, groups, near, own, rows, held=held)

    def _held_as(self, name: str, work: Work | None) -> Callable[[Callable[[slice], Rows], list[Rows]], Rows]:
        """What keeps a number for each node and group; where there are files, one called `name`."""
        return lambda some, sources: self._made(name, some, self.n_clusters_, sources, work)

    def _vectors(self, far_rows: Rows, near_rows: Rows, work: Work | None, progress: Progress | None) -> Rows:
        """The three parts side by side (n, d); in a file where there is one to work with."""
        parts, n = self._parts(), len(near_rows)
        self.turn_ = np.empty((0, 0), np.float32)
        if self.dim is not None and self.dim != parts.width:
            if self.dim > min(parts.width, n):
                raise InputError(
                    f"dim={self.dim}, but the vectors of this graph have {parts.width} columns and {n} rows. "
                    "Give a smaller dim, a larger detail, or leave dim out."
                )
            self.turn_ = parts.principal(far_rows, near_rows, self.dim)
        shape, width = (n, self.turn_.shape[1] or parts.width), parts.width
        some = self._some(parts, far_rows, near_rows)
        if work is None:
            return gathered(some, shape, width)
        found: Rows = work.vectors(some, shape, width, [far_rows, near_rows], progress)
        return found

    def _some(self, parts: Parts, far_rows: Rows, near_rows: Rows) -> Callable[[slice], Rows]:
        """The vectors of a block of projected rows."""

        def some(block: slice) -> Rows:
            rows = parts.joined(far_rows[block], near_rows[block])
            unit: Rows = scale_rows(rows @ self.turn_) if self.turn_.size else rows
            return unit

        return some

    def width_on(self, graph: Graph) -> int | None:
        """How many numbers the vectors of `graph` will have, where `n_clusters` or `dim` is given."""
        known, k = super().width_on(graph), self.n_clusters
        if known is not None or k is None or graph.x is None:
            return known
        far, near = self._widths(graph)
        return min(2 * k, far) + self.layers[-1] + near

    def _parts(self) -> Parts:
        lengths = self.part_weights
        return Parts(self.far_, self.near_, self.encoder_, self.n_clusters_, lengths, self.device)

    @one_pool()
    def _embed(self, graph: Graph, progress: Progress | None) -> Rows:
        with connected(self.engine):
            far, near = self._filtered(graph, progress)
            rows = self.far_.project(far), self.near_.project(near)
        _tell_filtered(progress)
        return self._finish_projected(*rows)

    def estimate(self, graph: Graph) -> FitEstimate:
        """Bytes of memory and disk, and a range of seconds, that `fit` will take; nothing is computed."""
        settings = {name: getattr(self, name) for name in ("far", "near", "tol", "device")}
        return fit_cost(graph, **settings, widths=self._widths(graph), kept=self._kept_columns(graph))

    def _widths(self, graph: Graph) -> tuple[int, int]:
        """Columns of the far and of the near spectrum."""
        most = min(graph.n_nodes, graph.n_features)
        return min(self._far_columns(), most), min(self.detail, most)

    def _kept_columns(self, graph: Graph) -> int:
        """Columns of all files made of the rows of both spectra: groups, beliefs, learned, principal, vectors."""
        k, learned, (far, near) = self.n_clusters or _FEW, self.layers[-1], self._widths(graph)
        width = min(2 * k, far) + learned + near
        return 2 * k + min(2 * k, far) + min(2 * k, near) + learned + min(_PRINCIPAL_A_GROUP * k, width) + width

    def passes(self) -> tuple[Pass, ...]:
        """Both filters; the columns that are filtered are the spectrum's and those that measure lengths."""
        return tuple(
            Pass(self._graph_filter(alpha), partial(spectrum.start, weights=self.rarity_, seed=self.seed))
            for alpha, spectrum in ((self.far, self.far_), (self.near, self.near_))
        )

    def finish(self, *rows: Rows) -> Rows:
        """Vectors of filtered rows, the far ones first."""
        far, near = rows
        return self._finish_projected(self.far_.finish(far), self.near_.finish(near))

    def _finish_projected(self, far_rows: Rows, near_rows: Rows) -> Rows:
        """Vectors of projected rows, by blocks."""
        parts = self._parts()
        shape = len(far_rows), self.turn_.shape[1] or parts.width
        return gathered(self._some(parts, far_rows, near_rows), shape, parts.width)

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return state_of(self)

    def _restore(self, values: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        fill_from(self, values, arrays)
        self._n_features_out = self.turn_.shape[1] or self._parts().width

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

        x: Any = graph.x
        shared = {"weights": self.rarity_, "seed": self.seed, "tick": tick, "engine": self.engine}
        make = partial(filtered_rows, graph, **shared, across=cache(lambda: x.T.tocsr()))
        far, near = (make(graph_filter=one) for one in self._filters())
        return far, near

    def _graph_filter(self, alpha: float) -> GraphFilter:
        return GraphFilter(ppr(alpha), tol=self.tol, device=self.device)

    def _chosen_k(self, graph: Graph, far_rows: Rows) -> int:
        """The number of groups, and what is known of others: `k_range_`, `k_sure_`, `k_scores_`, `k_table_`."""

        def rows_of(nodes: Any, k: int) -> Rows:
            return self.far_.groups(np.asarray(far_rows[nodes]), 2 * k)

        choice = choose_groups(rows_of, graph, self.seed)
        self.k_range_, self.k_sure_, self.k_table_ = choice.range, choice.sure, choice.table()
        self.k_scores_ = {one.k: one.score for one in choice.candidates}
        self.k_edges_ = choice.edges.count if choice.edges is not None else None
        tell_unsure(choice, self.k_edges_)
        return choice.k


def _tell_filtered(progress: Progress | None) -> None:
    if progress is not None:
        progress("filter", 1.0)  # passes are made when rows are asked for, and narrow features take fewer


def _half(progress: Progress | None, which: int) -> Progress | None:
    """What tells one of two trainings as a half of both."""
    if progress is None:
        return None
    return lambda phase, part: progress(phase, (which + part) / 2)
