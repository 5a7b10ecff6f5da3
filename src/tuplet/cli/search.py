"""Verbs that look at vectors: `neighbors` and `map`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tuplet._check import InputError
from tuplet.cli._console import JsonOpt, QuietOpt, SeedOpt, label_fact, print_json, print_table, progress_bars
from tuplet.cli._graph import Options, given_flags, takes_graph
from tuplet.cli._vectors import VectorsArg, graph_and_vectors

MaybeGraph = Annotated[
    str | None, typer.Option("--graph", "-g", help="The graph of the vectors: its labels and edges are shown.")
]


@takes_graph(without=["--id"])
def neighbors(
    vectors: VectorsArg,
    node: Annotated[list[str], typer.Option("--id", help="Node id; repeat it for several.")],
    how: Options,
    graph: MaybeGraph = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbours of each node.")] = 10,
    method: Annotated[str, typer.Option(help="auto, exact or hnsw (faiss, or the database's index).")] = "auto",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Table of id, neighbor, rank, cosine: .parquet or .csv.")
    ] = None,
    quiet: QuietOpt = False,
    as_json: JsonOpt = False,
) -> None:
    """The nodes whose vectors are nearest to those of the given nodes, by cosine."""
    from tuplet.io.vector_stores import is_store
    from tuplet.io.write import check_table_path
    from tuplet.rows.neighbors import nearest

    if out is not None:
        check_table_path(out)
    if is_store(vectors) and graph is None and not how:
        _tell_neighbors(_asked(vectors, node, k, method), {name: name for name in node}, out, as_json, f"k = {k}")
        return
    g, table = _maybe_graph(vectors, graph, how)
    places = [_place(table.ids, name) for name in node]
    index, similarity = nearest(table.z, table.z[places], min(k + 1, len(table.z)), method=method)
    rows = []
    for place, near, cosines in zip(places, index, similarity, strict=True):
        others = [(int(j), float(c)) for j, c in zip(near, cosines, strict=True) if j != place][:k]
        rows += [_row(g, table.ids, place, j, rank, c) for rank, (j, c) in enumerate(others, start=1)]
    keys = {name: table.ids[place] for name, place in zip(node, places)}
    _tell_neighbors(rows, keys, out, as_json, f"k = {k}{'' if g is None else label_fact(g, how)}")


def _asked(vectors: str, node: list[str], k: int, method: str) -> list[dict[str, Any]]:
    """The neighbours, asked of the database that holds the vectors."""
    from tuplet.io.vector_stores import store_neighbors

    found = store_neighbors(vectors, node, k, method=method)
    return [
        {"id": name, "neighbor": other, "rank": rank, "cosine": round(cosine, 6)}
        for name, near in found.items()
        for rank, (other, cosine) in enumerate(near, start=1)
    ]


def _tell_neighbors(
    rows: list[dict[str, Any]], keys: dict[str, Any], out: Path | None, as_json: bool, caption: str
) -> None:
    """Write and print the neighbours; `keys` are the ids of the nodes by the names that were typed."""
    if out is not None:
        import numpy as np

        from tuplet.io.write import write_table

        write_table(out, {name: np.asarray([row[name] for row in rows]) for name in rows[0]})
    if as_json:
        print_json({str(name): _of(rows, key) for name, key in keys.items()})
        return
    written = "" if out is None else f"; written to {out}"
    for name, key in keys.items():
        found = _of(rows, key)
        columns = list(found[0]) if found else ["id", "cosine"]
        body = [[f"{v:.4f}" if isinstance(v, float) else str(v) for v in row.values()] for row in found]
        print_table(f"nearest to {name}", columns, body, caption + written)


def _row(g: Any, ids: Any, place: int, j: int, rank: int, cosine: float) -> dict[str, Any]:
    row = {"id": _plain(ids[place]), "neighbor": _plain(ids[j]), "rank": rank, "cosine": round(cosine, 6)}
    if g is not None:
        row["edge"] = j in g.indices[g.indptr[place] : g.indptr[place + 1]]
        if g.y is not None:
            row["class"] = _class(g, j)
    return row


def _class(g: Any, j: int) -> str:
    label = int(g.y[j])
    return "" if label < 0 else g.label_names[label] if g.label_names else str(label)


def _of(rows: list[dict[str, Any]], node: Any) -> list[dict[str, Any]]:
    """The neighbours of one node: each as `id`, cosine and what else is known."""
    mine = [row for row in rows if row["id"] == _plain(node)]
    return [
        {"id": row["neighbor"]} | {k: v for k, v in row.items() if k not in ("id", "neighbor", "rank")}
        for row in mine
    ]


def _maybe_graph(vectors: str, graph: str | None, how: Options) -> tuple[Any, Any]:
    from tuplet.io.vectors import read_vectors

    if graph is None and how:
        raise InputError(f"{given_flags(how)} would not be used without a graph. Add --graph GRAPH, or leave it out.")
    return (None, read_vectors(vectors)) if graph is None else graph_and_vectors(vectors, graph, how)


@takes_graph()
def draw_map(
    vectors: VectorsArg,
    how: Options,
    out: Annotated[Path, typer.Option("--out", "-o", help="Picture to write: .png, .svg or .pdf.")] = Path("map.png"),
    graph: Annotated[
        str | None,
        typer.Option("--graph", "-g", help="Graph whose labels colour the dots; else the clusters do."),
    ] = None,
    sample: Annotated[int, typer.Option(min=10, help="At most this many nodes are drawn.")] = 10_000,
    seed: SeedOpt = 0,
    quiet: QuietOpt = False,
) -> None:
    """A t-SNE picture of the vectors."""

    from tuplet._check import need_extra
    from tuplet._seed import stream
    from tuplet.pages.style import check_figure_path
    from tuplet.plots import map_vectors

    check_figure_path(out)
    need_extra("matplotlib", "plot", "The map")
    g, table = _maybe_graph(vectors, graph, how)
    colours, names, kind = (table.cluster, (), "cluster") if g is None else (g.y, g.label_names, "class")
    z, rows = table.z, slice(None)
    if len(z) > sample:
        rows = sorted(stream(seed, "map").choice(len(z), sample, replace=False))  # type: ignore[assignment]
    with progress_bars(quiet) as progress:
        shown = None if colours is None else colours[rows]
        map_vectors(z[rows], shown, label_names=names, kind=kind, path=out, seed=seed)
        if progress is not None:
            progress("draw", 1.0)
    part = f"{len(z)} nodes" if len(z) <= sample else f"{sample} of {len(z)} nodes"
    coloured = "" if colours is None else f", coloured by {kind}{'' if g is None else label_fact(g, how)}"
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
