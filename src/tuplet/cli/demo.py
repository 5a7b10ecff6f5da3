"""`tuplet demo`: the Cora graph that ships in the package, from features to clusters to a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuplet._check import InputError, check_int
from tuplet.cli._console import JsonOpt, QuietOpt, print_json, print_table, progress_bars

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
    quiet: QuietOpt = False,
    as_json: JsonOpt = False,
) -> None:
    """Embed Cora without its labels, cluster the vectors, and score them beside the paper's row."""
    from tuplet import load_dataset

    check_int("seeds", seeds)
    _make_folder(out)
    graph = load_dataset("cora")
    with progress_bars(quiet) as progress:
        rows, panels, model = run_demo(graph, seeds, progress)
        write_outputs(out, graph, panels, model, progress)
    if as_json:
        print_json({name: summary.to_dict() for name, summary in rows.items()})
        return
    table = [
        [name, *(_cell(summary.mean[m], summary.deviation[m]) for m in METRICS)] for name, summary in rows.items()
    ]
    table.append(["paper: DMAT-i", *(_cell(*PAPER[m]) for m in METRICS)])
    print_table(
        f"{graph}: K-Means on four sets of vectors",
        ["vectors", *METRICS],
        table,
        caption=f"Percent, mean and deviation over {seeds} seeds. Labels are read for scoring only. Wrote {out}/.",
    )


def run_demo(graph: Graph, seeds: int, progress: Any) -> tuple[dict[str, Summary], list[NDArray[Any]], Any]:
    """Summaries by row name, the three panels of seed 0 (raw, filtered, learned) and the model of seed 0."""
    from tuplet.evaluation.tasks import cluster_nodes, repeat
    from tuplet.filters import GraphFilter
    from tuplet.models.dmat import DMATi
    from tuplet.models.selfdmat import SelfDMAT

    raw = graph.x.toarray()  # type: ignore[union-attr]
    filtered = GraphFilter().transform(graph)
    models = []
    for seed in range(seeds):
        models.append(DMATi(seed=seed).fit(graph.with_(y=None)))
        if progress is not None:
            progress("DMAT-i", (seed + 1) / seeds)
    vectors = [model.embedding_ for model in models]
    itself = []
    for seed in range(seeds):
        itself.append(SelfDMAT(graph.n_classes, seed=seed).fit_transform(graph.with_(y=None)))
        if progress is not None:
            progress("SelfDMAT", (seed + 1) / seeds)
    sources = {
        "raw features": lambda seed: raw,
        "filtered features": lambda seed: filtered,
        "DMAT-i vectors": lambda seed: vectors[seed],
        "SelfDMAT vectors": lambda seed: itself[seed],
    }
    rows = {}
    for i, (name, source) in enumerate(sources.items(), start=1):
        unit = name != "raw features"

        def run(seed: int, source: Any = source, unit: bool = unit) -> Any:
            return cluster_nodes(source(seed), graph, seed=seed, unit_rows=unit)

        rows[name] = repeat(run, range(seeds))
        if progress is not None:
            progress("cluster", i / len(sources))
    return rows, [raw, filtered, vectors[0]], models[0]


def write_outputs(out: Path, graph: Graph, panels: list[NDArray[Any]], model: Any, progress: Any) -> None:
    """`vectors.parquet` (id, vector, cluster), `map.png` and `model/` of seed 0."""
    from tuplet.evaluation.tasks import cluster_nodes
    from tuplet.io.vectors import write_vectors
    from tuplet.plots import map_panels

    clusters = cluster_nodes(model.embedding_, graph, seed=0).labels
    write_vectors(out / "vectors.parquet", model.embedding_, graph.node_ids, cluster=clusters)
    model.save(out / "model")
    raw, filtered, learned = panels
    map_panels(raw, filtered, learned, graph.y, label_names=graph.label_names, path=out / "map.png")
    if progress is not None:
        progress("draw", 1.0)


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


def _cell(mean: float, std: float) -> str:
    return f"{mean:.2f} ± {std:.2f}"
