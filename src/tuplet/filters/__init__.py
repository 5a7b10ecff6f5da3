"""The filter: graph and features -> rows. `GraphFilter` decides; weights, operator, backends and files do."""

from tuplet.filters._backends import BACKENDS, Backend, register_backend
from tuplet.filters._estimate import Cost, size_text, time_text
from tuplet.filters._graph_filter import GraphFilter

__all__ = ["BACKENDS", "Backend", "Cost", "GraphFilter", "register_backend", "size_text", "time_text"]
