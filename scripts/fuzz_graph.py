"""What a kind of file is to fuzz.py, and the small graph that most of them hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from tuplet.graph import Graph


@dataclass(frozen=True)
class Kind:
    """`make(folder)` writes good files, `read(folder / path)` reads them, the pattern `damaged` says which suffer.

    With `truth`, `read` compares its result with the right one, and checksums are not made to fit the damage.
    """

    name: str
    path: str
    make: Callable[[Path], Any]
    read: Callable[[Path], Any]
    damaged: str = "**/*"
    truth: bool = False


def small_graph(*, sparse: bool = False) -> Graph:
    """40 nodes with ids, features and labels."""
    rng = np.random.default_rng(0)
    adjacency = sp.random_array((40, 40), density=0.1, rng=rng, format="csr")
    x: Any = rng.normal(size=(40, 6)).astype(np.float32)
    x = sp.csr_array(np.where(x > 0, x, 0)) if sparse else x
    ids = np.array([f"n{i:02}" for i in range(40)])
    names = tuple(f"f{i}" for i in range(6))
    return Graph.from_scipy(adjacency, x, rng.permutation(np.arange(40) % 3), feature_names=names).with_(ids=ids)
