"""Edge lists of any size -> the on-disk graph of folder.py, within a memory budget.

Two passes over the edges. The first collects the node ids (_id_maps.py says what that costs); the second deals both
directions of every edge to buckets of rows on disk (_external_sort.py), then sorted one after another. All work
happens in a folder `.NAME.work` beside the target: a run that was interrupted goes on from the last finished stage
when it is started again with the same files and options, and the target appears whole at the end.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError, is_there, option, parse_bytes
from tuplet._files import locked, open_array, save_array
from tuplet.engines import check_engine, connected
from tuplet.graph import Graph
from tuplet.io._convert_job import ConvertJob, Progress
from tuplet.io._convert_nodes import write_features
from tuplet.io._convert_tasks import check_for_tasks, deal_and_sort
from tuplet.io._edges import check_some_rows
from tuplet.io._external_sort import Buckets, Dealer, RowWriter, make_keys, remove_bucket, sort_bucket
from tuplet.io._features import as_preparation
from tuplet.io._id_maps import AnyMap, Collector
from tuplet.io._ids import is_range, to_numpy, unify
from tuplet.io._inputs import Inputs
from tuplet.io._nodes import node_order
from tuplet.io._pairs import id_map, node_pairs
from tuplet.io._text_ids import are_plain_text, list_ids
from tuplet.io.folder import check_new_folder, open_graph, write_meta
from tuplet.io.places import located

log = logging.getLogger("tuplet")

MAX_NODES = 2**31
LEAST_MEMORY = 2**26
VERSION = 2  # of the work folder


def convert(
    edges: Any,
    out: str | os.PathLike[str],
    *,
    features: Any = None,
    labels: Any = None,
    source: str | None = None,
    target: str | None = None,
    weight: str | bool | None = None,
    id: str | None = None,
    columns: Sequence[str] | None = None,
    categorical: Sequence[str] = (),
    tokens: Sequence[str] | Mapping[str, str] = (),
    roles: Mapping[str, str] | None = None,
    exclude: Sequence[str] = (),
    scale: bool = True,
    label: str | None = None,
    directed: bool = False,
    missing: str = "role",
    unmatched: str = "error",
    header: bool | None = None,
    separator: str | None = None,
    comment: str = "#",
    decimal: str | None = None,
    preparation: Any = None,
    name: str = "",
    memory: int | str = "2GB",
    overwrite: bool = False,
    progress: Progress | None = None,
    engine: str = "local",
) -> Graph:
    """Build the graph folder `out` from tables of any size, and open it.

    Tables, columns and options are those of `read_graph`, and so is the graph; only missing="propagate" needs the
    whole graph in memory and is refused. Working memory stays below `memory`, apart from about 0.3 GB for the
    libraries; a DuckDB source holds a quarter of it, 128 MB at the least. Labels, text ids and the vocabulary of text
    columns are held in memory. On disk the work takes 8 bytes
    (12 with weights) for each stored edge besides the result. A run that was interrupted goes on when the same call
    is made again, unless a table lies in memory; a second process that wants the same `out` is told who works on it.
    `engine="ray"` or "ray://host:port" deals and sorts edges in Parquet parts on the nodes of a cluster, which must
    all see parts and output; the same bytes come out. Text ids without a table of nodes are then listed and numbered
    by DuckDB within half of `memory`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "e.csv").write_text("source,target\\nann,bob\\nbob,cy\\ncy,bob\\n")
    ...     g = convert(f"{folder}/e.csv", f"{folder}/graph", memory="200MB")
    ...     g, g.ids.tolist()
    (Graph(graph: 3 nodes, 2 edges, 0 features), ['ann', 'bob', 'cy'])
    """
    options = {"source": source, "target": target, "weight": weight, "id": id, "columns": columns, "label": label,
               "categorical": categorical, "tokens": tokens, "roles": roles, "exclude": exclude, "scale": scale,
               "directed": directed, "missing": missing, "unmatched": unmatched, "header": header,
               "separator": separator, "comment": comment, "decimal": decimal,
               "preparation": as_preparation(preparation)}  # fmt: skip
    if missing == "propagate":
        raise InputError(
            f"{option('missing', 'propagate')} needs the whole graph in memory, which convert never holds. Choose "
            f"{option('missing', 'mean')} or 'zero', or read the tables with read_graph and write them by save_graph."
        )
    budget = parse_bytes(memory)
    if budget < LEAST_MEMORY:
        raise InputError(f"memory {memory!r} is too little. Give at least {LEAST_MEMORY // 2**20} MiB.")
    edges, features, labels = (located(table, memory=budget // 4) for table in (edges, features, labels))
    _check_is_table(edges)
    place = check_new_folder(out, overwrite=overwrite)
    with locked(place):
        inputs = Inputs.open(edges, features, labels, options, in_memory=False)
        if check_engine(engine) != "local":
            check_for_tasks(inputs)
        facts = _facts(inputs)
        job = ConvertJob(place, [VERSION, facts or uuid.uuid4().hex, _as_json(options), budget], progress)
        try:
            _run(job, inputs, options, budget, name or place.name, engine)
            if facts != _facts(inputs):
                raise InputError("A file has changed while it was read. Convert it again when it is finished.")
            job.finish(check_new_folder(out, overwrite=overwrite))
        except InputError:
            job.remove()
            raise
        except OSError as error:
            job.remove()
            raise InputError(
                f"The graph cannot be written to {place} ({error}). Free or choose another place."
            ) from None
    return open_graph(place)


def _as_json(options: dict[str, Any]) -> dict[str, Any]:
    """The options with all that a preparation holds, for the key of the work."""
    made = options["preparation"]
    return options if made is None else {**options, "preparation": made.to_json()}


def _check_is_table(edges: Any) -> None:
    whole = isinstance(edges, Graph)
    if isinstance(edges, str | os.PathLike):
        whole = str(edges).endswith(".npz") or is_there(Path(edges) / "meta.json")
    if whole:
        what = "The Graph" if isinstance(edges, Graph) else str(edges)
        raise InputError(f"{what} holds a whole graph already. Read it with read_graph, write it with save_graph.")


def _facts(inputs: Inputs) -> Any:
    """What identifies all files, or None where a table lies in memory."""
    tables = [inputs.edges.table, *(nodes.table for nodes in (inputs.features, inputs.labels) if nodes is not None)]
    facts = [table.facts() for table in tables]
    return None if None in facts or inputs.matrix is not None else facts


def _run(job: ConvertJob, inputs: Inputs, options: dict[str, Any], memory: int, name: str, engine: str) -> None:
    if "n" not in job.state and not (engine != "local" and _listed_by_database(job, inputs, memory)):
        _collect(job, inputs, options, memory)
    order, x_ids, y_ids = _node_ids(job, inputs) if inputs.kind else (None, None, None)
    if inputs.kind in ("features", "matrix") and "feature_names" not in job.state:
        write_features(job, inputs, x_ids, order, options)
    y, label_names = inputs.classes(x_ids, y_ids, order, options["unmatched"])
    if y is not None:
        save_array(job.folder / "y.npy", y)
    del order, x_ids, y_ids, y
    if "buckets" not in job.state and engine != "local":
        with connected(engine) as nodes:
            deal_and_sort(job, inputs, options, memory, nodes)
    if "buckets" not in job.state:
        _deal(job, inputs, options["directed"], memory)
    if "whole" not in job.state:
        _sort(job, options["directed"])
    weights = job.folder / "weights.npy"
    if weights.is_file() and _all_ones(weights):
        weights.unlink()
    features: Any = (job.state.get("x_shape"), label_names, job.state.get("feature_names", ()))
    made = job.state.get("preparation")
    label = inputs.label_column
    write_meta(job.folder, name, options["directed"], *features, preparation=made, label_column=label)


def _listed_by_database(job: ConvertJob, inputs: Inputs, memory: int) -> bool:
    """First pass over text ids, by DuckDB, where it can."""
    if not are_plain_text(inputs):
        return False
    found = list_ids(inputs, job.folder, memory // 2)
    if found is None:
        return False
    n, rows = found
    _check_count(n)
    job.save(n=n, rows=rows, numbers=False, as_text=True)
    job.tell("ids", 1.0)
    return True


def _check_count(n: int) -> None:
    if not 2 <= n < MAX_NODES:
        raise InputError(f"The graph has {n} nodes. From 2 to {MAX_NODES - 1} can be converted.")


def _collect(job: ConvertJob, inputs: Inputs, options: dict[str, Any], memory: int) -> None:
    """First pass: the node ids in their order, written as ids.npy unless they are 0, 1, .."""
    listed = next((ids for ids in inputs.node_ids() if ids is not None), None)
    known = None if listed is None else AnyMap(listed)
    with_edge = np.zeros(0 if listed is None else len(listed), dtype=bool)
    rows, kinds, collector = 0, set(), Collector(memory)
    for part in inputs.edges.chunks():
        rows += len(part.source)
        for column in (part.source, part.target):
            kinds.add(str(column.type))
            collector.add(column if known is None else _unknown(column, known, with_edge))
        job.tell("ids", part.done)
    check_some_rows(rows, "The edges")
    found = collector.finish()
    is_text = "large_string" in kinds | {str(ids.type) for ids in inputs.node_ids() if ids is not None}
    n, ids = found.n, found.ids
    if listed is not None:
        others = np.arange(n) if ids is None else ids
        order = _order(listed, with_edge, others, is_text, inputs, options)
        n, ids = len(order), to_numpy(order)
        ids = None if is_range(ids) else ids
    _check_count(n)
    if ids is not None:
        save_array(job.folder / "ids.npy", ids)
    job.save(n=n, rows=rows, numbers=kinds == {"int64"}, as_text="large_string" in kinds)


def _unknown(column: Any, known: AnyMap, with_edge: NDArray[np.bool_]) -> Any:
    """The ids of a column that are not listed; those that are get marked."""
    import pyarrow as pa

    places = known.look_up(column)
    inside = places >= 0
    with_edge[places[inside]] = True
    return column.filter(pa.array(~inside))


def _order(
    listed: Any, with_edge: NDArray[np.bool_], others: NDArray[Any], is_text: bool, inputs: Inputs,
    options: dict[str, Any],
) -> Any:  # fmt: skip
    """The node ids in order, all in one type."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rest = pa.array(others) if others.dtype.kind in "iu" else pa.array(others, pa.large_string())
    if is_text:
        listed, rest = pc.cast(listed, pa.large_string()), pc.cast(rest, pa.large_string())
        rest = rest.take(pc.sort_indices(rest))
    listed, rest = unify(listed, rest) if len(rest) else (listed, rest.cast(listed.type))
    ways = options["unmatched"], options["missing"]
    return node_order(listed, with_edge, rest, inputs.nodes, inputs.kind, *ways)


def _node_ids(job: ConvertJob, inputs: Inputs) -> tuple[Any, Any, Any]:
    """(ids of the nodes, of the features, of the labels) in one type."""
    import pyarrow as pa

    path = job.folder / "ids.npy"
    ids = np.load(path, allow_pickle=False) if path.is_file() else np.arange(job.state["n"])
    order = pa.array(ids) if ids.dtype.kind in "iu" else pa.array(ids, pa.large_string())
    found = inputs.in_one_type(order)
    return found[0], found[1], found[2]


def _deal(job: ConvertJob, inputs: Inputs, directed: bool, memory: int) -> None:
    """Second pass: entries to buckets."""
    known, weighted, n = id_map(job.folder, int(job.state["n"])), inputs.edges.weight is not None, int(job.state["n"])
    plan = Buckets.make(n, job.state["rows"] * (1 if directed else 2), weighted=weighted, memory=memory // 2)
    dealer = Dealer(job.buckets, "bucket", 0, plan.rows, plan.count, weighted)
    loops = left_out = rows = 0
    try:
        for part in inputs.edges.chunks(numbers=job.state["numbers"], as_text=job.state["as_text"]):
            source, target, weights, dropped = node_pairs(part, known)
            rows += len(part.source)
            left_out += dropped[0]
            loops += dropped[1]
            dealer.add(make_keys(source, target), weights)
            if not directed:
                dealer.add(make_keys(target, source, backwards=True), weights)
            job.tell("edges", part.done)
    finally:
        dealer.close()
    if rows != job.state["rows"] or (left_out and not inputs.kind):
        raise InputError(
            f"The edges changed between the two passes: {job.state['rows']} rows at first, then {rows}, of which "
            f"{left_out} have new ids. A query must give the same rows again: no random(), no sample, no table that "
            "others write to."
        )
    log.info("dropped %d self loops", loops)
    if left_out:
        log.info("left out %d edges of nodes without features", left_out)
    job.save(weighted=weighted, buckets=plan.count, bucket_rows=plan.rows, in_memory=plan.entries_in_memory)


def _sort(job: ConvertJob, directed: bool) -> None:
    """Sort the buckets one by one into the CSR files."""
    n, weighted = int(job.state["n"]), bool(job.state["weighted"])
    plan = Buckets(n, job.state["bucket_rows"], weighted, job.state["in_memory"])
    at = job.state.get("sorted")
    writer = RowWriter(job.folder, n, weighted=weighted, at=at)
    repeats = int(job.state.get("repeats", 0))
    whole = False
    try:
        for i in range(-(-at["row"] // plan.rows) if at else 0, plan.count):
            first = i * plan.rows
            repeats += sort_bucket(job.buckets, f"bucket-{i}", first, min(n, first + plan.rows), plan, writer)
            job.save(sorted=writer.mark(), repeats=repeats)
            remove_bucket(job.buckets, f"bucket-{i}")
            job.tell("rows", (i + 1) / plan.count)
        whole = True
    finally:
        writer.close(whole=whole)
    job.save(whole=True)
    log.info("merged %d stored edges that were listed again%s", repeats, "" if directed else " or in both directions")


def _all_ones(path: Path) -> bool:
    weights = open_array(path)
    return all(bool((weights[i : i + 2**22] == 1).all()) for i in range(0, len(weights), 2**22))
