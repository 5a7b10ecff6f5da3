"""More kinds of file for fuzz.py: what long and shared work leaves on disk, and must not take back damaged.

States of interrupted work (`truth=True`) carry checksums that are not made to fit: whoever goes on from them gives
the vectors, rows or labels of a run that nobody disturbed, or says in one line that they are damaged.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_graph import Kind, small_graph

import tuplet
from tuplet.engines.workers import Team
from tuplet.filters import GraphFilter, _disk, _run, row_groups
from tuplet.filters.weights import ppr
from tuplet.io import _vector_parts, cluster_parts
from tuplet.io.folder import map_graph, save_graph
from tuplet.io.vectors import read_vectors, write_vectors
from tuplet.models import _selfdmat_disk

FILTER = GraphFilter(ppr(0.5), tol=0.1, device="cpu")


class Stopped(Exception):
    """Work that was interrupted on purpose."""


def _stop(*args: Any, **more: Any) -> Any:
    raise Stopped


@contextmanager
def patched(place: Any, **names: Any) -> Iterator[None]:
    """Other values for some names of a module or class."""
    before = {name: getattr(place, name) for name in names}
    for name, value in names.items():
        setattr(place, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(place, name, value)


def stopped(place: Any, name: str, work: Callable[[], Any]) -> None:
    """Let `work` run until it calls `place.name`."""
    with suppress(Stopped), patched(place, **{name: _stop}):
        work()


def expect_same(found: Any, truth: Path) -> None:
    """Raise unless the array has the values that lie in `truth`."""
    if not np.array_equal(np.asarray(found), np.load(truth)):
        raise AssertionError("another result than without the damage")


def _parts(folder: Path) -> None:
    with patched(_vector_parts, PART_BYTES=320):
        write_vectors(f"{folder}/v/", np.eye(40, 5), small_graph(), cluster=np.arange(40) % 4)


def _cluster(folder: Path) -> Any:
    # a sample smaller than the table: there are steps to keep; and the copies of a file are one file
    with patched(cluster_parts, sample_size=lambda k: 12, _identity=lambda path: path.name):
        cluster_parts.cluster_parts(folder / "v", 3, folder / "c", n_init=2)
    return read_vectors(folder / "c").cluster


def _cluster_state(folder: Path) -> None:
    """Vectors, the labels of a whole run, and the state of one that was stopped before it wrote."""
    _parts(folder)
    np.save(folder / "truth.npy", _cluster(folder))
    shutil.rmtree(folder / "c")
    stopped(cluster_parts, "new_folder", lambda: _cluster(folder))


def _cluster_on(folder: Path) -> None:
    expect_same(_cluster(folder.parent), folder.parent / "truth.npy")


def _by_groups(folder: Path, out: Path) -> Any:
    graph, key = map_graph(folder)
    row_groups.filter_by_rows(FILTER, graph, out, Team(), key, unit_rows=True)
    return np.load(out)


def _groups_state(folder: Path) -> None:
    save_graph(small_graph(), folder / "g")
    np.save(folder / "truth.npy", _by_groups(folder / "g", folder / "out.npy"))
    (folder / "out.npy").unlink()
    stopped(row_groups, "_join", lambda: _by_groups(folder / "g", folder / "out.npy"))


def _groups_on(folder: Path) -> None:
    expect_same(_by_groups(folder.parent / "g", folder.parent / "out.npy"), folder.parent / "truth.npy")


def _to_disk(folder: Path) -> Any:
    x = np.load(folder / "x.npy", mmap_mode="r")
    narrow, cut = patched(_run, block_width=lambda op, f, *rest: 4), patched(_disk, must_split=lambda *rest: True)
    with narrow, cut, patched(_disk, _CHUNK=500):
        return FILTER.transform(small_graph(), x=x, out=folder / "out.npy")


def _disk_state(folder: Path) -> None:
    np.save(folder / "x.npy", np.random.default_rng(0).normal(size=(40, 12)).astype(np.float32))
    np.save(folder / "truth.npy", _to_disk(folder))
    (folder / "out.npy").unlink()
    stopped(_disk, "finish", lambda: _to_disk(folder))


def _cut_state(folder: Path) -> None:
    _disk_state(folder)
    shutil.rmtree(folder / "out.npy.parts")
    stopped(_disk, "write_block", lambda: _to_disk(folder))


def _disk_on(folder: Path) -> None:
    expect_same(_to_disk(folder.parent), folder.parent / "truth.npy")


def _self(folder: Path, *, resume: bool) -> Any:
    model = tuplet.SelfDMAT(3, max_steps=2, layers=(8, 4), n_init=2)
    return model.fit(small_graph(), checkpoint=folder, resume=resume).embedding_


def _self_state(folder: Path) -> None:
    np.save(folder / "truth.npy", _self(folder / "run", resume=False))
    shutil.rmtree(folder / "run")
    stopped(_selfdmat_disk.Work, "vectors", lambda: _self(folder / "run", resume=False))


def _self_on(folder: Path) -> None:
    expect_same(_self(folder, resume=True), folder.parent / "truth.npy")


def _rows(folder: Path) -> None:
    np.save(folder / "rows.npy", np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32))
    np.save(folder / "labels.npy", np.arange(40) % 3)


def _train(rows: Path) -> None:
    from tuplet.cli.train import _checked
    from tuplet.models.on_rows import fit_on_rows

    params = {"layers": (8, 4), "max_steps": 2, "batch_size": 16}
    model, data, labels = _checked("DMAT", params, rows, rows.with_name("labels.npy"), 0, "cpu")
    fit_on_rows(model, data, labels)


def _tuned(folder: Path) -> None:
    (folder / "spec.toml").write_text(
        'task = "clustering"\nseeds = 2\ndatasets = ["cora"]\n\n[[methods]]\nname = "DMAT-i"\n'
        'settings_from = "chosen.toml"\nsettings = { n_views = 2 }\n[methods.space]\nalpha = [0.05, 0.1]\n'
        '[methods.space.clustering]\n"evaluate.unit_rows" = [true, false]\n'
    )
    (folder / "chosen.toml").write_text(
        '["DMAT-i".cora.clustering]\nalpha = 0.1\nlayers = [8, 4]\nevaluate = { unit_rows = true }\n'
    )


def _read_tuned(path: Path) -> None:
    from tuplet.bench.spec import load_spec
    from tuplet.bench.tune import tuned_cells

    spec = load_spec(path)
    spec.jobs()
    tuned_cells(spec)


def _page(folder: Path) -> None:
    from tuplet.pages import report

    report(np.eye(40, 5), small_graph(), folder / "page.html")


def _read_page(path: Path) -> None:
    from tuplet.pages import _old_places

    _old_places(path)


def _bent(path: Path) -> None:
    _by_groups(path, path.parent / "out.npy")


STATES = [
    Kind("vectors parts", "v", _parts, read_vectors),
    Kind("clusters of parts", "c", _cluster_state, _cluster_on, ".c.clusters/*", truth=True),
    Kind("clusters of parts, bent", "c", _cluster_state, lambda folder: _cluster(folder.parent), ".c.clusters/*"),
    Kind("row groups", "g", lambda folder: save_graph(small_graph(), folder / "g"), _bent),
    Kind("row groups, sparse", "g", lambda folder: save_graph(small_graph(sparse=True), folder / "g"), _bent),
    Kind("row groups, blocks", "out.npy", _groups_state, _groups_on, "out.npy.parts/**/*", truth=True),
    Kind("filter to disk, blocks", "out.npy", _disk_state, _disk_on, "out.npy.parts/*", truth=True),
    Kind("filter to disk, cut", "out.npy", _cut_state, _disk_on, "out.npy.parts/*", truth=True),
    Kind("self, checkpoint", "run", _self_state, _self_on, "run/**/*", truth=True),
    Kind("rows to train on", "rows.npy", _rows, _train),
    Kind("tune toml", "spec.toml", _tuned, _read_tuned),
    Kind("earlier page", "page.html", _page, _read_page),
]
