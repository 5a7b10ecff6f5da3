"""Rows -> pages and pictures: `report` makes Markdown, `readme_table` README's tables, `draw_figures` the figures."""

from tuplet.bench.report.figures import draw_figures
from tuplet.bench.report.page import report, update_ablations
from tuplet.bench.report.readme import readme_table, update_readme

__all__ = ["draw_figures", "readme_table", "report", "update_ablations", "update_readme"]
