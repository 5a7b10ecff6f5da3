"""A filter whose result takes the place of what was filtered: half the memory, and no new pages."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tuplet.filters._graph_filter import GraphFilter
from tuplet.filters._run import run_filter
from tuplet.graph import Graph


def filter_in_place(spec: GraphFilter, graph: Graph, rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """`rows` (n, c), float32 and in memory, filtered where they lie. They are not checked: give finite numbers."""
    return run_filter(spec, graph, rows, None, None, np.dtype(np.float32), None, into=rows)
