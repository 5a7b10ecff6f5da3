"""Draw docs/images/method-{filter,views,loss}.png: what the filter, the views and the loss do, on Cora.

python scripts/method_figures.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.preprocessing import normalize

import tuplet
from tuplet.filters.weights import ppr
from tuplet.pages.colours import group_colours
from tuplet.pages.style import GREY, dress, figure_of, legend, save_figure
from tuplet.training.views import draw_views, mask_columns

IMAGES = Path(__file__).parents[1] / "docs" / "images"
BLUE, RED, GREEN = group_colours(3)


def main() -> None:
    graph = tuplet.load_dataset("cora")
    draw_filter(graph)
    draw_masks(graph)
    draw_pairs()


def draw_filter(graph: tuplet.Graph) -> None:
    """The weights of the hops, and cosines of pairs before and after the filter."""
    figure = figure_of(11.0, 3.2)
    axes = figure.add_subplot(1, 3, 1)
    for alpha, colour in ((0.05, BLUE), (0.15, RED), (0.4, GREEN)):
        hops = np.arange(13)
        axes.plot(hops, alpha * (1 - alpha) ** hops, "o-", color=colour, markersize=3, label=f"alpha = {alpha}")
    dress(axes, "PageRank: the weight of each hop", "hops away", "weight")
    legend(axes)
    raw = normalize(graph.x)
    rows = normalize(tuplet.GraphFilter(ppr(0.15)).transform(graph.with_(x=raw)))
    same, other = some_pairs(graph.y)
    for place, (z, title) in enumerate(((raw.toarray(), "Cosines of pairs: raw features"), (rows, "filtered")), 2):
        axes = figure.add_subplot(1, 3, place)
        for pairs, colour, name in ((same, BLUE, "same class"), (other, RED, "different classes")):
            cosines = np.einsum("ij,ij->i", z[pairs[0]], z[pairs[1]])
            bins = np.linspace(0, 1, 41)
            axes.hist(cosines, bins, density=True, color=colour, alpha=0.6, label=name)
        dress(axes, title, "cosine", "density")
        legend(axes)
    save_figure(figure, IMAGES / "method-filter.png")


def some_pairs(y: Any, count: int = 20_000) -> tuple[Any, Any]:
    """Random pairs of nodes (2, p) of the same class and of different ones."""
    pairs = np.random.default_rng(0).integers(len(y), size=(2, 8 * count))
    pairs = pairs[:, pairs[0] != pairs[1]]
    alike = y[pairs[0]] == y[pairs[1]]
    return pairs[:, alike][:, :count], pairs[:, ~alike][:, :count]


def draw_masks(graph: tuplet.Graph, b: int = 12, f: int = 48) -> None:
    """A batch of rows and two of its views; a view masks the same columns of all rows."""
    rows = tuplet.GraphFilter(ppr(0.15)).transform(graph)
    busy = np.sort(np.argsort(rows.sum(axis=0))[-f:])
    batch = torch.from_numpy(np.ascontiguousarray(rows[:b, busy])).sqrt()
    views = draw_views(0, 0, f, 2, 0.5)
    panels = [batch, *(mask_columns(batch, torch.from_numpy(c), kept=views.kept) for c in views.columns)]
    figure = figure_of(11.0, 2.4)
    for place, (panel, title) in enumerate(zip(panels, ("A batch: rows of the filter", "view 1", "view 2")), 1):
        axes = figure.add_subplot(1, 3, place)
        axes.imshow(panel.numpy(), aspect="auto", cmap="Blues", vmax=float(batch.max()))
        dress(axes, title, "feature columns; masked ones are white", "nodes of the batch" if place == 1 else "")
    save_figure(figure, IMAGES / "method-views.png")


def draw_pairs() -> None:
    """Which pairs of a batch the three losses pull together, and which they push apart."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    y = np.repeat([0, 1, 2], 3)
    alike, itself = np.equal.outer(y, y), np.eye(9, dtype=bool)
    double, counterpart = np.tile(alike, (2, 2)), np.tile(itself, (2, 2))
    own = np.eye(18, dtype=bool)
    kinds = {
        "DMT: labels, one view": np.where(alike, 2, 1),
        "DMAT: labels, two views": np.where(own, 0, np.where(double, 2, 1)),
        "DMAT-i: no labels, two views": np.where(own, 0, np.where(counterpart, 2, 1)),
    }
    figure = figure_of(11.0, 3.9)
    for place, (title, pairs) in enumerate(kinds.items(), start=1):
        axes = figure.add_subplot(1, 3, place)
        axes.imshow(pairs, cmap=ListedColormap(["white", "#e6e6e6", BLUE]), vmin=0, vmax=2)
        cuts = np.arange(0.5, len(pairs) - 1)
        axes.hlines(cuts, -0.5, len(pairs) - 0.5, color="white", linewidth=0.8)
        axes.vlines(cuts, -0.5, len(pairs) - 0.5, color="white", linewidth=0.8)
        dress(axes, title, "compared with", "anchor" if place == 1 else "")
        axes.set_xticks([])
        axes.set_yticks([])
    names = ("pulled together", "pushed apart", "left out: the anchor itself")
    patches = [Patch(facecolor=c, edgecolor=GREY, label=n) for c, n in zip((BLUE, "#e6e6e6", "white"), names)]
    figure.legend(handles=patches, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    save_figure(figure, IMAGES / "method-loss.png")


if __name__ == "__main__":
    main()
