"""Verbs that measure: `cluster`, `classify`, `links`, `theory`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuplet._check import InputError
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

    from tuplet.evaluation.describe import Cluster
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
        Path | None, typer.Option("--out", "-o", help="Table of id, cluster and confidence: .parquet or .csv.")
    ] = None,
    plain_rows: Annotated[bool, typer.Option("--plain-rows", help="K-Means on the rows as they are.")] = False,
    seed: SeedOpt = 0,
    seeds: SeedsOpt = 1,
    quiet: QuietOpt = False,
    as_json: JsonOpt = False,
) -> None:
    """K-Means on the vectors: what the clusters are, and how they fit the edges and, where known, the labels."""
    from tuplet.evaluation.describe import confidence_of, describe_clusters
    from tuplet.evaluation.tasks import cluster_nodes, repeat
    from tuplet.io.write import check_table_path, write_table

    if out is not None:
        check_table_path(out)
    g, z = _graph_and_vectors(vectors, graph, labels, directed)
    runs = range(seed, seed + seeds)
    with progress_bars(quiet) as progress:
        summary = repeat(
            _each(lambda s: cluster_nodes(z, g, k, seed=s, unit_rows=not plain_rows), runs, progress), runs
        )
    first = summary.results[0]
    clusters: Any = first.labels
    described = describe_clusters(z, clusters, g, unit_rows=not plain_rows)
    if out is not None:
        sure = confidence_of(z, clusters, unit_rows=not plain_rows)
        write_table(out, {"id": g.node_ids, "cluster": clusters, "confidence": sure})
    if as_json:
        print_json(summary.to_dict() | {"clusters": [found.to_dict() for found in described]})
        return
    facts = f"k = {first.sizes['clusters']} from {first.settings['k_from']}{_label_fact(g)}"
    print_summary(summary, f"clusters of {vectors}", False, facts)
    print_table("what they are", *_cluster_rows(described), caption="" if out is None else f"written to {out}")


def _cluster_rows(described: list[Cluster]) -> tuple[list[str], list[list[str]]]:
    """The table of clusters: its columns and one row each."""
    rows = []
    for found in described:
        marks = ", ".join(f"{mark.name} ({mark.lift:.1f}x)" for mark in found.marks[:3])
        classes = ", ".join(f"{name} {share:.0%}" for name, share in found.classes[:2])
        nearest = "" if found.nearest is None else str(found.nearest)
        typical = ", ".join(map(str, found.medoids))
        rows.append([str(found.cluster), str(found.size), f"{found.share:.1%}", nearest, typical, marks, classes])
    return ["cluster", "size", "share", "nearest", "typical nodes", "marked by (lift)", "classes"], rows


def classify(
    vectors: VectorsArg,
    graph: GraphOpt,
    labels: LabelsOpt = None,
    directed: DirectedOpt = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Predict all unlabelled nodes; table of id, class, probability, known."),
    ] = None,
    train: Annotated[float, typer.Option(help="Fraction of labelled nodes to learn from.")] = 0.1,
    val: Annotated[float, typer.Option(help="Fraction that chooses the regularisation.")] = 0.1,
    seed: SeedOpt = 0,
    seeds: SeedsOpt = 1,
    quiet: QuietOpt = False,
    as_json: JsonOpt = False,
) -> None:
    """A linear classifier on the vectors: how well it does, and with -o the classes of unlabelled nodes."""
    from tuplet.evaluation.tasks import classify_nodes, repeat
    from tuplet.io.write import check_table_path

    if out is not None:
        check_table_path(out)
    g, z = _graph_and_vectors(vectors, graph, labels, directed)
    runs = range(seed, seed + seeds)
    with progress_bars(quiet) as progress:
        summary = repeat(_each(lambda s: classify_nodes(z, g, seed=s, train=train, val=val), runs, progress), runs)
    written = "" if out is None else _write_predictions(out, z, g, seed)
    facts = f"{train:.0%} of the labelled nodes train, {val:.0%} choose C{_label_fact(g)}"
    print_summary(summary, f"linear classifier on {vectors}", as_json, "; ".join(filter(None, (facts, written))))


def _write_predictions(out: Path, z: Any, g: Graph, seed: int) -> str:
    import numpy as np

    from tuplet.evaluation.predict import predict_nodes
    from tuplet.io.write import write_table

    found = predict_nodes(z, g, seed=seed)
    names: Any = found.classes if not g.label_names else np.asarray(g.label_names)[found.classes]
    columns = {"id": g.node_ids, "class": names, "probability": found.probability, "known": found.known}
    write_table(out, columns)
    return f"{int((~found.known).sum())} nodes predicted from {int(found.known.sum())}, written to {out}"


def _each(run: Callable[[int], Any], seeds: range, progress: Any) -> Callable[[int], Any]:
    """`run`, with a word to the progress bar after each seed."""

    def one(seed: int) -> Any:
        result = run(seed)
        if progress is not None:
            progress("runs", (seed - seeds.start + 1) / len(seeds))
        return result

    return one


def _label_fact(g: Graph) -> str:
    import numpy as np

    if g.y is None:
        return "; no labels"
    return f"; labels: {g.n_classes} classes on {int(np.count_nonzero(g.y >= 0))} of {g.n_nodes} nodes"


def links(
    graph: GraphArg,
    features: FeaturesOpt = None,
    method: Annotated[str, typer.Option(help="Any method of `tuplet embed`.")] = "DMAT-i",
    directed: DirectedOpt = False,
    top: Annotated[
        int | None, typer.Option(min=1, help="Propose so many likely missing edges instead; needs --out.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="With --top: table of source, target, score.")
    ] = None,
    val: Annotated[float, typer.Option(help="Fraction of edges for validation.")] = 0.05,
    test: Annotated[float, typer.Option(help="Fraction of edges for the test.")] = 0.1,
    device: DeviceOpt = "auto",
    seed: SeedOpt = 0,
    seeds: SeedsOpt = 1,
    quiet: QuietOpt = False,
    as_json: JsonOpt = False,
) -> None:
    """Link prediction: vectors are learned here, on a graph without the held-out edges.

    It takes the graph, not a vectors file: vectors that saw an edge cannot be tested on it. With --top and -o the
    vectors are learned on all edges, and the most likely missing ones are written; never one that exists.
    """
    from tuplet.evaluation.tasks import predict_links, repeat
    from tuplet.models.registry import make_estimator

    if (top is None) != (out is None):
        raise InputError("--top and --out go together: --top 100 -o links.parquet proposes missing edges.")
    if top is not None and out is not None:
        _propose(graph, features, method, directed, top, out, device, seed, quiet)
        return
    g = load_graph(graph, features, directed=directed)
    runs = range(seed, seed + seeds)

    def run(s: int) -> Any:
        return predict_links(make_estimator(method, seed=s, device=device), g, val=val, test=test, seed=s)

    with progress_bars(quiet) as progress:
        summary = repeat(_each(run, runs, progress), runs)
    print_summary(summary, f"links of {graph}, {method}", as_json)


def _propose(
    graph: str,
    features: Path | None,
    method: str,
    directed: bool,
    top: int,
    out: Path,
    device: str,
    seed: int,
    quiet: bool,
) -> None:
    """Write the likely missing edges of the whole graph."""
    from tuplet.evaluation.missing_links import missing_links
    from tuplet.io.write import check_table_path, write_table
    from tuplet.models.registry import make_estimator

    check_table_path(out)
    g = load_graph(graph, features, directed=directed)
    with progress_bars(quiet) as progress:
        z = make_estimator(method, seed=seed, device=device).fit(g, progress=progress).embedding_
        found = missing_links(z, g, top, seed=seed, progress=progress)
    source, target = (g.node_ids[found.pairs[:, side]] for side in (0, 1))
    write_table(out, {"source": source, "target": target, "score": found.score})
    how = "all pairs compared" if found.exact else "pairs compared within and between near cells"
    sys.stdout.write(f"{out}: {len(found.pairs)} likely missing edges, by {method}; {how}\n")


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
