"""DMT, DMAT and DMATi: scikit-learn estimators, thin shells over the filter, the encoder and `train`."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from tuplet import __version__
from tuplet._check import InputError, check_labels
from tuplet._seed import seed_of
from tuplet.filters import GraphFilter
from tuplet.filters.weights import ppr
from tuplet.graph import Graph
from tuplet.models._contract import as_graph, check_columns
from tuplet.rows.unit import unit_features
from tuplet.training.batches import pick_device
from tuplet.training.checkpoint import Checkpoints, read_model, restore, write_model
from tuplet.training.config import TrainConfig
from tuplet.training.criteria import sample_edges
from tuplet.training.encoder import encode, layer_sizes, make_encoder
from tuplet.training.loop import train
from tuplet.training.state import History

Progress = Callable[[str, float], None]


class MetricEstimator(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What DMT, DMAT and DMATi share. The constructor only stores; `fit` checks.

    Parameters
    ----------
    layers : widths of the encoder's layers; the last one is the dimension d of the vectors.
    alpha, r, tol : the default filter, personalised PageRank: teleport probability, degree exponent, tolerance.
    graph_filter : another `GraphFilter`; `alpha`, `r` and `tol` are then not read.
    temperature : t in h(x, y) = exp(cos(x, y) / t).
    mask_fraction, n_views : share of columns that a view masks; views a batch. DMT has no views and reads neither.
    epochs, max_steps : length of training, whichever ends first; with neither, 100 steps, or one epoch if longer.
    batch_size, lr, optimizer, weight_decay, schedule, warmup : mini-batches and AdamW or Adam, see `TrainConfig`.
    unit_rows : scale each row of X to unit length before the filter, and each filtered row before the encoder.
    stop, criterion, patience, n_clusters : `stop="auto"` ends by a label-free criterion, see `TrainConfig`.
    criteria : label-free criteria to record in `history_`.
    memory : bytes (or "2GB") that the filter may use.
    cache : a folder for the filtered rows; they are then a memory map, and found again by graph and filter.
    tf32 : on a GPU, allow faster, rounder products.
    warm_start : `fit` goes on from the present weights instead of new ones.
    seed : everything random follows from it.  device : "auto", "cpu", "cuda".

    Attributes after `fit`: `embedding_` (n, d) float32, `encoder_`, `history_`, `n_features_in_`,
    `feature_names_in_`.
    """

    needs_labels = False
    _loss = ""

    def __init__(
        self,
        layers: Sequence[int] = (256, 256),
        *,
        alpha: float = 0.15,
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

        `X` is a `Graph`, or with `adjacency` a feature matrix. `y` (n,), -1 for unknown, takes the place of the
        graph's labels; DMATi reads neither. `out`, an array or a memory map (n, d), becomes `embedding_`.
        `checkpoint` and `resume` as in `train`.
        """
        graph = as_graph(X, adjacency)
        config, labels = self._config(), self._labels(graph, y)
        pick_device(self.device)
        warm = self.warm_start and hasattr(self, "encoder_")
        encoder = self._present_encoder(graph) if warm else make_encoder(self._width(graph), self.layers, self.seed)
        rows = self._rows(graph, progress)
        n_fits: int = getattr(self, "n_fits_", 0) + 1 if warm else 1
        self.history_ = train(
            encoder,
            rows,
            config,
            labels=labels,
            seed=self.seed if n_fits == 1 else seed_of(self.seed, f"fit {n_fits}"),  # other batches
            device=self.device,
            progress=progress,
            checkpoint=checkpoint,
            resume=resume,
            edges=sample_edges(graph, self.seed) if "modularity" in config.watched else None,
        )
        self.encoder_, self.n_fits_ = encoder, n_fits
        self.n_features_in_, self.feature_names_in_ = graph.n_features, graph.feature_names
        self.embedding_ = encode(encoder, rows, unit_rows=self.unit_rows, out=out)
        return self

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
        self._check_fitted()
        graph = as_graph(X, adjacency)
        check_columns(self, graph)
        rows = self._rows(graph, progress)
        return encode(self.encoder_, rows, unit_rows=self.unit_rows, out=out, device=pick_device(self.device))

    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> NDArray[np.float32]:
        """`fit(X, y, **options)`, then the vectors of its nodes."""
        return self.fit(X, y, **options).embedding_

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model as a folder, `weights.safetensors` and `model.json`; `tuplet.load` reads it.

        The encoder, the parameters and the history are kept, the embedding is not: `transform` makes it again.
        """
        self._check_fitted()
        meta = {
            "class": f"{type(self).__module__}:{type(self).__name__}",
            "version": __version__,
            "params": _plain_params(self),
            "layers": layer_sizes(self.encoder_),
            "n_features": self.n_features_in_,
            "feature_names": list(self.feature_names_in_),
            "n_fits": self.n_fits_,
            "history": self.history_.to_dict(),
        }
        write_model(folder, meta, self.encoder_.state_dict())

    @classmethod
    def from_saved(cls, meta: dict[str, Any], tensors: dict[str, Any], where: str) -> Self:
        """The model of a saved folder's JSON and weights; `tuplet.load` calls this."""
        model = cls(**_params_from_plain(meta["params"]))
        sizes = [int(size) for size in meta["layers"]]
        encoder = make_encoder(sizes[0], sizes[1:])
        restore(encoder, tensors, where)
        model.encoder_, model.history_ = encoder, History.from_dict(meta["history"])
        model.n_features_in_, model.n_fits_ = int(meta["n_features"]), int(meta["n_fits"])
        model.feature_names_in_ = tuple(str(name) for name in meta["feature_names"])
        return model

    def _config(self) -> TrainConfig:
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

    def _rows(self, graph: Graph, progress: Progress | None) -> NDArray[np.float32]:
        """The filtered rows (n, f) of the graph's features."""
        options: dict[str, Any] = {"memory": self.memory, "cache": self.cache, "progress": progress}
        graph_filter = self._filter()
        if not self.unit_rows:
            return graph_filter.transform(graph, **options)
        with unit_features(graph.x) as x:
            return graph_filter.transform(graph, x=x, **options)

    def _filter(self) -> GraphFilter:
        if self.graph_filter is not None:
            return self.graph_filter
        return GraphFilter(ppr(self.alpha), r=self.r, tol=self.tol, device=self.device)

    def _width(self, graph: Graph) -> int:
        """Columns of the filtered rows; a graph without features is an error."""
        if graph.x is None:
            raise InputError("The graph has no features. Give x=..., one row a node (an identity matrix will do).")
        return min(graph.n_features, self._filter().columns or graph.n_features)

    def _present_encoder(self, graph: Graph) -> Any:
        sizes, asked = layer_sizes(self.encoder_), [self._width(graph), *self.layers]
        if sizes != asked:
            raise InputError(
                f"warm_start: the encoder has sizes {sizes}, but {asked} are asked for. "
                "Keep layers and feature columns, or set warm_start=False."
            )
        return self.encoder_

    def _check_fitted(self) -> None:
        if not hasattr(self, "encoder_"):
            raise InputError(f"This {type(self).__name__} is not fitted yet. Call fit first.")


class DMATi(MetricEstimator):
    """Node vectors without labels: filter, then an encoder trained by the DMAT-i loss (paper, Eq. 6-7).

    >>> graph = Graph.from_scipy(np.ones((5, 5)), x=np.eye(5))
    >>> DMATi(layers=(16, 8), max_steps=3).fit_transform(graph).shape
    (5, 8)
    """

    _loss = "dmati"


class DMAT(MetricEstimator):
    """Node vectors from some labels and masked views: the DMAT loss (paper, Eq. 5). Trains on labelled rows only."""

    needs_labels = True
    _loss = "dmat"


class DMT(MetricEstimator):
    """Node vectors from some labels: the DMT loss (paper, Eq. 4). Trains on labelled rows only."""

    needs_labels = True
    _loss = "dmt"


def load(folder: str | os.PathLike[str]) -> Any:
    """The model that `save` wrote to `folder`, ready for `transform`."""
    meta, tensors = read_model(folder)
    try:
        module, _, name = meta["class"].partition(":")
        if not module.startswith("tuplet."):
            raise InputError(
                f"The model in {folder} names the class {meta['class']!r}, which is not one of tuplet's."
            )
        return getattr(importlib.import_module(module), name).from_saved(meta, tensors, str(folder))
    except InputError:
        raise
    except (ImportError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise InputError(f"The model in {folder} is damaged ({error!r}). Save it again.") from None


def _plain_params(model: MetricEstimator) -> dict[str, Any]:
    """Constructor parameters in JSON's types."""
    params = model.get_params(deep=False)
    params["layers"] = [int(width) for width in params["layers"]]
    params["criteria"] = list(params["criteria"])
    if params["graph_filter"] is not None:
        params["graph_filter"] = params["graph_filter"].to_dict()
    if params["cache"] is not None:
        params["cache"] = os.fspath(params["cache"])
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in params.items()}


def _params_from_plain(params: dict[str, Any]) -> dict[str, Any]:
    params = {**params, "layers": tuple(params["layers"]), "criteria": tuple(params["criteria"])}
    if params["graph_filter"] is not None:
        params["graph_filter"] = GraphFilter.from_dict(params["graph_filter"])
    return params
