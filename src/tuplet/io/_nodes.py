"""Node tables: features and labels by id, which nodes the graph has and in which order, classes."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError, did_you_mean, option
from tuplet._files import DAMAGE
from tuplet.graph import checked_features
from tuplet.io._cells import NULL_WORDS, ColumnTypes
from tuplet.io._edges import check_most_rows, check_some_rows
from tuplet.io._ids import check_unique, examples, id_column, look_up, unify, would_match
from tuplet.io._layout import ID_NAMES
from tuplet.io._tables import Table, open_table
from tuplet.io.preparation._roles import LABEL_NAMES
from tuplet.io.preparation.values import is_text

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("tuplet")

MANY_LABELS = 20  # from so many on, labels that nearly all differ are told
UNMATCHED = ("error", "keep", "drop")


class NodeTable:
    """A table with one row a node: its ids, read at once, and its other columns in chunks or whole.

    `features` are the columns that are features, `label` the one that holds the classes, or None; `remarks` are on
    columns whose numbers may be meant otherwise. `what` names the table in errors, such as "the features".
    """

    def __init__(
        self, table: Table, what: str, key: str, features: Sequence[str], label: str | None, free: Sequence[str], *,
        in_memory: bool,
    ) -> None:  # fmt: skip
        import pyarrow as pa

        self.table, self.key, self.features, self.label, self._held = table, key, tuple(features), label, None
        self._columns = list(dict.fromkeys([*features, *([label] if label else [])]))
        free = [*free, *([label] if label else [])]
        self._types = ColumnTypes(self._columns if table.is_text else (), free, decimal=table.decimal)
        ids, held, rows = [], [], 0
        for chunk in table.chunks([key, *self._columns]):
            what_key = f"column {key!r} of {what}"
            ids.append(id_column(chunk.table.column(0), what_key, chunk.place, from_text=table.is_text))
            self._types.add(chunk.table, chunk.place)
            held += [chunk.table.select(self._columns)] if in_memory else []
            rows += chunk.table.num_rows
            check_most_rows(rows, what.capitalize())
        check_some_rows(rows, what.capitalize())
        self._types.check()
        self.remarks = self._types.remarks()
        self.ids = pa.concat_arrays(unify(*ids))
        check_unique(self.ids, f"{what} (column {key!r})")
        if in_memory:
            self._held = self._types.cast(pa.concat_tables(held))

    def chunks(self) -> Iterator[pa.Table]:
        """Features and label in the order of the table: one chunk in memory, else many."""
        if self._held is not None:
            yield self._held
            return
        key_less = self._columns
        for chunk in self.table.chunks(key_less):
            yield self._types.cast(chunk.table)

    def other_key(self, ids: Any) -> str:
        """A hint at a column that holds `ids`, each once, if another than the one that was taken for the ids does."""
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted = pc.cast(ids, pa.large_string())
        for name in self.table.names:
            found = pa.chunked_array([piece for c in self.table.chunks([name]) for piece in c.table.column(0).chunks])
            if name == self.key or not (pa.types.is_integer(found.type) or is_text(found.type)):
                continue
            texts = pc.cast(found, pa.large_string())
            count = pc.sum(pc.is_in(wanted, value_set=texts)).as_py() or 0
            if 2 * count > len(wanted) and len(pc.unique(texts)) == len(texts):
                return f" Column {name!r} holds {count} of {len(wanted)} ids of the edges: {option('id', name)}"
        return ""

    def classes(self) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """The class of each row, and the class names."""
        import pyarrow as pa

        assert self.label is not None
        column = pa.chunked_array([piece for chunk in self.chunks() for piece in chunk.column(self.label).chunks])
        return classes(column, self.label)


def open_features(
    features: Any, text: dict[str, Any], *, id: str | None, columns: Sequence[str] | None, label: str | None,
    free: Sequence[str] = (), labels_apart: bool = False, in_memory: bool = True, usual_label: str | None = None,
    typed: Sequence[str] | None = None,
) -> NodeTable:  # fmt: skip
    """The feature table. A column named as labels usually are is the label, and no feature unless `columns` says so.

    `label` names another, `usual_label` one that is the label where the table has it and `columns` does not;
    `labels_apart`: the labels come from a table of their own. The columns in `free` may hold any text, and with
    `typed` (of a preparation) all others than these.
    """
    named = (id, None if labels_apart else label, *(columns or ()))
    table = open_table(features, "The features", named=named, **text)
    key = id_name(table.names, id, "the features")
    for name in [*(columns or ()), *([label] if label is not None and not labels_apart else [])]:
        if name not in table.names:
            kind = "label column" if name == label and name not in (columns or ()) else "column"
            raise InputError(
                f"There is no {kind} {name!r}.{did_you_mean(name, table.names)} "
                f"The columns are: {', '.join(table.names)}."
            )
    if label == key and not labels_apart:
        raise InputError(f"Column {key!r} holds the ids, so it cannot be the label. Name another: {option('label')}")
    if label is None and usual_label in table.names and usual_label not in (key, *(columns or ())):
        log.info("column %r of the features is taken as the label, not as a feature", usual_label)
        label = usual_label
    usual = [
        name for name in table.names if name.lower() in LABEL_NAMES and name not in (columns or ()) and name != key
    ]
    found = label if label is not None else _one_label(usual, "the features")
    if label is None and found is not None:
        log.info("column %r of the features is taken as the label, not as a feature", found)
    others = [name for name in table.names if name != key and name != found and name not in usual]
    chosen = others if columns is None else list(columns)
    free = free if typed is None else [*free, *(name for name in chosen if name not in typed)]
    return NodeTable(table, "the features", key, chosen, None if labels_apart else found, free, in_memory=in_memory)


def open_labels(labels: Any, text: dict[str, Any], *, id: str | None, label: str | None) -> NodeTable:
    """The label table; the label is what `label` names, or a column with a usual name, or the only other one."""
    table = open_table(labels, "The labels", named=(id, label), **text)
    key = id_name(table.names, id, "the labels")
    others = [name for name in table.names if name != key]
    if label is not None and label not in others:
        hint = did_you_mean(label, others)
        raise InputError(f"There is no label column {label!r}.{hint} The columns are: {', '.join(table.names)}.")
    usual = _one_label([name for name in others if name.lower() in LABEL_NAMES], "the labels")
    found = label or usual or (others[0] if len(others) == 1 else None)
    if found is None:
        listed = ", ".join(others) or "none but the ids"
        raise InputError(f"Which column of the labels is the label? There are: {listed}. Name it: {option('label')}")
    return NodeTable(table, "the labels", key, (), found, (), in_memory=True)


def _one_label(names: Sequence[str], what: str) -> str | None:
    if len(names) > 1:
        raise InputError(
            f"Several columns of {what} could be the label: {', '.join(map(repr, names))}. Name it: {option('label')}"
        )
    return names[0] if names else None


def as_matrix(features: Any) -> Any:
    """The features as a checked matrix, where they are one (row i is node i); else None."""
    if isinstance(features, str | os.PathLike) and str(features).endswith(".npy"):
        try:
            features = np.load(features, mmap_mode="r", allow_pickle=False)
        except DAMAGE as error:
            raise InputError(f"{features} is not a readable .npy file ({error}). Write or copy it again.") from None
    if sp.issparse(features) or isinstance(features, np.ndarray):
        return checked_features(features, features.shape[0] if features.ndim else 0)
    return None


def id_name(names: Sequence[str], id: str | None, what: str) -> str:
    """The id column: as given, by its usual names, else the first."""
    if id is not None and id in names:
        return id
    if id is not None:
        hint = did_you_mean(id, names)
        raise InputError(f"There is no id column {id!r} in {what}.{hint} The columns are: {', '.join(names)}.")
    lower = {name.lower(): name for name in names}
    return next((lower[known] for known in ID_NAMES if known in lower), names[0])


def node_order(
    listed: Any, with_edge: NDArray[np.bool_], others: Any, table: NodeTable | None, kind: str, unmatched: str,
    missing: str,
) -> pa.Array:  # fmt: skip
    """The ids of the graph's nodes, in order.

    `listed` are the ids of the features or labels, `with_edge` marks those that the edges know, `others` are those
    that only the edges know, ascending. `kind`: "features", "labels", or "matrix", whose row i is node i; `table`
    is where the ids come from.
    """
    import pyarrow as pa

    if kind == "matrix":
        if len(others):
            raise InputError(
                f"The features have {len(listed)} rows, for the nodes 0 to {len(listed) - 1}, but the edges name "
                f"{len(others)} others, for example {examples(others)}. Give a table with an id column."
            )
        return listed
    if not with_edge.any():
        hint = table.other_key(others) if table is not None else ""
        raise InputError(
            f"No id of the {kind} is an id of the edges: {examples(listed)} and {examples(others)}."
            + (hint or f"{would_match(listed, others)} Name the id column: {option('id')}")
        )
    both = listed.filter(pa.array(with_edge))
    if kind == "labels":  # labels alone never decide which nodes there are, only their order
        return pa.concat_arrays([both, others])
    if unmatched == "drop":
        if len(both) < 2:
            raise InputError(f"Only {len(both)} nodes are in both files. Do their ids agree?")
        return both
    strangers = listed.filter(pa.array(~with_edge))
    if len(strangers) and unmatched == "error":
        raise InputError(
            f"{len(strangers)} of {len(listed)} ids in the features are unknown to the edges, for example "
            f"{examples(strangers)}.{would_match(strangers, others)} Say {option('unmatched', 'keep')} to keep them "
            f"as isolated nodes, or {option('unmatched', 'drop')}."
        )
    if len(others) and (missing == "error" or (missing == "role" and unmatched == "error")):
        raise InputError(
            f"{len(others)} of {len(others) + len(both)} nodes in the edges have no feature row, for example "
            f"{examples(others)}.{would_match(others, strangers)} Keep them with rows of zeros by "
            f"{option('unmatched', 'keep')}, fill their rows with {option('missing', 'mean')} or "
            f"{option('missing', 'propagate')}, or leave the nodes out with {option('unmatched', 'drop')}."
        )
    if len(others) and missing == "role":
        log.warning("%d of %d nodes have no feature row; theirs is all zeros", len(others), len(others) + len(listed))
    return pa.concat_arrays([listed, others])


def node_labels(
    table: NodeTable, ids: pa.Array, order: pa.Array, unmatched: str, *, apart: bool
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Classes 0.. in node order, -1 where unknown, and their names. `ids` are the table's, in the type of `order`."""
    import pyarrow as pa

    rows = look_up(ids, order)
    unknown = ids.filter(pa.array(rows < 0))
    if apart and len(unknown) == len(ids):
        raise InputError(
            f"No id of the labels is a node: {examples(ids)} and {examples(order)}."
            + (table.other_key(order) or f"{would_match(ids, order)} Name the id column: {option('id')}")
        )
    if len(unknown) and unmatched == "error" and apart:
        raise InputError(
            f"{len(unknown)} of {len(ids)} ids in the labels are no nodes, for example {examples(unknown)}."
            f"{would_match(unknown, order)} Remove these rows, or say {option('unmatched', 'drop')} to ignore them."
        )
    codes, names = table.classes()
    found, known = len(np.unique(codes[codes >= 0])), int((codes >= 0).sum())
    if known >= MANY_LABELS and found > known / 2:
        log.warning("label column %r has %d classes on %d nodes. Does it name classes?", table.label, found, known)
    y = np.full(len(order), -1, dtype=np.int64)
    y[rows[rows >= 0]] = codes[rows >= 0]
    return y, names


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
    words = pa.array(NULL_WORDS, pa.large_string())
    known = pc.and_not(pc.is_valid(text), pc.is_in(text, value_set=words))  # is_in says False for null
    values = pc.unique((column if pa.types.is_integer(column.type) else text).filter(known))
    values = pc.cast(values.take(pc.sort_indices(values)), pa.large_string())
    codes = np.asarray(pc.fill_null(pc.index_in(text, value_set=values), -1), dtype=np.int64)
    return codes, tuple(values.to_pylist())
