"""Graph -> tables: the edges and nodes as CSV or Parquet, for other programs or for `read_graph`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from tuplet._check import check_choice, check_out_path
from tuplet._files import new_file
from tuplet.graph import Graph
from tuplet.io.vectors import arrow_ids, row_blocks


def write_graph_tables(
    graph: Graph, edges: str | os.PathLike[str], nodes: str | os.PathLike[str] | None = None
) -> None:
    """Write `graph` as tables: `edges` (source, target, weight) and `nodes` (id, x as a vector column, label).

    `edges` ends in .csv or .parquet, `nodes` in .parquet. The graph comes back with
    `read_graph(edges, nodes, label="label", unmatched="keep")`.
    """
    import pyarrow as pa
    from pyarrow import csv
    from pyarrow import parquet as pq

    target, ids = check_out_path(edges), graph.node_ids
    check_choice("file ending", target.suffix.lower(), (".csv", ".parquet"))
    pairs = graph.edges()
    columns = {"source": arrow_ids(ids[pairs[:, 0]]), "target": arrow_ids(ids[pairs[:, 1]])}
    if graph.weights is not None:
        columns["weight"] = pa.array(np.asarray(graph.adj[pairs[:, 0], pairs[:, 1]]).ravel())
    with new_file(target) as partial:
        write = csv.write_csv if target.suffix.lower() == ".csv" else pq.write_table
        write(pa.table(columns), partial)
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
