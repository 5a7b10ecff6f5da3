"""Verbs that measure: `cluster`, `classify`, `links`, `theory`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuplet.cli._console import (
    DeviceOpt,
    DirectedOpt,
    FeaturesOpt,
    GraphArg,
    JsonOpt,
    LabelsOpt,
    QuietOpt,
    SeedOpt,
    SeedsOpt,
    is_edge_list,
    load_graph,
    print_json,
    print_summary,
    print_table,
    progress_bars,
)
from tuplet.cli.search import VectorsArg

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tuplet.graph import Graph

GraphOpt = Annotated[str, typer.Option("--graph", "-g", help="The graph of the vectors: as for `tuplet embed`.")]


def cluster(
    vectors: VectorsArg,
    graph: GraphOpt,
    k: Annotated[
        int | None, typer.Option("-k", min=1, help="Clusters; default: classes, or a label-free rule.")
    ] = None,
    labels: LabelsOpt = None,
    directed: DirectedOpt = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the vectors again, with a cluster column.")
    ] = None,
    plain_rows: Annotated[bool, typer.Option("--plain-rows", help="K-Means on the rows as they are.")] = False,
    seeds: SeedsOpt = 1,
    as_json: JsonOpt = False,
) -> None:
    """K-Means on the vectors, scored against the graph and, where there are any, its labels."""
    from tuplet.evaluation.tasks import cluster_nodes, repeat
    from tuplet.io.vectors import write_vectors

    g, z = _graph_and_vectors(vectors, graph, labels, directed)
    summary = repeat(lambda seed: cluster_nodes(z, g, k, seed=seed, unit_rows=not plain_rows), seeds)
    if out is not None:
        write_vectors(out, z, g.node_ids, cluster=summary.results[0].labels)
    print_summary(summary, f"clusters of {vectors}", as_json)


def classify(
    vectors: VectorsArg,
    graph: GraphOpt,
    labels: LabelsOpt = None,
    directed: DirectedOpt = False,
    train: Annotated[float, typer.Option(help="Fraction of labelled nodes to learn from.")] = 0.1,
    val: Annotated[float, typer.Option(help="Fraction that chooses the regularisation.")] = 0.1,
    seeds: SeedsOpt = 1,
    as_json: JsonOpt = False,
) -> None:
    """A linear probe on the vectors: accuracy and macro-F1 on the nodes left over."""
    from tuplet.evaluation.tasks import classify_nodes, repeat

    g, z = _graph_and_vectors(vectors, graph, labels, directed)
    summary = repeat(lambda seed: classify_nodes(z, g, seed=seed, train=train, val=val), seeds)
    print_summary(summary, f"linear probe on {vectors}", as_json)


def links(
    graph: GraphArg,
    features: FeaturesOpt = None,
    method: Annotated[str, typer.Option(help="Any method of `tuplet embed`.")] = "DMAT-i",
    directed: DirectedOpt = False,
    val: Annotated[float, typer.Option(help="Fraction of edges for validation.")] = 0.05,
    test: Annotated[float, typer.Option(help="Fraction of edges for the test.")] = 0.1,
    device: DeviceOpt = "auto",
    seeds: SeedsOpt = 1,
    quiet: QuietOpt = False,
    as_json: JsonOpt = False,
) -> None:
    """Link prediction: vectors are learned here, on a graph without the held-out edges.

    It takes the graph, not a vectors file: vectors that saw an edge cannot be tested on it.
    """
    from tuplet.evaluation.tasks import predict_links, repeat
    from tuplet.models.registry import make_estimator

    g = load_graph(graph, features, directed=directed)

    def run(seed: int) -> Any:
        result = predict_links(make_estimator(method, seed=seed, device=device), g, val=val, test=test, seed=seed)
        if progress is not None:
            progress("runs", (seed + 1) / seeds)
        return result

    with progress_bars(quiet) as progress:
        summary = repeat(run, seeds)
    print_summary(summary, f"links of {graph}, {method}", as_json)


def theory(
    vectors: VectorsArg,
    graph: GraphOpt,
    labels: LabelsOpt = None,
    directed: DirectedOpt = False,
    temperature: Annotated[float, typer.Option(help="Temperature t of h(x, y) = exp(cos / t).")] = 1.0,
    seed: SeedOpt = 0,
    as_json: JsonOpt = False,
) -> None:
    """Lemma 1, Theorems 1 and 2, tau0 and negative hardness, measured on the vectors."""
    from tuplet.evaluation.theory import measure
    from tuplet.filters import GraphFilter

    g, z = _graph_and_vectors(vectors, graph, labels, directed)
    spaces = {} if g.x is None else {"filtered": GraphFilter().transform(g)}
    result = measure(z, g, temperature=temperature, seed=seed, spaces=spaces)
    if as_json:
        print_json(result.to_dict())
        return
    rows = [[name, f"{value:.4g}"] for name, value in result.values.items()]
    print_table(f"theory on {vectors}", ["quantity", "value"], rows, caption="; ".join(result.notes))


def _graph_and_vectors(vectors: Path, graph: str, labels: Path | None, directed: bool) -> tuple[Graph, NDArray[Any]]:
    """The graph, and the vectors in its node order; an error if they belong to different graphs."""
    from tuplet.io.vectors import align, read_vectors

    table = read_vectors(vectors)
    if not is_edge_list(graph):
        g = load_graph(graph, labels=labels, directed=directed)
        return g, align(table, g)
    nodes = {
        "id": table.ids,
        "known": [1.0] * len(table.ids),
    }  # nodes without an edge are known from the vectors alone
    g = load_graph(graph, nodes, labels, directed, unmatched="keep", missing="zero")
    return g.with_(x=None), align(table, g)
