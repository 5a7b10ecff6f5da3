"""Files of nodes that are new to a graph: ids, features in the graph's columns, edges to old and new nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError, check_choice
from tuplet.graph import Graph
from tuplet.io._columns import FeatureBlock
from tuplet.io._edges import EdgeTable
from tuplet.io._features import check_missing, encode_table
from tuplet.io._ids import examples, look_up, to_numpy, unify, would_match
from tuplet.io._missing import side_by_side
from tuplet.io._nodes import NodeTable, as_matrix, open_features


@dataclass(frozen=True, eq=False)
class NewNodes:
    """`ids` (m,), features `x` (m, f) in the graph's columns, `edges` (k, 2), new nodes as n, n + 1, .., weights."""

    ids: NDArray[Any]
    x: Any
    edges: NDArray[np.int64]
    weights: NDArray[np.float32] | None


def read_new_nodes(
    graph: Graph,
    edges: Any,
    features: Any,
    *,
    source: str | None = None,
    target: str | None = None,
    weight: str | bool | None = None,
    id: str | None = None,
    categorical: Sequence[str] = (),
    tokens: Sequence[str] | Mapping[str, str] = (),
    missing: str = "role",
    header: bool | None = None,
    separator: str | None = None,
    comment: str = "#",
    decimal: str | None = None,
) -> NewNodes:
    """New nodes of `graph` from an edge and a feature table, as `read_graph` takes them.

    Where the graph was made from a table, the new one passes the same way (`graph.preparation`): words and levels
    that it does not know are ignored, with a warning where they are many. Else features come as they are, in the
    graph's columns: by name where the graph knows its feature names, else by place; categories and tokens that it
    does not know are an error. `missing` values: filled by "role", an "error", or "zero".

    >>> from tuplet.io._read import read_graph
    >>> g = read_graph([("a", "b")], {"id": ["a", "b"], "age": [1, 2], "kind": ["x", "y"]}, scale=False)
    >>> new = read_new_nodes(g, [("b", "c")], {"id": ["c"], "kind": ["x"], "age": [7]})
    >>> new.ids.tolist(), new.x.tolist(), new.edges.tolist()
    (['c'], [[7.0, 1.0, 0.0]], [[1, 2]])
    """
    import pyarrow as pa

    check_choice("missing", missing, ("role", "error", "zero"))
    text = {"header": header, "separator": separator, "comment": comment, "decimal": decimal}
    if features is None or as_matrix(features) is not None:
        raise InputError("The features of new nodes need an id column. Give a table, not a matrix.")
    made = graph.preparation
    table = open_features(
        features,
        text,
        id=id,
        columns=None,
        label=None,
        free=[*categorical, *tokens],
        typed=None if made is None else made.typed_columns,
        usual_label=None if made is None else made.label,
    )
    found = EdgeTable.open(edges, source, target, weight, text).read()
    old, ids, *ends = unify(pa.array(_plain(graph.node_ids)), table.ids, found.source, found.target)
    known = look_up(ids, old) >= 0
    if known.any():
        raise InputError(
            f"{int(known.sum())} of {len(ids)} new ids are nodes of the graph already, for example "
            f"{examples(ids.filter(pa.array(known)))}. Give new ids, or change features with LiveRows."
        )
    order = pa.concat_arrays([old, ids])
    places = [look_up(column, order) for column in ends]
    for column, place in zip(ends, places):
        if (place < 0).any():
            strange = column.filter(pa.array(place < 0))
            raise InputError(
                f"{len(strange)} ends of the new edges are neither nodes of the graph nor new, for example "
                f"{examples(strange)}.{would_match(strange, order)} Give features for all new nodes."
            )
    how = {"categorical": categorical, "tokens": tokens, "missing": missing}
    return NewNodes(to_numpy(ids), _features(graph, table, how), np.column_stack(places), found.weights)


def _features(graph: Graph, table: NodeTable, how: dict[str, Any]) -> Any:
    """The table's features in the columns of `graph`."""
    if graph.preparation is not None:
        (chunk,) = table.chunks()
        if how["missing"] == "error":
            check_missing(lambda: [chunk], table.features, "the new features")
        return graph.preparation.transform(chunk, new=True)
    (blocks,) = encode_table(
        table.chunks, table.features, chosen=True, scale=False, what="the new features", **how
    ).chunks()
    return in_columns_of(graph, blocks)


def in_columns_of(graph: Graph, blocks: Sequence[FeatureBlock]) -> Any:
    """The blocks' features in the columns of `graph`, dense (m, f) or CSR."""
    names = [name for block in blocks for name in block.names]
    x = side_by_side([block.values for block in blocks])
    if not graph.feature_names:
        if len(names) != graph.n_features:
            raise InputError(
                f"The new features have {len(names)} columns but the graph has {graph.n_features}. "
                "Give the same columns in the same order."
            )
        return x
    place = {name: i for i, name in enumerate(graph.feature_names)}
    strange = [name for name in names if name not in place]
    given = {block.column for block in blocks}
    lacking = [name for name in place if name not in names and not _is_value_of(name, given)]
    if strange or lacking:
        wrong = [f"{what}: {examples(found)}" for what, found in (("unknown", strange), ("absent", lacking)) if found]
        raise InputError(
            f"The features are not those of the graph ({'; '.join(wrong)}). Give the columns that it was made with: "
            f"{examples(graph.feature_names, 5)}."
        )
    dense = x.toarray() if hasattr(x, "toarray") else x
    out = np.zeros((dense.shape[0], graph.n_features), np.float32)
    out[:, [place[name] for name in names]] = dense
    return out


def _is_value_of(name: str, columns: set[str]) -> bool:
    """Whether `name` is a category or token of one of the columns (absent here because no new node has it)."""
    return any(name.startswith((f"{column}=", f"{column}:")) for column in columns)


def _plain(ids: NDArray[Any]) -> Any:
    import pyarrow as pa

    return ids if ids.dtype.kind in "iu" else pa.array(ids.astype(str), pa.large_string())
