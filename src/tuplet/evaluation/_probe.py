"""classify_nodes: a linear classifier on frozen vectors, and how much of the labels can be read off them."""

from __future__ import annotations

import logging
import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuplet import metrics
from tuplet._check import InputError, check_labels
from tuplet.evaluation.results import Result
from tuplet.graph import Graph
from tuplet.graph.splits import NodeSplit, split_nodes
from tuplet.rows.unit import checked_vectors, row_lengths

log = logging.getLogger("tuplet")

STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)  # scikit-learn's C, for rows of mean length 1
_UNCHOSEN = 1.0  # where there are no validation nodes
_STEPS = 1000


def classify_nodes(
    z: Any,
    graph: Graph | None = None,
    *,
    seed: int = 0,
    train: float = 0.1,
    val: float = 0.1,
    masks: Any = None,
    y: ArrayLike | None = None,
) -> Result:
    """Accuracy and macro-F1 on the test nodes of a logistic regression on the vectors `z` (n, d).

    Labels are `y`, else graph.y; -1 unknown. The split is random by shares of the labelled nodes, each class in
    train, or it is given: `masks` is a NodeSplit, a mapping with train, val and test, or three arrays, of
    booleans (n,) or of node indices. Of the regularisations `STRENGTHS` the one with the best validation accuracy
    is taken, the strongest where some tie. All vectors are divided by one number, the mean length of the
    training rows; columns are not scaled one by one, which would blow up those that carry little.
    """
    start = time.perf_counter()
    z = checked_vectors(z, None if graph is None else graph.n_nodes)
    given = y if y is not None else (None if graph is None else graph.y)
    if given is None:
        raise InputError("Classification needs labels. Give y=..., or a graph that has them.")
    labels = check_labels("y", given, z.shape[0])
    notes: list[str] = []
    split = split_nodes(labels, train=train, val=val, seed=seed) if masks is None else _given(masks, labels, notes)
    _check_classes(labels, split, notes)
    predicted, strength = _best_probe(z, labels, split, notes)
    values = {}
    for prefix, part in (("", split.test), ("val_", split.val)):
        if len(part):
            values[f"{prefix}accuracy"] = 100 * metrics.accuracy(labels[part], predicted[part], match=False)
            values[f"{prefix}f1"] = 100 * metrics.macro_f1(labels[part], predicted[part], match=False)
    sizes = {"train": len(split.train), "val": len(split.val), "test": len(split.test)}
    settings = {"C": strength, "split": "random" if masks is None else "given"}
    seconds = time.perf_counter() - start
    return Result("classify", values, seed, sizes, seconds, settings, tuple(notes), predicted)


def _given(masks: Any, labels: NDArray[np.int64], notes: list[str]) -> NodeSplit:
    """The user's split as sorted indices, without nodes whose label is unknown."""
    if isinstance(masks, NodeSplit):
        masks = (masks.train, masks.val, masks.test)
    elif hasattr(masks, "keys"):
        masks = [masks.get(name, ()) for name in ("train", "val", "test")]
    if len(masks) != 3:
        raise InputError(f"masks has {len(masks)} parts. Give three: train, validation (may be empty), test.")
    parts = [_indices(name, part, len(labels)) for name, part in zip(("train", "val", "test"), masks)]
    every = np.concatenate(parts)
    if len(np.unique(every)) < len(every):
        raise InputError("masks overlap: a node is in two parts. A test node must not be in another part.")
    unknown = int(np.sum(labels[every] < 0))
    if unknown:
        notes.append(f"{unknown} nodes of the given split have no label and are left out")
    parts = [part[labels[part] >= 0] for part in parts]
    for name, part in (("train", parts[0]), ("test", parts[2])):
        if not len(part):
            raise InputError(f"The {name} part of masks has no labelled node. Give at least one.")
    return NodeSplit(*parts)


def _indices(name: str, part: Any, n: int) -> NDArray[np.int64]:
    array = np.asarray(part)
    if array.dtype == bool:
        if array.shape != (n,):
            raise InputError(
                f"The {name} mask has shape {array.shape} but there are {n} nodes. Give one value a node."
            )
        return np.flatnonzero(array)
    if array.ndim != 1 or (len(array) and array.dtype.kind not in "iu"):
        raise InputError(f"The {name} part of masks must be booleans or node indices, got {array.dtype}.")
    if len(array) and (array.min() < 0 or array.max() >= n):
        raise InputError(f"The {name} part of masks holds indices outside 0..{n - 1}: {array.min()}..{array.max()}.")
    return np.unique(array.astype(np.int64))


def _check_classes(labels: NDArray[np.int64], split: NodeSplit, notes: list[str]) -> None:
    seen = np.unique(labels[split.train])
    if len(seen) < 2:
        raise InputError(f"The training part has one class only ({seen[0]}). A classifier needs at least two.")
    missing = np.setdiff1d(labels[labels >= 0], seen)
    if len(missing):
        text = f"{len(missing)} classes have no training node and cannot be predicted: {missing[:10].tolist()}"
        log.warning(text)
        notes.append(text)


def _best_probe(
    z: Any, labels: NDArray[np.int64], split: NodeSplit, notes: list[str]
) -> tuple[NDArray[np.int64], float]:
    """Predicted class of every node, and the regularisation that validation chose."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    rows = z[split.train].astype(np.float64)
    scale = float(row_lengths(rows).mean()) or 1.0
    model = LogisticRegression(max_iter=_STEPS, warm_start=True)
    best, chosen, unfinished = -1.0, (_UNCHOSEN, None, None), []
    if not len(split.val):
        notes.append(f"no validation nodes: C is {_UNCHOSEN:g}, not chosen")
    for strength in STRENGTHS if len(split.val) else (_UNCHOSEN,):
        model.set_params(C=strength)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            model.fit(rows / scale, labels[split.train])
        score = _share_right(model, z, scale, labels, split.val)
        if score > best:
            best, chosen, unfinished = score, (strength, model.coef_.copy(), model.intercept_.copy()), caught
    if any(issubclass(w.category, ConvergenceWarning) for w in unfinished):
        notes.append(f"the classifier had not converged after {_STEPS} steps")
    model.coef_, model.intercept_ = chosen[1], chosen[2]
    return _predicted(model, z, scale), chosen[0]


def _share_right(model: Any, z: Any, scale: float, labels: NDArray[np.int64], part: NDArray[np.int64]) -> float:
    return float(np.mean(_predicted(model, z[part], scale) == labels[part])) if len(part) else 0.0


def _predicted(model: Any, z: Any, scale: float) -> NDArray[np.int64]:
    """Classes of all rows, in blocks, so that a memory map is not copied whole."""
    step = max(1, 2**23 // z.shape[1])
    blocks = [
        model.predict(z[i : i + step].astype(np.float32) / np.float32(scale)) for i in range(0, z.shape[0], step)
    ]
    return np.concatenate(blocks).astype(np.int64)
