"""The filter: graph and features -> rows. `GraphFilter` decides; weights, operator, engines and files do."""

from tuplet.filters._graph_filter import GraphFilter

__all__ = ["GraphFilter"]
