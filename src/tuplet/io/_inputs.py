"""What `read_graph` and `convert` are given: up to three tables and the options, opened and checked in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError, check_choice, option
from tuplet.io._edges import EdgeTable
from tuplet.io._ids import unify
from tuplet.io._missing import MISSING
from tuplet.io._nodes import UNMATCHED, NodeTable, as_matrix, node_labels, open_features, open_labels

if TYPE_CHECKING:
    import pyarrow as pa

# The options that say how tables are read, and what they are where the user says nothing.
DEFAULTS: dict[str, Any] = {
    "source": None, "target": None, "weight": None, "id": None, "columns": None, "categorical": (), "tokens": (),
    "roles": None, "exclude": (), "scale": True,
    "label": None, "directed": False, "missing": "role", "unmatched": "error", "header": None, "separator": None,
    "comment": "#", "decimal": None, "preparation": None,
}  # fmt: skip
_STEERING = ("columns", "categorical", "tokens", "roles", "exclude", "scale")  # what is made of the columns
_OF_FEATURES = (*_STEERING, "missing")
_OF_NODES = ("id", "label", "unmatched")
OF_TEXT = ("header", "separator", "comment", "decimal")


@dataclass(frozen=True)
class Inputs:
    """The edges, and the nodes' features (a table or a matrix) and labels where there are any."""

    edges: EdgeTable
    features: NodeTable | None
    matrix: Any
    labels: NodeTable | None

    @classmethod
    def open(cls, edges: Any, features: Any, labels: Any, options: dict[str, Any], *, in_memory: bool) -> Inputs:
        """Open the tables. `in_memory` holds the features whole; else they are read in chunks."""
        check_choice("missing", options["missing"], MISSING)
        check_choice("unmatched", options["unmatched"], UNMATCHED)
        text = {name: options[name] for name in OF_TEXT}
        matrix = as_matrix(features)
        has_table = features is not None and matrix is None
        made = options["preparation"]
        if made is not None and not has_table:
            used = ", ".join(column.encoder.name for column in made.columns[:5])
            raise InputError(
                f"There is no table of features, but they were prepared from one with the columns {used}, .. . "
                f"Give it: {option('features')}"
            )
        _check_used(options, _OF_FEATURES if not has_table else (), "no table of features is given")
        no_table = not has_table and labels is None
        _check_used(options, _OF_NODES if no_table else (), "no table of features or labels is given")
        found = EdgeTable.open(edges, options["source"], options["target"], options["weight"], text)
        named = {"id": options["id"], "label": options["label"]}
        y_table = None if labels is None else open_labels(labels, text, **named)
        x_table = None
        if has_table:
            _check_used(
                options, _STEERING if made is not None else (), "that was decided when the preparation was learned"
            )
            free = [*options["categorical"], *options["tokens"], *_not_numbers(options["roles"]), *options["exclude"]]
            apart = labels is not None
            x_table = open_features(
                features,
                text,
                **named,
                columns=options["columns"],
                free=free,
                labels_apart=apart,
                typed=None if made is None else made.typed_columns,
                usual_label=made.label if made is not None else y_table.label if y_table is not None else None,
                in_memory=in_memory,
            )
        tables = [found.table, *(nodes.table for nodes in (x_table, y_table) if nodes is not None)]
        if not any(table.is_text for table in tables):
            _check_used(options, OF_TEXT, "no text file is given")
        return cls(found, x_table, matrix, y_table)

    @property
    def kind(self) -> str:
        """What decides the nodes and their order besides the edges: "features", "matrix", "labels" or nothing."""
        kinds = {"matrix": self.matrix, "features": self.features, "labels": self.labels}
        return next((kind for kind, table in kinds.items() if table is not None), "")

    @property
    def nodes(self) -> NodeTable | None:
        """The table that decides the nodes and their order."""
        return self.labels if self.kind == "labels" else self.features

    @property
    def label_column(self) -> str:
        """The column of the labels, or nothing."""
        table = self.features if self.labels is None else self.labels
        return table.label or "" if table is not None else ""

    def node_ids(self) -> tuple[pa.Array | None, pa.Array | None]:
        """The ids of the features and of the labels."""
        import pyarrow as pa

        x_ids = None if self.features is None else self.features.ids
        if self.matrix is not None:
            x_ids = pa.array(np.arange(self.matrix.shape[0]))
        return x_ids, None if self.labels is None else self.labels.ids

    def in_one_type(self, *columns: pa.Array) -> list[Any]:
        """The ids of edges (`columns`), features and labels in one common type; None for absent tables."""
        nodes = self.node_ids()
        same = iter(unify(*columns, *(ids for ids in nodes if ids is not None)))
        edges = [next(same) for _ in columns]
        return [*edges, *(None if ids is None else next(same) for ids in nodes)]

    def classes(
        self, x_ids: Any, y_ids: Any, order: pa.Array, unmatched: str
    ) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
        """The class of each node and the class names, from the labels or from a column of the features."""
        if self.labels is not None:
            return node_labels(self.labels, y_ids, order, unmatched, apart=True)
        if self.features is not None and self.features.label is not None:
            return node_labels(self.features, x_ids, order, unmatched, apart=False)
        return None, ()


def encoding(table: NodeTable, options: dict[str, Any]) -> dict[str, Any]:
    """What `encode` needs to know of the options."""
    names = ("categorical", "tokens", "roles", "exclude", "scale", "missing", "preparation")
    own = {name: options.get(name) for name in names}
    return {**own, "label": table.label, "chosen": options["columns"] is not None, "remarks": table.remarks}


def _not_numbers(roles: Mapping[str, str] | None) -> list[str]:
    return [name for name, role in (roles or {}).items() if role in ("category", "text", "tokens")]


def _check_used(options: dict[str, Any], names: tuple[str, ...], why: str) -> None:
    for name in names:
        if options[name] != DEFAULTS[name] and not (
            name in ("categorical", "tokens", "roles", "exclude") and not options[name]
        ):
            raise InputError(f"{option(name, options[name])} has nothing to work on: {why}. Leave it out.")


def given_options(options: dict[str, Any]) -> list[str]:
    """The options that differ from their defaults, as the user would write them."""
    chosen = {name: value for name, value in options.items() if value != DEFAULTS[name]}
    return [option(name, value) for name, value in chosen.items() if value is None or (value != [] and value != {})]
