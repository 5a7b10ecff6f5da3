"""`tuplet report`: vectors and their graph in, one HTML page out."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from tuplet.cli._console import JsonOpt, QuietOpt, SeedOpt, print_json, progress_bars
from tuplet.cli._graph import GraphOpt, Options, stage_on_nodes, takes_graph
from tuplet.cli._vectors import VectorsArg, graph_and_vectors

if TYPE_CHECKING:
    from tuplet.graph import Graph


@takes_graph()
def report(
    vectors: VectorsArg,
    graph: GraphOpt,
    how: Options,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")] = Path("report.html"),
    k: Annotated[
        int | None,
        typer.Option("-k", min=1, help="Clusters; default: those of the file, classes, a label-free rule."),
    ] = None,
    like: Annotated[
        Path | None, typer.Option(help="Earlier report: its nodes keep their places, new ones are placed among them.")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(min=10, help="At most this many nodes on the map; of more, a sample drawn by --seed."),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="local, ray or ray://host:10001: find nearest nodes and read features there; the same page."
        ),
    ] = None,
    seed: SeedOpt = 0,
    quiet: QuietOpt = False,
    as_json: JsonOpt = False,
) -> None:
    """One HTML page to look at: map, clusters, edges between them, scores, and how the run came about.

    The page opens offline in a browser and loads nothing from the network. Give the graph as to `tuplet embed`.
    """
    from tuplet.engines import connected
    from tuplet.pages import SAMPLE, check_page_path
    from tuplet.pages import report as write

    check_page_path(out)
    with connected(engine or "local"):  # before any work
        stage_on_nodes(graph, engine)
        g, table = graph_and_vectors(vectors, graph, how)
        start = time.perf_counter()
        with progress_bars(quiet) as progress:
            write(
                table, named(g, graph), out, clusters=k, sample=sample or SAMPLE, like=like, seed=seed,
                engine=engine or "local", progress=progress,
            )  # fmt: skip
    print_written(out, g, sample or SAMPLE, time.perf_counter() - start, as_json)


def named(g: Graph, source: str) -> Graph:
    """`g`, where it has no name, by that of the file it was read from."""
    return g.with_(name=Path(source).name) if not g.name and Path(source).exists() else g


def print_written(
    out: Path, g: Graph, sample: int, seconds: float, as_json: bool = False, to: TextIO | None = None
) -> None:
    """Say where a report lies, how large it is and what its map shows."""
    length = out.stat().st_size
    facts = {"report": str(out), "bytes": length, "nodes": g.n_nodes, "on_map": min(g.n_nodes, sample)}
    if as_json:
        print_json(facts | {"seconds": round(seconds, 2)})
        return
    part = "" if g.n_nodes <= sample else f"; its map shows a sample of {sample:,} (--sample)"
    size = f"{length / 1e6:.1f} MB" if length >= 1e5 else f"{length / 1e3:.0f} kB"
    text = f"{out}: report of {g.n_nodes:,} nodes{part}, {size}, {seconds:.1f} s. Open it in a browser.\n"
    (to or sys.stdout).write(text)
