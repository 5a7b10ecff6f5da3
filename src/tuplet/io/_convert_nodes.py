"""The node side of a conversion: x.npy from the feature files, y.npy from the labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from tuplet._check import InputError
from tuplet._files import save_array
from tuplet.io._arrow import read_table
from tuplet.io._convert_job import Job
from tuplet.io._ids import unify
from tuplet.io._node_stream import NodeStream
from tuplet.io._nodes import id_name, node_labels, read_labels


def write_features(job: Job, nodes: NodeStream, missing: str) -> None:
    """x.npy, row by row in the order of the file; zeros for nodes that come after."""
    n, listed = int(job.state["n"]), int(job.state["listed"])
    x: Any = None
    start = 0
    names: tuple[str, ...] = ()
    for rows, found in nodes.blocks("zero" if missing == "zero" else "error"):
        if x is None:
            x = np.lib.format.open_memmap(job.folder / "x.npy", "w+", np.float32, (n, rows.shape[1]))
        if rows.shape[1] != x.shape[1] or start + len(rows) > listed:
            raise InputError("The parts of the features do not have the same columns. Write them again.")
        x[start : start + len(rows)] = rows
        names = found
        start += len(rows)
        job.tell("features", start / max(1, listed))
    x.flush()
    job.save(feature_names=names)


def write_labels(
    job: Job, labels: Any, nodes: NodeStream | None, id: str | None, label: str | None, text: dict[str, Any]
) -> None:
    """y.npy from a label table, or from a column of the features."""
    import pyarrow as pa

    if labels is None and (label is None or nodes is None):
        return
    given = labels if labels is not None else _label_column(nodes, id, label)
    table, ids = read_labels(given, id, text)
    path = job.folder / "ids.npy"
    order = pa.array(np.load(path, allow_pickle=False) if path.is_file() else np.arange(job.state["n"]))
    order, ids = unify(order if pa.types.is_integer(order.type) else order.cast(pa.large_string()), ids)
    y, names = node_labels(table, ids, None, None, label, order, "error" if labels is not None else "drop")
    if y is not None:
        save_array(job.folder / "y.npy", y)
        job.save(label_names=names)


def _label_column(nodes: NodeStream | None, id: str | None, label: str | None) -> Any:
    """The id and label columns of the feature files as one table."""
    import pyarrow as pa

    assert nodes is not None and label is not None
    tables = []
    for part in nodes.parts:
        table, _ = read_table(part, **nodes.options, as_text=lambda names: (id_name(names, id, "the features"),))
        if label not in table.column_names:
            raise InputError(f"There is no label column {label!r}. The columns are: {', '.join(table.column_names)}.")
        tables.append(table.select([id_name(table.column_names, id, "the features"), label]))
    return pa.concat_tables(tables)
