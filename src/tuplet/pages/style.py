"""The one style of all figures: sizes, colours, axes, legends, and how a figure is written."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tuplet._check import InputError, check_out_path, need_extra
from tuplet._files import new_file

GREY = "#999999"
INK = "#333333"
MARKERS = "os^Dv*Pp"  # a further shape for each round of eight groups
PAPER = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}  # behind text
_DATES = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}  # none: the same figure, the same bytes


def figure_of(width: float, height: float) -> Any:
    """An empty white figure of so many inches."""
    module = need_extra("matplotlib.figure", "plot", "Drawing a figure")
    return module.Figure(figsize=(width, height), layout="constrained", facecolor="white")


def panels_of(count: int) -> tuple[Any, list[Any]]:
    """A figure with `count` panels in rows of four."""
    if count == 0:
        raise InputError("There is nothing to draw. Give at least one dataset.")
    columns = min(4, count)
    rows = -(-count // columns)
    figure = figure_of(3.2 * columns, 2.7 * rows)
    return figure, [figure.add_subplot(rows, columns, place) for place in range(1, count + 1)]


def dress(axes: Any, title: str, x: str = "", y: str = "") -> None:
    """Title and axis names in the common sizes; only the left and lower line stay."""
    axes.set_title(title, loc="left", fontsize=10, color=INK)
    axes.set_xlabel(x, fontsize=8, color=INK)
    axes.set_ylabel(y, fontsize=8, color=INK)
    axes.tick_params(which="both", labelsize=7, colors=INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(GREY)


def legend(axes: Any, **where: Any) -> None:
    """The legend of a panel, where it has anything to name."""
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, fontsize=7, **where)


def plain_log(axis: Any) -> None:
    """Logarithmic ticks at 1, 2 and 5 of each decade, written as plain numbers: 20, 50, 100."""
    ticker = need_extra("matplotlib.ticker", "plot", "Drawing a figure")
    axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(ticker.NullFormatter())


def check_figure_path(path: str | os.PathLike[str]) -> Path:
    """`path` as a Path that ends in .png, .svg or .pdf and can be written; call it before any work."""
    target = check_out_path(path)
    ending = target.suffix.lower()
    if ending in (".html", ".htm"):
        raise InputError(
            f"{target.name} is a page, not a picture. `tuplet report` writes pages; here: .png, .svg, .pdf."
        )
    if ending not in _DATES:
        raise InputError(f"A picture ends in .png, .svg or .pdf, not as {target.name!r} does. Choose one of them.")
    return target


def save_figure(figure: Any, path: str | os.PathLike[str]) -> Path:
    """Write `figure` as PNG, SVG or PDF by the ending of `path`, whole or not at all."""
    matplotlib = need_extra("matplotlib", "plot", "Drawing a figure")
    target = check_figure_path(path)
    ending = target.suffix.lower()
    with new_file(target) as partial, matplotlib.rc_context({"svg.hashsalt": "tuplet"}):
        figure.savefig(partial, format=ending[1:], dpi=150, metadata=_DATES[ending])
    return target


def finished(figure: Any, path: str | os.PathLike[str] | None) -> Any:
    """`figure`, written to `path` if there is one."""
    if path is not None:
        save_figure(figure, path)
    return figure


def apart(values: list[float], gap: float) -> list[float]:
    """`values` moved up as little as needed for neighbours to lie `gap` apart, in their order.

    >>> apart([0.0, 0.5, 5.0], 1.0)
    [0.0, 1.0, 5.0]
    """
    moved = np.array(values, dtype=float)
    order = np.argsort(moved, kind="stable")
    for low, high in pairwise(order):
        moved[high] = max(moved[high], moved[low] + gap)
    return [float(value) for value in moved]
