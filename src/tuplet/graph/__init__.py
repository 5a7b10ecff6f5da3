"""The graph in memory: `Graph`, its edges, changes to it, leak-free splits, made-up graphs."""

from tuplet.graph._graph import Features, Graph, check_size, checked_features

__all__ = ["Features", "Graph", "check_size", "checked_features"]
