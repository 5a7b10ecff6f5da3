"""What of a report the nodes of an engine find: nearest nodes, and whatever reads all features.

Inputs and results are files in `.PAGE.parts` beside the page, in a folder for each kind of task. Pieces and blocks
are those of one process, and sums are added in their order, so the page has the same bytes. A driver that was killed
goes on from the results that are there, where the inputs are the same.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet._files import DAMAGE, content_key, locked, new_file, open_array, placed
from tuplet.engines import Engine, connected
from tuplet.evaluation.describe import block_sums
from tuplet.graph import Graph
from tuplet.pages.features import Telling, block_facts, feature_blocks, told_of
from tuplet.pages.layout import Search

_RUNS = 8  # tasks for each place


@contextmanager
def shared(engine: str, page: Path, graph: Graph, progress: Any) -> Iterator[Shared | None]:
    """The work that the nodes of `engine` do for `page`; None for this process."""
    if engine == "local":
        yield None
        return
    work = page.resolve().with_name(f".{page.name}.parts")
    with locked(work), connected(engine) as nodes:
        yield Shared(nodes, work, graph, progress)
        shutil.rmtree(work, ignore_errors=True)


class Shared:
    """The tasks of a report; `x` is the file of the features, None where they are sparse or absent."""

    def __init__(self, nodes: Engine, work: Path, graph: Graph, progress: Any) -> None:
        self.nodes, self.work, self.progress = nodes, work, progress
        dense = graph.x is not None and not sp.issparse(graph.x)
        work.mkdir(exist_ok=True)
        self.x = placed(work, {"x": graph.x})["x"] if dense else None
        self.graph_key = graph.fingerprint() if dense else ""
        (work / "seen").touch()
        nodes.check_sees([work / "seen", *([Path(self.x)] if self.x else [])])

    def near(self, search: Search) -> Iterator[tuple[Any, Any, Any]]:
        """What `search.nearest` gives of every piece."""
        members, candidates = zip(*search.groups)
        arrays = {"z": search.z, **_joined("members", members), **_joined("candidates", candidates)}
        arrays |= {} if search.narrow is None else {"narrow": search.narrow}
        for found in self._run("near", find_near, len(search.pieces()), arrays, {"k": search.k}):
            yield found["some"], found["index"], found["cosine"]

    def columns(self) -> Iterator[tuple[Any, ...]]:
        """The `block_facts` of every block of the features, in order."""
        return self._blocks("columns", {}, {})

    def marks(self, place: NDArray[Any], k: int) -> Iterator[tuple[Any, ...]]:
        """The `block_sums` of every block of the features, in order."""
        return self._blocks("marks", {"place": place}, {"k": k})

    def telling(self, shown: NDArray[np.intp], about: tuple[Any, Any, Any]) -> Telling:
        """The `telling_features` of the nodes `shown`."""
        arrays = {"shown": shown, "about": np.stack(about)}
        found = list(self._run("telling", find_telling, len(shown), arrays, {"x": self.x}))
        return Telling(*(np.concatenate([part[name] for part in found]) for name in ("column", "value")))

    def _blocks(self, kind: str, arrays: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
        count = sum(1 for _ in feature_blocks(open_array(Path(str(self.x)))))
        for found in self._run(kind, find_sums, count, arrays, {**facts, "x": self.x, "kind": kind}):
            yield from zip(*(found[name] for name in ("0", "1", "2", "3")))

    def _run(
        self, kind: str, task: Any, count: int, arrays: Mapping[str, Any], facts: Mapping[str, Any]
    ) -> Iterator[Mapping[str, Any]]:
        """The results of a task over the numbers 0 .. count - 1 in runs, in order."""
        folder = self.work / kind
        key = content_key(self.graph_key + json.dumps(facts), list(arrays.values()))
        _begin(folder, {**facts, "key": key, "count": count})
        for name, array in arrays.items():
            with new_file(folder / f"{name}.npy") as partial, partial.open("wb") as file:
                np.save(file, array)
        ends = np.unique(np.linspace(0, count, min(count, _RUNS * self.nodes.places) + 1).astype(int))
        items = [{"folder": str(folder), "first": int(a), "last": int(b)} for a, b in pairwise(ends)]
        self.nodes.map(task, items, lambda part: self.progress(f"engine: {kind}", part) if self.progress else None)
        return (_read(_result(item)) for item in items)


def find_near(item: Mapping[str, Any]) -> None:
    """Task: the nearest rows of a run of pieces."""
    folder = Path(item["folder"])
    if _result(item).exists():
        return
    arrays = {path.stem: np.load(path) for path in folder.glob("*.npy")}
    groups = list(zip(_parts("members", arrays), _parts("candidates", arrays)))
    search = Search(arrays["z"], _facts(folder)["k"], groups, arrays.get("narrow"))
    found = [search.nearest(piece) for piece in search.pieces()[item["first"] : item["last"]]]
    some, index, cosine = (np.concatenate(part) for part in zip(*found))
    _write(item, some=some, index=index, cosine=cosine)


def find_sums(item: Mapping[str, Any]) -> None:
    """Task: what is added up over a run of blocks of the features, block by block."""
    folder = Path(item["folder"])
    if _result(item).exists():
        return
    facts = _facts(folder)
    blocks = list(feature_blocks(open_array(Path(facts["x"]))))  # views
    start = sum(len(block) for block in blocks[: item["first"]])
    place = open_array(folder / "place.npy") if facts["kind"] == "marks" else None
    found = []
    for block in blocks[item["first"] : item["last"]]:
        own = None if place is None else np.asarray(place[start : start + len(block)])
        found.append(block_facts(block) if own is None else block_sums(block, own, facts["k"]))
        start += len(block)
    _write(item, **{str(i): np.stack(part) for i, part in enumerate(zip(*found))})


def find_telling(item: Mapping[str, Any]) -> None:
    """Task: what tells most of a run of nodes."""
    folder = Path(item["folder"])
    if _result(item).exists():
        return
    x, shown = open_array(Path(_facts(folder)["x"])), np.load(folder / "shown.npy")[item["first"] : item["last"]]
    share, mean, spread = np.load(folder / "about.npy")
    step = max(1, 2**22 // x.shape[1])
    found = [told_of(x[shown[i : i + step]], (share, mean, spread)) for i in range(0, len(shown), step)]
    column, value = (np.concatenate(part) for part in zip(*found))
    _write(item, column=column, value=value)


def _begin(folder: Path, facts: Mapping[str, Any]) -> None:
    """An empty folder with the facts, unless it is there with the same ones, and so with results of theirs."""
    note = folder / "task.json"
    if note.exists() and _facts(folder) == facts:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with new_file(note) as partial:
        partial.write_text(json.dumps(facts))


def _facts(folder: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((folder / "task.json").read_text()))
    except DAMAGE as error:
        raise _damaged(folder / "task.json", error) from None


def _joined(name: str, parts: Any) -> dict[str, NDArray[Any]]:
    """Arrays of many lengths as two: one after the other, and where each ends but the last."""
    return {name: np.concatenate(parts), f"{name}_ends": np.cumsum([len(part) for part in parts])[:-1]}


def _parts(name: str, arrays: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    return np.split(arrays[name], arrays[f"{name}_ends"])


def _result(item: Mapping[str, Any]) -> Path:
    return Path(item["folder"]) / f"found-{item['first']}-{item['last']}.npz"


def _write(item: Mapping[str, Any], **arrays: Any) -> None:
    with new_file(_result(item)) as partial, partial.open("wb") as file:
        np.savez(file, **arrays)


def _read(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
            return {name: found[name] for name in found}
    except DAMAGE as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> InputError:
    return InputError(f"{path} is damaged ({error}). Remove the folder {path.parent.parent} and start again.")
