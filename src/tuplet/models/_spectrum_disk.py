"""Filtered rows whose products go to files, for graphs larger than memory: what `fit_in_steps` works with there."""

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
from tuplet.models._spectrum import inverse_lengths
from tuplet.models._spectrum_steps import ORDER
from tuplet.models._steps import Steps
from tuplet.rows.blocks import float_rows, summed, written
from tuplet.rows.svd import Floats


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

    @property
    def shape(self) -> tuple[int, int]:
        return self.graph.n_nodes, len(self.weights)

    def kept(self, step: str, make: Callable[[], Any]) -> Any:
        return self.steps.array(f"{self.name}-{step}", make)

    def forward(self, step: str, q: Floats) -> Any:
        x, columns = self.graph.x, np.ascontiguousarray(self.weights[:, None] * q)
        shape = (self.graph.n_nodes, q.shape[1])

        def start(block: slice) -> Any:
            return float_rows(x, block) @ columns * self.before[block, None]

        return self._filtered(step, lambda path: written(path, start, shape, _values(x), maps=[x]))

    def backward(self, step: str, y: Any, factors: Floats) -> Floats:
        x = self.graph.x

        def start(path: Path) -> None:
            written(path, lambda block: y[block] * factors[block, None], y.shape, y.shape[1], maps=[y])

        filtered = self._filtered(step, start)

        def product(block: slice) -> Any:
            return float_rows(x, block).T @ (filtered[block] * self.before[block, None])

        shape = (len(self.weights), y.shape[1])
        sums = summed(product, len(y), max(_values(x), y.shape[1]), shape, maps=[x, filtered])
        return sums.astype(np.float32) * self.weights[:, None]

    def inverse_lengths(self, y: Any) -> Floats:
        return inverse_lengths(y)

    def gram(self, y: Any, factors: Floats) -> NDArray[np.float64]:
        def product(block: slice) -> NDArray[np.float64]:
            part = np.asarray(y[block], np.float64) * factors[block, None]
            squares: NDArray[np.float64] = part.T @ part
            return squares

        n, c = y.shape
        return summed(product, n, c, (c, c), maps=[y])

    def turned(self, step: str, y: Callable[[], Any], turn: Floats, factors: Floats) -> Any:
        def write(path: Path) -> None:
            tall, shape = y(), (self.shape[0], turn.shape[1])
            written(path, lambda block: (tall[block] @ turn) * factors[block, None], shape, len(turn), maps=[tall])

        return self.steps.rows(f"{self.name}-{step}", write)

    def drop(self, *steps: str) -> None:
        self.steps.drop(*(f"{self.name}-{step}" for step in steps))

    def _filtered(self, step: str, write_start: Callable[[Path], None]) -> Any:
        """The filtered rows of what `write_start` writes."""
        place = ORDER.index(step)

        def make(path: Path) -> None:
            start = self.steps.rows(f"{self.name}-{step}-start", write_start)
            self.graph_filter.transform(
                self.graph,
                x=start,
                out=path,
                memory=self.memory,
                progress=lambda phase, part: self.tick((place + part) / len(ORDER)),
            )

        found = self.steps.rows(f"{self.name}-{step}", make)
        self.drop(f"{step}-start")
        return found


def _values(x: Any) -> int:
    """Values a row."""
    return -(-x.nnz // max(1, x.shape[0])) if sp.issparse(x) else int(x.shape[1])
