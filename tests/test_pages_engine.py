"""The report on an engine: the page of one process to the byte, also after a kill, and bad input in one line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.conftest import Run
from tests.test_engines import tasks_run_here
from tuplet import Graph, InputError
from tuplet.engines._engine import Local
from tuplet.evaluation import describe
from tuplet.graph.synth import block_model
from tuplet.io import remote
from tuplet.io.folder import open_graph, save_graph
from tuplet.io.vectors import write_vectors
from tuplet.pages import _tasks, features, layout, report

N, KINDS = 500, {"near", "columns", "marks", "telling"}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some hundred blocks of features, and neighbours by cells."""
    for module in (features, describe):
        monkeypatch.setattr(module, "_BLOCK", 60)
    monkeypatch.setattr(layout, "_BLOCK", 20_000)
    monkeypatch.setattr(layout, "EXACT_UP_TO", 300)
    monkeypatch.setattr(layout, "REDUCED", 6)


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kind of each task that was mapped."""
    seen: list[str] = []
    plain = Local.map

    def noted(self: Local, task: Any, items: Any, tick: Any = None) -> list[Any]:
        seen.extend(Path(item["folder"]).name for item in items)
        return plain(self, task, items, tick)

    monkeypatch.setattr(Local, "map", noted)
    return seen


@pytest.fixture
def here() -> Iterator[None]:
    with tasks_run_here():
        yield


def graph() -> Graph:
    g = block_model([200, 180, 120], n_features=12, signal=3.0, seed=0)
    x = np.asarray(g.x).copy()
    x[:, :4] = np.abs(x[:, :4]) * (x[:, :4] > 0.5)  # what nodes have or lack
    return g.with_(x=x)


def vectors() -> Any:
    return np.random.default_rng(1).standard_normal((N, 9)).astype(np.float32)


@pytest.mark.parametrize("kind", ["stored", "in memory", "sparse", "no features"])
@pytest.mark.usefixtures("small_blocks", "here")
def test_the_page_has_the_bytes_of_one_process(kind: str, tasks: list[str], tmp_path: Path) -> None:
    g = graph()
    if kind == "stored":
        g = open_graph(save_graph(g, tmp_path / "graph"))
    elif kind != "in memory":
        g = g.with_(x=sp.csr_array(np.asarray(g.x)) if kind == "sparse" else None, feature_names=())
    pages = [tmp_path / name / "r.html" for name in ("plain", "engine")]
    told: list[tuple[str, float]] = []
    for page, engine in zip(pages, ("local", "ray")):
        page.parent.mkdir()
        report(vectors(), g, page, clusters=3, engine=engine, progress=lambda *part: told.append(part))
    assert pages[0].read_bytes() == pages[1].read_bytes()
    assert set(tasks) == (KINDS if kind in ("stored", "in memory") else {"near"})
    assert min(tasks.count(name) for name in set(tasks)) > 8
    assert [path.name for path in pages[1].parent.iterdir()] == ["r.html"]
    assert {f"engine: {name}" for name in set(tasks)} <= {phase for phase, _ in told}


@pytest.mark.usefixtures("small_blocks", "here")
def test_a_driver_that_was_killed_uses_what_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ctrl-C leaves what a kill leaves; then other vectors, which leave only the columns' sums as they were."""
    g, page = open_graph(save_graph(graph(), tmp_path / "graph")), tmp_path / "r.html"
    plain = report(vectors(), g, tmp_path / "plain.html", clusters=3).read_bytes()

    def stopped(phase: str, part: float) -> None:
        if phase == "engine: telling" and part > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        report(vectors(), g, page, clusters=3, engine="ray", progress=stopped)
    work = tmp_path / ".r.html.parts"
    before = {path: path.stat().st_mtime_ns for path in work.glob("*/found-*")}
    assert {path.parent.name for path in before} == KINDS and not page.exists()
    found: dict[Path, int] = {}
    read = _tasks._read
    monkeypatch.setattr(_tasks, "_read", lambda path: found.update({path: path.stat().st_mtime_ns}) or read(path))
    monkeypatch.setattr("tuplet.pages._tasks.shutil.rmtree", lambda *_, **__: None)
    assert report(vectors(), g, page, clusters=3, engine="ray").read_bytes() == plain
    assert before.items() <= found.items()
    monkeypatch.undo()
    with tasks_run_here():
        other = report(vectors()[::-1], g, page, clusters=3, engine="ray").read_bytes()
    assert other == report(vectors()[::-1], g, tmp_path / "o.html", clusters=3).read_bytes() != plain


def test_parts_in_a_bucket_give_the_page_of_one_process(
    bucket: str, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUPLET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tuplet.io._vector_parts.PART_BYTES", 100 * 9 * 4)
    write_vectors(f"{tmp_path}/v/", vectors())
    remote.upload(tmp_path / "v", f"{bucket}/v")
    save_graph(graph(), tmp_path / "graph")
    remote.upload(tmp_path / "graph", f"{bucket}/graph")
    words = ("-k", "3", "-q", "--engine")
    code, _, err = run(
        "report", f"{tmp_path}/v/", "--graph", f"{tmp_path}/graph", *words, "local", "-o", f"{tmp_path}/a.html"
    )
    assert code == 0, err
    with tasks_run_here():
        for i, place in enumerate((str(tmp_path), bucket)):
            page = tmp_path / f"{i}.html"
            code, _, err = run("report", f"{place}/v/", "--graph", f"{place}/graph", *words, "ray", "-o", str(page))
            assert code == 0, err
            assert page.read_bytes() == (tmp_path / "a.html").read_bytes()


@pytest.mark.parametrize(
    ("engine", "words"),
    [("rya", "engine 'rya' is not known"), ("ray://127.0.0.1:9", "ray://127.0.0.1:9 cannot be reached")],
)
def test_bad_engines_are_refused_in_one_line(engine: str, words: str, run: Run, tmp_path: Path) -> None:
    if "//" in engine:
        pytest.importorskip("ray", reason="Ray is not installed: pip install 'tuplet[cluster]'")
    write_vectors(tmp_path / "v.parquet", vectors())
    save_graph(graph(), tmp_path / "graph")
    page = tmp_path / "r.html"
    given = ("report", str(tmp_path / "v.parquet"), "--graph", str(tmp_path / "graph"), "-o", str(page), "-q")
    code, _, err = run(*given, "--engine", engine)
    assert code == 1 and words in err and err.count("\n") == 1, err
    assert not page.exists()


@pytest.mark.usefixtures("here")
def test_a_damaged_result_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(phase: str, part: float) -> None:
        if phase == "neighbours":
            raise KeyboardInterrupt

    g, page = graph(), tmp_path / "r.html"
    with pytest.raises(KeyboardInterrupt):
        report(vectors(), g, page, clusters=3, engine="ray", progress=stopped)
    found = next((tmp_path / ".r.html.parts" / "near").glob("found-*"))
    found.write_bytes(found.read_bytes()[:100])
    with pytest.raises(
        InputError, match=r"found-.* is damaged .* Remove the folder .*r\.html\.parts and start again"
    ):
        report(vectors(), g, page, clusters=3, engine="ray")
