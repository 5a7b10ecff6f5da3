"""The Reddit graph of GraphSAGE, in the layout that PyG and DGL read: reddit_data.npz and reddit_graph.npz in a zip.

Its 115 million entries are streamed into a graph folder, like OGB's archives.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet._files import DAMAGE
from tuplet.datasets._archives import Progress, unpacked
from tuplet.datasets._members import BLOCK, Member, rows_of, shape_of, whole_array
from tuplet.graph import Graph
from tuplet.io.numbered import RowBlocks, write_numbered

DATA, GRAPH = "reddit_data.npz", "reddit_graph.npz"


def convert_reddit(
    archive: str | Path, out: str | Path, *, name: str = "reddit", memory: int | str = "2GB",
    progress: Progress | None = None,
) -> Graph:  # fmt: skip
    """The graph in the zip, or the folder it holds, as the graph folder `out`.

    Each pair counts once, in whichever direction it is listed. The split by days is in `graph.split`.
    """
    with unpacked(archive, out, lambda member: Path(member).name in (DATA, GRAPH)) as folder:
        data, edges = _find(folder, DATA), _find(folder, GRAPH)
        try:
            (n, width), (entries,) = shape_of(data, "feature"), shape_of(edges, "row")
            kinds = whole_array(data, "node_types").ravel()
            y = whole_array(data, "label").ravel().astype(np.int64)
            split = tuple(np.flatnonzero(kinds == kind) for kind in (1, 2, 3))  # train, validation, test
            rows = RowBlocks(rows_of(data, "feature"), width)
            return write_numbered(out, n, entries, _pairs(edges), rows=rows, y=y, split=split, name=name,
                                  memory=memory, progress=progress)  # fmt: skip
        except InputError:
            raise
        except DAMAGE as error:
            raise InputError(f"The files of {archive} cannot be read ({error!r}). Get it again.") from None


def _find(folder: Path, name: str) -> Path:
    found = next(iter(sorted(folder.rglob(name))), None)
    if found is None:
        raise InputError(f"The archive has no {name}. Get it again.")
    return found


def _pairs(path: Path) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    with Member(path, "row") as sources, Member(path, "col") as targets:
        (count,) = sources.shape
        for start in range(0, count, BLOCK):
            size = min(BLOCK, count - start)
            yield sources.read(size).astype(np.int64), targets.read(size).astype(np.int64)
