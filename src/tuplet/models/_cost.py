"""What a fit of SelfDMAT will cost, before anything runs."""

from __future__ import annotations

import os
from typing import Any

from tuplet.filters import Cost, GraphFilter
from tuplet.filters.weights import ppr
from tuplet.graph import Graph

SIGNS = 256  # random columns that measure the lengths of filtered rows, to 1 / sqrt(512) = 4%
EXTRA = 20  # columns of the subspace iteration beside those that are wanted
_PASSES = 5  # of the subspace iteration over the columns
_START = 700_000_000  # bytes of the libraries
_FLOPS = 1.5e10, 6e10  # of dense products, a thread: low and high


class FitEstimate(Cost):
    """Cost of `SelfDMAT.fit`; `streamed` is the least budget that `memory=` may set."""

    def __str__(self) -> str:
        return self.text("with a budget")


def filtered_columns(width: int) -> int:
    """Columns that one spectrum of `width` directions filters, one after another."""
    return SIGNS + _PASSES * (width + EXTRA)


def file_bytes(n: int, f: int, widths: tuple[int, int], kept: int) -> int:
    """The most that lies on disk at one time, in float32, for n nodes and f features.

    That is input, blocks and output of one filtering, of the near rows beside the far ones; or the rows of both
    spectra and `kept` columns that are made of them. Beside it, for each spectrum, two rounds of its columns (f, d)
    and a turn (d, d).
    """
    far, near = widths
    filtering = max(3 * (far + EXTRA), 3 * max(near + EXTRA, SIGNS) + far)
    small = sum((2 * f + 2 * d) * (d + EXTRA) for d in widths)
    return 4 * (n * max(filtering, far + near + kept) + small)


def fit_cost(
    graph: Graph, *, far: float, near: float, tol: float, widths: tuple[int, int], kept: int, device: str
) -> FitEstimate:
    """The estimate for two filters whose spectra have `widths` columns, and `kept` ones that are made of them."""
    n, f, threads = graph.n_nodes, graph.n_features, os.cpu_count() or 1
    x: Any = graph.x
    stored = x.nnz / max(1, n) if hasattr(x, "nnz") else f
    low, high, widest = 0.0, 1.0, 0
    for alpha, width in zip((far, near), widths):
        columns = filtered_columns(min(width, f))
        one = GraphFilter(ppr(alpha), tol=tol, device=device).estimate(graph, width=columns)
        dense = 2.0 * n * stored * columns / threads
        low, high = low + one.seconds[0] + dense / _FLOPS[1], high + one.seconds[1] + dense / _FLOPS[0]
        widest = max(widest, min(width, f) + EXTRA, SIGNS)
    graph_bytes = int(graph.indices.nbytes + graph.indptr.nbytes)
    streamed = _START + graph_bytes + 12 * n * 16 + 64 * n
    disk = file_bytes(n, f, widths, kept)
    return FitEstimate(memory=16 * n * widest, streamed=streamed, disk=disk, seconds=(low, high))
