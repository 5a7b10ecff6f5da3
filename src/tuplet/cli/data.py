"""Verbs on graphs: `info`, `convert`, `datasets`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuplet.cli._console import (
    JsonOpt,
    QuietOpt,
    prepared_columns,
    print_columns,
    print_json,
    print_table,
    progress_bars,
)
from tuplet.cli._graph import GraphArg, Options, is_edge_list, load_graph, table_options, takes_graph, with_stdin
from tuplet.cli._graph_file import read_graph_file

if TYPE_CHECKING:
    from tuplet.graph import Graph

datasets = typer.Typer(help="The graphs that tuplet knows by name; alone, it lists them.")


@takes_graph()
def info(graph: GraphArg, how: Options, quiet: QuietOpt = False, as_json: JsonOpt = False) -> None:
    """Nodes, edges, degrees, components, features, homophily, and what the filter will need.

    Nodes of one file alone are shown, not refused: they are kept here, unless --unmatched says otherwise.
    """
    from tuplet.filters import GraphFilter

    given = read_graph_file(Path(graph), how)[1] if graph.lower().endswith(".toml") else how
    tables = given is not how or is_edge_list(graph)
    keep = {"unmatched": "keep"} if tables and "features" in given and "unmatched" not in given else {}
    g = load_graph(graph, how, **keep)
    facts = describe(g)
    estimate = None if g.x is None else GraphFilter().estimate(g)
    fit = None if g.x is None else _default().estimate(g)
    if as_json:
        costs = {} if estimate is None or fit is None else {"filter": estimate.to_dict(), "embed": fit.to_dict()}
        print_json(facts | prepared_columns(g) | costs)
        return
    if g.label_column:
        facts |= {"label column": g.label_column}
    rows = [[name, _text(value)] for name, value in facts.items()]
    print_table(
        str(g),
        ["", "value"],
        rows,
        caption="" if estimate is None else f"To filter it: {estimate}.\nTo embed it: {fit}.",
    )
    print_columns(g)


def _default() -> Any:
    """The method that `tuplet embed` takes without labels."""
    from tuplet.models.registry import default_method, make_estimator

    return make_estimator(default_method())


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def describe(g: Graph) -> dict[str, Any]:
    """Facts of a graph by name."""
    import numpy as np
    import scipy.sparse as sp
    from scipy.sparse.csgraph import connected_components

    counts = np.diff(g.indptr)
    facts: dict[str, Any] = {
        "nodes": g.n_nodes,
        "edges": g.n_edges,
        "directed": g.directed,
        "weighted": g.weights is not None,
        "mean degree": float(counts.mean()),
        "largest degree": int(counts.max()),
        "isolated nodes": int(np.count_nonzero(counts == 0)),
        "components": int(connected_components(g.adj, directed=g.directed, connection="weak")[0]),
    }
    if g.x is not None:
        sparse = sp.issparse(g.x)
        filled = g.x.nnz / (g.n_nodes * g.n_features) if sparse else 1.0  # type: ignore[union-attr]
        facts |= {"features": g.n_features, "feature kind": f"{'sparse' if sparse else 'dense'} {g.x.dtype}"}
        facts |= {"features filled": float(filled)}
    if g.y is not None:
        ends = np.repeat(np.arange(g.n_nodes), counts)
        known = (g.y[ends] >= 0) & (g.y[g.indices] >= 0)
        same = (g.y[ends] == g.y[g.indices])[known]
        facts |= {"classes": g.n_classes, "labelled nodes": int(np.count_nonzero(g.y >= 0))}
        facts |= {"edge homophily": float(same.mean()) if same.size else float("nan")}
    return facts


@takes_graph()
def convert(
    edges: Annotated[str, typer.Argument(help="Edge list: CSV, TSV, Parquet, a folder of parts, or a graph.toml.")],
    out: Annotated[Path, typer.Argument(help="Graph folder to make.")],
    how: Options,
    memory: Annotated[str, typer.Option(help="Memory to stay within.")] = "2GB",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a graph folder of that name.")] = False,
    engine: Annotated[
        str, typer.Option(help="Where edges are dealt and sorted: local, ray, or ray://host:10001 (docs: cluster).")
    ] = "local",
    quiet: QuietOpt = False,
) -> None:
    """Turn an edge list of any size into a graph folder of memory maps, within a memory budget."""
    from tuplet._check import parse_bytes
    from tuplet.cli._graph import check_used
    from tuplet.io.convert import convert as run

    parse_bytes(memory)
    source: Any = edges
    if edges.lower().endswith(".toml"):
        source, how = read_graph_file(Path(edges), how)
    check_used(source, how)
    options = table_options(run, how, "`tuplet convert`")
    with progress_bars(quiet) as progress:
        given = with_stdin(source, options)
        graph = run(out=out, **given, memory=memory, overwrite=overwrite, progress=progress, engine=engine)
    sys.stdout.write(f"{out}: {graph}\n")


@datasets.callback(invoke_without_command=True)
def all_datasets(context: typer.Context) -> None:
    """The graphs that tuplet knows by name; without a verb they are listed."""
    if context.invoked_subcommand is None:
        list_datasets()


@datasets.command("list")
def list_datasets(as_json: JsonOpt = False) -> None:
    """Names, sizes, licences and where each one would come from."""
    from tuplet.datasets import dataset_table

    table = dataset_table()
    if as_json:
        print_json({row["name"]: row for row in table})
        return
    columns = ["name", "nodes", "edges", "features", "classes", "where", "licence"]
    for row in table:
        row["where"] = row["where"] if row["where"] in ("package", "not here") else "here"
        row |= {size: _short(row[size]) for size in ("nodes", "edges")}
    told = "M: millions. `tuplet datasets list --json` tells sources, paths and who states sizes and licence."
    print_table("datasets", columns, [[str(row[c]) for c in columns] for row in table], caption=told)


def _short(number: int) -> str:
    return str(number) if number < 10**6 else f"{number / 1e6:.3g}M" if number < 10**9 else f"{number / 1e6:.0f}M"


@datasets.command("path")
def dataset_path_(name: Annotated[str, typer.Argument(help="Dataset name.")]) -> None:
    """Where the dataset lies on this machine."""
    from tuplet.datasets import dataset_path

    sys.stdout.write(f"{dataset_path(name)}\n")


@datasets.command("fetch")
def fetch(name: Annotated[str, typer.Argument(help="Dataset name.")], quiet: QuietOpt = False) -> None:
    """Download the dataset if it is not here yet, check it and keep it."""
    from tuplet.datasets import dataset_names, dataset_path, fetch_dataset, load_dataset

    if name in dataset_names() and dataset_path(name) is None:
        with progress_bars(quiet) as progress:
            fetch_dataset(name, progress=progress)
    graph = load_dataset(name)
    sys.stdout.write(f"{dataset_path(name)}: {graph}\n")
