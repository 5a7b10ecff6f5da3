"""
In PyTorch Geometric
====================

Vectors as one more attribute of a ``Data`` object: made by a transform, used by any PyG model, and a graph that comes
back as it went. Needs ``pip install 'tuplet[baselines]'``.
"""

# %%
# A transform
# -----------
# Cora of the package stands for what any PyG dataset gives; ``Planetoid(root, "Cora", transform=AddVectors(..))``
# works the same way. 20 papers of each class are labelled for training. :class:`tuplet.pyg.AddVectors` sees the
# labels of ``train_mask`` alone, and only where the method asks for labels; this one does not.

import warnings

import numpy as np
import torch

import tuplet

with warnings.catch_warnings():  # torch-geometric's import warns of what it does itself
    warnings.simplefilter("ignore", DeprecationWarning)
    from torch_geometric.nn import GCNConv
    from torch_geometric.transforms import Compose, NormalizeFeatures

    from tuplet.pyg import AddVectors

graph = tuplet.load_dataset("cora")
rng = np.random.default_rng(0)
train = np.concatenate([rng.permutation(np.flatnonzero(graph.y == c))[:20] for c in range(graph.n_classes)])
rest = rng.permutation(np.setdiff1d(np.arange(graph.n_nodes), train))
data = graph.with_(split=(np.sort(train), np.sort(rest[:500]), np.sort(rest[500:1500]))).to_pyg()

transform = Compose([AddVectors("DMAT-i", max_steps=60, seed=0), NormalizeFeatures()])
data = transform(data)
print(data)

# %%
# ``data.z`` is float32, one row a node, in node order: it moves with the data to a GPU, through loaders and splits.
#
# A linear layer on the vectors
# -----------------------------
# The vectors hold the neighbourhood already, so a single layer without message passing can be trained on them. A
# two-layer GCN on the words is the usual yardstick. Both get the same 140 labels and the same 100 steps.
# The vectors go in as they are, unit rows; the rate of their layer was chosen on the validation nodes, GCN's is its
# authors'.


def fit(model, inputs, rate, steps=100):
    """The accuracy on the test nodes after training on the labelled ones."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=5e-4)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(*inputs)[data.train_mask], data.y[data.train_mask])
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        right = model(*inputs).argmax(dim=1) == data.y
    return float(right[data.test_mask].float().mean())


class GCN(torch.nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.first, self.second = GCNConv(features, 16), GCNConv(16, classes)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


torch.manual_seed(0)
print(f"linear layer on z: {fit(torch.nn.Linear(data.z.shape[1], 7), (data.z,), rate=0.1):.3f}")
print(f"GCN on words:      {fit(GCN(data.num_features, 7), (data.x, data.edge_index), rate=0.01):.3f}")

# %%
# A fitted estimator is applied as it is, so that vectors of two graphs can be compared.

model = tuplet.DMATi(max_steps=60, seed=0).fit(graph)
again = AddVectors(model, attr="emb")(graph.to_pyg())
print(again.emb.shape)

# %%
# There and back
# --------------
# ``to_pyg`` and ``from_pyg`` keep edges, weights, features, labels, the split, ids and names; features that were
# sparse are sparse again.

back = tuplet.Graph.from_pyg(graph.to_pyg())
print(back, back.fingerprint() == graph.fingerprint(), back.node_ids[:3])

# %%
# Datasets
# --------
# ``tuplet.load_dataset`` takes a PyG ``Dataset`` of one graph, so all of PyG's collections are open. More in
# :doc:`/pyg`.

# sphinx_gallery_thumbnail_path = 'images/method-filter.png'
