"""Figures: the map of vectors, convergence, tau0, negative hardness, time against nodes.

Each function returns a matplotlib Figure, and writes it as PNG when `path` is given (whole or not at all). No
global state of matplotlib is touched. Needs the extra `plot`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuplet._check import InputError, check_out_path, need_extra
from tuplet._files import new_file
from tuplet._seed import seed_of, stream

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb", "#000000")
GREY = "#999999"
INK = "#333333"
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
    figure = _figure(12.0, 4.2)
    for place, (panel, title) in enumerate(zip(panels, titles), start=1):
        axes = figure.add_subplot(1, len(panels), place)
        _scatter(axes, tsne(panel[rows], seed=seed), labels, label_names)
        _dress(axes, title)
        axes.set_xticks([])
        axes.set_yticks([])
    handles, names = figure.axes[0].get_legend_handles_labels()
    if 0 < len(names) <= 16:
        figure.legend(handles, names, loc="outside lower center", ncols=min(8, len(names)), frameon=False, fontsize=8)
    return _finished(figure, path)


def map_vectors(
    z: Any,
    y: ArrayLike | None = None,
    *,
    label_names: Sequence[str] = (),
    title: str = "",
    seed: int = 0,
    path: str | os.PathLike[str] | None = None,
) -> Any:
    """One t-SNE map of the vectors `z` (n, d), coloured by `y` (n,): classes or clusters, -1 grey."""
    labels = np.full(z.shape[0], -1) if y is None else np.asarray(y)
    figure = _figure(7.0, 6.4)
    axes = figure.add_subplot()
    _scatter(axes, tsne(z, seed=seed), labels, label_names)
    _dress(axes, title)
    axes.set_xticks([])
    axes.set_yticks([])
    handles, names = axes.get_legend_handles_labels()
    if y is not None and 0 < len(names) <= 16:
        figure.legend(handles, names, loc="outside lower center", ncols=min(5, len(names)), frameon=False, fontsize=8)
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
    figure = _figure(11.0, 4.2)
    left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    for (name, (steps, values)), colour in zip(curves.items(), COLOURS):
        left.plot(steps, values, color=colour, label=name, linewidth=1.6)
    if chosen is not None:
        left.axvline(chosen, color=GREY, linestyle=":", linewidth=1.2)
        left.annotate(" recipe", (chosen, 2), color=GREY, fontsize=8)
    _dress(left, title or "Metrics while training", "training steps", "percent")
    left.set_xscale("log")
    left.set_ylim(0, 100)
    _legend(left)
    for (name, (seconds, values)), colour in zip(times.items(), _many_colours(len(times))):
        alone = np.size(seconds) == 1
        right.plot(seconds, values, color=colour, marker="o" if alone else None, linewidth=1.6, label=name)
    _dress(right, "Accuracy against time", "seconds, filter included", "accuracy, percent")
    right.set_xscale("log")
    _legend(right)
    return _finished(figure, path)


def tau0_panels(
    histograms: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    medians: Mapping[str, float] | None = None,
    published: Mapping[str, float] | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Any:
    """One histogram of tau0 (paper, Eq. 8) a dataset: `histograms` maps it to (bin edges, node counts)."""
    figure, panels = _grid(len(histograms))
    for axes, (name, (edges, counts)) in zip(panels, histograms.items()):
        ends, share = np.asarray(edges), np.asarray(counts) / max(1, np.sum(counts))
        axes.stairs(share, ends, fill=True, color=COLOURS[0], alpha=0.75)
        for value, colour, text in ((medians, INK, "median"), (published, COLOURS[1], "paper's median")):
            if value is not None and name in value:
                axes.axvline(value[name], color=colour, linewidth=1.2, label=f"{text} {value[name]:.3g}")
        if np.all(ends > 0):
            axes.set_xscale("log")
        _dress(axes, dataset_title(name), "tau0", "share of nodes")
        _legend(axes)
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
    figure, panels = _grid(len(histograms))
    ends = np.asarray(edges)
    for axes, (name, lines) in zip(panels, histograms.items()):
        for (source, counts), colour in zip(lines.items(), COLOURS):
            share = np.asarray(counts) / max(1, np.sum(counts))
            axes.stairs(share, ends, color=colour, linewidth=1.4, label=source)
        _dress(axes, dataset_title(name), "cosine similarity", "share of negative pairs")
        axes.set_xlim(ends[0], ends[-1])
        axes.set_xticks(np.linspace(ends[0], ends[-1], 5))
    _legend(panels[0])
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
    figure = _figure(7.5, 5.0)
    axes = figure.add_subplot(1, 1, 1)
    ends: list[tuple[float, float]] = []
    for (name, points), colour in zip(lines.items(), _many_colours(len(lines))):
        if not points:
            continue
        nodes, seconds = zip(*sorted(points))
        width = 2.8 if "DMAT" in name else 1.2
        axes.plot(nodes, seconds, color=colour, marker="o", markersize=4, linewidth=width, label=name)
        stop = (stops or {}).get(name)
        if stop is not None:
            end = (nodes[-1], seconds[-1])
            below = sum(
                other[0] == end[0] and 0.8 < other[1] / end[1] < 1.25 for other in ends
            )  # texts at this place
            ends.append(end)
            axes.plot(*end, marker="X", markersize=9, color=colour)
            text = f"{name} at {stop[0]:.0e}: {stop[1]}".replace("e+0", "e")
            offset = (7, 4 - 9 * below)
            axes.annotate(text, end, offset, textcoords="offset points", color=colour, fontsize=7)
    axes.set_xscale("log")
    axes.set_yscale("log")
    _dress(axes, title, "nodes", "seconds")
    _legend(axes)
    return _finished(figure, path)


def save_figure(figure: Any, path: str | os.PathLike[str]) -> Path:
    """Write `figure` as PNG at `path`, whole or not at all."""
    target = check_out_path(path)
    with new_file(target) as partial:
        figure.savefig(partial, format="png", dpi=150)
    return target


def dataset_title(name: str) -> str:
    """A dataset's name as the paper prints it.

    >>> dataset_title("coauthor-cs"), dataset_title("acm"), dataset_title("cora")
    ('Coauthor CS', 'ACM', 'Cora')
    """
    return _PAPER_NAMES.get(name) or (name.upper() if name in ("acm", "dblp") else name.capitalize())


def _figure(width: float, height: float) -> Any:
    module = need_extra("matplotlib.figure", "plot", "Drawing a figure")
    return module.Figure(figsize=(width, height), layout="constrained", facecolor="white")


def _grid(count: int) -> tuple[Any, list[Any]]:
    if count == 0:
        raise InputError("There is nothing to draw. Give at least one dataset.")
    columns = min(4, count)
    rows = -(-count // columns)
    figure = _figure(3.2 * columns, 2.7 * rows)
    return figure, [figure.add_subplot(rows, columns, place) for place in range(1, count + 1)]


def _scatter(axes: Any, points: NDArray[Any], labels: NDArray[Any], names: Sequence[str]) -> None:
    classes = np.unique(labels)
    for label, colour in zip(classes, _many_colours(len(classes))):
        here = points[labels == label]
        shown = GREY if label < 0 else colour
        name = "unknown" if label < 0 else (names[label] if label < len(names) else f"class {label}")
        axes.scatter(here[:, 0], here[:, 1], s=4, color=shown, linewidths=0, alpha=0.8, label=name)
    axes.set_aspect("equal", adjustable="datalim")


def _dress(axes: Any, title: str, x: str = "", y: str = "") -> None:
    axes.set_title(title, loc="left", fontsize=10, color=INK)
    axes.set_xlabel(x, fontsize=8, color=INK)
    axes.set_ylabel(y, fontsize=8, color=INK)
    axes.tick_params(labelsize=7, colors=INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(GREY)


def _legend(axes: Any) -> None:
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, fontsize=7)


def _many_colours(count: int) -> list[Any]:
    if count <= len(COLOURS):
        return list(COLOURS)
    colormaps = need_extra("matplotlib", "plot", "Drawing a figure").colormaps
    return [colormaps["tab20"](i % 20) for i in range(count)]


def _finished(figure: Any, path: str | os.PathLike[str] | None) -> Any:
    if path is not None:
        save_figure(figure, path)
    return figure
