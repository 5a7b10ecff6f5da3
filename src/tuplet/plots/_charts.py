"""Figures of measurements: convergence, tau0, negative hardness, time against nodes, bars."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tuplet.models.registry import own_methods
from tuplet.pages.colours import group_colours
from tuplet.pages.style import GREY, INK, PAPER, apart, dress, figure_of, finished, legend, panels_of, plain_log

COLOURS = tuple(group_colours(8))
_TITLES = {"amazon-photo": "Amazon Photo", "coauthor-cs": "Coauthor CS", "coauthor-phy": "Coauthor Physics"}


def convergence(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]],
    times: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    title: str = "",
    chosen: float | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Any:
    """Left: each metric in percent against training steps. Right: accuracy against seconds, one line a method.

    `curves` maps a metric to (steps, values), `times` a method to (seconds, accuracies); one point becomes a dot.
    `chosen` draws the step at which the settings stop.
    """
    figure = figure_of(11.0, 4.2)
    left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    for (name, (steps, values)), colour in zip(curves.items(), group_colours(len(curves))):
        left.plot(steps, values, color=colour, label=name, linewidth=1.6)
    if chosen is not None:
        left.axvline(chosen, color=GREY, linestyle=":", linewidth=1.2)
        left.annotate(" chosen", (chosen, 2), color=GREY, fontsize=8)
    left.set_xscale("log")
    plain_log(left.xaxis)
    dress(left, title or "Metrics while training", "training steps", "percent")
    left.set_ylim(0, 100)
    legend(left, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=6)
    _accuracy_by_time(right, times)
    return finished(figure, path)


def _accuracy_by_time(axes: Any, times: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> None:
    """A dot for each run, since each was timed by itself; a thin line through them in the order of time."""
    for (name, (seconds, values)), colour in zip(times.items(), group_colours(len(times))):
        order = np.argsort(seconds, kind="stable")
        across, up = np.ravel(seconds)[order], np.ravel(values)[order]
        axes.plot(across, up, color=colour, linewidth=1.0, alpha=0.5)
        axes.plot(across, up, color=colour, marker="o", markersize=4, linestyle="none", label=name)
    dress(axes, "Accuracy against time, one dot a run", "seconds, filter included", "accuracy, percent")
    ends = np.concatenate([np.ravel(seconds) for seconds, _ in times.values()] or [np.ones(1)])
    if len(ends) and ends.max() > 20 * ends.min() > 0:
        axes.set_xscale("log")
        plain_log(axes.xaxis)
    else:
        axes.set_xlim(left=0)
    legend(axes, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=4)


def tau0_panels(
    histograms: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    medians: Mapping[str, float] | None = None,
    published: Mapping[str, float] | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Any:
    """One histogram of tau0 (paper, Eq. 8) a dataset: `histograms` maps it to (bin edges, node counts)."""
    figure, panels = panels_of(len(histograms))
    for axes, (name, (edges, counts)) in zip(panels, histograms.items()):
        ends, share = np.asarray(edges), np.asarray(counts) / max(1, np.sum(counts))
        axes.stairs(share, ends, fill=True, color=COLOURS[0], alpha=0.75)
        for value, colour, text in ((medians, INK, "median"), (published, COLOURS[1], "paper's median")):
            if value is not None and name in value:
                axes.axvline(value[name], color=colour, linewidth=1.2, label=f"{text} {value[name]:.3g}")
        if np.all(ends > 0):
            axes.set_xscale("log")
        dress(axes, dataset_title(name), "tau0", "share of nodes")
        legend(axes)
    return finished(figure, path)


def hardness_panels(
    histograms: Mapping[str, Mapping[str, ArrayLike]],
    edges: ArrayLike,
    *,
    path: str | os.PathLike[str] | None = None,
) -> Any:
    """Similarity among negative pairs, one panel a dataset; a line each for features, filtered rows and vectors.

    `histograms` maps dataset -> source -> counts in the bins `edges`, which all share.
    """
    figure, panels = panels_of(len(histograms))
    ends = np.asarray(edges)
    for axes, (name, lines) in zip(panels, histograms.items()):
        for (source, counts), colour in zip(lines.items(), COLOURS):
            share = np.asarray(counts) / max(1, np.sum(counts))
            axes.stairs(share, ends, color=colour, linewidth=1.4, label=source)
        dress(axes, dataset_title(name), "cosine similarity", "share of negative pairs")
        axes.set_xlim(ends[0], ends[-1])
        axes.set_xticks(np.linspace(ends[0], ends[-1], 5))
    legend(panels[0])
    return finished(figure, path)


def time_against_nodes(
    lines: Mapping[str, Sequence[tuple[float, float]]],
    *,
    stops: Mapping[str, tuple[float, str]] | None = None,
    title: str = "Time against nodes",
    path: str | os.PathLike[str] | None = None,
) -> Any:
    """Seconds against the number of nodes, both logarithmic, one line a method.

    `lines` maps a method to its (nodes, seconds); `stops` to the (nodes, reason) at which it could not go on.
    """
    figure = figure_of(9.0, 5.4)
    axes = figure.add_subplot(1, 1, 1)
    drawn = {name: sorted(points) for name, points in lines.items() if points}
    methods = list(dict.fromkeys(name.split(",")[0] for name in drawn))  # "DMAT-i, GPU" is DMAT-i
    colours = dict(zip(methods, group_colours(len(methods))))
    reasons = dict(zip(dict.fromkeys(reason for _, reason in (stops or {}).values()), "X^sD"))
    notes = []
    for name, points in drawn.items():
        nodes, seconds = zip(*points)
        method = name.split(",")[0]
        colour, ours = colours[method], method in own_methods()
        axes.plot(nodes, seconds, color=colour, marker="o", markersize=4, linewidth=2.8 if ours else 1.2)
        if name in (stops or {}):
            marker = reasons.get((stops or {})[name][1], "X")
            axes.plot(nodes[-1], seconds[-1], marker=marker, markersize=8, color=colour)
        notes.append((nodes[-1], seconds[-1], name, colour, ours))
    for reason, marker in reasons.items():
        axes.plot([], [], marker=marker, color=GREY, linestyle="none", label=f"{reason} at the next size")
    axes.set_xscale("log")
    axes.set_yscale("log")
    dress(axes, title, "nodes", "seconds")
    legend(axes, loc="lower right")
    _name_ends(axes, notes)
    return finished(figure, path)


def _name_ends(axes: Any, notes: list[tuple[float, float, str, str, bool]]) -> None:
    """Write each line's name at its end, left of the first place and right of the others, none upon another."""
    places = sorted({note[0] for note in notes})
    if not places:
        return
    axes.set_xlim(places[0] / 4, places[-1] * 12)
    for place in places:
        here = [note for note in notes if note[0] == place]
        side = -1 if place == places[0] else 1
        heights = apart([float(np.log10(note[1])) for note in here], 0.12)
        for (_, _, text, colour, ours), height in zip(here, heights):
            look = {"color": colour, "fontsize": 8, "fontweight": "bold" if ours else "normal", "bbox": PAPER}
            where = {"textcoords": "offset points", "va": "center", "ha": "left" if side > 0 else "right"}
            axes.annotate(text, (place, 10**height), (9 * side, 0), **where, **look)


def bars(
    groups: Sequence[str],
    series: Mapping[str, Sequence[float]],
    *,
    y: str,
    low: float = 0.0,
    path: str | os.PathLike[str] | None = None,
) -> Any:
    """A group of bars for each of `groups`, one bar for each of `series` (name -> one value a group)."""
    figure = figure_of(9.0, 3.4)
    axes = figure.add_subplot()
    place, width = np.arange(len(groups)), 0.8 / max(1, len(series))
    for i, ((name, values), colour) in enumerate(zip(series.items(), group_colours(len(series)))):
        axes.bar(place + width * (i - (len(series) - 1) / 2), values, 0.92 * width, label=name, color=colour)
    axes.set_xticks(place, groups)
    axes.set_ylim(bottom=low)
    dress(axes, "", "", y)
    legend(axes, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=max(1, len(series)))
    return finished(figure, path)


def effect_panels(
    effects: Mapping[str, Mapping[str, tuple[float, float, int]]], *, path: str | os.PathLike[str] | None = None
) -> Any:
    """A panel a task, a row a value of a setting: its effect in points with two standard errors to each side."""
    tasks = list(dict.fromkeys(task for line in effects.values() for task in line))
    figure = figure_of(11.0, 1.2 + 0.2 * len(effects))
    places = list(range(len(effects), 0, -1))
    for i, task in enumerate(tasks):
        axes = figure.add_subplot(1, len(tasks), i + 1)
        for place, line in zip(places, effects.values()):
            if task in line:
                mean, error, _ = line[task]
                axes.plot([mean - 2 * error, mean + 2 * error], [place] * 2, color=COLOURS[0], linewidth=2)
                axes.scatter([mean], [place], color=INK, s=12, zorder=3)
        axes.axvline(0, color=GREY, linewidth=1)
        axes.set_yticks(places, list(effects) if i == 0 else [""] * len(effects), fontsize=7)
        dress(axes, task, "points, validation part", "")
    return finished(figure, path)


def change_strips(changes: Mapping[str, Sequence[float]], *, path: str | os.PathLike[str] | None = None) -> Any:
    """A row a change of settings: a dot a graph at the difference that it makes in accuracy, a bar at their mean."""
    figure = figure_of(8.0, 1.2 + 0.26 * len(changes))
    axes = figure.add_subplot(1, 1, 1)
    places = list(range(len(changes), 0, -1))
    for place, values in zip(places, changes.values()):
        axes.scatter(values, [place] * len(values), color=COLOURS[0], alpha=0.6, s=16)
        axes.plot([np.mean(values)] * 2, [place - 0.35, place + 0.35], color=INK, linewidth=2)
    axes.axvline(0, color=GREY, linewidth=1)
    axes.set_yticks(places, list(changes))
    dress(
        axes,
        "One setting changed: clustering accuracy against the defaults",
        "points; a dot a graph, a bar the mean",
        "",
    )
    return finished(figure, path)


def step_panels(
    lines: Mapping[str, Sequence[tuple[float, float]]],
    untrained: Mapping[str, float],
    *,
    path: str | os.PathLike[str] | None = None,
) -> Any:
    """One panel a graph: clustering accuracy against training steps, and that of the filter without training."""
    figure, panels = panels_of(len(lines))
    for axes, (name, points) in zip(panels, lines.items()):
        axes.plot(*zip(*points), color=COLOURS[0], marker="o", markersize=3, label="DMAT-i")
        if name in untrained:
            axes.axhline(untrained[name], color=COLOURS[1], linestyle="--", label="FilterSVD, no training")
        axes.set_xscale("log")
        dress(axes, dataset_title(name), "training steps", "accuracy")
        legend(axes)
    return finished(figure, path)


def rank_line(
    names: Sequence[str],
    ranks: Sequence[float],
    width: float,
    joined: Sequence[tuple[float, float]],
    *,
    title: str = "",
    path: str | os.PathLike[str] | None = None,
) -> Any:
    """A critical-difference figure: one dot a method at its mean rank, best on top; bars join those that are closer
    than `width` (ties).
    """
    figure = figure_of(8.0, 1.2 + 0.32 * len(names))
    axes = figure.add_subplot(1, 1, 1)
    places = range(len(names), 0, -1)
    axes.scatter(ranks, places, color=COLOURS[0], zorder=3)
    axes.set_yticks(list(places), names)
    for i, (low, high) in enumerate(joined):
        axes.plot([low, high], [0.3 - 0.25 * i] * 2, color=INK, linewidth=3, solid_capstyle="butt")
    axes.set_ylim(0.1 - 0.25 * max(1, len(joined)), len(names) + 0.6)
    dress(axes, title, f"mean rank, 1 the best; bars join ties (closer than {width:.2f})", "")
    return finished(figure, path)


def dataset_title(name: str) -> str:
    """A dataset's name as the paper prints it.

    >>> dataset_title("coauthor-cs"), dataset_title("acm"), dataset_title("cora")
    ('Coauthor CS', 'ACM', 'Cora')
    """
    return _TITLES.get(name) or (name.upper() if name in ("acm", "dblp") else name.capitalize())
