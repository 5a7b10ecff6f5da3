"""R-MAT graphs with random features, and how a spec writes their size."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet._memory import forget_pages
from tuplet._seed import stream
from tuplet.bench.meter import Meter
from tuplet.graph import Graph

BLOCK = 2**14  # rows of random features made at once


def nodes_of(dataset: str) -> int:
    """The number of nodes of a rung's name.

    >>> nodes_of("rmat-1e4"), nodes_of("rmat-250000")
    (10000, 250000)
    """
    kind, _, size = dataset.partition("-")
    if kind != "rmat" or not size:
        raise InputError(f"The rung {dataset!r} is not known. Write it like rmat-1e6: R-MAT with that many nodes.")
    return int(float(size))


def parse_size(name: str) -> dict[str, int]:
    """The numbers in a made graph's name.

    >>> parse_size("rmat:n=2e4,e=10,f=256,b=512")
    {'n': 20000, 'e': 10, 'f': 256, 'b': 512}
    """
    kind, _, rest = name.partition(":")
    try:
        size = {key: int(float(value)) for key, value in (part.split("=") for part in rest.split(","))}
        found = {key: size[key] for key in ("n", "e", "f", "b")}
    except (ValueError, KeyError):
        found = {}
    if kind != "rmat" or not found:
        raise InputError(f'{name!r} does not state a size. Write it like "rmat:n=2e4,e=10,f=256,b=512".')
    return found


def made_graph(size: dict[str, int], meter: Meter) -> Graph:
    """R-MAT with Gaussian features of unit length."""
    from tuplet.graph.synth import rmat

    with meter.phase("load"):
        x = np.empty((size["n"], size["f"]), np.float32)
        fill_random(x, seed=0)
        graph: Graph = rmat(size["n"], size["e"], seed=0).with_(x=x)
        return graph


def fill_random(x: NDArray[Any], seed: int) -> None:
    """Fill `x` (n, f) with Gaussian rows of unit length, block by block; the same for any number of threads."""

    def fill(block: int) -> None:
        rows = x[block * BLOCK : (block + 1) * BLOCK]
        values = stream(seed, f"features {block}").standard_normal(rows.shape, dtype=np.float32)
        values /= np.sqrt(np.einsum("ij,ij->i", values, values))[:, None]
        rows[...] = values

    from tuplet.kernels.spmm import thread_count

    with ThreadPoolExecutor(thread_count()) as pool:
        blocks = range(-(-len(x) // BLOCK))
        for start in range(0, len(blocks), 16):
            list(pool.map(fill, blocks[start : start + 16]))
            forget_pages(x)
