"""Files and tables -> Graph: `read_graph`. Other libraries' graphs are in libraries.py, vectors in vectors.py."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuplet._check import InputError, is_there
from tuplet.graph import Graph
from tuplet.io._edges import adjacency
from tuplet.io._features import as_preparation, encode_table
from tuplet.io._ids import is_range, look_up, to_numpy, unique_ids
from tuplet.io._inputs import Inputs, encoding, given_options
from tuplet.io._missing import fill, side_by_side, spread
from tuplet.io._nodes import node_order
from tuplet.io.npz import read_npz
from tuplet.io.places import located


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
    roles: Mapping[str, str] | None = None,
    exclude: Sequence[str] = (),
    scale: bool = True,
    label: str | None = None,
    directed: bool = False,
    missing: str = "role",
    unmatched: str = "error",
    header: bool | None = None,
    separator: str | None = None,
    comment: str = "#",
    decimal: str | None = None,
    preparation: Any = None,
    name: str = "",
) -> Graph:
    """The graph in one, two or three tables: edges, node features and labels.

    Each may be a path (CSV, TSV, Parquet, Arrow; text also as .gz, .zst), a folder of parts, a glob pattern, a list
    of paths, a binary stream of CSV, anything with `__arrow_c_stream__` (pandas, polars, DuckDB, Arrow), a dict of
    columns or a 2-d array. `edges` may also be an .npz file or a folder made by `tuplet convert`, which hold a whole
    graph: no other option goes with it. `features` may be an (n, f) matrix or .npy file: row i is node i.

    Columns are found by their usual names (source/target, src/dst, from/to, .., weight; id; label), else by place:
    the first two of `edges`, the first of `features` and `labels`. Name others with `source`, `target`, `weight`
    (False: none), `id` and `label`. A column of `features` named label, class, y or target is the label and no
    feature, unless `columns` names it. `columns` picks feature columns.

    Each feature column gets a role by its type, name and values, and becomes features by it: docs/preparation.md.
    `roles` ({"size": "number", "kind": "category"}) overrules that, `categorical` names categories, `tokens` text
    columns of tokens with their separator, `exclude` columns to leave out. `scale` False keeps numbers and counts as
    they are. `graph.preparation.rows()` says what was done. With `preparation`, a fitted model or another graph,
    nothing is learned from the table: its columns pass the way that was learned before, as a model
    that is to embed this graph needs it.

    Nodes come in the order of `features`, else of `labels`, else by ascending id; ids are kept in `graph.ids`.
    `unmatched` says what to do with nodes that only one of the files knows: "error", "keep" or "drop" them.
    `missing` says how absent feature values are filled: by the column's "role", "zero", "mean" of the column, or
    "propagate", the mean over the node's neighbours; or they are an "error". Nodes without a feature row are filled
    in the same way; for "role" they are an error, or with `unmatched` "keep" rows of zeros.
    `header`, `separator` and `comment` overrule what is guessed from the first lines of text files. `decimal` names
    the decimal mark of their numbers, "," or "."; marks between thousands are read then too (1.234,5 or 1,234.5).

    >>> g = read_graph([("ann", "bob"), ("bob", "cy")], {"id": ["cy", "bob", "ann"], "age": [31, 17, 42]})
    >>> g, g.ids.tolist(), g.feature_names
    (Graph(3 nodes, 2 edges, 1 features), ['cy', 'bob', 'ann'], ('age',))
    """
    options = {"source": source, "target": target, "weight": weight, "id": id, "columns": columns, "label": label,
               "categorical": categorical, "tokens": tokens, "roles": roles, "exclude": exclude, "scale": scale,
               "directed": directed, "missing": missing, "unmatched": unmatched, "header": header,
               "separator": separator, "comment": comment, "decimal": decimal,
               "preparation": as_preparation(preparation)}  # fmt: skip
    edges, features, labels = located(edges), located(features), located(labels)
    whole = _whole_graph(edges, features, labels, options)
    if whole is not None:
        return whole.with_(name=name or whole.name)
    inputs = Inputs.open(edges, features, labels, options, in_memory=True)
    found = inputs.edges.read()
    source_ids, target_ids, x_ids, y_ids = inputs.in_one_type(found.source, found.target)
    listed = x_ids if x_ids is not None else y_ids
    order = _order(unique_ids(source_ids, target_ids), listed, inputs, unmatched, missing)
    adj = adjacency(look_up(source_ids, order), look_up(target_ids, order), found.weights, len(order), directed)
    names: tuple[str, ...] = ()
    prepared = None
    x: Any = inputs.matrix
    if inputs.features is not None:
        table = inputs.features
        encoded = encode_table(table.chunks, table.features, **encoding(table, options))
        names, prepared, rows = encoded.names, encoded.preparation, look_up(x_ids, order)
        (blocks,) = encoded.chunks()
        x = side_by_side([fill(spread(block, rows, len(order)), missing, adj) for block in blocks])
    y, label_names = inputs.classes(x_ids, y_ids, order, unmatched)
    node_ids = to_numpy(order)
    return Graph.from_scipy(
        adj,
        x,
        y,
        ids=None if is_range(node_ids) else node_ids,
        directed=directed,
        name=name,
        label_names=label_names,
        feature_names=names,
        preparation=prepared,
        label_column=inputs.label_column,
    )


def _order(with_edges: Any, listed: Any, inputs: Inputs, unmatched: str, missing: str) -> Any:
    """The ids of the nodes in order; `with_edges` are those of the edges, ascending."""
    import pyarrow.compute as pc

    if listed is None:
        return with_edges
    others = with_edges.filter(pc.invert(pc.is_in(with_edges, value_set=listed)))
    known = look_up(listed, with_edges) >= 0
    return node_order(listed, known, others, inputs.nodes, inputs.kind, unmatched, missing)


def _whole_graph(edges: Any, features: Any, labels: Any, options: dict[str, Any]) -> Graph | None:
    """The graph, where `edges` is a file or folder that holds all of it; no option but the name can change it."""
    if isinstance(edges, Graph):
        whole: Graph | None = edges
    elif not isinstance(edges, str | os.PathLike):
        return None
    elif str(edges).endswith(".npz"):
        whole = read_npz(edges)
    elif is_there(Path(edges) / "meta.json"):
        from tuplet.io.folder import open_graph

        whole = open_graph(edges)
    else:
        return None
    tables = {"features": features, "labels": labels}
    used = [*(name for name, table in tables.items() if table is not None), *given_options(options)]
    if used:
        what = "The Graph" if isinstance(edges, Graph) else str(edges)
        raise InputError(f"{what} holds a whole graph already, which {used[0]} cannot change. Leave it out.")
    return whole
