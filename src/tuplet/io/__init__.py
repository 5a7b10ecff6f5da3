"""Everything that reads or writes: tables, .npz, graph folders, other libraries' graphs, vectors."""

from tuplet.io._read import read_graph

__all__ = ["read_graph"]
