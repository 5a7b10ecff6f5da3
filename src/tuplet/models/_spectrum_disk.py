"""The spectrum of filtered rows with every array of n rows in a file, for graphs larger than memory.

The same numbers as `_spectrum.fit_spectrum`, to rounding. Tall arrays are never changed: where the subspace iteration
wants orthonormal columns y R, it takes y as it is and applies R (c, c) to the other end, H' (y R) = (H' y) R. So each
file is written once, from front to back, and a killed run goes on after the last whole one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet.filters import GraphFilter
from tuplet.graph import Graph
from tuplet.models._cost import EXTRA
from tuplet.models._spectrum import Spectrum, inverse_lengths, random_signs, spectrum_of
from tuplet.models._steps import Steps
from tuplet.rows.blocks import summed, written
from tuplet.rows.svd import Floats, first_columns, orthonormal, signed_right, times

_ITERATIONS = 2  # of the subspace iteration, as `operator_svd` has them
_ORDER = ("signs", "forward-0", "backward-0", "forward-1", "backward-1", "last")  # of the filterings


@dataclass(frozen=True, eq=False)
class DiskRows:
    """H (n, f) of `graph` (see `_spectrum`), whose products go to the files of `steps`, named by `name`."""

    name: str
    graph: Graph
    graph_filter: GraphFilter
    weights: Floats
    before: Floats
    steps: Steps
    memory: int | str | None = None
    tick: Callable[[float], None] = field(default=lambda part: None)

    def forward(self, step: str, q: Floats) -> Any:
        """F X q for q (f, c) as the step `step`: H q, but for the lengths of its rows."""
        x, columns = self.graph.x, np.ascontiguousarray(self.weights[:, None] * q)
        shape = (self.graph.n_nodes, q.shape[1])

        def start(block: slice) -> Any:
            return feature_rows(x, block) @ columns * self.before[block, None]

        return self._filtered(step, lambda path: written(path, start, shape, _values(x), maps=[x]))

    def backward(self, step: str, y: Any, factors: Floats) -> Floats:
        """X' F (factors * y) for y (n, c): float32 (f, c). F is its own transpose."""
        x = self.graph.x

        def start(path: Path) -> None:
            written(path, lambda block: y[block] * factors[block, None], y.shape, y.shape[1], maps=[y])

        filtered = self._filtered(step, start)

        def product(block: slice) -> Any:
            return feature_rows(x, block).T @ (filtered[block] * self.before[block, None])

        shape = (len(self.weights), y.shape[1])
        sums = summed(product, len(y), max(_values(x), y.shape[1]), shape, maps=[x, filtered])
        return sums.astype(np.float32) * self.weights[:, None]

    def drop(self, *steps: str) -> None:
        """Remove the files of steps that no later one needs."""
        self.steps.drop(*(f"{self.name}-{step}" for step in steps))

    def _filtered(self, step: str, write_start: Callable[[Path], None]) -> Any:
        """The filtered rows of what `write_start` writes."""
        place = _ORDER.index(step)

        def make(path: Path) -> None:
            start = self.steps.rows(f"{self.name}-{step}-start", write_start)
            self.graph_filter.transform(
                self.graph,
                x=start,
                out=path,
                memory=self.memory,
                progress=lambda phase, part: self.tick((place + part) / len(_ORDER)),
            )

        found = self.steps.rows(f"{self.name}-{step}", make)
        self.drop(f"{step}-start")
        return found


def fit_on_disk(rows: DiskRows, d: int, *, balance: bool, seed: int = 0) -> tuple[Spectrum, Any]:
    """The spectrum of H from its d largest singular values, and H's rows projected on it (n, d), a memory map."""
    steps, name = rows.steps, rows.name
    n, f = rows.graph.n_nodes, len(rows.weights)
    d = min(d, n, f)

    def lengths() -> Floats:
        return inverse_lengths(rows.forward("signs", random_signs(f, seed)))

    after = steps.array(f"{name}-lengths", lengths)
    rows.drop("signs")
    q, rounds = first_columns((n, f), d + EXTRA, _ITERATIONS, seed)
    for i in range(rounds):
        q = steps.array(f"{name}-columns-{i}", lambda i=i, q=q: _iterated(rows, i, q, after))  # type: ignore[misc]
        rows.drop(f"forward-{i}", f"backward-{i}")
    return _projected(rows, q, after, d, balance)


def _iterated(rows: DiskRows, i: int, q: Floats, after: Floats) -> Floats:
    """Orthonormal columns (f, c) that span H' H q."""
    y = rows.forward(f"forward-{i}", q)
    squares, turn = np.linalg.eigh(_gram(y, after))
    kept = squares > 1e-10 * max(squares[-1], 1e-30)
    factor = turn * np.where(kept, 1 / np.sqrt(np.where(kept, squares, 1)), 0)
    back = rows.backward(f"backward-{i}", y, after**2)
    return orthonormal(np.ascontiguousarray(back @ factor, np.float32))


def _projected(rows: DiskRows, q: Floats, after: Floats, d: int, balance: bool) -> tuple[Spectrum, Any]:
    steps, name = rows.steps, rows.name
    q = orthonormal(q)

    def directions() -> NDArray[Any]:
        y = rows.forward("last", q)
        return np.linalg.eigh(_gram(y, after))[1][:, ::-1][:, :d]

    turn = steps.array(f"{name}-turn", directions)
    right, sign = signed_right(times(q, turn))
    turned = np.ascontiguousarray(turn * sign, np.float32)

    def project(path: Path) -> None:
        y = rows.forward("last", q)
        written(path, lambda block: (y[block] @ turned) * after[block, None], (len(y), d), y.shape[1], maps=[y])

    projected = steps.rows(f"{name}-rows", project)
    rows.drop("last")
    return spectrum_of(right, projected, balance=balance), projected


def _gram(y: Any, factors: Floats) -> NDArray[np.float64]:
    def product(block: slice) -> NDArray[np.float64]:
        part = np.asarray(y[block], np.float64) * factors[block, None]
        squares: NDArray[np.float64] = part.T @ part
        return squares

    n, c = y.shape
    return summed(product, n, c, (c, c), maps=[y])


def feature_rows(x: Any, block: slice) -> Any:
    """Rows of X as float32, dense or CSR."""
    rows = x[block]
    return rows.astype(np.float32) if sp.issparse(rows) else np.asarray(rows, np.float32)


def _values(x: Any) -> int:
    """Values a row."""
    return -(-x.nnz // max(1, x.shape[0])) if sp.issparse(x) else int(x.shape[1])
