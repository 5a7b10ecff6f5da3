"""`tuplet demo`: the Cora graph that ships in the package, from features to clusters to a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuplet._check import InputError, MissingExtraError
from tuplet.cli._console import JsonOpt, QuietOpt, SeedOpt, print_json, print_table, progress_bars

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tuplet.evaluation.results import Summary
    from tuplet.graph import Graph

METRICS = ("accuracy", "nmi", "ari", "f1", "modularity", "conductance")
# The DMAT-i row of the paper's clustering table, Cora: mean and deviation.
PAPER = {
    "accuracy": (70.57, 1.28),
    "nmi": (53.59, 1.22),
    "ari": (47.34, 2.41),
    "f1": (69.33, 1.00),
    "modularity": (74.19, 0.39),
    "conductance": (10.04, 0.52),
}


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the vectors, the map and the model.")] = Path(
        "tuplet-demo"
    ),
    seeds: Annotated[int, typer.Option(min=1, help="Number of runs.")] = 5,
    seed: SeedOpt = 0,
    quiet: QuietOpt = False,
    as_json: JsonOpt = False,
) -> None:
    """Embed Cora without its labels, cluster the vectors, and score them beside the paper's row."""
    from tuplet import load_dataset

    _make_folder(out)
    graph = load_dataset("cora")
    with progress_bars(quiet) as progress:
        rows, panels, model = run_demo(graph, range(seed, seed + seeds), progress)
        note = write_outputs(out, graph, panels, model, progress)
    if as_json:
        print_json({name: summary.to_dict() for name, summary in rows.items()})
        return
    over = f", mean and deviation over {seeds} seeds" if seeds > 1 else ", one run; the paper's row over ten"
    table = [
        [name, *(_cell(summary.mean[m], summary.deviation[m] if seeds > 1 else None) for m in METRICS)]
        for name, summary in rows.items()
    ]
    table.append(["paper: DMAT-i", *(_cell(*PAPER[m]) for m in METRICS)])
    print_table(
        f"{graph}: K-Means on four sets of vectors",
        ["vectors", *METRICS],
        table,
        caption=f"Percent{over}. k = {graph.n_classes}, the number of classes; labels (topics of the papers) are "
        f"read for scoring only. Wrote {out}/.{note}",
    )


def run_demo(graph: Graph, seeds: range, progress: Any) -> tuple[dict[str, Summary], list[NDArray[Any]], Any]:
    """Summaries by row name, the three panels of the first seed (raw, filtered, learned) and its model."""
    from tuplet.evaluation.tasks import cluster_nodes, repeat
    from tuplet.filters import GraphFilter
    from tuplet.models.dmat import DMATi
    from tuplet.models.selfdmat import SelfDMAT

    raw = graph.x.toarray()  # type: ignore[union-attr]
    filtered = GraphFilter().transform(graph)
    models = []
    for done, seed in enumerate(seeds, start=1):
        models.append(DMATi(seed=seed).fit(graph.with_(y=None)))
        if progress is not None:
            progress("DMAT-i", done / len(seeds))
    vectors = [model.embedding_ for model in models]
    itself = []
    for done, seed in enumerate(seeds, start=1):
        itself.append(SelfDMAT(graph.n_classes, seed=seed).fit_transform(graph.with_(y=None)))
        if progress is not None:
            progress("SelfDMAT", done / len(seeds))
    sources = {
        "raw features": lambda seed: raw,
        "filtered features": lambda seed: filtered,
        "DMAT-i vectors": lambda seed: vectors[seed - seeds.start],
        "SelfDMAT vectors": lambda seed: itself[seed - seeds.start],
    }
    rows = {}
    for i, (name, source) in enumerate(sources.items(), start=1):
        unit = name != "raw features"

        def run(seed: int, source: Any = source, unit: bool = unit) -> Any:
            return cluster_nodes(source(seed), graph, seed=seed, unit_rows=unit)

        rows[name] = repeat(run, seeds)
        if progress is not None:
            progress("cluster", i / len(sources))
    return rows, [raw, filtered, vectors[0]], models[0]


def write_outputs(out: Path, graph: Graph, panels: list[NDArray[Any]], model: Any, progress: Any) -> str:
    """`vectors.parquet` (id, vector, cluster), `map.png` and `model/` of the first seed; what was left out."""
    from tuplet.evaluation.tasks import cluster_nodes
    from tuplet.io.seen import seen_by
    from tuplet.io.vectors import write_vectors
    from tuplet.plots import map_panels

    clusters = cluster_nodes(model.embedding_, graph, seed=0).labels
    metadata = {"model": repr(model), "graph": graph.fingerprint(), "seen": seen_by(graph, labels=False)}
    write_vectors(out / "vectors.parquet", model.embedding_, graph.node_ids, cluster=clusters, metadata=metadata)
    model.save(out / "model")
    raw, filtered, learned = panels
    try:
        map_panels(raw, filtered, learned, graph.y, label_names=graph.label_names, path=out / "map.png")
    except MissingExtraError as error:
        return f" No map: {error}"
    if progress is not None:
        progress("draw", 1.0)
    return ""


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".write-test"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(
            f"The folder {out} cannot be written to ({error.strerror}). Choose another with --out."
        ) from error


def _cell(mean: float, std: float | None) -> str:
    return f"{mean:.2f}" if std is None else f"{mean:.2f} ± {std:.2f}"
