"""What one hop multiplies with, and in which order the hops combine.

The operator is M = D^(r-1) A D^-r, with A the chosen adjacency (self loops included, unless told otherwise) and D its
row sums. Since M = D^r T D^-r with T = D^-1 A, every power of it is one scaling, means over neighbours, and one
scaling back: the inner loops only ever see T, whatever r is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet.filters.weights import Doubles, Weights
from tuplet.graph import Graph

B = TypeVar("B")


@dataclass(frozen=True, eq=False)
class Operator:
    """T = D^-1 A in CSR arrays. `loop` is the weight of the self loops, which are not stored.

    `degrees` float64 (n,) are A's row sums, self loop included. A node without any edge (only with loop = 0) has
    the degree 1 here and an empty row in T: nothing flows in, it keeps w_0 of its own features.
    `symmetric`: A = A^T, so T's eigenvalues are real and lie in [-1, 1].
    """

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    weights: NDArray[np.float32] | None
    degrees: Doubles
    loop: float
    symmetric: bool

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.indptr) - 1

    @property
    def inverse(self) -> NDArray[np.float32]:
        """1 / d_u, float32 (n,)."""
        return (1 / self.degrees).astype(np.float32)

    def degree_power(self, exponent: float) -> NDArray[np.float32]:
        """d_u to `exponent`, float32 (n,)."""
        return np.asarray(self.degrees**exponent, dtype=np.float32)

    def transposed(self) -> Operator:
        """The same degrees over A^T: row u lists who averages over u. Itself where A is symmetric."""
        if self.symmetric:
            return self
        from tuplet.kernels.csr import transpose

        indptr, indices, weights = transpose(self.indptr, self.indices, self.weights)
        return Operator(indptr, indices, weights, self.degrees, self.loop, False)


def make_operator(graph: Graph, *, direction: str = "symmetric", self_loops: bool = True) -> Operator:
    """The operator of `graph`: row u averages over u's targets ("out"), sources ("in"), or both ("symmetric")."""
    csr = (graph.indptr, graph.indices, graph.weights)
    if graph.directed and direction != "out":
        from tuplet.kernels.csr import transpose, unite

        reverse = transpose(*csr)
        csr = reverse if direction == "in" else unite(csr, reverse)
    symmetric = not graph.directed or direction == "symmetric"
    degrees = Graph(csr[0], csr[1], weights=csr[2]).degrees + float(self_loops)
    degrees[degrees == 0] = 1.0
    return Operator(*csr, degrees=degrees, loop=float(self_loops), symmetric=symmetric)


@dataclass(frozen=True, eq=False)
class Plan:
    """Which polynomial is evaluated: `coefficients` float64 (products + 1,) of powers or Chebyshev polynomials.

    `bound`: how far it may lie from the whole series, relative to the input (see `GraphFilter.tol`).
    """

    series: str
    coefficients: Doubles
    bound: float

    @property
    def products(self) -> int:
        """Number of sparse products."""
        return len(self.coefficients) - 1


def make_plan(weights: Weights, tol: float, series: str, symmetric: bool) -> Plan:
    """The cheapest polynomial within `tol`; Chebyshev only where the spectrum is known to be real."""
    if series == "chebyshev" and not symmetric:
        raise InputError(
            'series="chebyshev" needs a symmetric adjacency, but this graph is directed. '
            'Use series="power", or direction="symmetric".'
        )
    degree = weights.degree(tol) if symmetric and series != "power" else -1
    if series == "chebyshev" or (degree >= 0 and degree < _hops(weights, tol)):
        return Plan("chebyshev", weights.chebyshev(degree), weights.chebyshev_tail(degree))
    hops = weights.hops(tol)
    return Plan("power", weights.coefficients(hops), weights.tail(hops))


def _hops(weights: Weights, tol: float) -> float:
    try:
        return weights.hops(tol)
    except InputError:  # more hops than anybody would run; the Chebyshev degree may still be small
        return math.inf


def run_series(plan: Plan, hop: Callable[..., None], start: B, one: B, two: B) -> tuple[B, float]:
    """(buffer, factor): the polynomial of T applied to `start` is the factor times that buffer.

    `hop(z, out, scale, shift, keep)` writes out = scale * T z + shift * start + keep * out. Horner's rule for
    powers, Clenshaw's for Chebyshev polynomials; neither needs more than the two spare buffers `one` and `two`.
    """
    c, top = plan.coefficients, plan.products
    if top == 0:
        return start, float(c[0])
    z, spare = start, one
    for step, k in enumerate(range(top - 1, -1, -1)):
        scale = 2.0 if plan.series == "chebyshev" and k > 0 else 1.0
        shift, keep = float(c[k]), 0.0
        if step == 0:
            scale *= float(c[top])  # the first term is c_top * start, never written out
        elif plan.series == "chebyshev":
            shift, keep = (shift - float(c[top]), 0.0) if step == 1 else (shift, -1.0)
        hop(z, spare, scale, shift, keep)
        z, spare = spare, (two if step == 0 else z)
    return z, 1.0
