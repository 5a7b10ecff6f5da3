"""The edges of a conversion dealt and sorted by the tasks of an engine: the same bytes as by one process.

Map: a task deals the edges of one Parquet part to buckets of rows. Reduce: a task joins one bucket of all parts, in
their order, and sorts it. Then the buckets' rows are copied to their places in the CSR files. All lies in the work
folder, which all nodes see; what a task makes is renamed when it is whole, and not made again.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tuplet._check import InputError
from tuplet.engines import Engine
from tuplet.io._convert_job import ConvertJob
from tuplet.io._edges import Edges, EdgeTable
from tuplet.io._external_sort import (
    HEADER,
    Buckets,
    Dealer,
    RowWriter,
    make_keys,
    npy_header,
    remove_bucket,
    sort_bucket,
)
from tuplet.io._id_maps import BitmapMap, IdMap
from tuplet.io._inputs import OF_TEXT, Inputs
from tuplet.io._pairs import id_map, node_pairs
from tuplet.io._text_ids import numbered_chunks

log = logging.getLogger("tuplet")
_COPY = 2**24  # bytes moved at once


def check_for_tasks(inputs: Inputs) -> None:
    """Raise unless the edges are files that tasks can read each on its own."""
    parts = inputs.edges.table.parts
    if not all(isinstance(part, Path) for part in parts):
        raise InputError(
            "With an engine the edges must be Parquet files (a folder of parts, a pattern or a list): one task reads "
            "one of them. Write them so, or leave the engine out."
        )


def deal_and_sort(job: ConvertJob, inputs: Inputs, options: dict[str, Any], memory: int, engine: Engine) -> None:
    """Second pass over the edges, and the sorted rows, by tasks."""
    directed, weighted = bool(options["directed"]), inputs.edges.weight is not None
    entries = job.state["rows"] * (1 if directed else 2)
    plan = Buckets.make(int(job.state["n"]), entries, weighted=weighted, memory=memory // 2)
    parts = [str(Path(part).resolve()) for part in inputs.edges.table.parts]
    file = job.buckets.resolve() / "task.json"
    names = ("source", "target", "weight", "directed", *OF_TEXT)
    plain = {"n": plan.n, "rows": plan.rows, "weighted": weighted, "entries_in_memory": plan.entries_in_memory}
    facts = {"plan": plain, "parts": parts, "work": str(job.folder.resolve()), "memory": memory // 2}
    facts |= {name: job.state[name] for name in ("numbers", "as_text")}
    file.write_text(json.dumps({**facts, "options": {name: options[name] for name in names}}))
    engine.check_sees([file, *map(Path, parts)])
    items = [{"facts": str(file), "number": i} for i in range(len(parts))]
    dropped = engine.map(deal_part, items, lambda part: job.tell("edges", part))
    buckets = [{"facts": str(file), "number": i} for i in range(plan.count)]
    found = engine.map(sort_one, buckets, lambda part: job.tell("rows", 0.8 * part))
    _place(job, engine, plan, buckets, [int(entries) for entries, _ in found])
    log.info("dropped %d self loops, left out %d edges", *np.sum(dropped, axis=0))
    log.info("merged %d stored edges that were listed again", sum(repeats for _, repeats in found))
    job.save(weighted=weighted, buckets=plan.count, whole=True)


def deal_part(item: Mapping[str, Any]) -> list[int]:
    """Task: the entries of one file, by buckets; how many self loops and strange edges were dropped."""
    facts, plan = _facts(item)
    target = _folder(item, "map", item["number"])
    counts = target / "dropped.json"
    if counts.exists():
        return list(json.loads(counts.read_text()))
    options = facts["options"]
    text = {name: options[name] for name in OF_TEXT}
    part = Path(facts["parts"][item["number"]])
    edges = EdgeTable.open(part, options["source"], options["target"], options["weight"], text)
    known, chunks = _numbered(edges, part, facts, plan.n)
    loops, left_out = 0, 0
    with _new(target) as folder:
        dealer = Dealer(folder, "bucket", 0, plan.rows, plan.count, plan.weighted)
        try:
            for chunk in chunks:
                source, ends, weights, dropped = node_pairs(chunk, known)
                left_out += dropped[0]
                loops += dropped[1]
                dealer.add(make_keys(source, ends), weights)
                if not options["directed"]:
                    dealer.add(make_keys(ends, source, backwards=True), weights)
        finally:
            dealer.close()
        (folder / "dropped.json").write_text(json.dumps([loops, left_out]))
    return [loops, left_out]


def _numbered(edges: EdgeTable, part: Path, facts: Mapping[str, Any], n: int) -> tuple[IdMap, Iterator[Edges]]:
    """The edges of a part, and the map of their ids; those that DuckDB has listed it turns into numbers."""
    work = Path(facts["work"])
    if (work / "ids.parquet").exists():
        return BitmapMap(np.ones(n, dtype=bool)), numbered_chunks(edges, part, work, int(facts["memory"]))
    return id_map(work, n), edges.chunks(numbers=facts["numbers"], as_text=facts["as_text"])


def sort_one(item: Mapping[str, Any]) -> list[int]:
    """Task: the rows of one bucket in order; their stored edges, and how many repeats were merged."""
    facts, plan = _facts(item)
    number = int(item["number"])
    target = _folder(item, "sorted", number)
    counts = target / "counts.json"
    if counts.exists():
        return list(json.loads(counts.read_text()))
    first = number * plan.rows
    last = min(plan.n, first + plan.rows)
    with _new(target) as folder:
        for ending in (".key", ".weight") if plan.weighted else (".key",):
            with (folder / f"all{ending}").open("wb") as out:
                for i in range(len(facts["parts"])):
                    with (_folder(item, "map", i) / f"bucket-{number}{ending}").open("rb") as one:
                        shutil.copyfileobj(one, out, _COPY)
        writer = RowWriter(folder, last - first, weighted=plan.weighted)
        repeats = sort_bucket(folder, "all", first, last, plan, writer)
        writer.close(whole=True)
        remove_bucket(folder, "all")
        (folder / "counts.json").write_text(json.dumps([writer.entries, repeats]))
        return [writer.entries, repeats]


def place_one(item: Mapping[str, Any]) -> None:
    """Task: copy one bucket's columns (and weights) to their place in the whole file."""
    facts, plan = _facts(item)
    source = _folder(item, "sorted", item["number"])
    for name in ("indices", "weights") if plan.weighted else ("indices",):
        with (source / f"{name}.npy").open("rb") as one, (Path(facts["work"]) / f"{name}.npy").open("r+b") as whole:
            one.seek(HEADER)
            whole.seek(HEADER + 4 * item["at"])
            shutil.copyfileobj(one, whole, _COPY)


def _place(job: ConvertJob, engine: Engine, plan: Buckets, buckets: list[dict[str, Any]], sizes: list[int]) -> None:
    """The whole CSR files: made at their length, then filled by tasks; the row pointers are written here."""
    starts = np.r_[0, np.cumsum(sizes)]
    for name, dtype in (("indices", "<i4"), ("weights", "<f4"))[: 2 if plan.weighted else 1]:
        with (job.folder / f"{name}.npy").open("wb") as file:
            file.write(npy_header(dtype, int(starts[-1])))
            file.truncate(HEADER + 4 * int(starts[-1]))
    items = [{**bucket, "at": int(at)} for bucket, at in zip(buckets, starts)]
    engine.map(place_one, items, lambda part: job.tell("rows", 0.8 + 0.2 * part))
    with (job.folder / "indptr.npy").open("wb") as file:
        file.write(npy_header("<i8", plan.n + 1))
        np.zeros(1, np.int64).tofile(file)
        for i, at in enumerate(starts[:-1]):
            ends = np.fromfile(job.buckets / f"sorted-{i}" / "indptr.npy", np.int64, offset=HEADER)
            (ends[1:] + at).tofile(file)


def _facts(item: Mapping[str, Any]) -> tuple[dict[str, Any], Buckets]:
    facts = json.loads(Path(item["facts"]).read_text())
    return facts, Buckets(**facts["plan"])


def _folder(item: Mapping[str, Any], kind: str, number: int) -> Path:
    return Path(item["facts"]).parent / f"{kind}-{number}"


@contextmanager
def _new(target: Path) -> Iterator[Path]:
    """A folder of this task's own, which becomes `target` unless another worker was first."""
    partial = target.with_name(f"{target.name}.{socket.gethostname()}-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        yield partial
        try:
            partial.rename(target)
        except OSError:
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
