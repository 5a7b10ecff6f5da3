"""DMT, DMAT and DMATi: scikit-learn estimators, thin shells over the filter, the encoder and `train`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError, check_labels
from tuplet._files import content_key, file_of
from tuplet._seed import seed_of
from tuplet.filters import GraphFilter
from tuplet.filters.weights import ppr
from tuplet.graph import Graph
from tuplet.losses import objective_of
from tuplet.models._state import filled_encoder
from tuplet.models.contract import NodeEstimator, Pass, Progress
from tuplet.models.saving import load as load
from tuplet.rows.unit import unit_features
from tuplet.training.batches import pick_device
from tuplet.training.checkpoint import Checkpoints
from tuplet.training.config import TrainConfig
from tuplet.training.criteria import sample_edges
from tuplet.training.encode_tasks import can_encode_on, encode_on
from tuplet.training.encoder import check_layers, encode, layer_sizes, new_encoder
from tuplet.training.history import History
from tuplet.training.loop import train


class MetricEstimator(NodeEstimator):
    """What DMT, DMAT and DMATi share.

    Parameters
    ----------
    layers : the dimension d of the vectors: one linear layer that starts at the d leading singular directions of the
        filtered rows. Or a list, the widths of the encoder's layers, d the last one, which start at random.
    alpha, r, tol : the default filter, personalised PageRank: teleport probability, degree exponent, tolerance.
    graph_filter : another `GraphFilter`; `alpha`, `r` and `tol` are then not read.
    temperature : t in h(x, y) = exp(cos(x, y) / t).
    mask_fraction, n_views : share of columns that a view masks; views a batch. DMT has no views and reads neither.
    epochs, max_steps : length of training, whichever ends first; with neither, 150 steps, or one epoch if longer.
    batch_size, lr, optimizer, weight_decay, schedule, warmup : mini-batches and AdamW or Adam, see `TrainConfig`.
    unit_rows : scale each row of X to unit length before the filter, and each filtered row before the encoder.
    stop, criterion, patience, n_clusters : `stop="auto"` ends by a label-free criterion, see `TrainConfig`.
    criteria : label-free criteria to record in `history_`.
    memory : bytes (or "2GB") that the filter may use.
    cache : a folder for the filtered rows; they are then a memory map, and found again by graph and filter.
    engine : where the filter runs: "local", "ray" or "ray://host:port", see `GraphFilter.transform`.
    tf32 : on a GPU, allow faster, rounder products.
    warm_start : `fit` goes on from the present weights instead of new ones.
    seed : everything random follows from it.  device : "auto", "cpu", "cuda".

    Attributes after `fit`: `embedding_` (n, d) float32, `encoder_`, `history_`, `n_features_in_`,
    `feature_names_in_`.
    """

    keeps_rows = True
    dim_parameter = "layers"
    _loss = ""  # the name of an objective (tuplet.losses.OBJECTIVES), which says whether labels are needed

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.needs_labels = objective_of(cls._loss).needs_labels

    def __init__(
        self,
        layers: int | Sequence[int] = 64,
        *,
        alpha: float = 0.1,
        r: float = 0.5,
        tol: float = 1e-4,
        graph_filter: GraphFilter | None = None,
        temperature: float = 1.0,
        mask_fraction: float = 0.6,
        n_views: int = 2,
        epochs: int | None = None,
        max_steps: int | None = None,
        batch_size: int = 512,
        lr: float = 3e-4,
        optimizer: str = "adamw",
        weight_decay: float = 0.02,
        schedule: str = "constant",
        warmup: int = 0,
        unit_rows: bool = True,
        stop: str = "fixed",
        criterion: str = "modularity",
        criteria: Sequence[str] = (),
        patience: int = 3,
        n_clusters: int = 10,
        memory: int | str | None = None,
        cache: str | os.PathLike[str] | None = None,
        engine: str = "local",
        tf32: bool = False,
        warm_start: bool = False,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.layers = layers
        self.alpha = alpha
        self.r = r
        self.tol = tol
        self.graph_filter = graph_filter
        self.temperature = temperature
        self.mask_fraction = mask_fraction
        self.n_views = n_views
        self.epochs = epochs
        self.max_steps = max_steps
        self.batch_size = batch_size
        self.lr = lr
        self.optimizer = optimizer
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.warmup = warmup
        self.unit_rows = unit_rows
        self.stop = stop
        self.criterion = criterion
        self.criteria = criteria
        self.patience = patience
        self.n_clusters = n_clusters
        self.memory = memory
        self.cache = cache
        self.engine = engine
        self.tf32 = tf32
        self.warm_start = warm_start
        self.seed = seed
        self.device = device

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        adjacency: Any = None,
        out: NDArray[np.float32] | None = None,
        progress: Progress | None = None,
        checkpoint: Checkpoints | str | os.PathLike[str] | None = None,
        resume: bool = False,
    ) -> Self:
        """Filter the features, train the encoder, embed all nodes.

        `X` is a `Graph`, a NetworkX, igraph or PyG graph, or with `adjacency` a feature matrix. `y` (n,), -1 for
        unknown, takes the place of the graph's labels; DMATi reads neither. `out`, an array or a memory map (n, d),
        becomes `embedding_`. `checkpoint` and `resume` as in `train`.
        """
        graph = self._checked_graph(X, adjacency)
        self._fit(graph, y, progress, out=out, checkpoint=checkpoint, resume=resume)
        return self._fitted_on(graph)

    def _fit(
        self, graph: Graph, y: Any, progress: Progress | None, *, out: NDArray[Any] | None = None, **options: Any
    ) -> None:
        config, labels = self.train_config(), self._labels(graph, y)
        pick_device(self.device)
        check_layers(self.layers)
        warm = self.warm_start and hasattr(self, "encoder_")
        present = self._present_encoder(graph) if warm else None
        rows = self._rows(graph, progress)
        encoder = present or new_encoder(rows, self.layers, self.seed, unit_rows=self.unit_rows)
        n_fits: int = getattr(self, "n_fits_", 0) + 1 if warm else 1
        self.history_ = train(
            encoder,
            rows,
            config,
            labels=labels,
            seed=self.seed if n_fits == 1 else seed_of(self.seed, f"fit {n_fits}"),  # other batches
            device=self.device,
            progress=progress,
            edges=sample_edges(graph, self.seed) if "modularity" in config.watched else None,
            **options,
        )
        self.encoder_, self.n_fits_ = encoder, n_fits
        self.embedding_ = self._encoded(rows, out, progress)

    def transform(
        self,
        X: Any,
        *,
        adjacency: Any = None,
        out: NDArray[np.float32] | None = None,
        progress: Progress | None = None,
    ) -> NDArray[np.float32]:
        """Vectors (n, d) float32 of a graph with the same feature columns: filter and encoder, no training.

        `out`, an array or a memory map (n, d), receives them in place of a new array.
        """
        rows = self._rows(self._known_graph(X, adjacency), progress)
        self.encoder_.to(pick_device(self.device))
        return self._encoded(rows, out, progress)

    def transform_rows(self, rows: NDArray[Any], *, progress: Progress | None = None) -> NDArray[np.float32]:
        """Vectors (n, d) float32 of filtered rows (n, f) in an .npy file, as a memory map of a new file beside it.

        For graphs whose edges do not fit one machine: `tuplet filter --groups` makes the rows. The encoder runs where
        `engine` says.
        """
        self._check_fitted()
        file = file_of(rows)
        if file is None or rows.ndim != 2 or rows.dtype not in (np.float32, np.float16):
            raise InputError("The rows must be a memory map of an .npy file, float32 or float16, one row a node.")
        wanted = layer_sizes(self.encoder_)[0]
        if rows.shape[1] != wanted:
            raise InputError(
                f"{file} has rows of {rows.shape[1]} numbers, the model reads {wanted}. Filter the graph as for it."
            )
        stat = file.stat()
        weights = [tensor.detach().cpu().numpy() for tensor in self.encoder_.parameters()]
        target = file.with_name(f"encoded-{content_key(f'{file} {stat.st_size} {stat.st_mtime_ns}', weights)}.npy")
        tick = None if progress is None else partial(progress, "vectors")
        return encode_on(self.engine, self.encoder_, rows, target, unit_rows=self.unit_rows, tick=tick)

    def _encoded(self, rows: Any, out: NDArray[Any] | None, progress: Progress | None) -> NDArray[np.float32]:
        """The vectors of all rows; on an engine, where the rows lie in a cache, by its nodes into a file there."""
        file = None if out is not None or not can_encode_on(self.engine, rows) else file_of(rows)
        if file is None:
            return encode(self.encoder_, rows, unit_rows=self.unit_rows, out=out)
        key = content_key(file.stem, [tensor.detach().cpu().numpy() for tensor in self.encoder_.parameters()])
        target = file.with_name(f"encoded-{key}.npy")
        tick = None if progress is None else partial(progress, "vectors")
        return encode_on(self.engine, self.encoder_, rows, target, unit_rows=self.unit_rows, tick=tick)

    def passes(self) -> tuple[Pass, ...]:
        """The filter, of features in unit rows or as they are."""
        if self.graph_filter is not None:
            return (Pass(self.graph_filter, self._start),)
        return (Pass(GraphFilter(ppr(self.alpha), r=self.r, tol=self.tol, device=self.device), self._start),)

    def finish(self, *rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Vectors of filtered rows, by the encoder."""
        return encode(self.encoder_, rows[0], unit_rows=self.unit_rows)

    def filtered(self, graph: Graph, progress: Progress | None = None, **options: Any) -> list[NDArray[np.float32]]:
        """The filtered rows (n, f), as `fit` makes them."""
        return [self._rows(graph, progress, **options)]

    def _start(self, x: Any) -> Any:
        if not self.unit_rows:
            return x
        with unit_features(np.asarray(x) if isinstance(x, np.memmap) else x) as scaled:
            return scaled

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        values = {
            "layers": layer_sizes(self.encoder_),
            "n_fits": self.n_fits_,
            "history": self.history_.to_dict(),
        }
        return values, self.encoder_.state_dict()

    def _restore(self, values: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        self.encoder_ = filled_encoder(values["layers"], arrays)
        self.history_, self.n_fits_ = History.from_dict(values["history"]), int(values["n_fits"])
        self._n_features_out = layer_sizes(self.encoder_)[-1]
        if layer_sizes(self.encoder_)[0] != min(
            self.n_features_in_, self.graph_filter_.columns or self.n_features_in_
        ):
            raise ValueError("an encoder for other features")

    def train_config(self) -> TrainConfig:
        """How the encoder is trained, by the parameters."""
        names = TrainConfig.__dataclass_fields__.keys() & self.get_params(deep=False).keys()
        values = {name: getattr(self, name) for name in names}
        return TrainConfig(**{**values, "loss": self._loss, "criteria": tuple(self.criteria)})

    def _labels(self, graph: Graph, y: Any) -> NDArray[np.int64] | None:
        if not self.needs_labels:
            return None
        labels = graph.y if y is None else check_labels("y", y, graph.n_nodes)
        if labels is None:
            raise InputError(
                f"{type(self).__name__} needs labels, in graph.y or as y; -1 is unknown. DMATi needs none."
            )
        return labels

    def _rows(self, graph: Graph, progress: Progress | None, **options: Any) -> NDArray[np.float32]:
        """The filtered rows (n, f) of the graph's features."""
        given = {"memory": self.memory, "cache": self.cache, "engine": self.engine, "progress": progress}
        options = given | options
        graph_filter = self.graph_filter_
        if not self.unit_rows:
            return graph_filter.transform(graph, **options)
        with unit_features(graph.x) as x:
            return graph_filter.transform(graph, x=x, **options)

    def width_on(self, graph: Graph) -> int | None:
        """How many numbers the vectors of `graph` will have; directions are cut to those that there are."""
        width = super().width_on(graph)
        if width is None or isinstance(self.layers, Sequence) or self.__sklearn_is_fitted__():
            return width
        return None if graph.x is None else min(width, graph.n_nodes, self._width(graph))

    def _width(self, graph: Graph) -> int:
        """Columns of the filtered rows."""
        return min(graph.n_features, self.graph_filter_.columns or graph.n_features)

    def _present_encoder(self, graph: Graph) -> Any:
        """The encoder as it is; raises unless it is one for this graph and `layers`."""
        widths = self.layers if isinstance(self.layers, Sequence) else [min(self.layers, self._width(graph))]
        sizes, asked = layer_sizes(self.encoder_), [self._width(graph), *widths]
        if sizes != asked:
            raise InputError(
                f"warm_start: the encoder has sizes {sizes}, but {asked} are asked for. "
                "Keep layers and feature columns, or set warm_start=False."
            )
        return self.encoder_


class DMATi(MetricEstimator):
    """Node vectors without labels: filter, then an encoder trained by the DMAT-i loss (paper, Eq. 6-7).

    >>> graph = Graph.from_scipy(np.ones((5, 5)), x=np.eye(5))
    >>> DMATi(layers=(16, 8), max_steps=3).fit_transform(graph).shape
    (5, 8)
    """

    _loss = "dmati"


class DMAT(MetricEstimator):
    """Node vectors from some labels and masked views: the DMAT loss (paper, Eq. 5). Trains on labelled rows only."""

    _loss = "dmat"


class DMT(MetricEstimator):
    """Node vectors from some labels: the DMT loss (paper, Eq. 4). Trains on labelled rows only."""

    _loss = "dmt"
