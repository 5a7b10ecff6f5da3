"""
A few labels, and links without leaks
=====================================

Two tasks that are easily measured too well. Labels that trained the vectors must not score them, and an edge that is
to be predicted must not reach the filter.
"""

# %%
# Few labels
# ----------
# Of Cora's 2708 papers we pretend to know 20 of each topic, 140 in all. The other labels are hidden from the method
# as -1.

import numpy as np

import tuplet

graph = tuplet.load_dataset("cora")
rng = np.random.default_rng(0)
train = np.concatenate([rng.permutation(np.flatnonzero(graph.y == c))[:20] for c in range(7)])
rest = np.setdiff1d(np.arange(graph.n_nodes), train)
val, test = rest[:500], rest[500:]

known = np.full(graph.n_nodes, -1)
known[train] = graph.y[train]

# %%
# ``DMAT`` learns from the known labels, ``DMATi`` and ``SelfDMAT`` from none. The same linear classifier then learns
# the 140 labels from the vectors of each; 500 other papers choose its regularisation, and the remaining ones test it.

models = {
    "DMAT, 140 labels": tuplet.DMAT(max_steps=60, seed=0),
    "DMATi, no label": tuplet.DMATi(max_steps=60, seed=0),
    "SelfDMAT, no label": tuplet.SelfDMAT(n_clusters=7, seed=0),
}
for name, model in models.items():
    vectors = model.fit(graph.with_(y=known)).embedding_
    score = tuplet.classify_nodes(vectors, graph, masks=(train, val, test), seed=0)
    print(f"{name:20s} accuracy {score.values['accuracy']:.1f}")

# %%
# With 140 labels the whole graph says more than the labels do, so the label-free methods are ahead. That turns as
# labels become many: compare on a split of your own, never on the labels that trained the vectors.
#
# Links without leaks
# -------------------
# ``split_edges`` takes edges away, in both directions, before anything is computed, and draws as many pairs that have
# no edge. The estimator is given the graph without them.

split = tuplet.split_edges(graph, val=0.05, test=0.1, seed=0)
print(split.graph)
print("held-out pairs that the training graph holds:", split.leaked(split.graph))
print("held-out pairs that the whole graph holds:", split.leaked(graph))

# %%
# ``predict_links`` does all of it. It takes an estimator, not vectors: those that saw an edge cannot be tested on it.

print(tuplet.predict_links(tuplet.SelfDMAT(n_clusters=7, seed=0), graph, seed=0))

# %%
# What a leak looks like
# ----------------------
# Here the filter has seen the edges that it is asked for. The score rises, and says nothing about new edges. If a
# published number looks too good, look for this.

from tuplet.evaluation.links import score_links

leaky = tuplet.SelfDMAT(n_clusters=7, seed=0).fit_transform(graph)
print(score_links(leaky, split))

# %%
# Links that may be missing
# -------------------------
# The most similar pairs without an edge, by the ids of the papers.

from tuplet.evaluation.missing_links import missing_links

found = missing_links(leaky, graph, top=5)
for (a, b), score in zip(found.pairs, found.score):
    print(graph.node_ids[a], graph.node_ids[b], f"{score:.3f}")

# sphinx_gallery_thumbnail_path = 'images/method-loss.png'
