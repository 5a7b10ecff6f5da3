"""Graphs whose nodes are numbered already -> a graph folder, in bounded memory. No ids are looked up.

The caller gives node pairs and feature rows as iterators; edges are dealt to buckets and sorted one bucket after the
other, features go straight to disk. The folder appears whole or not at all.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError, check_labels, parse_bytes
from tuplet._files import new_folder, save_array, write_header
from tuplet._progress import silent
from tuplet.graph import Graph
from tuplet.io._external_sort import Buckets, Dealer, RowWriter, make_keys, remove_bucket, sort_bucket
from tuplet.io.folder import check_new_folder, open_graph, write_meta

log = logging.getLogger("tuplet")
Pairs = tuple[NDArray[Any], NDArray[Any]]
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class RowBlocks:
    """Feature rows block by block: each float32 (rows, width), `n` rows in all."""

    blocks: Iterable[NDArray[Any]]
    width: int


def write_numbered(
    out: str | os.PathLike[str],
    n: int,
    n_edges: int,
    pairs: Iterable[Pairs],
    *,
    rows: RowBlocks | None = None,
    y: NDArray[Any] | None = None,
    split: tuple[NDArray[Any], ...] | None = None,
    name: str = "",
    memory: int | str = "2GB",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Graph:
    """The undirected graph of `n` nodes and about `n_edges` `pairs` (sources, targets), written to the folder `out`.

    Self loops are dropped, repeats merged. `split` are the train, validation and test nodes that came with the data.
    """
    place = check_new_folder(out, overwrite=overwrite)
    if not 2 <= n < 2**31 - 1:
        raise InputError(f"The graph has {n} nodes. From 2 to {2**31 - 2} can be converted.")
    tell = progress or silent
    with new_folder(place) as folder:
        _write_adjacency(folder, n, n_edges, pairs, parse_bytes(memory) // 2, tell)
        if rows is not None:
            _write_rows(folder / "x.npy", rows, n, tell)
        if y is not None:
            save_array(folder / "y.npy", check_labels("y", y, n))
        for part, nodes in zip(("split_train", "split_val", "split_test"), split or ()):
            save_array(folder / f"{part}.npy", _checked_nodes(nodes, n, part))
        write_meta(folder, name, False, None if rows is None else (n, rows.width), (), ())
    return open_graph(place)


def _write_adjacency(folder: Path, n: int, n_edges: int, pairs: Iterable[Pairs], memory: int, tell: Progress) -> None:
    plan = Buckets.make(n, 2 * n_edges, weighted=False, memory=memory)
    dealer = Dealer(folder, "bucket", 0, plan.rows, plan.count, False)
    done = loops = 0
    try:
        for source, target in pairs:
            _check_range(source, target, n)
            keep = source != target
            done, loops = done + len(source), loops + int(len(keep) - keep.sum())
            source, target = source[keep], target[keep]
            dealer.add(make_keys(source, target), None)
            dealer.add(make_keys(target, source, backwards=True), None)
            tell("edges", min(1.0, done / max(1, n_edges)))
    finally:
        dealer.close()
    if done != n_edges:
        raise InputError(f"There are {done} edges, {n_edges} were announced. The files are cut off; get them again.")
    log.info("dropped %d self loops", loops)
    writer, whole = RowWriter(folder, n, weighted=False), False
    try:
        for i in range(plan.count):
            first = i * plan.rows
            sort_bucket(folder, f"bucket-{i}", first, min(n, first + plan.rows), plan, writer)
            remove_bucket(folder, f"bucket-{i}")
            tell("rows", (i + 1) / plan.count)
        whole = True
    finally:
        writer.close(whole=whole)


def _check_range(source: NDArray[Any], target: NDArray[Any], n: int) -> None:
    for ends in (source, target):
        if len(ends) and (int(ends.min()) < 0 or int(ends.max()) >= n):
            bad = int(ends.min()) if int(ends.min()) < 0 else int(ends.max())
            raise InputError(f"The edges name the node {bad}; the graph has the nodes 0 to {n - 1}.")


def _checked_nodes(nodes: NDArray[Any], n: int, what: str) -> NDArray[np.int64]:
    found = np.sort(np.asarray(nodes, dtype=np.int64).ravel())
    if len(found) and (found[0] < 0 or found[-1] >= n or (found[1:] == found[:-1]).any()):
        raise InputError(f"{what} names nodes twice, or beyond 0 to {n - 1}. Get the split again.")
    return found


def _write_rows(path: Path, rows: RowBlocks, n: int, tell: Progress) -> None:
    """Write the feature rows as float32, checked to be finite and n."""
    done = 0
    with path.open("wb") as file:
        write_header(file, (n, rows.width), np.dtype("<f4"))
        for block in rows.blocks:
            if not np.isfinite(block).all():
                raise InputError(f"The features hold NaN or infinity between rows {done} and {done + len(block)}.")
            file.write(np.ascontiguousarray(block, dtype="<f4").data)
            done += len(block)
            tell("features", done / n)
    if done != n:
        raise InputError(f"There are {done} feature rows for {n} nodes. The files are cut off; get them again.")
