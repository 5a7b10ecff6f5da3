"""The paper's figures from rows (and, for the map of Cora, from a model that is trained for it)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tuplet import plots
from tuplet.bench.recipes import estimator_settings, recipe_settings
from tuplet.bench.report.ablations import gaps, is_ablation, step_lines, untrained
from tuplet.bench.report.blocks import lines_of, ranked
from tuplet.bench.report.legend import GRAPHS, OURS, TASKS
from tuplet.bench.report.published import Cell, Number, read_published
from tuplet.bench.report.reasons import short_reason
from tuplet.bench.report.sensitivity import effect_lines
from tuplet.bench.report.statistics import cliques, critical_difference
from tuplet.bench.report.tables import Group, group_rows
from tuplet.bench.rows import Row, read_rows
from tuplet.metrics import clustering_metrics

RANKS = {
    "clustering": "Clustering accuracy, mean rank over eight graphs",
    "classification": "Classification accuracy, mean rank over eight graphs",
    "links": "AUC of links, mean rank over eight graphs",
}
SENSITIVITY = {f"sensitivity{spec.removeprefix(OURS[0])}.png": spec for spec in OURS}
NAMES = {
    "clustering": "map-cora.png",
    "tau0": "tau0.png",
    "hardness": "hardness.png",
    "scale": "time-against-nodes.png",
}


def draw_figures(
    rows: str | Path | Iterable[str | Path],
    folder: str | Path,
    *,
    published: str | Path | None = None,
    cora_map: bool = True,
) -> list[Path]:
    """Draw every figure that the rows allow into `folder` as PNG; the files that were written.

    `cora_map` trains DMAT-i by its recipe on Cora for the three maps (raw, filtered, learned).
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    found = read_rows(rows)
    groups = group_rows(row for row in found if not is_ablation(row))
    numbers = read_published(published)
    written = [draw_cora_map(place / NAMES["clustering"])] if cora_map else []
    for name in rank_figures(groups):
        task = name.removeprefix("ranks-").removesuffix(".png")
        titles, ranks = ranked(lines_of(groups, task), TASKS[task])
        width = critical_difference(len(titles), len(GRAPHS))
        plots.rank_line(titles, ranks, width, cliques(ranks, width), title=RANKS[task], path=place / name)
        written.append(place / name)
    written += _ablations(found, place)
    for task, draw in FIGURES.items():
        mine = [g for g in groups if g.task == task]
        written += draw(mine, place, numbers) if any(g.runs for g in mine) else []
    return written


def rank_figures(groups: Sequence[Group]) -> list[str]:
    """The files of the critical-difference figures: one a task in which two lines have all graphs."""
    return [f"ranks-{task}.png" for task in TASKS if ranked(lines_of(groups, task), TASKS[task])[0]]


def ablation_figures(rows: Sequence[Row]) -> list[str]:
    """The files of the figures on sensitivity and ablations, where there are rows for them."""
    drawn: dict[str, Any] = {name: effect_lines(rows, spec) for name, spec in SENSITIVITY.items()}
    drawn |= {"ablations.png": gaps(rows), "steps.png": step_lines(rows)}
    return [name for name, lines in drawn.items() if lines]


def _ablations(rows: Sequence[Row], place: Path) -> list[Path]:
    names = ablation_figures(rows)
    for name in [name for name in names if name in SENSITIVITY]:
        plots.effect_panels(effect_lines(rows, SENSITIVITY[name]), path=place / name)
    if "ablations.png" in names:
        plots.change_strips({k: v for k, v in gaps(rows).items() if k != "defaults"}, path=place / "ablations.png")
    if "steps.png" in names:
        bars = {graph: number.mean for graph, number in untrained(rows).items()}
        plots.step_panels(step_lines(rows), bars, path=place / "steps.png")
    return [place / name for name in names]


def figure_names(groups: Sequence[Group]) -> list[str]:
    """The files that `draw_figures` makes of the groups of one task."""
    task = groups[0].task
    if task == "convergence":
        return [_curve_name(g) for g in groups if any("series" in row for row in g.rows)]
    return [NAMES[task]] if task in NAMES and any(g.runs for g in groups) else []


def draw_cora_map(path: str | Path, *, seed: int = 0, sample: int = 3000) -> Path:
    """t-SNE of Cora's features, filtered features and DMAT-i vectors by the recipe."""
    from tuplet.datasets import load_dataset
    from tuplet.models.dmat import DMATi
    from tuplet.models.new_nodes import filter_of
    from tuplet.rows.unit import scale_rows

    graph = load_dataset("cora")
    settings = estimator_settings(recipe_settings("cora"))
    model = DMATi(**settings, seed=seed)
    rows = filter_of(model).transform(graph, x=scale_rows(graph.x))
    z = model.fit(graph.with_(y=None)).embedding_
    raw, filtered, learned = (scale_rows(part) for part in (graph.x, rows, z))
    plots.map_panels(
        raw, filtered, learned, graph.y, label_names=graph.label_names, sample=sample, seed=seed, path=path
    )
    return Path(path)


def _convergence(groups: Sequence[Group], folder: Path, numbers: Mapping[Cell, Number]) -> list[Path]:
    """Metrics against steps for the runs that have a curve; accuracy against seconds beside the other methods."""
    written = []
    for g in groups:
        curves = [row["series"] for row in g.rows if "series" in row]
        if not curves:
            continue
        series, stop = curves[0], g.rows[0]["settings"].get("max_steps")
        lines = {name: (series["steps"], series[name]) for name in clustering_metrics() if name in series}
        times: dict[str, tuple[Any, Any]] = {g.method: (series["seconds"], series["accuracy"])}
        for other in groups:
            if other.dataset == g.dataset and other.method != g.method:
                times[other.method] = (_values(other, "convergence_seconds")[:1], _values(other, "accuracy")[:1])
        path = folder / _curve_name(g)
        title = f"{plots.dataset_title(g.dataset)}: metrics while training"
        plots.convergence(lines, times, title=title, chosen=stop, path=path)
        written.append(path)
    return written


def _curve_name(group: Group) -> str:
    return f"convergence-{group.dataset}.png"


def _tau0(groups: Sequence[Group], folder: Path, numbers: Mapping[Cell, Number]) -> list[Path]:
    series = _series(groups)
    shapes = {dataset: (found["edges"], found["counts"]) for dataset, found in series.items()}
    medians = {g.dataset: g.values["median"][0] for g in groups if g.runs}
    cells = {g.dataset: ("tau0", g.dataset, g.method, g.usage, "median") for g in groups}
    theirs = {dataset: numbers[cell].mean for dataset, cell in cells.items() if dataset in shapes and cell in numbers}
    path = folder / NAMES["tau0"]
    plots.tau0_panels(shapes, medians=medians, published=theirs, path=path)
    return [path]


def _hardness(groups: Sequence[Group], folder: Path, numbers: Mapping[Cell, Number]) -> list[Path]:
    names = ("features", "filtered", "vectors")
    series = _series(groups)
    shapes = {dataset: {name: found[name] for name in names} for dataset, found in series.items()}
    path = folder / NAMES["hardness"]
    plots.hardness_panels(shapes, next(iter(series.values()))["edges"], path=path)
    return [path]


def _scale(groups: Sequence[Group], folder: Path, numbers: Mapping[Cell, Number]) -> list[Path]:
    lines: dict[str, list[tuple[float, float]]] = {}
    for g in sorted((g for g in groups if g.runs), key=lambda g: g.values["nodes"][0]):
        row = g.rows[-1]
        more = 5 / (row["settings"].get("epochs") or 5) - 1  # of the training, up to five epochs
        seconds = g.values["total_seconds"][0] + more * row["seconds"].get("train", 0.0)
        columns = row["settings"].get("n_features", 1000)
        parts = [g.method, *(["GPU"] if "NVIDIA" in row["machine"] else []), f"{columns} columns"]
        name = ", ".join(parts if columns != 1000 else parts[:-1])
        lines.setdefault(name, []).append((g.values["nodes"][0], seconds))
    path = folder / NAMES["scale"]
    title = "Filter to clusters, R-MAT, 20 edges a node, 1000 columns, 5 epochs"
    plots.time_against_nodes(lines, stops=scale_stops(groups), title=title, path=path)
    return [path]


def scale_stops(groups: Sequence[Group]) -> dict[str, tuple[float, str]]:
    """The smallest rung at which each method failed, and why, in a few words."""
    from tuplet.bench.rmat import nodes_of

    stops: dict[str, tuple[float, str]] = {}
    for g in groups:
        nodes = nodes_of(g.dataset)
        if g.error and nodes < stops.get(g.method, (float("inf"), ""))[0]:
            stops[g.method] = (nodes, short_reason(g.error))
    return stops


def _series(groups: Sequence[Group]) -> dict[str, Any]:
    """The series of the first good run of each dataset."""
    return {g.dataset: row["series"] for g in groups for row in g.rows[::-1] if "series" in row}


def _values(group: Group, metric: str) -> Sequence[float]:
    number = group.number(metric)
    return [] if number is None else [number.mean]


FIGURES: dict[str, Callable[[Sequence[Group], Path, Mapping[Cell, Number]], list[Path]]] = {
    "convergence": _convergence,
    "tau0": _tau0,
    "hardness": _hardness,
    "scale": _scale,
}
