"""What `tuplet embed` made: the vectors, where they go, and what is told of them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuplet._check import InputError
from tuplet.cli._console import label_fact, prepared_columns, print_columns, print_json
from tuplet.cli._graph import Options
from tuplet.cli._vectors import write_or_keep


@dataclass(frozen=True)
class Made:
    """Vectors `z` of the nodes `ids`, with clusters where there are any, what they saw, and who made them."""

    ids: Any
    z: Any
    cluster: Any
    seen: dict[str, Any]
    estimator: Any


@dataclass(frozen=True)
class Target:
    """Where the vectors go: a file, a folder of parts, or (None) standard output."""

    path: str | None

    @classmethod
    def checked(cls, out: str, dtype: str, save_model: str | None) -> Target:
        """The target of --out, and that of --save-model, if both can be written."""
        from tuplet.io.vectors import check_vectors_path
        from tuplet.models.saving import check_model_folder

        if out == "-":
            if dtype != "float32":
                raise InputError("--dtype would not be used: standard output gets text. Write a file with --out.")
        else:
            check_vectors_path(out, dtype)
        if save_model is not None:
            check_model_folder(save_model)
        return cls(None if out == "-" else out)

    def check(self, estimator: Any, g: Any) -> None:
        """Raise, before any training, where a table would refuse the vectors of this graph by this estimator."""
        from tuplet.io.vector_stores import check_store, is_store

        if is_store(self.path):
            check_store(str(self.path), estimator.width_on(g), g.node_ids)

    def write(self, made: Made, g: Any, dtype: str, save_model: str | None, with_rows: bool, progress: Any) -> None:
        """Write vectors and model."""
        if save_model is not None:
            made.estimator.save(save_model, rows=g if with_rows else None)
        if self.path is not None:
            metadata = {**_made_by(made.estimator), "graph": made.seen["edges"]["graph"], "seen": made.seen}
            engine = getattr(made.estimator, "engine", "local")
            options = {"cluster": made.cluster, "metadata": metadata, "dtype": dtype}
            options |= {"engine": engine, "progress": progress}
            write_or_keep(self.path, made.z, made.ids, options)


def _made_by(estimator: Any) -> dict[str, Any]:
    """Method, settings and training curve, as the vectors' metadata keep them; the same for two equal runs."""
    from sklearn.base import clone

    from tuplet.pages.training import training_record

    name, shown = type(estimator).__name__, estimator
    if "engine" in estimator.get_params(deep=False):
        shown = clone(estimator).set_params(engine="local")
    settings = {key: value for key, value in shown.get_params(deep=False).items() if _is_plain(value)}
    made = {"model": repr(shown), "method": name, "settings": settings}
    training = training_record(estimator)
    return made if training is None else made | {"training": training}


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_plain(item) for item in value)
    return value is None or isinstance(value, str | int | float | bool)


def tell(target: Target, made: Made, g: Any, how: Options, as_json: bool) -> None:
    """What was done: on standard output, or on standard error where that holds the vectors."""
    from tuplet.io.sources import shown

    method, place = type(made.estimator).__name__, shown(target.path or "-")
    facts: dict[str, Any] = {"vectors": place, "rows": len(made.z), "dim": int(made.z.shape[1]), "method": method}
    facts["labels_seen"] = _labels_seen(made.seen)
    structural = g.x is None and made.estimator.needs_features
    if structural:
        facts["features"] = "structural"
    if made.cluster is not None:
        facts["clusters"] = int(made.cluster.max()) + 1
    if target.path is None:
        _print_vectors(made)
        print_columns(g, to=sys.stderr)
    elif as_json:
        print_json(facts | prepared_columns(g))
    else:
        print_columns(g)
        clusters = f"; k = {facts['clusters']}" if made.cluster is not None else ""
        text = f"{place}: {len(made.z)} vectors of {facts['dim']} numbers, by {method}{clusters}"
        seen = "labels of unknown nodes" if facts["labels_seen"] is None else f"{facts['labels_seen']} labels"
        source = ", on columns made from the edges (the graph has no features)" if structural else ""
        sys.stdout.write(f"{text}{source}; learned from {seen}{label_fact(g, how)}\n")


def _labels_seen(seen: dict[str, Any]) -> int | None:
    labels = seen["labels"]
    return 0 if labels is None else labels["count"] if isinstance(labels, dict) else None


def _print_vectors(made: Made) -> None:
    """The vectors as CSV on standard output, as `write_vectors` writes them to a .csv file."""
    import shutil
    import tempfile

    from tuplet.io.vectors import write_vectors

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.csv"
        write_vectors(path, made.z, made.ids, cluster=made.cluster)
        with path.open(encoding="utf-8") as file:
            shutil.copyfileobj(file, sys.stdout)
