"""SelfDMAT's arrays of n rows as files: what a fit with a memory budget, a cache or a checkpoint works with."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tuplet._check import InputError, parse_bytes
from tuplet._files import content_key, locked
from tuplet._progress import silent
from tuplet.graph import Graph
from tuplet.models._cost import filtered_columns
from tuplet.models._spectrum import Spectrum, has_negative, inverse, rarity, weighted_lengths
from tuplet.models._spectrum_disk import DiskRows
from tuplet.models._spectrum_gpu import spectra_on_device, step_name
from tuplet.models._spectrum_steps import fit_in_steps
from tuplet.models._steps import Steps
from tuplet.models.contract import Progress
from tuplet.rows.blocks import written

_STEPS = 2  # raised when the steps after the filters hold something else: older ones are then made anew
_ELSEWHERE = ("memory", "cache", "device")  # parameters that do not decide the vectors


@dataclass(frozen=True, eq=False)
class Work:
    """The files of one fit of `model`: `rows` for what the filters make, `rest` for what follows."""

    model: Any
    rows: Steps
    rest: Steps

    def features(self, graph: Graph, progress: Progress | None) -> tuple[bool, Any]:
        """Whether no feature is negative, and the weight of each column (f,): three passes over X."""
        tell = progress or silent
        tell("features", 0.0)
        balance = not has_negative(graph.x)
        tell("features", 1 / 3)
        weights = self._weights(graph)
        tell("features", 2 / 3)
        self._before(graph)
        tell("features", 1.0)
        return balance, weights

    def _weights(self, graph: Graph) -> Any:
        return self.rows.array("rarity", lambda: rarity(graph.x))

    def _before(self, graph: Graph) -> Any:
        """1 / the length of each row of X, whose columns are weighted (n,)."""
        return self.rows.array("before", lambda: inverse(weighted_lengths(graph.x, self._weights(graph))))

    def spectra(
        self, graph: Graph, balance: bool, widths: tuple[int, int], progress: Progress | None
    ) -> list[tuple[Spectrum, Any]]:
        """The spectrum of the far and of the near rows, and the rows (n, d) projected on each, memory maps."""
        model, weights, before, found = self.model, self._weights(graph), self._before(graph), []
        filters = model._filters()
        costs = [filtered_columns(w) * one.estimate(graph, width=w).products for one, w in zip(filters, widths)]

        def tick(i: int, part: float) -> None:
            if progress is not None:
                progress("filter", min(1.0, (sum(costs[:i]) + part * costs[i]) / sum(costs)))

        there = spectra_on_device(
            graph, filters, widths, weights, lambda: before,
            balance=balance, seed=model.seed, steps=self.rows, tick=tick,
        )  # fmt: skip
        if there is not None:
            return there
        for i, (one, width) in enumerate(zip(filters, widths)):
            name = f"{step_name(i)}-{width}"
            rows = DiskRows(name, graph, one, weights, before, self.rows, model.memory, partial(tick, i))
            found.append(fit_in_steps(rows, width, balance=balance, seed=model.seed))
            tick(i, 1.0)
        return found

    def kept(self, name: str, some: Callable[[slice], Any], shape: tuple[int, int], sources: Sequence[Any]) -> Any:
        """What `some` makes of the blocks of rows of all `sources`, as a memory map."""

        def write(path: Path) -> None:
            written(path, some, shape, sum(rows.shape[1] for rows in sources), maps=sources)

        return self.rest.rows(name, write)

    def vectors(
        self,
        some: Callable[[slice], Any],
        shape: tuple[int, int],
        width: int,
        maps: Sequence[Any],
        progress: Progress | None,
    ) -> Any:
        """The vectors as a memory map; the last step."""

        def tick(part: float) -> None:
            if progress is not None:
                progress("vectors", part)

        found = self.rest.rows("vectors", lambda path: written(path, some, shape, width, maps=maps, tick=tick))
        self.rest.drop("groups", "near-groups", "learned", "principal", "first-beliefs", "last-beliefs")
        return found


@contextmanager
def work_of(
    model: Any, graph: Graph, checkpoint: str | os.PathLike[str] | None, resume: bool
) -> Iterator[Work | None]:
    """The files of a fit; None where it has neither a memory budget nor a folder: all is held in memory then."""
    if resume and checkpoint is None:
        raise InputError("resume=True needs checkpoint=FOLDER, where an earlier fit left its steps.")
    if checkpoint is None and model.memory is None and model.cache is None:
        yield None
        return
    if model.engine != "local":
        raise InputError(
            f"engine={model.engine!r} does not go with memory, cache or checkpoint, which work on one machine. "
            "Leave them out, or the engine."
        )
    if model.memory is not None:
        parse_bytes(model.memory)
    with ExitStack() as stack:
        base = _base(checkpoint, stack)
        settings = {name: getattr(model, name) for name in ("far", "near", "tol", "seed")}
        key = content_key(repr(settings), [graph.indptr, graph.indices, graph.weights, graph.x])
        folder, again = base / "rows", resume
        if model.cache is not None:
            folder, again = Path(model.cache) / f"selfdmat-{key}", True
            folder.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(folder))
        _check_disk(folder, model.estimate(graph).disk)
        rows = Steps.opened(folder, key, resume=again)
        everything = {name: value for name, value in model.get_params().items() if name not in _ELSEWHERE}
        rest = Steps.opened(base / "rest", f"{_STEPS} {key} {sorted(everything.items())!r}", resume=resume)
        yield Work(model, rows, rest)


def _base(checkpoint: str | os.PathLike[str] | None, stack: ExitStack) -> Path:
    """The folder of the steps: the checkpoint's, held against other processes, or a temporary one."""
    if checkpoint is None:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tuplet-")))
    base = Path(checkpoint)
    base.parent.mkdir(parents=True, exist_ok=True)
    stack.enter_context(locked(base))
    base.mkdir(exist_ok=True)
    return base


def _check_disk(folder: Path, need: int) -> None:
    have = shutil.disk_usage(folder.parent).free
    have += sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    if have < need:
        raise InputError(
            f"The files of this fit take up to {need / 1e9:.3g} GB in {folder}, but only {have / 1e9:.3g} GB are "
            "free. Give a folder with more room (checkpoint=, cache=), a smaller detail=, or free some space."
        )
