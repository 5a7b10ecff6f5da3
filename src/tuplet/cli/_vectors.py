"""Vectors on the command line: read beside their graph, which labels may score them, and kept if a write fails."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuplet._check import InputError
from tuplet.cli._graph import Options, check_used, given_flags, is_edge_list, load_graph, table_options

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tuplet.graph import Graph
    from tuplet.io.vectors import Vectors

_KEEP = {"unmatched": "keep", "missing": "zero"}
_OF_EDGES = ("source", "target", "weight", "directed")
VectorsArg = Annotated[
    str,
    typer.Argument(
        metavar="VECTORS",
        help="Vectors: Parquet, CSV or .npy, a folder of Parquet parts, or a table (lance:, postgresql://, .duckdb).",
    ),
]


def graph_and_vectors(path: str, graph: str | None, how: Options) -> tuple[Graph, Vectors]:
    """The graph, and the vectors in its node order; an error if they belong to different graphs.

    Without `graph` it has the nodes of the vectors, what tables tell of them, and no edge.
    """
    from tuplet.io.vectors import in_node_order, read_vectors

    table = read_vectors(path)
    if graph is None:
        g = _without_edges(path, table, how)
        return g, in_node_order(replace(table, metadata={**table.metadata, "graph": None}), g)  # ids alone can tell
    if not is_edge_list(graph) or "features" in how:
        g = load_graph(graph, how)
        return g, in_node_order(table, g)
    known = {name: value for name, value in _KEEP.items() if name not in how}
    try:
        g = load_graph(graph, how, features=_nodes(table), **known).with_(x=None, feature_names=())
    except InputError as error:  # the ids of the vectors stand in for a table of features
        raise InputError(str(error).replace("the features", f"the vectors {path}")) from None
    return g, in_node_order(table, g)


def _without_edges(path: str, table: Vectors, how: Options) -> Graph:
    """The nodes of the vectors with the features and labels that tables have of them."""
    from tuplet.io import read_graph

    unused = [name for name in how if name in _OF_EDGES]
    if unused:
        raise InputError(
            f"{given_flags(unused)} would not be used without a graph. Add --graph GRAPH, or leave it out."
        )
    check_used(None, how)
    nodes = _nodes(table)
    loops = {"source": nodes["id"], "target": nodes["id"]}  # a node's edge to itself is no edge of a graph
    known: dict[str, Any] = {} if "features" in how else {"features": nodes}
    known |= {} if "features" in how else {name: value for name, value in _KEEP.items() if name not in how}
    try:
        g = read_graph(loops, **table_options(read_graph, how, "read_graph"), **known)
    except InputError as error:  # the ids of the vectors stand in for edges and features
        raise InputError(str(error).replace("the edges", f"the vectors {path}")) from None
    return g if "features" in how else g.with_(x=None, feature_names=())


def _nodes(table: Vectors) -> Any:
    """The nodes of the vectors as a table: those without an edge are known from the vectors alone."""
    import numpy as np
    import pyarrow as pa

    ids = table.ids.astype(str) if table.ids.dtype.kind == "O" else table.ids
    ones = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(2 * len(table.ids), np.float32)), 2)
    return pa.table({"id": pa.array(ids), "known": ones})


def write_or_keep(path: str, z: Any, ids: Any, options: dict[str, Any]) -> None:
    """Write the vectors; where a database is lost or refuses after all, keep them in a file here and say where."""
    import tempfile
    from pathlib import Path

    from tuplet.io.vector_stores import is_store
    from tuplet.io.vectors import write_vectors

    try:
        write_vectors(path, z, ids, **options)
    except InputError as error:
        if not is_store(path):
            raise
        kept = Path(tempfile.mkdtemp(prefix="tuplet-vectors-")) / "vectors.parquet"
        write_vectors(kept, z, ids, **options)
        raise InputError(f"{error} The vectors lie in {kept}.") from None


def warn(note: str) -> None:
    """Say on standard error, loudly, that scores may not be what they seem."""
    if note:
        sys.stderr.write(f"warning: {note.removeprefix('WARNING: ')}\n")


def unseen_labels(g: Graph, table: Vectors) -> tuple[NDArray[Any], str]:
    """The labels of `g` that have not trained the vectors, -1 for the others, and a note where that matters."""
    import numpy as np

    if g.y is None:
        return np.full(g.n_nodes, -1), ""
    y, seen = np.asarray(g.y), table.labels_seen
    if seen is None and "seen" in table.metadata:
        return (
            y,
            "WARNING: labels trained the model of these vectors, and which is not recorded: scores may be too high",
        )
    if seen is None:
        return y, "WARNING: the file does not say whether labels trained the vectors: if so, scores are too high"
    both, labelled = int(np.count_nonzero(seen & (y >= 0))), int(np.count_nonzero(y >= 0))
    if not both:
        return y, ""
    rest = f"; scored on the other {labelled - both} alone" if both < labelled else ""
    return np.where(seen, -1, y), f"the vectors have seen the labels of {both} of {labelled} labelled nodes{rest}"
