"""Damaged files of every kind: a reader gives a result or an InputError, and nothing else."""

from __future__ import annotations

import io
import json
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import random_graph
from tuplet import InputError, read_graph
from tuplet.datasets._unpickle import safe_unpickle
from tuplet.io.convert import convert
from tuplet.io.folder import open_graph, save_graph
from tuplet.io.npz import read_npz, write_npz
from tuplet.io.vectors import read_vectors, write_vectors

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
CELLS = st.sampled_from(
    ["a", "b", "1", "2", "-3", "0.5", "", "nan", "inf", "é", '"', "x y", "#", "1e400", "\x00", "true"]
)
LINES = st.lists(st.lists(CELLS, max_size=4).map(",".join), max_size=8).map("\n".join)


def only_input_errors(call: Callable[[], Any]) -> None:
    try:
        call()
    except InputError as error:
        assert str(error).strip()


def damaged(data: bytes) -> st.SearchStrategy[bytes]:
    """The bytes with some changed, cut out or repeated."""
    place = st.integers(0, max(0, len(data) - 1))

    def apply(edits: list[tuple[int, int, int]]) -> bytes:
        out = bytearray(data)
        for kind, where, value in edits:
            where %= max(1, len(out))
            if kind == 0 and out:
                out[where] = value
            elif kind == 1:
                del out[where:]
            elif kind == 2:
                del out[where : where + value]
            else:
                out[where:where] = bytes([value]) * 3
        return bytes(out)

    return st.lists(st.tuples(st.integers(0, 3), place, st.integers(0, 255)), min_size=1, max_size=4).map(apply)


def made(suffix: str, write: Callable[[Path], Any]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / f"file{suffix}")
        return (Path(folder) / f"file{suffix}").read_bytes()


def with_file(name: str, data: bytes, call: Callable[[Path], Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        only_input_errors(lambda: call(path))


GRAPH = random_graph(12, 3, weighted=True).with_(ids=np.array([f"n{i}" for i in range(12)]))
TABLE = pa.table({"source": ["a", "b", "c"] * 9, "target": ["b", "c", "a"] * 9, "weight": np.arange(27) / 2})
NPZ = made(".npz", lambda path: write_npz(GRAPH, path))
SCIPY = made(".npz", lambda path: sp.save_npz(path, sp.csr_matrix(GRAPH.adj), compressed=False))
PARQUET = made(".parquet", lambda path: pq.write_table(TABLE, path))
FEATHER = made(".feather", lambda path: feather.write_feather(TABLE, str(path), compression="uncompressed"))
VECTORS = made(".parquet", lambda path: write_vectors(path, np.eye(4), list("abcd"), cluster=np.arange(4)))
PICKLE = pickle.dumps({"graph": {0: [1], 1: [0]}, "x": sp.csr_matrix(np.eye(2)), "y": np.eye(2)}, protocol=2)


@QUICK
@given(
    LINES, LINES, st.sampled_from(["error", "zero", "mean", "propagate"]), st.sampled_from(["error", "keep", "drop"])
)
def test_random_text(edges: str, features: str, missing: str, unmatched: str) -> None:
    only_input_errors(lambda: read_graph(io.BytesIO(edges.encode())))
    both = [io.BytesIO(text.encode()) for text in (edges, features)]
    only_input_errors(lambda: read_graph(*both, missing=missing, unmatched=unmatched))


@QUICK
@given(damaged(b"source,target,weight\na,b,1\nb,c,2.5\n# note\nc,a,3\n" * 2))
def test_damaged_csv(data: bytes) -> None:
    with_file("e.csv", data, read_graph)


@settings(QUICK, max_examples=15)
@given(damaged(b"source,target\n1,2\n2,3\n3,1\n"))
def test_damaged_csv_in_convert(data: bytes) -> None:
    with_file("e.csv", data, lambda path: convert(path, path.parent / "g"))


@QUICK
@given(st.one_of(damaged(NPZ), damaged(SCIPY), st.binary(max_size=200)))
def test_damaged_npz(data: bytes) -> None:
    with_file("g.npz", data, read_npz)


@QUICK
@given(st.one_of(damaged(PARQUET), st.binary(max_size=100)))
def test_damaged_parquet(data: bytes) -> None:
    with_file("e.parquet", data, read_graph)


@QUICK
@given(damaged(FEATHER))
def test_damaged_feather(data: bytes) -> None:
    with_file("e.feather", data, read_graph)


@QUICK
@given(damaged(VECTORS))
def test_damaged_vectors(data: bytes) -> None:
    with_file("v.parquet", data, read_vectors)


@QUICK
@given(damaged(b"id,v0,v1,cluster\na,1,2,0\nb,3,4,1\n"))
def test_damaged_vectors_csv(data: bytes) -> None:
    with_file("v.csv", data, read_vectors)


@QUICK
@given(damaged(PICKLE))
def test_damaged_pickles(data: bytes) -> None:
    only_input_errors(lambda: safe_unpickle(data, "a file"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 40) | st.floats(allow_nan=True) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def store_files() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = save_graph(GRAPH, Path(folder) / "g")
        return {file.name: file.read_bytes() for file in path.iterdir()}


STORE = store_files()


def with_store(changes: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, data in (STORE | changes).items():
            (Path(folder) / name).write_bytes(data)
        only_input_errors(lambda: open_graph(folder, check=True))


@QUICK
@given(st.sampled_from(["format", "version", "arrays", "nodes", "x_shape", "directed", "label_names", "name"]), JSON)
def test_damaged_meta(key: str, value: Any) -> None:
    with_store({"meta.json": json.dumps(json.loads(STORE["meta.json"]) | {key: value}).encode()})


@QUICK
@given(st.sampled_from(sorted(STORE)).flatmap(lambda name: st.tuples(st.just(name), damaged(STORE[name]))))
def test_damaged_store(change: tuple[str, bytes]) -> None:
    with_store(dict([change]))
