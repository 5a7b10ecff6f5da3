"""Fixtures that many tests share: where the real data lies, and small graphs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests import servers
from tuplet._files import json_sum
from tuplet.graph import Graph


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with the eight real graphs; tests that need it skip where it is absent."""
    folder = os.environ.get("TUPLET_DATA")
    if not folder or not (Path(folder) / "cora.npz").is_file():
        pytest.skip("TUPLET_DATA does not point to the folder with the eight graphs (cora.npz, ..)")
    return Path(folder)


@pytest.fixture(scope="session")
def s3_address() -> Iterator[str]:
    """The address of an S3 server."""
    with servers.s3() as address:
        yield address


@pytest.fixture(scope="module")
def bucket(s3_address: str) -> Iterator[str]:
    """The URI of a bucket for the tests of a module."""
    with pytest.MonkeyPatch.context() as patch:
        yield servers.new_bucket(s3_address, patch)


def anywhere(n: int, k: int, seed: int = 0) -> np.ndarray:
    """True for k of n nodes, drawn anywhere: a prefix would hide mistakes between positions and node numbers."""
    return np.random.default_rng(seed).permutation(np.arange(n) < k)


def random_graph(
    n: int = 30,
    f: int = 7,
    *,
    p: float = 0.15,
    seed: int = 0,
    weighted: bool = False,
    directed: bool = False,
    k: int = 3,
) -> Graph:
    """An Erdos-Renyi graph with Gaussian features and random labels, at least one isolated node likely."""
    rng = np.random.default_rng(seed)
    mask = rng.random((n, n)) < p
    np.fill_diagonal(mask, False)
    adj = mask * (rng.random((n, n)) + 0.5 if weighted else 1.0)
    x = rng.normal(size=(n, f)).astype(np.float32)
    y = rng.permutation(np.arange(n) % k)
    return Graph.from_scipy(sp.csr_array(adj), x, y, directed=directed)


@pytest.fixture
def small_graph() -> Graph:
    """30 nodes, 7 features, 3 classes."""
    return random_graph()


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Call `tuplet ARGS`; gives the exit code, standard output and standard error."""

    def call(*args: object) -> tuple[int, str, str]:
        from tuplet.cli._verbs import run as run_verb

        monkeypatch.setattr(sys, "argv", ["tuplet", *map(str, args)])
        code: object = 0
        try:
            run_verb()
        except SystemExit as stop:
            code = stop.code or 0
        out = capsys.readouterr()
        return int(str(code)), out.out, out.err

    return call


@pytest.fixture(scope="session")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors of Cora by a training-free method: quick and good enough to measure."""
    from tuplet import load_dataset
    from tuplet.io.vectors import write_vectors
    from tuplet.models.registry import make_estimator

    graph = load_dataset("cora")
    path = tmp_path_factory.mktemp("cli") / "vectors.parquet"
    write_vectors(path, make_estimator("FilterSVD").fit_transform(graph), graph.node_ids)
    return path


def write_json(file: Path, value: dict[str, Any]) -> None:
    """A table as JSON, its own checksum made to fit: its content must be judged."""
    file.write_text(json.dumps({**value, "sum": json_sum(value)}))
