"""Node graphs of the Open Graph Benchmark, read from their official archives without the `ogb` package.

Three layouts: CSV (`raw/edge.csv.gz`, `node-feat`, `node-label`, `num-node-list`), binary (`raw/data.npz` and
`node-label.npz`, papers100M) and heterogeneous CSV (mag, of which the papers and their citations are read). The split
is `split/KIND/{train,valid,test}.csv.gz`. Everything is streamed into a graph folder: memory does not grow with it.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet._files import DAMAGE
from tuplet.datasets._archives import Progress, unpacked
from tuplet.datasets._members import BLOCK, Member, rows_of, shape_of, whole_array
from tuplet.graph import Graph
from tuplet.io.numbered import RowBlocks, write_numbered

PAPERS = "paper___cites___paper"  # the relation of ogbn-mag that is read


def convert_ogb(
    archive: str | Path,
    out: str | Path,
    *,
    name: str = "",
    memory: int | str = "2GB",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Graph:
    """The graph in an official archive (the .zip, or the folder it holds), as the graph folder `out`.

    Directions are dropped. The official split is in `graph.split`; nodes without a label have -1.
    """
    with unpacked(archive, out, _wanted) as folder:
        return _convert(_root(folder), out, name, memory, overwrite, progress)


def _wanted(member: str) -> bool:
    """Whether a member of the zip is needed; other relations and mappings of mag are not."""
    parts = member.split("/")
    if "relations" in parts and PAPERS not in parts:
        return False
    return "raw" in parts or "split" in parts


def _root(folder: Path) -> Path:
    """The folder that holds raw/ and split/: `folder` itself or its only child that does."""
    for place in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())):
        if (place / "raw").is_dir() and (place / "split").is_dir():
            return place
    raise InputError(f"{folder} is not an archive of OGB: it holds no folders raw and split. Get it again.")


def _convert(
    root: Path, out: str | Path, name: str, memory: int | str, overwrite: bool, progress: Progress | None
) -> Graph:
    raw = root / "raw"
    try:
        read = _read_binary if (raw / "data.npz").is_file() else _read_csv
        n, n_edges, pairs, rows, y = read(raw)
        split = _read_split(root / "split")
        return write_numbered(
            out, n, n_edges, pairs, rows=rows, y=y, split=split, name=name, memory=memory, overwrite=overwrite,
            progress=progress,
        )  # fmt: skip
    except InputError:
        raise
    except DAMAGE as error:
        raise InputError(f"The files in {root} cannot be read ({error!r}). Get the archive again.") from None


def _read_csv(raw: Path) -> tuple[int, int, Any, RowBlocks | None, NDArray[np.int64]]:
    hetero = (raw / "triplet-type-list.csv.gz").is_file()
    edges = raw / "relations" / PAPERS if hetero else raw
    features = raw / "node-feat" / "paper" if hetero else raw
    labels = raw / "node-label" / "paper" if hetero else raw
    n = _paper_count(raw) if hetero else int(_column(raw / "num-node-list.csv.gz")[0])
    n_edges = int(_column(edges / "num-edge-list.csv.gz")[0])
    rows = features / "node-feat.csv.gz"
    x = RowBlocks(_csv_rows(rows), _csv_width(rows)) if rows.is_file() else None
    return n, n_edges, _csv_pairs(edges / "edge.csv.gz"), x, _classes(_column(labels / "node-label.csv.gz"), n)


def _paper_count(raw: Path) -> int:
    from pyarrow import csv

    table = csv.read_csv(raw / "num-node-dict.csv.gz")
    if "paper" not in table.column_names:
        raise InputError(f"{raw} has the node kinds {', '.join(table.column_names)}, no papers.")
    return int(table["paper"][0].as_py())


def _csv(path: Path, kind: Any) -> Iterator[Any]:
    """Record batches of a CSV file without a header, all columns of one type."""
    import pyarrow as pa
    from pyarrow import csv

    if not path.is_file():
        raise InputError(f"The archive has no {path.parent.name}/{path.name}. Get it again.")
    width = _csv_width(path)
    names = [f"c{i}" for i in range(width)]
    try:
        with csv.open_csv(
            path,
            read_options=csv.ReadOptions(column_names=names, block_size=2**24),
            convert_options=csv.ConvertOptions(column_types=dict.fromkeys(names, kind), null_values=["", "nan"]),
        ) as reader:
            yield from reader
    except pa.ArrowException as error:
        raise InputError(f"{path.parent.name}/{path.name} cannot be read ({error}). Get the archive again.") from None


def _csv_width(path: Path) -> int:
    import gzip

    with gzip.open(path, "rb") as file:
        return file.readline().count(b",") + 1


def _column(path: Path) -> NDArray[np.float64]:
    """The first column of a CSV file as numbers; NaN where nothing stands."""
    import pyarrow as pa

    parts = [np.asarray(batch.column(0).fill_null(np.nan)) for batch in _csv(path, pa.float64())]
    return np.concatenate(parts) if parts else np.empty(0)


def _csv_pairs(path: Path) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    import pyarrow as pa

    for batch in _csv(path, pa.int64()):
        yield np.asarray(batch.column(0)), np.asarray(batch.column(1))


def _csv_rows(path: Path) -> Iterator[NDArray[np.float32]]:
    import pyarrow as pa

    for batch in _csv(path, pa.float32()):
        yield np.column_stack([np.asarray(column) for column in batch.columns])


def _classes(values: NDArray[Any], n: int) -> NDArray[np.int64]:
    """Labels 0.., and -1 where the value is NaN."""
    flat = np.asarray(values).reshape(-1)
    if len(flat) != n:
        raise InputError(f"There are {len(flat)} labels for {n} nodes. Get the archive again.")
    if flat.dtype.kind == "f":
        flat = np.where(np.isnan(flat), -1, flat)
    return flat.astype(np.int64)


def _read_split(folder: Path) -> tuple[NDArray[np.int64], ...]:
    kinds = sorted(path for path in folder.iterdir() if path.is_dir())
    if len(kinds) != 1:
        names = ", ".join(path.name for path in kinds) or "none"
        raise InputError(f"{folder} holds the splits {names}; one is needed. Get the archive again.")
    place = kinds[0] / "paper" if (kinds[0] / "paper").is_dir() else kinds[0]
    return tuple(_column(place / f"{part}.csv.gz").astype(np.int64) for part in ("train", "valid", "test"))


# papers100M: arrays in a zip, read as streams, never whole


def _read_binary(raw: Path) -> tuple[int, int, Any, RowBlocks | None, NDArray[np.int64]]:
    data = raw / "data.npz"
    with zipfile.ZipFile(data) as archive:
        names = {Path(member).stem for member in archive.namelist()}
    shape = shape_of(data, "edge_index")
    n = int(whole_array(data, "num_nodes_list")[0])
    width = shape_of(data, "node_feat")[1] if "node_feat" in names else 0
    rows = RowBlocks(rows_of(data, "node_feat"), width) if width else None
    return n, shape[1], _binary_pairs(data), rows, _classes(whole_array(raw / "node-label.npz", "node_label"), n)


def _binary_pairs(path: Path) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """edge_index is (2, edges): all sources, then all targets. Two streams over it, half a file apart."""
    with Member(path, "edge_index") as sources, Member(path, "edge_index") as targets:
        count = sources.shape[1]
        targets.skip(count)
        for start in range(0, count, BLOCK):
            size = min(BLOCK, count - start)
            yield sources.read(size).astype(np.int64), targets.read(size).astype(np.int64)
