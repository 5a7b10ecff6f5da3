"""What a stored graph must hold so that no kernel reads outside an array: checked once for each version of a file.

One pass over row pointers, indices, weights and labels at memory speed, in blocks whose pages are given back: a graph
larger than memory is checked within a few hundred MB. What was found good is remembered for the files' identity
(path, size, times, inode), so that opening the graph again costs nothing. Files that were written a moment ago are
not remembered: a second write within the clock's tick would have the same identity.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet._memory import forget_pages
from tuplet.graph import Graph

_BLOCK = 2**19  # values looked at together
_SETTLED = 2 * 10**9  # nanoseconds since the last change
_good: dict[str, tuple[Any, ...]] = {}  # of each folder, the files that were found good


def check_content(folder: Path, graph: Graph) -> None:
    """Raise where an array of the graph in `folder` holds what no graph can hold."""
    identity = _identity(folder)
    if _good.get(identity[0]) == identity:
        return
    _check_rows("indptr", graph.indptr, len(graph.indices))
    _check_columns("indices", graph.indptr, graph.indices, graph.n_nodes, loops=False)
    if graph.weights is not None:
        _check_values("weights", graph.weights, least=0)
    x: Any = graph.x
    if sp.issparse(x):
        _check_rows("x_indptr", x.indptr, len(x.indices))
        _check_columns("x_indices", x.indptr, x.indices, x.shape[1], loops=True)
        _check_values("x_data", x.data)
    if graph.y is not None:
        _check_values("y", graph.y, least=-1, most=2**31 - 1)
    if time.time_ns() - max(part[2] for part in identity[1:]) > _SETTLED:
        _good[identity[0]] = identity


def _identity(folder: Path) -> tuple[Any, ...]:
    files = sorted(folder.glob("*.npy"))
    stats = [(path.name, path.stat()) for path in [*files, folder / "meta.json"]]
    return (str(folder.resolve()), *((name, s.st_size, s.st_ctime_ns, s.st_mtime_ns, s.st_ino) for name, s in stats))


def _blocks(array: NDArray[Any], overlap: int = 0) -> Iterator[tuple[int, NDArray[Any]]]:
    for start in range(0, len(array), _BLOCK):
        yield start, np.asarray(array[start : start + _BLOCK + overlap])
        forget_pages(array)


def _check_rows(name: str, indptr: NDArray[Any], entries: int) -> None:
    """Row pointers rise from 0 to the number of entries."""
    if int(indptr[0]) != 0 or int(indptr[-1]) != entries:
        raise InputError(f"{name} does not go from 0 to {entries}")
    for start, block in _blocks(indptr, overlap=1):
        falls = block[1:] < block[:-1]
        if falls.any():
            raise InputError(f"{name} falls at row {start + int(falls.argmax())}")


def _check_columns(name: str, indptr: NDArray[Any], indices: NDArray[Any], columns: int, *, loops: bool) -> None:
    """Indices lie in range; where `loops` is False they also rise within each row and never name the row itself."""
    for start, block in _blocks(indices, overlap=0 if loops else 1):
        if len(block) and (int(block.min()) < 0 or int(block.max()) >= columns):
            raise InputError(f"{name} holds {int(block.min())} to {int(block.max())}, outside 0 to {columns - 1}")
        if not loops:
            _check_order(name, indptr, start, block, len(indices))
            forget_pages(indptr)


def _check_order(name: str, indptr: NDArray[Any], start: int, block: NDArray[Any], total: int) -> None:
    stop = min(start + _BLOCK, total)
    first = int(np.searchsorted(indptr, start, side="right")) - 1
    last = int(np.searchsorted(indptr, stop, side="left"))
    edges = np.clip(np.asarray(indptr[first : last + 1]), start, stop)
    rows = np.repeat(np.arange(first, first + len(edges) - 1), np.diff(edges))
    if (rows == block[: len(rows)]).any():
        raise InputError(f"{name} holds self loops, which a stored graph never has")
    rises = block[1:] > block[:-1]
    begins = np.asarray(indptr[first : last + 1]) - start - 1  # no order is asked where a row begins
    begins = begins[(begins >= 0) & (begins < len(rises))]
    rises[begins] = True
    if not rises.all():
        raise InputError(f"{name} is not in order near entry {start + int((~rises).argmax())}")


def _check_values(name: str, values: NDArray[Any], least: float = -np.inf, most: float = np.inf) -> None:
    for start, block in _blocks(values):
        with np.errstate(invalid="ignore"):
            good = (block >= least) & (block <= most) & np.isfinite(block)
        if not good.all():
            place = int((~good).argmax())
            raise InputError(f"{name} holds {block[place]} at place {start + place}")
