"""Edge lists of any size -> the on-disk graph of folder.py, within a memory budget.

Two passes over the edges. The first collects the node ids (_id_maps.py says what that costs); the second deals both
directions of every edge to buckets of rows on disk (_external_sort.py), then sorted one after another. All work
happens in a folder `.NAME.work` beside the target: a run that was interrupted goes on from the last finished stage
when it is started again with the same files and options, and the target appears whole at the end.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError, check_choice, parse_bytes
from tuplet._files import open_array, save_array
from tuplet.graph import Graph
from tuplet.io._convert_job import Job, Progress
from tuplet.io._convert_nodes import write_features, write_labels
from tuplet.io._edge_stream import EdgeStream
from tuplet.io._external_sort import Dealer, Plan, RowWriter, make_keys, remove_bucket, sort_bucket
from tuplet.io._id_maps import BitmapMap, Collector, IdMap, SortedMap, TextMap, map_of
from tuplet.io._ids import examples, unify
from tuplet.io._node_stream import NodeStream, node_stream
from tuplet.io.folder import check_new_folder, open_graph, write_meta

log = logging.getLogger("tuplet")

MAX_NODES = 2**31
LEAST_MEMORY = 2**26


def convert(
    edges: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    features: str | os.PathLike[str] | None = None,
    labels: Any = None,
    source: str | None = None,
    target: str | None = None,
    weight: str | bool | None = None,
    id: str | None = None,
    columns: Sequence[str] | None = None,
    label: str | None = None,
    directed: bool = False,
    missing: str = "error",
    memory: int | str = "2GB",
    header: bool | None = None,
    separator: str | None = None,
    comment: str = "#",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Graph:
    """Build the graph folder `out` from files of any size, and open it.

    Files, columns and text options are those of `read_graph`, and so is the graph, but features must be numbers,
    booleans or number lists. Nodes in the features without an edge are kept. Nodes without a feature row are an
    error, or get a "zero" row, or are left out with their edges ("drop"): `missing`. Working memory stays below
    `memory`, apart from about 0.3 GB for the libraries; labels and text ids are held in memory. On disk the work
    takes 8 bytes (12 with weights) for each stored edge besides the result.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "e.csv").write_text("source,target\\nann,bob\\nbob,cy\\ncy,bob\\n")
    ...     g = convert(f"{folder}/e.csv", f"{folder}/graph", memory="200MB")
    ...     g, g.ids.tolist()
    (Graph(graph: 3 nodes, 2 edges, 0 features), ['ann', 'bob', 'cy'])
    """
    check_choice("missing", missing, ("error", "zero", "drop"))
    place = check_new_folder(out, overwrite=overwrite)
    text = {"header": header, "separator": separator, "comment": comment}
    stream = EdgeStream.open(edges, source=source, target=target, weight=weight, **text)
    leave_out = [label] if label is not None and labels is None else []
    nodes = None if features is None else node_stream(features, id, columns, leave_out, text)
    budget = parse_bytes(memory)
    if budget < LEAST_MEMORY:
        raise InputError(f"memory {memory!r} is too little. Give at least {LEAST_MEMORY // 2**20} MiB.")
    key = [stream.facts(), None if nodes is None else nodes.facts(), directed, missing, budget]
    job = Job(place, key, progress)
    try:
        _run(job, stream, nodes, directed, missing, budget)
        write_labels(job, labels, nodes, id, label, text)
        graph = job.graph(directed, place.name)
        write_meta(job.folder, graph)
        del graph
        job.finish(place)
    except InputError:
        job.remove()
        raise
    except OSError as error:
        job.remove()
        raise InputError(f"The graph cannot be written to {place} ({error}). Free or choose another place.") from None
    return open_graph(place)


def _run(job: Job, stream: EdgeStream, nodes: NodeStream | None, directed: bool, missing: str, memory: int) -> None:
    if "n" not in job.state:
        _collect(job, stream, nodes, missing, memory)
    if nodes is not None and "feature_names" not in job.state:
        write_features(job, nodes, missing)
    if "buckets" not in job.state:
        _deal(job, stream, directed, memory)
    _sort(job, directed)


def _collect(job: Job, stream: EdgeStream, nodes: NodeStream | None, missing: str, memory: int) -> None:
    """First pass: the node ids, written as ids.npy unless they are 0, 1, .."""
    rows, listed, kinds, weighted = 0, None if nodes is None else nodes.ids(), set(), False
    known: IdMap | None = None if listed is None else map_of(listed)
    collector = Collector(memory)
    for chunk in stream.chunks():
        rows += len(chunk.source)
        weighted |= chunk.weights is not None
        for column in (chunk.source, chunk.target):
            kinds.add(str(column.type))
            if known is not None:
                unknown = look_up_any(known, column) < 0
                column = column.filter(_mask(unknown)) if unknown.any() else column[:0]
            if len(column):
                collector.add(column)
        job.tell("ids", chunk.fraction)
    if not rows:
        raise InputError("The edges hold no rows. Give at least one.")
    found = collector.finish()
    if known is None:
        n, ids = found.n, found.ids
    else:
        n, ids = _with_listed(listed, known, found, missing)
    if not 2 <= n < MAX_NODES:
        raise InputError(f"The graph has {n} nodes. From 2 to {MAX_NODES - 1} can be converted.")
    if ids is not None:
        save_array(job.folder / "ids.npy", ids)
    text_ids = "large_string" in kinds
    job.save(n=n, rows=rows, weighted=weighted, text_ids=text_ids, listed=None if listed is None else len(listed))


def _with_listed(listed: Any, known: IdMap, found: IdMap, missing: str) -> tuple[int, NDArray[Any] | None]:
    """Nodes in the order of the features, then those that only the edges know."""
    if found.n and missing == "error":
        others = np.arange(found.n) if found.ids is None else found.ids
        raise InputError(
            f"{found.n} nodes in the edges have no feature row, for example {examples(others)}. "
            "Say missing='zero' to give them zeros, or missing='drop' to leave them out with their edges."
        )
    if not found.n or missing == "drop":
        return known.n, known.ids
    import pyarrow as pa

    others = np.arange(found.n) if found.ids is None else found.ids
    both = pa.concat_arrays(unify(listed, pa.array(others)))
    log.info("%d nodes without features get zeros", found.n)
    return len(both), map_of(both).ids


def look_up_any(known: IdMap, column: Any) -> NDArray[np.int64]:
    """Node numbers of a column, whichever kind of id either side has."""
    import pyarrow as pa

    if isinstance(known, TextMap) or pa.types.is_integer(column.type):
        return known.look_up(column)
    return TextMap(pa.array(np.asarray(known.ids if known.ids is not None else np.arange(known.n)).astype(str),
                            pa.large_string())).look_up(column)  # fmt: skip


def _mask(mask: NDArray[np.bool_]) -> Any:
    import pyarrow as pa

    return pa.array(mask)


def _id_map(job: Job) -> IdMap:
    """The map from the ids that the first pass wrote."""
    import pyarrow as pa

    path = job.folder / "ids.npy"
    if not path.is_file():
        return BitmapMap(np.ones(job.state["n"], dtype=bool))
    ids = np.load(path, allow_pickle=False)
    if ids.dtype.kind not in "iu":
        return TextMap(pa.array(ids, pa.large_string()))
    ascending = bool((ids[1:] > ids[:-1]).all())
    if ascending and ids[0] >= 0 and ids[-1] < 64 * len(ids):
        seen = np.zeros(int(ids[-1]) + 1, dtype=bool)
        seen[ids] = True
        return BitmapMap(seen)
    return SortedMap(ids, ascending=ascending)


def _deal(job: Job, stream: EdgeStream, directed: bool, memory: int) -> None:
    """Second pass: entries to buckets."""
    known, weighted, n = _id_map(job), bool(job.state["weighted"]), int(job.state["n"])
    plan = Plan.make(n, job.state["rows"] * (1 if directed else 2), weighted=weighted, memory=memory // 2)
    dealer = Dealer(job.folder, "bucket", 0, plan.rows, plan.count, weighted)
    loops = left_out = 0
    try:
        for chunk in stream.chunks(text_ids=bool(job.state["text_ids"])):
            source, target = look_up_any(known, chunk.source), look_up_any(known, chunk.target)
            inside = (source >= 0) & (target >= 0)
            keep = inside & (source != target)
            left_out += int(len(inside) - inside.sum())
            loops += int(inside.sum() - keep.sum())
            source, target = source[keep], target[keep]
            weights = _kept_weights(chunk.weights, keep, weighted)
            dealer.add(make_keys(source, target), weights)
            if not directed:
                dealer.add(make_keys(target, source, backwards=True), weights)
            job.tell("edges", chunk.fraction)
    finally:
        dealer.close()
    log.info("dropped %d self loops", loops)
    if left_out:
        log.info("left out %d edges of nodes without features", left_out)
    job.save(buckets=plan.count, bucket_rows=plan.rows, in_memory=plan.entries_in_memory)


def _kept_weights(weights: Any, keep: NDArray[np.bool_], weighted: bool) -> Any:
    if not weighted:
        return None
    return np.ones(int(keep.sum()), np.float32) if weights is None else weights[keep]


def _sort(job: Job, directed: bool) -> None:
    """Sort the buckets one by one into the CSR files."""
    n, weighted = int(job.state["n"]), bool(job.state["weighted"])
    plan = Plan(n, job.state["bucket_rows"], weighted, job.state["in_memory"])
    at = job.state.get("sorted")
    writer = RowWriter(job.folder, n, weighted=weighted, at=at)
    repeats = int(job.state.get("repeats", 0))
    whole = False
    try:
        for i in range(-(-at["row"] // plan.rows) if at else 0, plan.count):
            first = i * plan.rows
            repeats += sort_bucket(job.folder, f"bucket-{i}", first, min(n, first + plan.rows), plan, writer)
            job.save(sorted=writer.mark(), repeats=repeats)
            remove_bucket(job.folder, f"bucket-{i}")
            job.tell("rows", (i + 1) / plan.count)
        whole = True
    finally:
        writer.close(whole=whole)
    if weighted and _all_ones(job.folder / "weights.npy"):
        (job.folder / "weights.npy").unlink()
    log.info("merged %d stored edges that were listed again%s", repeats, "" if directed else " or in both directions")


def _all_ones(path: Path) -> bool:
    weights = open_array(path)
    return all(bool((weights[i : i + 2**22] == 1).all()) for i in range(0, len(weights), 2**22))
