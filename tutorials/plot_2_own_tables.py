"""
Your own tables
===============

A shop knows its customers and who recommended it to whom. The files are as files are: names for ids, gaps, dates, a
column of free words, an index that means nothing. tuplet reads them, says what it made of each column, and gives the
names back with the result.
"""

# %%
# Two files
# ---------

import shutil
import tempfile
from pathlib import Path

import numpy as np

import tuplet

folder = Path(tempfile.mkdtemp(prefix="my shop "))  # blanks in paths are fine
rng = np.random.default_rng(0)
families = np.arange(150) % 3
favourites = ["boots tent stove", "oven flour butter", "paint canvas frame"]

rows = ["row,id,age,city,joined,bought,segment"]
for i, family in enumerate(families):
    age = "" if i % 9 == 0 else 30 + 10 * family + rng.integers(8)
    words = " ".join(rng.permutation(favourites[family].split())[:2])
    segment = ["hike", "bake", "paint"][family] if i % 5 == 0 else ""
    rows.append(f"{i},c{i:03d},{age},{rng.choice(['Oslo', 'Rome'])},2024-0{1 + i % 9}-11,{words},{segment}")
(folder / "customers.csv").write_text("\n".join(rows) + "\n")

edges = ["from,to"]
for i, family in enumerate(families):
    friends = np.flatnonzero(families == family) if rng.random() < 0.9 else np.arange(150)
    edges += [f"c{i:03d},c{j:03d}" for j in rng.choice(friends, 3, replace=False)]
(folder / "recommended.csv").write_text("\n".join(edges) + "\n")

print((folder / "customers.csv").read_text()[:210])

# %%
# Read them
# ---------
# ``label="segment"`` says which column is what we would like to know. It is never a feature then.

graph = tuplet.read_graph(folder / "recommended.csv", folder / "customers.csv", label="segment")
graph

# %%
# Read what was made of each column before you trust a result. The column ``row`` is left out: it only counts.

for line in graph.preparation.rows():
    print("{name:8s} {role:9s} {width:2d} columns  {note}".format_map(line))

# %%
# Groups, with the names of the nodes
# -----------------------------------

from tuplet.io.vectors import read_vectors, write_vectors

model = tuplet.SelfDMAT(n_clusters=3, seed=0).fit(graph)
write_vectors(folder / "vectors.parquet", model.embedding_, graph, cluster=model.labels_)

back = read_vectors(folder / "vectors.parquet")
for name, group in list(zip(back.ids, back.cluster))[:6]:
    print(name, "is in group", group)

# %%
# The segment of those who did not say
# ------------------------------------
# One customer in five has a segment. A linear classifier on the vectors predicts the others.

from tuplet.evaluation.predict import predict_nodes

guess = predict_nodes(model.embedding_, graph)
right = np.array([graph.label_names[c] for c in guess.classes]) == np.array(["hike", "bake", "paint"])[families]
unknown = graph.y == -1
print(f"{unknown.sum()} customers without a segment, {right[unknown].mean():.0%} predicted right")

shutil.rmtree(folder)

# %%
# The same from a shell: :doc:`/first-graph`. What each kind of column becomes: :doc:`/preparation`.

# sphinx_gallery_thumbnail_path = 'images/report-clusters.png'
