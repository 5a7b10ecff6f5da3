"""Still maps of vectors: t-SNE, a dot a node, coloured by class or cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuplet._check import InputError
from tuplet._seed import seed_of, stream
from tuplet.pages.colours import UNKNOWN, group_colours
from tuplet.pages.style import INK, MARKERS, PAPER, dress, figure_of, finished

NAMED = 24  # groups that a legend lists; of more, each group's name stands on the map


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
    return finished(figure, path)


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
    return finished(figure, path)


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
            axes.annotate(text, np.median(here, axis=0), ha="center", va="center", fontsize=6, color=INK, bbox=PAPER)
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
