"""Graph convolutions in plain torch: CSR products with a known transpose, layers, seeded weights.

A product with a CSR matrix needs the transpose in its backward pass. The normalised adjacency of an undirected
graph is its own, so no product here sorts or scatters: results repeat to the bit, and an epoch on the CPU takes
a tenth of the time of a layer over edge lists.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from tuplet._memory import on_device
from tuplet.baselines._input import dense_rows
from tuplet.graph import Graph

_SPARSE_BELOW = 0.1  # share of non-zeros under which features stay sparse


class _Product(torch.autograd.Function):
    """a @ w for a constant CSR matrix a; `t` is its transpose, for the way back."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, t: Tensor, w: Tensor) -> Tensor:
        ctx.t = t
        return a @ w

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, Tensor]:
        return None, None, ctx.t @ grads[0].contiguous()


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """A constant CSR matrix `a` with its transpose `t`; `self @ w` is differentiable in w."""

    a: Tensor
    t: Tensor

    def __matmul__(self, w: Tensor) -> Tensor:
        product: Tensor = _Product.apply(self.a, self.t, w)  # type: ignore[no-untyped-call]
        return product


def to_csr(crow: Tensor, col: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """The torch CSR tensor of arrays that are known to be right."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*beta state.*|.*is in beta.*|.*invariant.*")
        return torch.sparse_csr_tensor(crow, col, values, shape, check_invariants=False)


def to_device(x: Any, device: torch.device) -> Tensor | SparseMatrix:
    """Features (n, f) on `device`: sparse where fewer than a tenth of a CSR matrix's values are not zero."""
    if not sp.issparse(x) or x.nnz >= _SPARSE_BELOW * x.shape[0] * x.shape[1]:
        return dense_tensor(x, device)
    return SparseMatrix(_torch_csr(x, device), _torch_csr(sp.csr_array(x.T), device))


def dense_tensor(x: Any, device: torch.device) -> Tensor:
    """Features (n, f), dense float32, on `device`."""
    tensor: Tensor = on_device(dense_rows(x), device)
    return tensor


def _torch_csr(x: Any, device: torch.device) -> Tensor:
    arrays = x.indptr.astype(np.int32), x.indices.astype(np.int32), x.data.astype(np.float32)
    crow, col, values = (torch.from_numpy(array).to(device) for array in arrays)
    return to_csr(crow, col, values, x.shape)


@dataclass(frozen=True, eq=False)
class Adjacency:
    """A + I of an undirected graph on a device, in CSR order, each stored entry with the number of its edge.

    `edge` (entries,) maps both directions of an edge to one number below n_edges, and self loops to n_edges.
    """

    crow: Tensor
    col: Tensor
    row: Tensor
    values: Tensor
    edge: Tensor
    n_edges: int

    @classmethod
    def of(cls, graph: Graph, device: torch.device) -> Adjacency:
        """The adjacency of `graph`; a directed graph counts each edge in both directions."""
        adj = sp.csr_array(graph.adj.maximum(graph.adj.T)) if graph.directed else graph.adj
        upper = sp.triu(adj, k=1, format="coo")
        number = np.arange(1, upper.nnz + 1, dtype=np.float64)
        n = graph.n_nodes
        ends = np.r_[upper.row, upper.col, np.arange(n)], np.r_[upper.col, upper.row, np.arange(n)]
        numbers = np.r_[number, number, np.full(n, upper.nnz + 1)]
        edge = sp.csr_array((numbers, ends), shape=(n, n))
        values = sp.csr_array((np.r_[upper.data, upper.data, np.ones(n, np.float32)], ends), shape=(n, n))
        edge.sort_indices()
        values.sort_indices()
        arrays = (
            values.indptr.astype(np.int32),
            values.indices.astype(np.int32),
            np.repeat(np.arange(n), np.diff(values.indptr)),
            values.data.astype(np.float32),
            edge.data.astype(np.int64) - 1,
        )
        crow, col, row, stored, edges = (torch.from_numpy(array).to(device) for array in arrays)
        return cls(crow, col, row, stored, edges, int(upper.nnz))

    @property
    def n_nodes(self) -> int:
        """Number of nodes, n."""
        return len(self.crow) - 1

    def ends(self) -> tuple[Tensor, Tensor]:
        """The two nodes of edge 0, 1, ..: int64 (n_edges,) each."""
        upper = self.row < self.col
        order = self.edge[upper].argsort()
        return self.row[upper][order], self.col[upper][order].long()

    def normalised(self, keep: Tensor | None = None) -> SparseMatrix:
        """D^-1/2 (A + I) D^-1/2; edges whose `keep` (n_edges,) is 0 are left out, degrees counted without them.

        A left-out edge stays stored with the value 0: no sizes change, so the GPU never waits for the host.
        """
        values = self.values
        if keep is not None:
            values = values * torch.cat([keep, keep.new_ones(1)])[self.edge]
        shape = (self.n_nodes, self.n_nodes)
        degrees = to_csr(self.crow, self.col, values, shape) @ values.new_ones(self.n_nodes, 1)
        root = degrees[:, 0].rsqrt()
        matrix = to_csr(self.crow, self.col, values * root[self.row] * root[self.col.long()], shape)
        return SparseMatrix(matrix, matrix)


class GraphConv(nn.Module):
    """S X W + b (Kipf and Welling 2017), Glorot weights, no activation.

    `mask` (f,) of zeros and ones leaves columns of X out, `order` (n,) takes its rows in another order.
    """

    def __init__(self, width_in: int, width_out: int, generator: torch.Generator, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width_in, width_out))
        nn.init.xavier_uniform_(self.weight, generator=generator)
        self.bias = nn.Parameter(torch.zeros(width_out)) if bias else None

    def forward(
        self,
        adj: SparseMatrix,
        x: Tensor | SparseMatrix,
        *,
        mask: Tensor | None = None,
        order: Tensor | None = None,
    ) -> Tensor:
        """(n, width_out). X with columns masked times W is X times W with rows masked, which is far smaller."""
        rows = x @ (self.weight if mask is None else self.weight * mask[:, None])
        out = adj @ (rows if order is None else rows[order])
        return out if self.bias is None else out + self.bias


class PReLUConv(nn.Module):
    """PReLU(S X W + b), (n, hidden); `order` takes the rows of X in another order."""

    def __init__(self, n_features: int, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.conv = GraphConv(n_features, hidden, generator)
        self.slope = nn.PReLU()

    def forward(self, adj: SparseMatrix, x: Tensor | SparseMatrix, order: Tensor | None = None) -> Tensor:
        out: Tensor = self.slope(self.conv(adj, x, order=order))
        return out


def make_linear(width_in: int, width_out: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer with Glorot weights and zero bias from `generator`."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, width_in, width_out, device=torch.get_default_device())  # type: ignore[no-untyped-call]
    nn.init.xavier_uniform_(layer.weight, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer
