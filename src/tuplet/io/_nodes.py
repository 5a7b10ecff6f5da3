"""Node tables: features and labels by id, which nodes the graph has and in which order, classes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet._files import DAMAGE
from tuplet.graph import checked_features
from tuplet.io._arrow import read_table
from tuplet.io._columns import NULL_WORDS
from tuplet.io._edges import Edges, check_rows
from tuplet.io._ids import check_unique, examples, id_column, look_up, unique_ids

if TYPE_CHECKING:
    import pyarrow as pa

UNMATCHED = ("error", "keep", "drop")
_ID_NAMES = ("id", "node_id", "node", "nodeid", "node id")
_LABEL_NAMES = ("label", "class", "y")


def read_features(features: Any, id: str | None, text: dict[str, Any]) -> tuple[Any, Any, Any]:
    """(table with the ids as first column, ids, None), or (None, None or ids 0.., matrix)."""
    import pyarrow as pa

    if features is None:
        return None, None, None
    matrix = features
    if isinstance(features, str | os.PathLike) and str(features).endswith(".npy"):
        matrix = _load_npy(features)
    if sp.issparse(matrix) or isinstance(matrix, np.ndarray):
        matrix = checked_features(matrix, matrix.shape[0] if matrix.ndim else 0)
        return None, pa.array(np.arange(matrix.shape[0])), matrix
    table, ids = _id_table(features, id, text, "the features")
    return table, ids, None


def read_labels(labels: Any, id: str | None, text: dict[str, Any]) -> tuple[Any, Any]:
    """(table with the ids as first column, ids), or twice None."""
    if labels is None:
        return None, None
    return _id_table(labels, id, text, "the labels")


def _id_table(given: Any, id: str | None, text: dict[str, Any], what: str) -> tuple[pa.Table, pa.Array]:
    """The table with its id column first, and the checked ids."""
    table, layout = read_table(given, **text, as_text=lambda names: (id_name(names, id, what),))
    check_rows(table.num_rows, what.capitalize())
    key = id_name(table.column_names, id, what)
    ids = id_column(table.column(key), f"column {key!r} of {what}", from_text=layout is not None)
    check_unique(ids, what)
    return table.select([key, *(name for name in table.column_names if name != key)]), ids


def id_name(names: Sequence[str], id: str | None, what: str) -> str:
    """The id column: as given, by its usual names, else the first."""
    if id is not None and id in names:
        return id
    if id is not None:
        raise InputError(f"There is no id column {id!r} in {what}. The columns are: {', '.join(names)}.")
    lower = {name.lower(): name for name in names}
    return next((lower[known] for known in _ID_NAMES if known in lower), names[0])


def _load_npy(path: Any) -> NDArray[Any]:
    try:
        return np.load(path, allow_pickle=False)  # type: ignore[no-any-return]
    except DAMAGE as error:
        raise InputError(f"{path} is not a readable .npy file ({error}). Write or copy it again.") from None


def node_order(edges: Edges, x_ids: Any, y_ids: Any, unmatched: str, missing: str, *, by_place: bool) -> pa.Array:
    """The ids of the graph's nodes, in order. `by_place`: row i of the features is node i, so all are nodes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    with_edges = unique_ids(edges.source, edges.target)
    listed = x_ids if x_ids is not None else y_ids
    if listed is None:
        return with_edges
    only_edges = with_edges.filter(pc.invert(pc.is_in(with_edges, value_set=listed)))
    isolated = pc.invert(pc.is_in(listed, value_set=with_edges))
    if by_place:
        if len(only_edges):
            raise InputError(
                f"The features have {len(listed)} rows, for the nodes 0 to {len(listed) - 1}, but the edges name "
                f"{len(only_edges)} others, for example {examples(only_edges)}. Give a table with an id column."
            )
        return listed
    if x_ids is None:  # labels alone never decide which nodes there are, only their order
        return pa.concat_arrays([listed.filter(pc.invert(isolated)), only_edges])
    if unmatched == "drop":
        both = listed.filter(pc.invert(isolated))
        if len(both) < 2:
            raise InputError(f"Only {len(both)} nodes are in both files. Do their ids agree?")
        return both
    strangers = listed.filter(isolated)
    if len(strangers) and unmatched == "error":
        raise InputError(
            f"{len(strangers)} of {len(listed)} ids in the features are unknown to the edges, for example "
            f"{examples(strangers)}. Say unmatched='keep' to keep them as isolated nodes, or 'drop'."
        )
    if len(only_edges) and missing == "error":
        raise InputError(
            f"{len(only_edges)} of {len(with_edges)} nodes in the edges have no feature row, for example "
            f"{examples(only_edges)}. Fill their rows with missing='zero', 'mean' or 'propagate', or leave the nodes "
            "out with unmatched='drop'."
        )
    return pa.concat_arrays([listed, only_edges])


def node_labels(
    y_table: Any, y_ids: Any, x_table: Any, x_ids: Any, label: str | None, order: pa.Array, unmatched: str
) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    """Classes 0.. in node order, -1 where unknown, and their names."""
    table, ids = (y_table, y_ids) if y_table is not None else (x_table, x_ids)
    if table is None or (y_table is None and label is None):
        return None, ()
    name = label or next((c for c in table.column_names[1:] if c.lower() in _LABEL_NAMES), table.column_names[-1])
    if name not in table.column_names[1:]:
        raise InputError(f"There is no label column {name!r}. The columns are: {', '.join(table.column_names)}.")
    rows = look_up(ids, order)
    unknown = ids.filter(_mask(rows < 0))
    if len(unknown) and unmatched == "error" and y_table is not None:
        raise InputError(
            f"{len(unknown)} of {len(ids)} ids in the labels are no nodes, for example {examples(unknown)}. "
            "Remove these rows, or say unmatched='drop' to ignore them."
        )
    codes, names = classes(table.column(name), name)
    y = np.full(len(order), -1, dtype=np.int64)
    y[rows[rows >= 0]] = codes[rows >= 0]
    return y, names


def _mask(mask: NDArray[np.bool_]) -> Any:
    import pyarrow as pa

    return pa.array(mask)


def classes(column: Any, name: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Class numbers; whole numbers 0, 1, .. and -1 stay as they are, anything else is numbered in ascending order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_nested(column.type):
        raise InputError(f"The label column {name!r} holds {column.type}. Give one class for each node.")
    if pa.types.is_integer(column.type):
        numbers = np.asarray(pc.fill_null(pc.cast(column, pa.int64()), -1), dtype=np.int64)
        if numbers.min() >= -1 and numbers.max() < len(numbers):
            return numbers, ()
    text = pc.cast(column, pa.large_string())
    known = pc.fill_null(pc.invert(pc.is_in(text, value_set=pa.array(NULL_WORDS, pa.large_string()))), False)
    values = pc.unique((column if pa.types.is_integer(column.type) else text).filter(known))
    values = pc.cast(values.take(pc.sort_indices(values)), pa.large_string())
    codes = np.asarray(pc.fill_null(pc.index_in(text, value_set=values), -1), dtype=np.int64)
    return codes, tuple(values.to_pylist())
