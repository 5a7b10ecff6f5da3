"""Figures: the map of vectors, convergence, tau0, negative hardness, time against nodes, bars.

Each function returns a matplotlib Figure, and writes it as PNG, SVG or PDF by the ending of `path`, if given (whole
or not at all). No global state of matplotlib is touched. Needs the extra `plot`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuplet._check import InputError
from tuplet._seed import seed_of, stream
from tuplet.pages.colours import UNKNOWN, group_colours
from tuplet.pages.style import (
    GREY,
    INK,
    MARKERS,
    apart,
    dress,
    figure_of,
    legend,
    panels_of,
    plain_log,
    save_figure,
)

COLOURS = tuple(group_colours(8))
NAMED = 24  # groups that a legend lists; of more, each group's name stands on the map
_PAPER = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
_PAPER_NAMES = {"amazon-photo": "Amazon Photo", "coauthor-cs": "Coauthor CS", "coauthor-phy": "Coauthor Physics"}


def map_panels(
    raw: Any,
    filtered: Any,
    learned: Any,
    y: ArrayLike | None = None,
    *,
    label_names: Sequence[str] = (),
    titles: Sequence[str] = ("Features", "Filtered features", "Learned vectors"),
    sample: int = 3000,
    seed: int = 0,
    path: str | os.PathLike[str] | None = None,
) -> Any:
    """Three t-SNE maps of the same nodes side by side, coloured by `y` (paper, appendix, figure of Cora).

    Each input is (n, d), dense or sparse. At most `sample` random nodes are drawn.
    """
    panels = [raw, filtered, learned]
    n = panels[0].shape[0]
    if any(panel.shape[0] != n for panel in panels):
        raise InputError(f"The panels have {[p.shape[0] for p in panels]} rows. Give the same nodes in each.")
    rows = np.sort(stream(seed, "map sample").permutation(n)[:sample])
    labels = np.full(len(rows), -1) if y is None else np.asarray(y)[rows]
    figure = figure_of(12.0, 4.2)
    for place, (panel, title) in enumerate(zip(panels, titles), start=1):
        axes = figure.add_subplot(1, len(panels), place)
        _scatter(axes, tsne(panel[rows], seed=seed), labels, label_names, "class")
        dress(axes, title)
    _map_legend(figure, 8)
    return _finished(figure, path)


def map_vectors(
    z: Any,
    y: ArrayLike | None = None,
    *,
    label_names: Sequence[str] = (),
    kind: str = "class",
    title: str = "",
    seed: int = 0,
    path: str | os.PathLike[str] | None = None,
) -> Any:
    """One t-SNE map of the vectors `z` (n, d), coloured by `y` (n,), -1 grey.

    `kind` is what y holds, "class" or "cluster"; groups without a name are called so, with their number.
    """
    labels = np.full(z.shape[0], -1) if y is None else np.asarray(y)
    figure = figure_of(7.0, 6.4)
    axes = figure.add_subplot()
    _scatter(axes, tsne(z, seed=seed), labels, label_names, kind)
    dress(axes, title)
    _map_legend(figure, 5)
    return _finished(figure, path)


def tsne(z: Any, *, seed: int = 0) -> NDArray[np.float64]:
    """Two t-SNE coordinates for each row of `z` (n, d): float64 (n, 2). Wide rows go through an SVD to 50 first."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.manifold import TSNE

    state = seed_of(seed, "tsne") % 2**32
    if z.shape[1] > 50:
        z = TruncatedSVD(50, random_state=state).fit_transform(z)
    z = np.asarray(z.toarray() if hasattr(z, "toarray") else z, dtype=np.float32)
    perplexity = min(30.0, (z.shape[0] - 1) / 3)
    spread = z.std()  # PCA of constant rows divides by zero
    model = TSNE(perplexity=perplexity, init="pca" if spread > 0 else "random", max_iter=600, random_state=state)
    return np.asarray(model.fit_transform(z), dtype=np.float64)


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
    `chosen` draws the step at which the recipe stops.
    """
    figure = figure_of(11.0, 4.2)
    left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    for (name, (steps, values)), colour in zip(curves.items(), group_colours(len(curves))):
        left.plot(steps, values, color=colour, label=name, linewidth=1.6)
    if chosen is not None:
        left.axvline(chosen, color=GREY, linestyle=":", linewidth=1.2)
        left.annotate(" recipe", (chosen, 2), color=GREY, fontsize=8)
    left.set_xscale("log")
    plain_log(left.xaxis)
    dress(left, title or "Metrics while training", "training steps", "percent")
    left.set_ylim(0, 100)
    legend(left, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=6)
    _accuracy_by_time(right, times)
    return _finished(figure, path)


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
    return _finished(figure, path)


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
    return _finished(figure, path)


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
        colour, ours = colours[name.split(",")[0]], "DMAT" in name
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
    return _finished(figure, path)


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
            look = {"color": colour, "fontsize": 8, "fontweight": "bold" if ours else "normal", "bbox": _PAPER}
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
    return _finished(figure, path)


def dataset_title(name: str) -> str:
    """A dataset's name as the paper prints it.

    >>> dataset_title("coauthor-cs"), dataset_title("acm"), dataset_title("cora")
    ('Coauthor CS', 'ACM', 'Cora')
    """
    return _PAPER_NAMES.get(name) or (name.upper() if name in ("acm", "dblp") else name.capitalize())


def _scatter(axes: Any, points: NDArray[Any], labels: NDArray[Any], names: Sequence[str], kind: str) -> None:
    """A dot a row, coloured by group; from the ninth group on another shape as well."""
    known = [label for label in np.unique(labels) if label >= 0]
    colours = group_colours(len(known))
    groups = [(-1, UNKNOWN, "o")] if (labels < 0).any() else []
    groups += [(label, colours[i], MARKERS[i // 8 % len(MARKERS)]) for i, label in enumerate(known)]
    for label, colour, marker in groups:
        here = points[labels == label] if label >= 0 else points[labels < 0]
        name = "unknown" if label < 0 else _group_name(label, names, kind)
        axes.scatter(here[:, 0], here[:, 1], s=5, color=colour, marker=marker, linewidths=0, alpha=0.8, label=name)
        if len(known) > NAMED and label >= 0:
            text = _group_name(label, names, "")
            axes.annotate(text, np.median(here, axis=0), ha="center", va="center", fontsize=6, color=INK, bbox=_PAPER)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xticks([])
    axes.set_yticks([])


def _group_name(label: int, names: Sequence[str], kind: str) -> str:
    return str(names[label]) if label < len(names) else f"{kind} {label}".strip()


def _map_legend(figure: Any, columns: int) -> None:
    handles, names = figure.axes[0].get_legend_handles_labels()
    if 0 < len(names) <= NAMED + 1 and names != ["unknown"]:
        where = {"loc": "outside lower center", "ncols": min(columns, len(names))}
        figure.legend(handles, names, frameon=False, fontsize=8, markerscale=2, **where)


def _finished(figure: Any, path: str | os.PathLike[str] | None) -> Any:
    if path is not None:
        save_figure(figure, path)
    return figure
