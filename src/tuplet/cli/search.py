"""Verbs on vectors alone: `neighbors` and `map`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tuplet._check import InputError
from tuplet.cli._console import JsonOpt, QuietOpt, SeedOpt, print_json, print_table, progress_bars

VectorsArg = Annotated[Path, typer.Argument(metavar="VECTORS", help="Vectors file: Parquet, CSV or .npy.")]


def neighbors(
    vectors: VectorsArg,
    node: Annotated[list[str], typer.Option("--id", help="Node id; repeat it for several.")],
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbours of each node.")] = 10,
    method: Annotated[str, typer.Option(help="auto, exact or hnsw (faiss).")] = "auto",
    as_json: JsonOpt = False,
) -> None:
    """The nodes whose vectors are nearest to those of the given nodes, by cosine."""
    from tuplet.io.vectors import read_vectors
    from tuplet.rows.neighbors import nearest

    table = read_vectors(vectors)
    places = [_place(table.ids, name) for name in node]
    index, similarity = nearest(table.z, table.z[places], k + 1, method=method)
    found = {}
    for name, place, row, cosines in zip(node, places, index, similarity, strict=True):
        pairs = [(table.ids[j], float(c)) for j, c in zip(row, cosines, strict=True) if j != place][:k]
        found[name] = [{"id": _plain(i), "cosine": round(c, 6)} for i, c in pairs]
    if as_json:
        print_json(found)
        return
    for name, rows in found.items():
        body = [[str(r["id"]), f"{r['cosine']:.4f}"] for r in rows]
        print_table(f"nearest to {name}", ["id", "cosine"], body)


def draw_map(
    vectors: VectorsArg,
    out: Annotated[Path, typer.Option("--out", "-o", help="Picture to write: .png, .svg or .pdf.")] = Path("map.png"),
    graph: Annotated[
        str | None, typer.Option(help="Graph whose labels colour the dots; else the clusters do.")
    ] = None,
    labels: Annotated[Path | None, typer.Option("--labels", "-l", help="Labels for --graph.")] = None,
    sample: Annotated[int, typer.Option(min=10, help="At most this many nodes are drawn.")] = 10_000,
    seed: SeedOpt = 0,
    quiet: QuietOpt = False,
) -> None:
    """A t-SNE picture of the vectors."""
    from tuplet._seed import stream
    from tuplet.cli._console import load_graph
    from tuplet.io.vectors import align, read_vectors
    from tuplet.pages.style import check_figure_path
    from tuplet.plots import map_vectors

    check_figure_path(out)
    table = read_vectors(vectors)
    colours, z, kind = table.cluster, table.z, "cluster"
    names: tuple[str, ...] = ()
    if graph is not None:
        loaded = load_graph(graph, labels=labels)
        z, colours, names, kind = align(table, loaded), loaded.y, loaded.label_names, "class"
    rows = slice(None)
    if len(z) > sample:
        rows = sorted(stream(seed, "map").choice(len(z), sample, replace=False))  # type: ignore[assignment]
    with progress_bars(quiet) as progress:
        shown = None if colours is None else colours[rows]
        map_vectors(z[rows], shown, label_names=names, kind=kind, path=out, seed=seed)
        if progress is not None:
            progress("draw", 1.0)
    part = f"{len(z)} nodes" if len(z) <= sample else f"{sample} of {len(z)} nodes"
    coloured = "" if colours is None else f", coloured by {kind}"
    sys.stdout.write(f"{out}: map of {part}{coloured}\n")


def _place(ids: Any, name: str) -> int:
    """Row of the node whose id reads `name`."""
    import numpy as np

    hits = np.flatnonzero(ids.astype(str) == name)
    if not len(hits):
        examples = ", ".join(str(i) for i in ids[:3])
        raise InputError(f"The id {name!r} is not in the vectors file. Its ids look like: {examples}.")
    return int(hits[0])


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
