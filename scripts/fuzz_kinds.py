"""The kinds of file that fuzz.py damages: how each is made, and how it is read."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
from fuzz_graph import Kind, small_graph
from fuzz_states import STATES, expect_same

import tuplet
from tuplet.filters import GraphFilter
from tuplet.filters.weights import ppr
from tuplet.graph import Graph
from tuplet.io.convert import convert
from tuplet.io.folder import open_graph, save_graph
from tuplet.io.npz import read_npz, write_npz
from tuplet.io.vectors import read_vectors, write_vectors

_ROWS = "".join(f"n{i % 40:02},n{(i * 7 + 3) % 40:02},{i / 8}\n" for i in range(80))
_NODES = "".join(f"n{i:02},{i * 1.5},{'red' if i % 3 else 'blue'},{i % 4}\n" for i in range(40))
_EDGES = f"source,target,weight\n{_ROWS}"
_FEATURES = f"id,size,colour,label\n{_NODES}"


def _csv(folder: Path) -> None:
    (folder / "edges.csv").write_text(_EDGES)
    (folder / "nodes.csv").write_text(_FEATURES)


def _gz(folder: Path) -> None:
    (folder / "edges.csv.gz").write_bytes(gzip.compress(_EDGES.encode()))


def _zst(folder: Path) -> None:
    with pa.CompressedOutputStream(str(folder / "edges.csv.zst"), "zstd") as file:
        file.write(_EDGES.encode())


def _json_lines(folder: Path) -> None:
    (folder / "edges.jsonl").write_text("".join(json.dumps(row) + "\n" for row in _edge_table().to_pylist()))


def _edge_table() -> Any:
    ends = [row.split(",") for row in _ROWS.splitlines()]
    return pa.table({"source": [a for a, _, _ in ends], "target": [b for _, b, _ in ends],
                     "weight": [float(w) for _, _, w in ends]})  # fmt: skip


def _used(graph: Graph) -> None:
    """A kernel runs over what was read: an index out of range would show."""
    GraphFilter(ppr(0.5), tol=0.1, device="cpu").transform(graph)


def _open_and_use(folder: Path) -> None:
    _used(open_graph(folder))


def _read_npz(path: Path) -> None:
    graph = read_npz(path)
    if graph.x is not None:
        _used(graph)


def _model(method: Callable[[], Any]) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        method().fit(small_graph()).save(folder / "model")

    return make


def _load(folder: Path) -> None:
    tuplet.load(folder).transform(small_graph())


def _checkpoint(folder: Path) -> None:
    _train(folder / "run", resume=False)


def _train(folder: Path, *, resume: bool) -> None:
    tuplet.DMATi((8, 4), max_steps=3, batch_size=16, device="cpu").fit(
        small_graph(), checkpoint=folder, resume=resume
    )


def _convert(path: Path) -> None:
    convert(path, path.parent / "out.graph", features=path.parent / "nodes.csv", memory="100MB")


def _bench_spec(folder: Path) -> None:
    (folder / "spec.toml").write_text(
        'about = "a"\ntask = "clustering"\nseeds = 2\ndatasets = ["cora"]\n\n'
        '[[methods]]\nname = "DMAT-i"\n[methods.settings]\nlr = 1e-3\nlayers = [8, 4]\n'
    )


def _read_spec(path: Path) -> None:
    from tuplet.bench.spec import load_spec

    load_spec(path).jobs()


def _prepared(folder: Path) -> None:
    """A graph folder and a model that know how their table's columns became features."""
    _csv(folder)
    cells = [
        f"n{i:02},{i * 1.5},{'red' if i % 3 else 'blue'},2024-01-{i % 28 + 1:02},big word{i % 5}" for i in range(40)
    ]
    (folder / "nodes.csv").write_text("\n".join(["id,size,colour,day,words", *cells, ""]))
    roles = {"words": "text", "day": "date"}
    graph = tuplet.read_graph(folder / "edges.csv", folder / "nodes.csv", roles=roles)
    save_graph(graph, folder / "g")
    tuplet.DMATi((8, 4), max_steps=2, device="cpu").fit(graph).save(folder / "model")


def _prepare_by_graph(folder: Path) -> None:
    tables = folder.parent / "edges.csv", folder.parent / "nodes.csv"
    tuplet.read_graph(*tables, preparation=open_graph(folder).preparation)


def _prepare_by_model(folder: Path) -> None:
    model = tuplet.load(folder)
    model.transform(tuplet.read_graph(folder.parent / "edges.csv", folder.parent / "nodes.csv", preparation=model))


def _vectors_as(name: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        write_vectors(folder / name, np.eye(40, 5), small_graph(), cluster=np.arange(40) % 4)

    return make


def _graph_toml(folder: Path) -> None:
    _csv(folder)
    (folder / "graph.toml").write_text(
        'edges = "edges.csv"\nfeatures = "nodes.csv"\nlabel = "label"\ndirected = false\nexclude = ["size"]\n'
        '\n[roles]\ncolour = "category"\n'
    )


def _read_graph_toml(path: Path) -> None:
    from tuplet.cli._graph import load_graph

    load_graph(str(path))


def _cached_rows(folder: Path) -> None:
    (folder / "rows").mkdir()
    np.save(folder / "truth.npy", _from_cache(folder / "rows"))


def _from_cache(folder: Path) -> Any:
    return GraphFilter(ppr(0.5), tol=0.1, device="cpu").transform(small_graph(), cache=folder)


def _right_from_cache(folder: Path) -> None:
    expect_same(_from_cache(folder), folder.parent / "truth.npy")


def _bench_rows(folder: Path) -> None:
    from tuplet.bench.rows import append_row, new_row
    from tuplet.bench.spec import load_spec

    _bench_spec(folder)
    for job in load_spec(folder / "spec.toml").jobs():
        append_row(folder / "rows.jsonl", new_row(job, seconds=1.0, peak_mb=1.0, metrics={"accuracy": 70.0}))


def _read_bench_rows(path: Path) -> None:
    from tuplet.bench.rows import done_keys, read_rows

    done_keys(read_rows(path))


KINDS = [
    Kind("csv", "edges.csv", _csv, lambda path: tuplet.read_graph(path, path.parent / "nodes.csv")),
    Kind("csv convert", "edges.csv", _csv, _convert),
    Kind("csv.gz", "edges.csv.gz", _gz, tuplet.read_graph),
    Kind("csv.zst", "edges.csv.zst", _zst, tuplet.read_graph),
    Kind("json lines", "edges.jsonl", _json_lines, tuplet.read_graph),
    Kind("parquet", "e.parquet", lambda folder: pq.write_table(_edge_table(), folder / "e.parquet"),
         tuplet.read_graph),
    Kind("arrow", "e.feather", lambda folder: feather.write_feather(_edge_table(), str(folder / "e.feather")),
         tuplet.read_graph),
    Kind("npz", "g.npz", lambda folder: write_npz(small_graph(), folder / "g.npz"), _read_npz),
    Kind("store", "g", lambda folder: save_graph(small_graph(), folder / "g"), _open_and_use),
    Kind("store, sparse", "g", lambda folder: save_graph(small_graph(sparse=True), folder / "g"), _open_and_use),
    Kind("model", "model", _model(lambda: tuplet.DMATi((8, 4), max_steps=2)), _load),
    Kind("model, self", "model", _model(lambda: tuplet.SelfDMAT(3, max_steps=2, layers=(8, 4), n_init=2)), _load),
    Kind("checkpoint", "run", _checkpoint, lambda folder: _train(folder, resume=True)),
    Kind("preparation, graph", "g", _prepared, _prepare_by_graph, "g/meta.json"),
    Kind("preparation, model", "model", _prepared, _prepare_by_model, "model/*"),
    Kind("filtered rows", "rows", _cached_rows, _from_cache),
    Kind("filtered rows, own sums", "rows", _cached_rows, _right_from_cache, "rows/*", truth=True),
    Kind("vectors parquet", "v.parquet", _vectors_as("v.parquet"), read_vectors),
    Kind("vectors npy", "v.npy", _vectors_as("v.npy"), read_vectors),
    Kind("vectors csv", "v.csv", _vectors_as("v.csv"), read_vectors),
    Kind("graph toml", "graph.toml", _graph_toml, _read_graph_toml, "graph.toml"),
    Kind("bench toml", "spec.toml", _bench_spec, _read_spec),
    Kind("bench rows", "rows.jsonl", _bench_rows, _read_bench_rows, "rows.jsonl"),
    *STATES,
]  # fmt: skip
