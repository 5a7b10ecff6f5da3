"""Everything that reads or writes: tables, .npz, graph folders, other libraries' graphs, vectors."""

from tuplet.io._read import read_graph
from tuplet.io._tables import register_format

__all__ = ["read_graph", "register_format"]
