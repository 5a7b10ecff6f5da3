"""
New nodes, changed edges
========================

A model is trained once. Nodes that arrive later get their vectors from it, without training and without filtering
the whole graph again.
"""

# %%
# Today and tomorrow
# ------------------
# The last 20 papers of Cora shall come tomorrow, with their words and their citations.

import numpy as np

import tuplet
from tuplet.models.new_nodes import embed_changed, embed_new, follow

whole = tuplet.load_dataset("cora")
n = whole.n_nodes - 20
today = tuplet.Graph.from_scipy(whole.adj[:n, :n], whole.x[:n])
edges = whole.edges()
edges = edges[(edges >= n).any(axis=1)]  # those that touch a new paper; new nodes are n, n + 1, ..
x = whole.x[n:].toarray()

model = tuplet.DMATi(max_steps=40, seed=0).fit(today)

# %%
# Once
# ----
# ``embed_new`` reads the neighbourhood of the new nodes and nothing else, and keeps nothing.

new = embed_new(model, today, x, edges)
print(new.shape)

# %%
# They are the vectors that a pass over the whole graph would give, up to a tolerance that you choose.

full = model.transform(tuplet.Graph.from_scipy(whole.adj, whole.x))[n:]
print(f"largest difference: {np.abs(new - full).max():.0e}")

# %%
# Every day
# ---------
# ``follow`` keeps the filtered rows in step with the graph. A change corrects the rows that it touches.

live = follow(model, today, tol=1e-3)
change = live.add_nodes(x, edges)
vectors = embed_changed(model, live, change)
print(f"{len(change.new)} new papers, {change.touched} of {live.n_nodes} rows corrected, {len(vectors)} vectors")

change = live.change_edges(remove=edges[:2])
print(f"two citations gone, {change.touched} rows corrected")

# %%
# Kept with the model
# -------------------
# ``rows=`` keeps today's filtered rows beside the weights, so that tomorrow's process starts at once. The files are
# safetensors and JSON; nothing is pickled.

import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    model.save(Path(folder) / "model", rows=today)
    again = tuplet.load(Path(folder) / "model")
    print(f"the same to {np.abs(embed_new(again, today, x, edges) - new).max():.0e}")

# %%
# Tolerances, costs and limits: :doc:`/new-nodes`.

# sphinx_gallery_thumbnail_path = 'images/method-filter.png'
