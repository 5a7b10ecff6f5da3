"""Features for a graph that has none: where random walks from a node end, in a few columns.

Walks stop with probability 0.2 before each step after the first, so their ends follow personalised PageRank. What is
factorised is the logarithm of (how often a walk from i ends at j) / (how often any walk does), where that is above 0:
the matrix behind DeepWalk (Qiu et al. 2018), from a few hundred walks a node and one truncated SVD. Columns
are as long as their singular values; docs/LOG.md has the other ways that were compared.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import check_int
from tuplet.filters._operator import make_operator
from tuplet.graph import Graph
from tuplet.rows.svd import symmetric_svd

STOP = 0.2
WALKS = 200  # a node, in graphs of up to 2^27 / 200 nodes; fewer in larger ones
_MOST_ENDS = 2**27


def structural_features(graph: Graph, seed: int = 0, *, dimensions: int = 128) -> NDArray[np.float32]:
    """(n, d) float32 from the edges alone, d = min(dimensions, n - 1); zero rows for nodes without an edge.

    Memory grows with n times the number of walks; the same seed gives the same bits on any number of threads.

    >>> from tuplet.graph.synth import block_model
    >>> structural_features(block_model([20, 20], seed=0), dimensions=8).shape
    (40, 8)
    """
    d = min(check_int("dimensions", dimensions), graph.n_nodes - 1)
    found = symmetric_svd(_log_ratios(graph, seed), d, seed=seed)
    return np.ascontiguousarray(found.left * found.values, dtype=np.float32)


def _log_ratios(graph: Graph, seed: int) -> sp.csr_array:
    """log of (walks from i that end at j) / (walks that would by degree alone), symmetric, where above 0."""
    from tuplet.kernels.push import walk_ends

    n, op = graph.n_nodes, make_operator(graph, self_loops=False)
    walks = int(np.clip(_MOST_ENDS // n, 16, WALKS))
    ends = walk_ends(op, STOP, walks, seed).astype(np.int64)
    starts = np.repeat(np.arange(n), walks)
    there = ends < n
    starts, ends = starts[there], ends[there]
    degrees = np.asarray(op.degrees, dtype=np.float64)
    values = (degrees.sum() / (2 * walks) / degrees[ends]).astype(np.float32)
    ratio = sp.csr_array((values, (starts, ends)), shape=(n, n))
    ratio.sum_duplicates()
    ratio = sp.csr_array(ratio + ratio.T)
    ratio.data = np.log(np.maximum(ratio.data, 1))
    ratio.eliminate_zeros()
    return ratio
