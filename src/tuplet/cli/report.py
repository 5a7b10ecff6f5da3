"""`tuplet report`: vectors and their graph in, one HTML page out."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuplet.cli._console import (
    DirectedOpt,
    FeaturesOpt,
    JsonOpt,
    LabelsOpt,
    QuietOpt,
    SeedOpt,
    is_edge_list,
    load_graph,
    print_json,
    progress_bars,
)
from tuplet.cli.evaluate import GraphOpt
from tuplet.cli.search import VectorsArg

if TYPE_CHECKING:
    from tuplet.graph import Graph


def report(
    vectors: VectorsArg,
    graph: GraphOpt,
    features: FeaturesOpt = None,
    labels: LabelsOpt = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")] = Path("report.html"),
    k: Annotated[
        int | None,
        typer.Option("-k", min=1, help="Clusters; default: those of the file, classes, a label-free rule."),
    ] = None,
    like: Annotated[
        Path | None, typer.Option(help="Earlier report: its nodes keep their places, new ones are placed among them.")
    ] = None,
    sample: Annotated[
        int, typer.Option(min=10, help="At most this many nodes on the map; of more, a sample drawn by --seed.")
    ] = 100_000,
    label: Annotated[str | None, typer.Option(help="Label column in the features file.")] = None,
    directed: DirectedOpt = False,
    missing: Annotated[str, typer.Option(help="Missing feature values: error, zero, mean or propagate.")] = "error",
    unmatched: Annotated[str, typer.Option(help="Nodes in one file only: error, keep or drop.")] = "error",
    seed: SeedOpt = 0,
    quiet: QuietOpt = False,
    as_json: JsonOpt = False,
) -> None:
    """One HTML page to look at: map, clusters, edges between them, scores, and how the run came about.

    The page opens offline in a browser and loads nothing from the network. Give the graph as to `tuplet embed`.
    """
    from tuplet.io.vectors import read_vectors
    from tuplet.pages import check_page_path
    from tuplet.pages import report as write

    check_page_path(out)
    table = read_vectors(vectors)
    if features is None and is_edge_list(graph):
        g = _graph_of_edges(graph, table.ids, labels, directed)
    else:
        how = {"missing": missing, "unmatched": unmatched, "label": label}
        g = load_graph(graph, features, labels, directed, **how)
    start = time.perf_counter()
    with progress_bars(quiet) as progress:
        write(table, g, out, clusters=k, sample=sample, like=like, seed=seed, progress=progress)
    print_written(out, g, sample, time.perf_counter() - start, as_json)


def print_written(out: Path, g: Graph, sample: int, seconds: float, as_json: bool = False) -> None:
    """Say where a report lies, how large it is and what its map shows."""
    facts = {"report": str(out), "bytes": out.stat().st_size, "nodes": g.n_nodes, "on_map": min(g.n_nodes, sample)}
    if as_json:
        print_json(facts | {"seconds": round(seconds, 2)})
        return
    part = "" if g.n_nodes <= sample else f"; its map shows a sample of {sample:,} (--sample)"
    size = f"{facts['bytes'] / 1e6:.1f} MB" if facts["bytes"] >= 1e5 else f"{facts['bytes'] / 1e3:.0f} kB"
    sys.stdout.write(f"{out}: report of {g.n_nodes:,} nodes{part}, {size}, {seconds:.1f} s. Open it in a browser.\n")


def _graph_of_edges(edges: str, ids: Any, labels: Path | None, directed: bool) -> Graph:
    """The graph of an edge list whose nodes are those of the vectors: nodes without an edge are known from there."""
    nodes = {"id": ids, "known": [1.0] * len(ids)}
    return load_graph(edges, nodes, labels, directed, unmatched="keep", missing="zero").with_(x=None)
