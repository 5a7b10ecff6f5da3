"""The validation part of a graph: fixed for every method and seed; only it scores a trial (docs/protocol.md).

>>> import numpy as np
>>> y = np.arange(100) % 4
>>> split = node_split(y, seed=3)
>>> len(split.train), len(split.val), len(split.test)
(10, 10, 80)
>>> bool(np.isin(split.val, validation_nodes(y, 0.2)).all())
True
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import check_choice
from tuplet._seed import stream
from tuplet.graph import Graph
from tuplet.graph.splits import EdgeSplit, NodeSplit, sample_non_edges, split_edges, split_nodes, without_edges

FIRST_TRIAL_SEED = 100  # trials have this seed or a later one, test runs an earlier one
CLUSTERING_SHARE, PROBE_SHARE, EDGE_SHARE = 0.2, 0.1, 0.05
SPLITS = ("random", "protocol")


def split_options(evaluate: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """`evaluate` of a job's settings without `split`, and whether that is "protocol"; without it, "random"."""
    how = dict(evaluate)
    return how, check_choice("evaluate.split", how.pop("split", "random"), SPLITS) == "protocol"


def validation_nodes(y: NDArray[Any], share: float) -> NDArray[np.int64]:
    """A fixed `share` of the labelled nodes, sorted; a smaller share is part of a larger one."""
    nodes = np.flatnonzero(np.asarray(y) >= 0)
    order = stream(0, "protocol validation nodes").permutation(nodes)
    return np.sort(order[: round(share * len(nodes))])


def node_split(y: NDArray[Any], seed: int) -> NodeSplit:
    """10% training nodes by `seed`, each class among them, the fixed 10% validation nodes, and the rest."""
    labels = np.array(y)
    val = validation_nodes(labels, PROBE_SHARE)
    labels[val] = -1
    rest = split_nodes(labels, train=PROBE_SHARE / (1 - PROBE_SHARE), val=0.0, seed=seed)
    return NodeSplit(rest.train, val, rest.test)


def edge_split(graph: Graph, seed: int, *, test: float = 0.1) -> EdgeSplit:
    """The fixed validation edges and non-edges, test edges by `seed` among the other edges, and the graph without
    either.
    """
    fixed = split_edges(graph, val=EDGE_SHARE, test=EDGE_SHARE, seed=0)
    val, val_non_edges = fixed.val, fixed.val_non_edges
    rest = without_edges(graph, val)
    pairs = np.unique(np.sort(rest.edges(), axis=1), axis=0)  # one of both directions
    rng = stream(seed, "protocol test edges")
    size = round(test * (len(pairs) + len(val)))
    held = pairs[rng.choice(len(pairs), size, replace=False)]
    return EdgeSplit(without_edges(rest, held), val, held, val_non_edges, sample_non_edges(graph, size, rng))
