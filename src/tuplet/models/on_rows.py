"""An estimator trained on rows that were filtered before: by this process, or as one worker of a group."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._threads import one_pool
from tuplet.models.dmat import MetricEstimator
from tuplet.training.encoder import check_layers, layer_sizes, new_encoder
from tuplet.training.group import WorkerGroup
from tuplet.training.loop import train


def fit_on_rows(
    model: MetricEstimator,
    rows: Any,
    labels: NDArray[np.int64] | None = None,
    *,
    group: WorkerGroup | None = None,
    **options: Any,
) -> MetricEstimator:
    """`model` with an encoder trained on the filtered `rows` (n, f); `options` go to `train`.

    What `fit` learns from a graph's rows, without the graph: the model embeds graphs with the same columns, and has
    no `embedding_` of its own.
    """
    check_layers(model.layers)
    with one_pool():  # one thread: the same start whatever the number of workers on this machine
        encoder = new_encoder(rows, model.layers, model.seed, unit_rows=model.unit_rows)
    config = model.train_config()
    model.history_ = train(
        encoder, rows, config, labels=labels, seed=model.seed, device=model.device, group=group, **options
    )
    model.encoder_, model.n_fits_ = encoder, 1
    model.n_features_in_, model.feature_names_in_, model.preparation_ = int(rows.shape[1]), (), None
    model._n_features_out = layer_sizes(encoder)[-1]
    return model
