"""The graphs that a spec can name: datasets, block models that we make, and either of them damaged.

"cora" is a dataset; "blocks-uneven" one of `OWN`; after a `~` stands what is done to it, with seed 0:
"cora~edges=0.1" and "cora~features=0.1" drop that share of the edges or of the non-zero features, "cora~k=+1" asks
for one cluster more than there are classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from tuplet._check import InputError, check_choice
from tuplet._seed import stream
from tuplet.graph import Graph

# Attributed block models (arguments of `synth.block_model`): what the eight graphs do not show.
_WORDS = {"n_features": 500, "words": 20}
OWN: dict[str, dict[str, Any]] = {
    "blocks-even": {"sizes": [500] * 4, "mean_degree": 6, "structure": 0.7, "signal": 0.5, **_WORDS},
    "blocks-uneven": {"sizes": [1600, 400, 200, 100], "mean_degree": 6, "structure": 0.7, "signal": 0.5, **_WORDS},
    "blocks-weak-features": {"sizes": [500] * 4, "mean_degree": 10, "structure": 0.8, "signal": 0.1, **_WORDS},
    "blocks-weak-edges": {"sizes": [500] * 4, "mean_degree": 4, "structure": 0.3, "signal": 1.0, **_WORDS},
}


def bench_graph(name: str) -> Graph:
    """The graph that a spec calls `name`; its own name is the whole of it."""
    from tuplet.datasets import dataset_names, load_dataset

    plain, _, change = name.partition("~")
    if plain in OWN:
        graph = own_graph(plain)
    else:
        graph = load_dataset(check_choice("dataset", plain, [*dataset_names(), *OWN]))
    kind, _, value = change.partition("=")
    if kind == "edges":
        graph = drop_edges(graph, float(value))
    elif kind == "features":
        graph = drop_features(graph, float(value))
    elif kind not in ("", "k"):
        raise InputError(
            f"{name!r} asks for {kind!r}. After the ~ can stand edges=SHARE, features=SHARE or k=OFFSET."
        )
    return graph.with_(name=name)


def n_clusters_of(graph: Graph) -> int:
    """The number of classes, and what "~k=OFFSET" in the graph's name adds to it."""
    _, _, offset = graph.name.partition("~k=")
    return graph.n_classes + int(offset or 0)


def own_graph(name: str) -> Graph:
    """A block model of `OWN`: the same graph at every call."""
    from tuplet.graph.synth import block_model

    return block_model(**OWN[name], seed=0)


def drop_edges(graph: Graph, share: float) -> Graph:
    """The graph without a random share of its edges."""
    from tuplet.graph.splits import without_edges

    edges = graph.edges()
    gone = stream(0, "dropped edges").permutation(len(edges))[: round(share * len(edges))]
    return without_edges(graph, edges[gone])


def drop_features(graph: Graph, share: float) -> Graph:
    """The graph with a random share of its non-zero feature values set to zero."""
    x: Any = sp.csr_array(graph.x)
    kept = stream(0, "dropped features").random(len(x.data)) >= share
    x = sp.csr_array((x.data * kept.astype(x.dtype), x.indices, x.indptr), shape=x.shape)
    x.eliminate_zeros()
    return graph.with_(x=x if sp.issparse(graph.x) else np.asarray(x.toarray()))
