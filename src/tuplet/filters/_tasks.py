"""Filtering as tasks of an engine: a task filters a block of columns, then tasks join ranges of rows.

The work folder is that of `_disk.py`, with the same parts: what one engine has finished, another goes on from. Beside
them lies `task.json`, all that a task needs: the filter, and where the arrays of operator and features lie. Arrays
that are memory maps of .npy files are read where they are; others (of a directed graph the operator, of features in
memory all) are written into the folder once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet._files import new_file, open_array, placed, read_header, write_header
from tuplet.engines import Engine, Tick
from tuplet.filters import _disk
from tuplet.filters._cpu import cpu_engine
from tuplet.filters._disk import DiskJob
from tuplet.filters._operator import Operator, make_plan
from tuplet.filters._read import make_reader
from tuplet.filters.weights import Weights
from tuplet.graph import Features

if TYPE_CHECKING:
    from tuplet.filters._graph_filter import GraphFilter

_RANGES = 4  # of rows to join, for each place
_CHUNK = 2**25  # bytes joined at a time


def run_tasks(
    job: DiskJob,
    spec: GraphFilter,
    op: Operator,
    x: Features,
    projection: Any,
    split: bool,
    engine: Engine,
    tick: Tick,
) -> NDArray[Any]:
    """Filter block by block on the nodes of `engine`, and return the joined rows as a memory map."""
    _disk.check_disk(job, x.nbytes if split else 0)
    _disk.open_job(job)
    if split:
        _disk.split_columns(job, x, lambda part: tick(0.05 * part))
    arrays = placed(job.folder, _arrays(op, x, projection, split))
    facts = {"path": str(job.path.resolve()), "key": job.key, "n": job.n, "f": job.f, "columns": job.columns}
    facts |= {"dtype": job.dtype.str, "filter": spec.to_dict(), "loop": op.loop, "symmetric": op.symmetric}
    with new_file(job.folder / "task.json") as partial:
        partial.write_text(json.dumps({**facts, "arrays": arrays, "x_shape": list(x.shape)}))
    folder = str(job.folder.resolve())
    engine.check_sees([job.folder.resolve() / "task.json", *map(Path, arrays.values())])
    blocks = [{"folder": folder, "key": job.key, "first": first} for first in job.firsts]
    engine.map(filter_block, blocks, lambda part: tick(0.05 + 0.85 * part))
    if len(blocks) == 1:
        job.part("done", 0).replace(job.folder / "out.npy")
        return _disk.finish(job)
    joined = job.folder / "joined.npy"
    with joined.open("wb") as file:
        write_header(file, (job.n, job.f), job.dtype)
        file.truncate(file.tell() + job.bytes)
    step = -(-job.n // (_RANGES * engine.places))
    ranges = [
        {"folder": folder, "key": job.key, "start": start, "stop": min(job.n, start + step)}
        for start in range(0, job.n, step)
    ]
    engine.map(join_columns, ranges, lambda part: tick(0.9 + 0.1 * part))
    joined.replace(job.folder / "out.npy")
    return _disk.finish(job)


def filter_block(item: Mapping[str, Any]) -> None:
    """Task: filter the columns from `first` on into their file, unless it is there."""
    job, facts = _opened(item)
    part = job.part("done", item["first"])
    if _disk.is_good(part):
        return
    arrays = {name: open_array(Path(path)) for name, path in facts["arrays"].items()}
    weights, degrees = arrays.get("weights"), np.asarray(arrays["degrees"])
    op = Operator(arrays["indptr"], arrays["indices"], weights, degrees, facts["loop"], facts["symmetric"])
    family = facts["filter"]["weights"]
    spec = SimpleNamespace(**{**facts["filter"], "weights": Weights(family["family"], tuple(family["values"]))})
    plan = make_plan(spec.weights, spec.tol, spec.series, op.symmetric) if spec.method == "exact" else None
    width, x = job.width(item["first"]), _features(arrays, facts["x_shape"])
    if x is None:
        read, x = _disk.read_part(job), np.empty((0, width), np.float32)
    else:
        read = make_reader(x, arrays.get("projection"))
    block = cpu_engine(spec, op, plan, read, x, width)(item["first"], width, lambda fraction: None)
    _disk.write_block(part, block, job.dtype)


def join_columns(item: Mapping[str, Any]) -> None:
    """Task: write the rows from `start` to `stop` of the joined file, from all blocks of columns."""
    job, _ = _opened(item)
    write_joined(job, job.folder / "joined.npy", item["start"], item["stop"])


def write_joined(job: DiskJob, target: Path, first: int, stop: int, places: int | NDArray[np.int64] = 0) -> None:
    """Write the rows from `first` to `stop` of all blocks of columns to `target`.

    `places`: so many rows further down, or the place of each row.
    """
    size = job.dtype.itemsize
    rows = max(1, _CHUNK // (size * job.f))
    parts = [job.part("done", column).open("rb") for column in job.firsts]
    widths = [job.width(column) for column in job.firsts]
    heads = [_length_of_header(file) for file in parts]
    with target.open("r+b", buffering=0) as out:
        head = _length_of_header(out)
        for start in range(first, stop, rows):
            count = min(rows, stop - start)
            blocks = []
            for file, width, skip in zip(parts, widths, heads):
                file.seek(skip + start * width * size)
                blocks.append(np.fromfile(file, job.dtype, count * width).reshape(count, width))
            joined = np.hstack(blocks)
            to = (
                np.arange(start, start + count) + places if isinstance(places, int) else places[start : start + count]
            )
            for low, high in neighbouring(to):
                os.pwrite(out.fileno(), joined[low:high].data, head + int(to[low]) * job.f * size)
        os.fsync(out.fileno())
    for file in parts:
        file.close()


def neighbouring(places: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Where runs of places that lie side by side begin and end.

    >>> neighbouring(np.array([4, 5, 9]))
    [(0, 2), (2, 3)]
    """
    cuts = np.flatnonzero(np.diff(places) != 1) + 1
    return list(pairwise([0, *cuts.tolist(), len(places)]))


def _length_of_header(file: Any) -> int:
    read_header(file)
    return int(file.tell())


def _opened(item: Mapping[str, Any]) -> tuple[DiskJob, dict[str, Any]]:
    """The job of a task, as `task.json` tells it."""
    path = Path(item["folder"]) / "task.json"
    try:
        facts = dict(json.loads(path.read_text()))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}). All nodes must see the folder of the output.") from None
    if facts["key"] != item["key"]:
        raise InputError(f"{path} belongs to another filter or graph. Give runs at the same time other places.")
    known = {name: facts[name] for name in ("key", "n", "f", "columns")}
    return DiskJob(path=Path(facts["path"]), dtype=np.dtype(facts["dtype"]), **known), facts


def _arrays(op: Operator, x: Any, projection: Any, split: bool) -> dict[str, Any]:
    """What the tasks read, by name; not the features where they were cut into files of columns already."""
    found: dict[str, Any] = {"indptr": op.indptr, "indices": op.indices, "weights": op.weights, "degrees": op.degrees}
    if sp.issparse(x):
        found |= {"x_indptr": x.indptr, "x_indices": x.indices, "x_data": x.data}
    elif not split:
        found["x"] = x
    if projection is not None:
        dense = projection.toarray() if sp.issparse(projection) else projection
        found["projection"] = np.asarray(dense, np.float32)
    return {name: array for name, array in found.items() if array is not None}


def _features(arrays: Mapping[str, Any], shape: list[int]) -> Any:
    if "x_indptr" not in arrays:
        return arrays.get("x")
    x = sp.csr_array(tuple(shape), dtype=arrays["x_data"].dtype)
    x.data, x.indices, x.indptr = arrays["x_data"], arrays["x_indices"], arrays["x_indptr"]
    return x
