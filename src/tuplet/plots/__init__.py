"""Figures: the map of vectors, convergence, tau0, negative hardness, time against nodes, bars.

Each function returns a matplotlib Figure, and writes it as PNG, SVG or PDF by the ending of `path`, if given (whole
or not at all). No global state of matplotlib is touched. Needs the extra `plot`.
"""

from tuplet.pages.style import save_figure
from tuplet.plots._charts import (
    bars,
    change_strips,
    convergence,
    dataset_title,
    effect_panels,
    hardness_panels,
    rank_line,
    step_panels,
    tau0_panels,
    time_against_nodes,
)
from tuplet.plots._maps import map_panels, map_vectors, tsne

__all__ = [
    "bars",
    "change_strips",
    "convergence",
    "dataset_title",
    "effect_panels",
    "hardness_panels",
    "map_panels",
    "map_vectors",
    "rank_line",
    "save_figure",
    "step_panels",
    "tau0_panels",
    "time_against_nodes",
    "tsne",
]
