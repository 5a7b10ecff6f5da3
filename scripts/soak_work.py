"""The work of one round of soak.py: every kind of thing that a long-lived process would do."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tuplet
from tuplet.cli._verbs import run as command_line
from tuplet.graph.synth import block_model
from tuplet.io.convert import convert
from tuplet.io.folder import open_graph, save_graph
from tuplet.io.vectors import read_vectors, write_vectors

INPUTS = 8  # a round takes the next one; the same input gives the same bits
SIZES = [(150, 100, 50), (60, 40), (400, 300, 200, 100), (90, 90, 90)]


def digest(array: Any) -> str:
    """A short checksum of an array."""
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=8).hexdigest()


def one_round(number: int, own: Path, shared: Path) -> dict[str, str]:
    """All kinds of work, once: name -> checksum of what came out."""
    which = number % INPUTS
    graph = block_model(list(SIZES[which % len(SIZES)]), seed=which)
    parts = [tables(graph, own), models(graph, own), resumed(graph, own), command(graph, own, page=number % 40 == 1)]
    parts.append(refused(graph, own))
    found = {name: value for part in parts for name, value in part}
    return found | dict(in_one_place(shared))


def write_csv(graph: Any, folder: Path) -> tuple[Path, Path]:
    """Edges and features as CSV."""
    edges, nodes = folder / "edges.csv", folder / "nodes.csv"
    rows = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))
    edges.write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in zip(rows, graph.indices) if a < b))
    x = graph.x.toarray() if hasattr(graph.x, "toarray") else np.asarray(graph.x)
    header = ",".join(f"f{i}" for i in range(8))
    nodes.write_text(f"id,{header}\n" + "".join(f"{i},{','.join(map(str, row[:8]))}\n" for i, row in enumerate(x)))
    return edges, nodes


def tables(graph: Any, folder: Path) -> Iterator[tuple[str, str]]:
    """CSV read and converted, graph folders written and opened."""
    edges, nodes = write_csv(graph, folder)
    yield "read", digest(tuplet.read_graph(edges, nodes).x)
    yield "convert", digest(convert(edges, folder / "g", features=nodes, memory="100MB", overwrite=True).indices)
    yield "folder", digest(open_graph(save_graph(graph, folder / "h", overwrite=True), verify=True).indices)


def models(graph: Any, folder: Path) -> Iterator[tuple[str, str]]:
    """Methods fitted, saved, loaded and used; their vectors written, read, clustered and classified."""
    k = len(np.unique(graph.y))
    ours: list[Any] = [tuplet.DMATi((16, 8), max_steps=10), tuplet.DMAT((16, 8), max_steps=5)]
    ours += [tuplet.SelfDMAT(k, max_steps=5, n_init=3), tuplet.baselines.FilterSVD()]
    for model in ours:
        name = type(model).__name__
        z = model.fit(graph).embedding_
        model.save(folder / "model")
        yield f"{name} fitted", digest(z)
        yield f"{name} loaded", digest(tuplet.load(folder / "model").transform(graph))
        write_vectors(folder / "v.parquet", z, graph)
        yield f"{name} written", digest(read_vectors(folder / "v.parquet").z)
    yield "clusters", digest(tuplet.cluster_nodes(z, graph, seed=0, n_init=3).labels)
    yield "classes", str(tuplet.classify_nodes(z, graph, seed=0).values)


def resumed(graph: Any, folder: Path) -> Iterator[tuple[str, str]]:
    """Training from a checkpoint, and filtered rows from a cache."""
    for steps in (5, 10):
        model = tuplet.DMATi((8,), max_steps=steps, batch_size=64, cache=folder / "rows")
        model.fit(graph, checkpoint=folder / "run", resume=steps > 5)
    yield "resumed", digest(model.embedding_)
    for place in (folder / "run", folder / "rows"):
        for file in place.iterdir():
            file.unlink()


def command(graph: Any, folder: Path, *, page: bool) -> Iterator[tuple[str, str]]:
    """The command line, in this process; `page`: with the page of a report, ten times as long."""
    run(["info", folder / "h", "-q"])
    run(["embed", folder / "h", "-o", folder / "c.parquet", "--method", "FilterSVD", "-q"])
    if page:
        run(["report", folder / "c.parquet", "-g", folder / "h", "-o", folder / "r.html", "-q"])
    yield "embed", digest(read_vectors(folder / "c.parquet").z)
    run(["embed", folder / "h", "-o", folder / "no-such-folder" / "c.parquet", "-q"], code=1)


def run(words: list[Any], code: int = 0) -> None:
    """One command; its exit code must be `code`."""
    sys.argv = ["tuplet", *map(str, words)]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            command_line()
            ended: Any = 0
        except SystemExit as end:
            ended = end.code or 0
    if ended != code:
        raise RuntimeError(f"{words} ended with {ended}: {said.getvalue()[-300:]}")


def refused(graph: Any, folder: Path) -> Iterator[tuple[str, str]]:
    """Damaged and missing files: an InputError each."""
    place = save_graph(graph, folder / "damaged", overwrite=True)
    bytes_ = bytearray((place / "indices.npy").read_bytes())
    bytes_[-3] ^= 0x40
    (place / "indices.npy").write_bytes(bytes_)
    model = json.loads((folder / "model" / "model.json").read_text()) | {"class": "os:system"}
    (folder / "model" / "model.json").write_text(json.dumps(model))
    (folder / "cut.parquet").write_bytes((folder / "v.parquet").read_bytes()[:-20])
    readers: list[Any] = [lambda: open_graph(place, verify=True), lambda: tuplet.load(folder / "model")]
    readers += [lambda: read_vectors(folder / "cut.parquet"), lambda: tuplet.read_graph(folder / "none.csv")]
    for number, read in enumerate(readers):
        try:
            read()
        except tuplet.InputError:
            yield f"refused {number}", "yes"
        else:
            yield f"refused {number}", "no"


@contextlib.contextmanager
def told_who_holds_it() -> Iterator[None]:
    """A writer may be refused by one that is at work, if it is told which process that is."""
    try:
        yield
    except tuplet.InputError as error:
        if "is being written by" not in str(error):
            raise


def prepare(shared: Path) -> None:
    """What in_one_place finds at the start."""
    edges, _ = write_csv(block_model([80, 60], seed=99), shared)
    convert(edges, shared / "g", memory="100MB")


def in_one_place(shared: Path) -> Iterator[tuple[str, str]]:
    """Files that all processes write and read at once: every reader sees one whole state of them."""
    graph, edges = block_model([80, 60], seed=99), shared / "edges.csv"
    with told_who_holds_it():
        convert(edges, shared / "g", memory="100MB", overwrite=True)
    model = tuplet.DMATi((8,), max_steps=3, cache=shared / "rows").fit(graph)
    yield "shared rows", digest(model.embedding_)
    with told_who_holds_it():
        model.save(shared / "model")
    yield "shared model", digest(tuplet.load(shared / "model").transform(graph))
    write_vectors(shared / "v.parquet", model.embedding_, graph)
    yield "shared vectors", digest(read_vectors(shared / "v.parquet").z)
    yield "shared graph", digest(open_graph(shared / "g").indices)


KEPT = {"edges.csv", "nodes.csv", "g", "h", "model", "v.parquet", "run", "rows", "c.parquet", "r.html", "damaged"}
KEPT |= {"cut.parquet"}


def left_over(folder: Path) -> list[str]:
    """Names in the folder that no work leaves there."""
    return sorted(path.name for path in folder.iterdir() if path.name not in KEPT)
