"""
New nodes and changed edges
===========================

Nodes that arrive tomorrow, and edges that change: vectors without training or filtering again.

Run: ``python examples/new_nodes.py``
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import tuplet
from tuplet.models.new_nodes import embed_changed, embed_new, follow


def split(graph: tuplet.Graph, new: int) -> tuple[tuplet.Graph, np.ndarray, np.ndarray]:
    """Today's graph (all but the last `new` papers), and tomorrow's features and edges."""
    n = graph.n_nodes - new
    today = tuplet.Graph.from_scipy(graph.adj[:n, :n], graph.x[:n], graph.y[:n])
    edges = graph.edges()
    return today, graph.x[n:].toarray(), edges[(edges >= n).any(axis=1)]


def main() -> None:
    whole = tuplet.load_dataset("cora")
    today, x, edges = split(whole, new=20)
    model = tuplet.DMATi(layers=(64, 32), max_steps=10, seed=0).fit(today)

    live = follow(model, today, tol=1e-3)  # today's filtered rows, kept in step with the graph
    change = live.add_nodes(x, edges)
    vectors = embed_changed(model, live, change)[np.isin(change.nodes, change.new)]
    print(f"{len(change.new)} new papers; {change.touched} of {live.n_nodes} rows corrected")

    full = model.transform(tuplet.Graph.from_scipy(whole.adj, whole.x))[-20:]
    print(f"largest difference to a full transform: {np.abs(vectors - full).max():.1e}")

    change = live.change_edges(remove=edges[:2])
    print(f"2 citations removed; {change.touched} rows corrected")

    once = embed_new(model, today, sp.csr_array(x), edges)  # the same without keeping rows
    print(f"embed_new, from the neighbourhood alone: {np.abs(once - full).max():.1e}")


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = 'images/method-filter.png'
