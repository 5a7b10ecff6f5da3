"""Files and tables -> Graph: `read_graph`. Other libraries' graphs are in libraries.py, vectors in vectors.py."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuplet._check import InputError, check_choice
from tuplet.graph import Graph
from tuplet.io._columns import column_blocks
from tuplet.io._edges import Edges, adjacency, read_edges
from tuplet.io._ids import is_range, look_up, to_numpy, unify
from tuplet.io._missing import MISSING, check_missing, fill, side_by_side, spread
from tuplet.io._nodes import UNMATCHED, node_labels, node_order, read_features, read_labels
from tuplet.io.npz import read_npz


def read_graph(
    edges: Any,
    features: Any = None,
    labels: Any = None,
    *,
    source: str | None = None,
    target: str | None = None,
    weight: str | bool | None = None,
    id: str | None = None,
    columns: Sequence[str] | None = None,
    categorical: Sequence[str] = (),
    tokens: Sequence[str] | Mapping[str, str] = (),
    label: str | None = None,
    directed: bool = False,
    missing: str = "error",
    unmatched: str = "error",
    header: bool | None = None,
    separator: str | None = None,
    comment: str = "#",
    name: str = "",
) -> Graph:
    """The graph in one, two or three tables: edges, node features and labels.

    Each may be a path (CSV, TSV, Parquet, Arrow, a folder of parts), a pandas, polars or Arrow table, a dict of
    columns, a 2-d array, or a binary stream of CSV. `edges` may also be an .npz file or a folder made by
    `tuplet convert`, which hold a whole graph. `features` may be an (n, f) matrix or .npy file: row i is node i.

    Columns are found by their usual names (source/target, src/dst, from/to, .., weight; id; label), else by place:
    the first two of `edges`, the first of `features` and `labels`. Name others with `source`, `target`, `weight`
    (False: none), `id` and `label`. `columns` picks feature columns; text is one-hot encoded, `categorical` does the
    same to numbers, lists (or the text columns in `tokens`) are counted by token, number lists are taken as vectors.

    Nodes come in the order of `features`, else of `labels`, else by ascending id; ids are kept in `graph.ids`.
    `unmatched` says what to do with nodes that only one of the files knows: "error", "keep" or "drop" them.
    `missing` says how absent feature values are filled: "error", "zero", "mean" of the column, or "propagate", the
    mean over the node's neighbours; nodes without a feature row are filled in the same way.
    `header`, `separator` and `comment` overrule what is guessed from the first lines of text files.

    >>> g = read_graph([("ann", "bob"), ("bob", "cy")], {"id": ["cy", "bob", "ann"], "age": [31, 17, 42]})
    >>> g, g.ids.tolist(), g.feature_names
    (Graph(3 nodes, 2 edges, 1 features), ['cy', 'bob', 'ann'], ('age',))
    """
    check_choice("missing", missing, MISSING)
    check_choice("unmatched", unmatched, UNMATCHED)
    whole = _whole_graph(edges, features, labels)
    if whole is not None:
        return whole.with_(name=name or whole.name)
    text = {"header": header, "separator": separator, "comment": comment}
    found = read_edges(edges, source, target, weight, text)
    x_table, x_ids, x_matrix = read_features(features, id, text)
    y_table, y_ids = read_labels(labels, id, text)
    known = [column for column in (x_ids, y_ids) if column is not None]
    source_ids, target_ids, *known = unify(found.source, found.target, *known)
    found = Edges(source_ids, target_ids, found.weights)
    x_ids = known.pop(0) if x_ids is not None else None
    y_ids = known.pop(0) if y_ids is not None else None
    order = node_order(found, x_ids, y_ids, unmatched, missing, by_place=x_matrix is not None)
    adj = adjacency(look_up(found.source, order), look_up(found.target, order), found.weights, len(order), directed)
    names: tuple[str, ...] = ()
    x: Any = x_matrix
    if x_table is not None:
        leave_out = [x_table.column_names[0], *([label] if label and labels is None else [])]
        blocks = column_blocks(x_table, columns, categorical=categorical, tokens=tokens, leave_out=leave_out)
        if missing == "error":
            check_missing(blocks, "the features")
        names = tuple(feature for block in blocks for feature in block.names)
        rows = look_up(x_ids, order)
        x = side_by_side([fill(spread(block, rows, len(order)), missing, adj) for block in blocks])
    y, label_names = node_labels(y_table, y_ids, x_table if labels is None else None, x_ids, label, order, unmatched)
    ids = to_numpy(order)
    return Graph.from_scipy(
        adj,
        x,
        y,
        ids=None if is_range(ids) else ids,
        directed=directed,
        name=name,
        label_names=label_names,
        feature_names=names,
    )


def _whole_graph(edges: Any, features: Any, labels: Any) -> Graph | None:
    """The graph, where `edges` is a file or folder that holds all of it."""
    if isinstance(edges, Graph):
        whole: Graph | None = edges
    elif not isinstance(edges, str | os.PathLike):
        return None
    elif str(edges).endswith(".npz"):
        whole = read_npz(edges)
    elif (Path(edges) / "meta.json").is_file():
        from tuplet.io.folder import open_graph

        whole = open_graph(edges)
    else:
        return None
    if features is not None or labels is not None:
        raise InputError(f"{edges} holds a whole graph already. Give its edges as a table to join other features.")
    return whole
