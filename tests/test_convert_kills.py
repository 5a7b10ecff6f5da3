"""convert killed anywhere: the next run goes on or starts afresh, and the graph is whole, with no stray file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tuplet.io.convert as module
from tuplet import InputError, read_graph
from tuplet.io._convert_job import ConvertJob
from tuplet.io.convert import convert
from tuplet.io.folder import open_graph, save_graph

WHOLE = ["indices.npy", "indptr.npy", "meta.json"]


class Killed(BaseException):
    """Ends the run as a kill would: nothing catches it."""


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    """Each edge once, all weights 1: weights.npy is dropped at the end."""
    pairs = np.random.default_rng(0).permutation(np.argwhere(np.triu(np.ones((300, 300)), 1)))[:4000]
    columns = {"source": pairs[:, 0], "target": pairs[:, 1], "weight": np.ones(4000)}
    pq.write_table(pa.table(columns), tmp_path / "e.parquet")
    return tmp_path / "e.parquet"


@pytest.fixture
def many_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    make = module.Buckets.make.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(module.Buckets, "make", classmethod(lambda cls, *a, **k: make(cls, *a, **{**k, "memory": 1})))


def killed_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, call: int) -> None:
    """The `call`-th call of owner.name ends the run before it does anything."""
    real, count = getattr(owner, name), [0]

    def kill(*args: Any, **options: Any) -> Any:
        count[0] += 1
        if count[0] == call:
            raise Killed
        return real(*args, **options)

    monkeypatch.setattr(owner, name, kill)


@pytest.mark.parametrize(
    ("owner", "name", "call"),
    [
        (module, "remove_bucket", 3),  # between state and clean-up
        (module, "write_meta", 1),  # after weights.npy was dropped
        (module, "_all_ones", 1),
        (module, "sort_bucket", 4),
        (ConvertJob, "save", 2),
        (ConvertJob, "save", 3),
        (ConvertJob, "finish", 1),
        (module, "save_array", 1),
    ],
)
def test_a_killed_run_goes_on_and_leaves_no_stray_file(
    tmp_path: Path, edges: Path, many_buckets: None, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, call: int
) -> None:
    labels = tmp_path / "y.parquet"
    pq.write_table(pa.table({"id": np.arange(300), "label": np.arange(300) % 3}), labels)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        killed_at(patch, owner, name, call)
        convert(edges, tmp_path / "g", labels=labels, unmatched="drop")
    assert not (tmp_path / "g").exists()
    phases: list[str] = []
    g = convert(
        edges, tmp_path / "g", labels=labels, unmatched="drop", progress=lambda phase, _: phases.append(phase)
    )
    assert g.fingerprint() == read_graph(edges, labels=labels, unmatched="drop").fingerprint()
    assert files(tmp_path / "g") == sorted([*WHOLE, "y.npy"]) and g.weights is None
    assert files(tmp_path) == ["e.parquet", "g", "y.parquet"]
    open_graph(tmp_path / "g", verify=True)
    if name in ("write_meta", "_all_ones", "finish"):
        assert not phases  # nothing was done again


@pytest.mark.parametrize("other", ["labels", "directed", "label", "memory"])
def test_other_options_do_not_take_over_old_work(tmp_path: Path, edges: Path, other: str) -> None:
    def labels(shift: int) -> Path:
        path = tmp_path / f"y{shift}.parquet"
        kind = np.arange(300) % 3
        pq.write_table(pa.table({"id": np.arange(300), "label": (kind + shift) % 3, "kind": kind}), path)
        return path

    first: dict[str, Any] = {"labels": labels(0), "unmatched": "drop", "label": "label"}
    second = first | {"labels": {"labels": labels(1)}, "directed": {"directed": True}, "label": {"label": "kind"},
                      "memory": {"memory": "100MB"}}[other]  # fmt: skip
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        killed_at(patch, module, "write_meta", 1)
        convert(edges, tmp_path / "g", **first)
    g = convert(edges, tmp_path / "g", **second)
    second.pop("memory", None)
    expected = read_graph(edges, **second)
    assert g.y is not None and g.y.tolist() == expected.y.tolist() and g.directed == expected.directed  # type: ignore[union-attr]


RUN = """
import sys, time
from tuplet.io.convert import convert
def slow(phase, fraction):
    print(phase, flush=True)
    time.sleep(float(sys.argv[3]))
convert(sys.argv[1], sys.argv[2], progress=slow, overwrite=True)
"""


def start(edges: Path, out: Path, sleep: float) -> subprocess.Popen[str]:
    run = subprocess.Popen([sys.executable, "-c", RUN, str(edges), str(out), str(sleep)], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert run.stdout is not None and run.stdout.readline() == "ids\n"
    return run


def test_a_second_convert_is_told_who_works_and_a_killed_one_is_taken_over(tmp_path: Path, edges: Path) -> None:
    run = start(edges, tmp_path / "g", 60)
    try:
        with pytest.raises(InputError, match=rf"g is being written by process {run.pid}\."):
            convert(edges, tmp_path / "g")
    finally:
        os.kill(run.pid, signal.SIGKILL)
        run.communicate()
    assert convert(edges, tmp_path / "g").fingerprint() == read_graph(edges).fingerprint()
    assert files(tmp_path) == ["e.parquet", "g"] and files(tmp_path / "g") == WHOLE


def test_real_kills_at_random_moments(tmp_path: Path, edges: Path) -> None:
    rng = np.random.default_rng(0)
    for i in range(4):
        run = start(edges, tmp_path / "g", 0.05)
        time.sleep(float(rng.random()) * 0.3)
        os.kill(run.pid, signal.SIGKILL)
        run.communicate()
        g = convert(edges, tmp_path / "g", overwrite=True)
        assert g.fingerprint() == read_graph(edges).fingerprint() and files(tmp_path / "g") == WHOLE, i
        assert files(tmp_path) == ["e.parquet", "g"]


@pytest.mark.parametrize("stage", ["ids", "edges", "rows"])
def test_a_full_disk_is_one_line_and_keeps_the_old_graph(tmp_path: Path, edges: Path, stage: str) -> None:
    from tests.conftest import random_graph

    save_graph(random_graph(), tmp_path / "g")
    old = open_graph(tmp_path / "g").fingerprint()

    def full(phase: str, fraction: float) -> None:
        if phase == stage:
            raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match=r"cannot be written to .*No space left on device") as error:
        convert(edges, tmp_path / "g", overwrite=True, progress=full)
    assert "\n" not in str(error.value)
    assert open_graph(tmp_path / "g", verify=True).fingerprint() == old and files(tmp_path) == ["e.parquet", "g"]


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, edges: Path) -> None:
    change: list[Callable[[], None]] = [lambda: os.utime(edges, ns=(1, 1))]

    def touch(phase: str, fraction: float) -> None:
        if phase == "rows" and change:
            change.pop()()

    with pytest.raises(InputError, match="has changed while it was read"):
        convert(edges, tmp_path / "g", progress=touch)
    assert files(tmp_path) == ["e.parquet"]
