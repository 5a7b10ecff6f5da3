"""What a report is about: vectors in the graph's node order, their clusters, and how both came about."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet import __version__
from tuplet._check import InputError, check_int
from tuplet.evaluation.tasks import cluster_nodes
from tuplet.graph import Graph
from tuplet.io.seen import labels_seen
from tuplet.io.vectors import Vectors, align
from tuplet.pages.training import training_record
from tuplet.rows.unit import checked_vectors

LABELS_TRAINED = "The labels trained these vectors: scores against them say how well they were learned."
_SHOWN_ELSEWHERE = ("format", "training", "settings", "seen")


@dataclass(frozen=True, eq=False)
class Subject:
    """`z` (n, d), `clusters` (n,) and where they are from; facts and settings of the run as (name, text)."""

    z: Any
    clusters: NDArray[np.int64]
    clusters_from: str
    method: str
    run: list[tuple[str, str]] = field(default_factory=list)
    settings: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    training: Any = None  # as `training_record` gives it


def subject_of(model: Any, graph: Graph, vectors: Any, clusters: Any, seed: int) -> Subject:
    """The subject of `tuplet.report(model, graph, ...)`: a fitted estimator, a `Vectors` table or rows (n, d)."""
    if isinstance(model, Vectors):
        z, known = align(model, graph), _aligned_clusters(model, graph)
        rest = _of_table(model, graph)
    elif hasattr(model, "get_params"):
        z, known = _rows_of(model, graph) if vectors is None else vectors, getattr(model, "labels_", None)
        rest = _of_estimator(model)
    else:
        z, known, rest = model, None, {"method": "vectors as given"}
    z = checked_vectors(z, graph.n_nodes)
    found, source = _clusters(z, graph, clusters, known, seed)
    return Subject(z, found, source, **rest)


def _rows_of(model: Any, graph: Graph) -> Any:
    fitted = getattr(model, "n_features_in_", graph.n_features)
    if graph.x is not None and fitted != graph.n_features:
        raise InputError(
            f"The model was fitted on {fitted} feature columns but this graph has {graph.n_features}. "
            "Give the graph that it was fitted on, or one with the same columns."
        )
    z = getattr(model, "embedding_", None)
    if z is not None and len(z) == graph.n_nodes and (graph.x is not None or _by_its_edges(model, graph)):
        return z
    return model.transform(graph)  # refuses a graph whose columns it does not know


def _by_its_edges(model: Any, graph: Graph) -> bool:
    """Whether the columns that `model` was fitted on, where they have names, were made from the edges of `graph`."""
    names = list(getattr(model, "feature_names_in_", ()))
    return not names or graph.has_fingerprint(str(names[0])[-16:])


def _aligned_clusters(table: Vectors, graph: Graph) -> NDArray[np.int64] | None:
    if table.cluster is None:
        return None
    column = Vectors(table.ids, np.asarray(table.cluster)[:, None].astype(np.float64), metadata=table.metadata)  # type: ignore[arg-type]
    return align(column, graph)[:, 0].astype(np.int64)


def _clusters(z: Any, graph: Graph, given: Any, known: Any, seed: int) -> tuple[NDArray[np.int64], str]:
    if given is None and known is not None and len(known) == len(z):
        return _numbered(known, len(z)), "the run's own clusters"
    if given is None or isinstance(given, int | np.integer):
        k = None if given is None else check_int("clusters", given, maximum=z.shape[0])
        result = cluster_nodes(z, graph, k, seed=seed)
        assert result.labels is not None
        where = {"classes": "the number of classes", "silhouette": "the silhouette", "given": "the caller"}
        source = f"K-Means on unit rows, k = {result.sizes['clusters']} from {where[result.settings['k_from']]}"
        return result.labels, source
    return _numbered(given, len(z)), "clusters as given"


def _numbered(clusters: Any, n: int) -> NDArray[np.int64]:
    found = np.asarray(clusters)
    if found.shape != (n,) or found.dtype.kind not in "iu" or (n and found.min() < 0):
        raise InputError(
            f"clusters has shape {found.shape} and type {found.dtype}. Give a number from 0 for each of {n} nodes."
        )
    return found.astype(np.int64)


def _of_estimator(model: Any) -> dict[str, Any]:
    settings = [(name, _text(value)) for name, value in model.get_params(deep=False).items()]
    history = getattr(model, "history_", None)
    warnings = []
    if history is not None and history.stopped == "interrupted":
        warnings.append("Training was interrupted; the vectors are those of the last step.")
    if getattr(model, "needs_labels", False):
        warnings.append(LABELS_TRAINED)
    run = []
    if history is not None and history.rows:
        run.append(("training", f"{history.rows[-1]['seconds']:.1f} s"))
    return {
        "method": type(model).__name__,
        "run": run,
        "settings": settings,
        "warnings": warnings,
        "training": training_record(model),
    }


def _of_table(table: Vectors, graph: Graph) -> dict[str, Any]:
    facts = {name: value for name, value in table.metadata.items() if name not in _SHOWN_ELSEWHERE}
    made = str(facts.pop("graph", ""))
    warnings = []
    seen = labels_seen(table.metadata, len(table.ids))
    if seen is not None:
        facts["learned from"] = f"the edges and {int(seen.sum()):,} labels" if seen.any() else "the edges, no labels"
        warnings += [LABELS_TRAINED] if seen.any() else []
    if made and graph.x is not None and not graph.has_fingerprint(made):
        warnings.append(
            f"The vectors were made from another state of this graph (fingerprint {made}, now {graph.fingerprint()}):"
            " edges, weights or features have changed since. Embed the graph again to bring them together."
        )
    method = str(facts.get("method", "")) or str(facts.get("model", "")).partition("(")[0] or "vectors of a file"
    given = table.metadata.get("settings")
    return {
        "method": method,
        "run": [(name, _text(value)) for name, value in facts.items() if name != "method" and value],
        "settings": [(str(k), _text(v)) for k, v in given.items()] if isinstance(given, dict) else [],
        "warnings": warnings,
        "training": table.metadata.get("training"),
    }


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        return json.dumps(value, default=str)
    return str(value)


def versions() -> str:
    """tuplet, Python and the packages that the numbers depend on."""
    found = [f"tuplet {__version__}", f"Python {platform.python_version()}"]
    for name in ("numpy", "scipy", "scikit-learn", "torch", "openTSNE"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)
