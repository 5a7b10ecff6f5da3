"""Verbs that measure vectors: `cluster`, `classify`, `theory`. `links` is in links.py."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuplet._check import InputError, check_number
from tuplet.cli._console import (
    JsonOpt,
    QuietOpt,
    SeedOpt,
    SeedsOpt,
    label_fact,
    print_json,
    print_summary,
    print_table,
    progress_bars,
)
from tuplet.cli._graph import GraphOpt, MaybeGraphOpt, Options, takes_graph
from tuplet.cli._vectors import VectorsArg, graph_and_vectors, unseen_labels, warn

if TYPE_CHECKING:
    from tuplet.evaluation.describe import Cluster
    from tuplet.graph import Graph


@takes_graph()
def cluster(
    vectors: VectorsArg,
    how: Options,
    graph: MaybeGraphOpt = None,
    k: Annotated[
        int | None, typer.Option("-k", min=1, help="Clusters; default: classes, or a label-free rule.")
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", help="Table of id, cluster, confidence: .parquet or .csv; with --engine a folder."
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(help="local, ray or ray://host:10001: cluster a folder of parts there, which get a `cluster`."),
    ] = None,
    plain_rows: Annotated[bool, typer.Option("--plain-rows", help="K-Means on the rows as they are.")] = False,
    seed: SeedOpt = 0,
    seeds: SeedsOpt = 1,
    quiet: QuietOpt = False,
    as_json: JsonOpt = False,
) -> None:
    """K-Means on the vectors: what the clusters are, and how they fit the edges and, where known, the labels.

    Without --graph it says and writes what the vectors, --labels and --features tell.
    """
    from tuplet.evaluation.describe import confidence_of, describe_clusters
    from tuplet.evaluation.tasks import cluster_nodes, repeat
    from tuplet.io.write import check_table_path, write_table

    if engine is not None:
        if graph is not None or how or seeds > 1:
            raise InputError("With --engine only the vectors are read. Leave --graph, its options and --seeds out.")
        _cluster_parts(vectors, k, out, engine, not plain_rows, seed, quiet, as_json)
        return
    if out is not None:
        check_table_path(out)
    g, table = graph_and_vectors(vectors, graph, how)
    y, note = unseen_labels(g, table)
    z, runs = table.z, range(seed, seed + seeds)
    wanted = k or (
        g.n_classes if g.n_classes > 1 else None
    )  # labels that were seen still say how many classes there are
    with progress_bars(quiet) as progress:
        summary = repeat(
            each(lambda s: cluster_nodes(z, g, wanted, seed=s, unit_rows=not plain_rows, y=y), runs, progress), runs
        )
    first = summary.results[0]
    clusters: Any = first.labels
    described = describe_clusters(z, clusters, g, unit_rows=not plain_rows)
    if out is not None:
        sure = confidence_of(z, clusters, unit_rows=not plain_rows)
        write_table(out, {"id": g.node_ids, "cluster": clusters, "confidence": sure})
    k_from = "-k" if k else "the classes" if wanted else first.settings["k_from"]
    facts = f"k = {first.sizes['clusters']} from {k_from}{label_fact(g, how)}{_left_out(g)}"
    if as_json:
        warn(note)
        more = {"clusters": [found.to_dict() for found in described], "facts": facts, "seen": note}
        print_json(summary.to_dict() | more)
        return
    warn(note)
    if summary.mean:
        print_summary(summary, f"clusters of {vectors}", False, "; ".join(filter(None, (facts, note))))
    told = [facts, *(() if summary.mean else first.notes), *(() if out is None else (f"written to {out}",))]
    print_table("what they are", *_cluster_rows(described), caption="; ".join(told))


def _left_out(g: Graph) -> str:
    """What the table of clusters cannot say without features, as the end of a sentence."""
    return "" if g.x is not None else "; no features (--features FILE): what marks a cluster is left out"


def _cluster_parts(
    vectors: str, k: int | None, out: str | None, engine: str, unit_rows: bool, seed: int, quiet: bool, as_json: bool
) -> None:
    """K-Means of a folder of parts by the nodes of an engine."""
    from tuplet.engines import check_engine
    from tuplet.io.cluster_parts import cluster_parts
    from tuplet.io.remote import is_remote

    check_engine(engine)
    if k is None or out is None:
        raise InputError("With --engine give -k, and -o FOLDER for the parts with their clusters.")
    if not is_remote(vectors) and not Path(vectors).is_dir():
        raise InputError(
            f"{vectors} is no folder of Parquet parts, which --engine needs. `embed -o FOLDER/` writes one."
        )
    with progress_bars(quiet) as progress:
        found = cluster_parts(vectors, k, out, engine=engine, seed=seed, unit_rows=unit_rows, progress=progress)
    counts, inertia = found[0].tolist(), found[1]
    if as_json:
        print_json({"vectors": str(out), "counts": counts, "inertia": inertia})
        return
    sizes = ", ".join(map(str, sorted(counts, reverse=True)[:10]))
    sys.stdout.write(f"{out}: {sum(counts)} vectors in {k} clusters (largest: {sizes}), inertia {inertia:.6g}\n")


def shorten(text: str, most: int = 24) -> str:
    """`text`, cut where it would push other columns off the screen."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _cluster_rows(described: list[Cluster]) -> tuple[list[str], list[list[str]]]:
    """The table of clusters: its columns and one row each."""
    rows = []
    for found in described:
        marks = ", ".join(f"{shorten(mark.name)} ({mark.lift:.1f}x)" for mark in found.marks[:3])
        classes = ", ".join(f"{name} {share:.0%}" for name, share in found.classes[:2])
        nearest = "" if found.nearest is None else str(found.nearest)
        typical = ", ".join(map(str, found.medoids))
        rows.append([str(found.cluster), str(found.size), f"{found.share:.1%}", nearest, typical, marks, classes])
    return ["cluster", "size", "share", "nearest", "typical nodes", "marked by (lift)", "classes"], rows


@takes_graph()
def classify(
    vectors: VectorsArg,
    how: Options,
    graph: MaybeGraphOpt = None,
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
    """How well a linear classifier tells the classes from the vectors; with -o, the classes of unlabelled nodes.

    Nodes whose labels have trained the vectors are left out of the score.
    """
    from tuplet.evaluation.tasks import classify_nodes, repeat
    from tuplet.io.write import check_table_path

    if out is not None:
        check_table_path(out)
    g, table = graph_and_vectors(vectors, graph, how)
    if g.y is None or not (g.y >= 0).any():
        none = "" if g.y is None else ", and the label column holds none"
        raise InputError(
            f"Classification needs labels{none}. Give --labels FILE, or --label NAME for a column of --features."
        )
    y, note = unseen_labels(g, table)
    left = (y >= 0).any()
    if not left and out is None:
        raise InputError(
            f"No score: {note}. Hide the labels of some nodes from `tuplet embed`, or embed without labels."
        )
    written = ""
    if out is not None:
        written = _write_predictions(out, table.z, g, seed)
    if not left:
        sys.stderr.write(f"no score: {note}\n")
        sys.stdout.write(f"{written}{label_fact(g, how)}\n")
        return
    runs = range(seed, seed + seeds)
    with progress_bars(quiet) as progress:
        summary = repeat(
            each(lambda s: classify_nodes(table.z, g, seed=s, train=train, val=val, y=y), runs, progress), runs
        )
    warn(note)
    facts = f"{train:.0%} of the labelled nodes train, {val:.0%} choose C{label_fact(g, how)}"
    title = f"linear classifier on {vectors}"
    if as_json:
        print_json(summary.to_dict() | {"facts": facts, "seen": note, "written": written})
    else:
        print_summary(summary, title, False, "; ".join(filter(None, (facts, note, written))))


def _write_predictions(out: Path, z: Any, g: Graph, seed: int) -> str:
    import numpy as np

    from tuplet.evaluation.predict import predict_nodes
    from tuplet.io.write import write_table

    found = predict_nodes(z, g, seed=seed)
    names: Any = found.classes if not g.label_names else np.asarray(g.label_names)[found.classes]
    columns = {"id": g.node_ids, "class": names, "probability": found.probability, "known": found.known}
    write_table(out, columns)
    return f"{int((~found.known).sum())} nodes predicted from {int(found.known.sum())}, written to {out}"


def each(run: Callable[[int], Any], seeds: range, progress: Any) -> Callable[[int], Any]:
    """`run`, with a word to the progress bar after each seed."""

    def one(seed: int) -> Any:
        result = run(seed)
        if progress is not None:
            progress("runs", (seed - seeds.start + 1) / len(seeds))
        return result

    return one


@takes_graph()
def theory(
    vectors: VectorsArg,
    graph: GraphOpt,
    how: Options,
    temperature: Annotated[float, typer.Option(help="Temperature t of h(x, y) = exp(cos / t).")] = 1.0,
    seed: SeedOpt = 0,
    quiet: QuietOpt = False,
    as_json: JsonOpt = False,
) -> None:
    """Lemma 1, Theorems 1 and 2, tau0 and negative hardness, measured on the vectors."""
    from tuplet.evaluation.theory import measure
    from tuplet.filters import GraphFilter

    check_number("--temperature", temperature, low=0, open_low=True)
    g, table = graph_and_vectors(vectors, graph, how)
    with progress_bars(quiet) as progress:
        spaces = {} if g.x is None else {"filtered": GraphFilter().transform(g, progress=progress)}
    result = measure(table.z, g, temperature=temperature, seed=seed, spaces=spaces)
    if as_json:
        print_json(result.to_dict())
        return
    rows = [[name, f"{value:.4g}"] for name, value in result.values.items()]
    print_table(
        f"theory on {vectors}",
        ["quantity", "value"],
        rows,
        caption="; ".join([label_fact(g, how).removeprefix("; "), *result.notes]),
    )
