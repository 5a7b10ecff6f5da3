"""The graph in memory: `Graph`, its edges, changes to it, leak-free splits, made-up graphs."""

from tuplet.graph._checks import Features, check_size, checked_features
from tuplet.graph._graph import Graph

__all__ = ["Features", "Graph", "check_size", "checked_features"]
