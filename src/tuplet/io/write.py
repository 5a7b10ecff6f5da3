"""Tables out, as CSV or Parquet by the ending: a graph's edges and nodes, or any columns."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from tuplet._check import check_choice, check_out_path
from tuplet._files import new_file
from tuplet.graph import Graph
from tuplet.io._vector_parts import arrow_ids, row_blocks

ENDINGS = (".parquet", ".csv")


def check_table_path(path: str | os.PathLike[str]) -> Path:
    """`path` as a place where `write_table` can write: a known ending, in a folder that is there."""
    target = check_out_path(path)
    check_choice("file ending", target.suffix.lower(), ENDINGS)
    return target


def write_table(path: str | os.PathLike[str], columns: Mapping[str, Any]) -> Path:
    """Write `columns`, arrays of one length by name, as .parquet or .csv; whole or not at all."""
    import pyarrow as pa
    from pyarrow import csv
    from pyarrow import parquet as pq

    target = check_table_path(path)
    table = pa.table({name: arrow_ids(np.asarray(values)) for name, values in columns.items()})
    with new_file(target) as partial:
        (csv.write_csv if target.suffix.lower() == ".csv" else pq.write_table)(table, partial)
    return target


def write_graph_tables(
    graph: Graph, edges: str | os.PathLike[str], nodes: str | os.PathLike[str] | None = None
) -> None:
    """Write `graph` as tables: `edges` (source, target, weight) and `nodes` (id, x as a vector column, label).

    `edges` ends in .csv or .parquet, `nodes` in .parquet. The graph comes back with
    `read_graph(edges, nodes, unmatched="keep")` (and `directed=True` where it was).
    """
    ids, pairs = graph.node_ids, graph.edges()
    columns = {"source": ids[pairs[:, 0]], "target": ids[pairs[:, 1]]}
    if graph.weights is not None:
        columns["weight"] = np.asarray(graph.adj[pairs[:, 0], pairs[:, 1]]).ravel()
    write_table(edges, columns)
    if nodes is not None and graph.x is not None:
        with new_file(check_out_path(nodes)) as partial:
            _write_nodes(partial, graph)


def _write_nodes(path: Path, graph: Graph) -> None:
    import pyarrow as pa
    from pyarrow import parquet as pq

    x: Any = graph.x
    f = x.shape[1]
    fields = [pa.field("id", arrow_ids(graph.node_ids[:1]).type), pa.field("x", pa.list_(pa.float32(), f))]
    if graph.y is not None:
        fields.append(pa.field("label", pa.int64()))
    with pq.ParquetWriter(path, pa.schema(fields)) as writer:
        for part in row_blocks(x):
            rows = x[part].toarray() if sp.issparse(x) else x[part]
            flat = pa.array(np.ascontiguousarray(rows, dtype=np.float32).ravel())
            columns = [arrow_ids(graph.node_ids[part]), pa.FixedSizeListArray.from_arrays(flat, f)]
            columns += [pa.array(graph.y[part])] if graph.y is not None else []
            writer.write_table(pa.table(columns, schema=writer.schema))
