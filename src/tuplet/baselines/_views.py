"""Two views of a graph with edges and features dropped by centrality, an encoder and its training (GCA, ProGCL)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import elu, normalize

from tuplet._check import check_choice, check_int, check_number
from tuplet._seed import seed_of, stream, torch_stream
from tuplet.baselines._gcn import Adjacency, GraphConv, SparseMatrix, make_linear, to_device
from tuplet.baselines._input import tell
from tuplet.graph import Graph
from tuplet.models.contract import Progress

CENTRALITIES = ("degree", "pagerank", "eigenvector")
# "rrelu" as released: the randomised ReLU outside of its training mode, so with the mean of its slopes 1/8 .. 1/3.
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "prelu": nn.PReLU,
    "rrelu": partial(nn.LeakyReLU, 11 / 48),
}
_FLOOR = 1e-8  # smallest centrality, as a share of the largest: its logarithm must exist


def centrality(graph: Graph, kind: str, *, seed: int = 0) -> NDArray[np.float64]:
    """How central each node is, float64 (n,), at least a tiny share of the largest: edges decide, weights count.

    "degree"; "pagerank" with damping 0.85; "eigenvector", the leading eigenvector of the adjacency.
    """
    check_choice("centrality", kind, CENTRALITIES)
    degrees = graph.degrees
    if kind == "pagerank":
        values = _pagerank(graph, degrees)
    elif kind == "eigenvector" and graph.n_stored:
        from scipy.sparse.linalg import eigsh

        start = stream(seed, "lanczos").random(graph.n_nodes)
        values = np.abs(eigsh(graph.adj.astype(np.float64), k=1, which="LA", v0=start)[1][:, 0])
    else:
        values = degrees
    return _floored(values)


def _floored(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.clip(values, max(_FLOOR * values.max(), 1e-300), None)


def _pagerank(graph: Graph, degrees: NDArray[np.float64], damping: float = 0.85) -> NDArray[np.float64]:
    n = graph.n_nodes
    flow = graph.adj.T.astype(np.float64) / np.maximum(degrees, 1e-12)  # column u: u's vote, split over its edges
    values = np.full(n, 1 / n)
    for _ in range(200):
        values, before = (1 - damping) / n + damping * (flow @ values + values[degrees == 0].sum() / n), values
        if np.abs(values - before).sum() < 1e-10:
            break
    return values


def drop_probabilities(weights: NDArray[np.float64], mean: float, cutoff: float) -> NDArray[np.float64]:
    """min(mean * (s_max - s) / (s_max - s_mean), cutoff) with s = log(weights): the central are kept."""
    s = np.log(weights)
    spread = s.max() - s.mean() if len(s) else 0.0
    share = (s.max() - s) / spread if spread > 1e-12 else np.ones_like(s)
    return np.minimum(mean * share, cutoff)


@dataclass(frozen=True)
class ViewSettings:
    """What shapes the views and the training; each pair holds the value for the first and the second view."""

    hidden: int
    projection: int
    activation: str
    drop_edges: tuple[float, float]
    drop_features: tuple[float, float]
    centrality: str
    cutoff: float
    epochs: int
    lr: float
    weight_decay: float
    seed: int

    @classmethod
    def of(cls, estimator: Any) -> ViewSettings:
        """The checked settings of an estimator that has them as parameters."""
        for name in ("hidden", "projection", "epochs"):
            check_int(name, getattr(estimator, name))
        for name in ("drop_edges", "drop_features"):
            for share in getattr(estimator, name):
                check_number(name, share, low=0, high=1, open_high=True)
        check_number("cutoff", estimator.cutoff, low=0, high=1, open_high=True)
        check_number("lr", estimator.lr, low=0, open_low=True)
        check_choice("activation", estimator.activation, ACTIVATIONS)
        return cls(**{name: getattr(estimator, name) for name in cls.__dataclass_fields__})


class ViewEncoder(nn.Module):
    """Two graph convolutions, n_features -> 2 hidden -> hidden, an activation after each."""

    def __init__(self, n_features: int, settings: ViewSettings) -> None:
        super().__init__()
        generator = torch_stream(settings.seed, "weights")
        self.first = GraphConv(n_features, 2 * settings.hidden, generator)
        self.second = GraphConv(2 * settings.hidden, settings.hidden, generator)
        self.first_activation = ACTIVATIONS[settings.activation]()
        self.second_activation = ACTIVATIONS[settings.activation]()

    def forward(self, adj: SparseMatrix, x: Tensor | SparseMatrix, mask: Tensor | None = None) -> Tensor:
        """(n, hidden); columns of X where `mask` (f,) is 0 are left out."""
        inner = self.first_activation(self.first(adj, x, mask=mask))
        out: Tensor = self.second_activation(self.second(adj, inner))
        return out


class Projection(nn.Module):
    """The head before the loss: linear, ELU, linear, rows scaled to unit length."""

    def __init__(self, settings: ViewSettings) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed_of(settings.seed, "projection"))
        self.first = make_linear(settings.hidden, settings.projection, generator)
        self.second = make_linear(settings.projection, settings.hidden, generator)

    def forward(self, z: Tensor) -> Tensor:
        """Unit rows (n, hidden)."""
        return normalize(self.second(elu(self.first(z))))


def view_probabilities(graph: Graph, adj: Adjacency, settings: ViewSettings) -> tuple[list[Tensor], ...]:
    """For each view, the probability that an edge (n_edges,) and a feature column (f,) is dropped."""
    nodes = centrality(graph, settings.centrality, seed=settings.seed)
    a, b = (end.cpu().numpy() for end in adj.ends())
    columns = np.asarray(abs(graph.x).T @ nodes).ravel()  # type: ignore[arg-type, union-attr]
    edges = [drop_probabilities((nodes[a] + nodes[b]) / 2, p, settings.cutoff) for p in settings.drop_edges]
    features = [drop_probabilities(_floored(columns), p, settings.cutoff) for p in settings.drop_features]
    return tuple([torch.from_numpy(p).float().to(adj.crow.device) for p in kind] for kind in (edges, features))


def train_views(
    graph: Graph,
    settings: ViewSettings,
    contrast: Callable[[Tensor, Tensor, int], Tensor],
    device: torch.device,
    progress: Progress | None,
) -> ViewEncoder:
    """The encoder, on the CPU, after `epochs` full-batch steps of Adam on contrast(u, v, epoch) of two views."""
    adj, x = Adjacency.of(graph, device), to_device(graph.x, device)
    edges, columns = view_probabilities(graph, adj, settings)
    encoder = ViewEncoder(graph.n_features, settings).to(device)
    head = Projection(settings).to(device)
    draws = torch_stream(settings.seed, "views", str(device))
    parameters = [*encoder.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=settings.lr, weight_decay=settings.weight_decay)
    for epoch in range(settings.epochs):
        optimizer.zero_grad()
        views = []
        for edge_drop, column_drop in zip(edges, columns):
            keep = (torch.rand(len(edge_drop), generator=draws, device=device) >= edge_drop).float()
            mask = (torch.rand(len(column_drop), generator=draws, device=device) >= column_drop).float()
            views.append(head(encoder(adj.normalised(keep), x, mask)))
        loss = contrast(views[0], views[1], epoch)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        tell(progress, "train", epoch + 1, settings.epochs)
    return encoder.cpu()


@torch.no_grad()
def encode_graph(encoder: ViewEncoder, graph: Graph, device: torch.device) -> NDArray[np.float32]:
    """Vectors of all nodes of the whole graph, float32 (n, hidden)."""
    adj, x = Adjacency.of(graph, device).normalised(), to_device(graph.x, device)
    vectors: NDArray[np.float32] = encoder.to(device)(adj, x).cpu().numpy()
    encoder.cpu()
    return vectors
