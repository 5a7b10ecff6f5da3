"""
A first graph and its report
============================

From a graph to vectors, groups and a page to look at, without a label and without a setting. The graph is Cora: 2708
papers, the words of each, and who cites whom. It ships with the package.
"""

# %%
# The graph
# ---------
# A :class:`~tuplet.Graph` has edges, features, and perhaps labels and the ids that you know your nodes by.

import tuplet

graph = tuplet.load_dataset("cora")
graph

# %%
# The vectors
# -----------
# ``SelfDMAT`` finds groups by a long filter, and learns them through a short one. The labels of Cora are taken away
# first, to be quite sure that none is read. We ask for seven groups; without that it would choose a number.

model = tuplet.SelfDMAT(n_clusters=7, seed=0).fit(graph.with_(y=None))
print(model.embedding_.shape, model.embedding_.dtype)

# %%
# How good are the groups?
# ------------------------
# Cora's topics are known, so the groups can be scored. Labels are read here, and only for the score. All values are
# percent.

from tuplet.metrics import label_scores

print({name: round(float(value), 1) for name, value in label_scores(graph.y, model.labels_).items()})

# %%
# What are the groups?
# --------------------
# The papers in the middle of each group stand for it. ``group.marks`` has the features that mark it.

from tuplet.evaluation.describe import describe_clusters

for group in describe_clusters(model.embedding_, model.labels_, graph):
    topic, share = group.classes[0]
    print(f"group {group.cluster}: {group.size} papers, {share:.0%} of them {topic}; typical: {group.medoids}")

# %%
# The report
# ----------
# One file, made to be looked at: the map to zoom and search, a card for each group, scores, and how the run came
# about. It loads nothing from the network, so it can be sent to a colleague as it is.

import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    page = tuplet.report(model, graph, Path(folder) / "report.html")
    print(f"{page.name}: {page.stat().st_size / 1e6:.1f} MB")

# %%
# .. image:: /images/report-map.png
#    :alt: The report of Cora: a map of 2708 papers in seven groups
#
# How to read it: :doc:`/report`.

# sphinx_gallery_thumbnail_path = 'images/report-map.png'
