"""Where a rung of the scale ladder keeps its arrays, in memory or in a folder, and how much disk it takes."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet._memory import free_memory
from tuplet.bench.rmat import nodes_of
from tuplet.bench.spec import Job, digest


@dataclass
class WorkFolder:
    """Where a rung keeps its arrays: `folder` is None in memory; `kept` folders survive a kill and an error;
    `inputs`: whether graph and features lie there too.
    """

    folder: Path | None
    kept: bool
    inputs: bool = True

    @classmethod
    def choose(cls, job: Job, settings: Mapping[str, Any], *, streamed: bool) -> WorkFolder:
        """In memory where it fits or is asked for, else in a folder; `streamed` as in `rung_bytes`."""
        need = rung_bytes(nodes_of(job.dataset), settings, streamed=streamed)
        if settings["store"] == "memory" or (settings["store"] == "auto" and need < 0.4 * free_memory()):
            return cls(None, kept=False)
        inputs = settings["store"] != "results"
        root = os.environ.get("TUPLET_WORK") if inputs else None
        name = f"{job.dataset}-{job.seed}-{digest(dict(job.settings))}"
        folder = Path(root) / name if root else Path(tempfile.mkdtemp(prefix=f"tuplet-{name}-"))
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free + _size(folder)
        if free < need:
            with suppress(OSError):  # not empty: an earlier run's
                folder.rmdir()
            raise InputError(
                f"{job.dataset} needs {need / 1e9:.1f} GB of disk but {folder} has {free / 1e9:.1f} GB free. "
                "Point TUPLET_WORK to a larger disk, or take fewer features or float16."
            )
        return cls(folder, kept=root is not None, inputs=inputs)

    def array(self, name: str, shape: tuple[int, int], dtype: str) -> NDArray[Any]:
        """A new array, in memory or on disk."""
        if self.folder is None or (name == "x" and not self.inputs):
            return np.empty(shape, dtype)
        return np.lib.format.open_memmap(self.folder / f"{name}.npy", mode="w+", dtype=dtype, shape=shape)

    def path(self, name: str) -> Path | None:
        """The file for `name`, or None in memory."""
        return None if self.folder is None else self.folder / name

    def leave(self) -> None:
        """Delete a temporary folder; one under TUPLET_WORK stays until the rung is done."""
        if self.folder is not None and (not self.kept or (self.folder / "done").exists()):
            shutil.rmtree(self.folder, ignore_errors=True)


def rung_bytes(n: int, settings: Mapping[str, Any], *, streamed: bool = True) -> int:
    """The most bytes of a rung on disk at one time: edges, features, the filter's column blocks, filtered rows; of
    results alone the rows and as many bytes of vectors (the filter itself looks whether its blocks fit). A method
    that is not `streamed` from disk to disk leaves edges and features there alone.
    """
    edges = 2 * n * settings["edges_per_node"] * 4 + 8 * n
    rows = n * settings["n_features"] * np.dtype(settings["dtype"]).itemsize
    if not streamed:
        return int(rows + edges)
    return int(2 * rows if settings["store"] == "results" else 3 * rows + edges)


class DiskPeak:
    """The largest size of `folder` while inside, looked at once a second and at the end, in `bytes`."""

    def __init__(self, folder: Path | None) -> None:
        self.folder, self.bytes, self.ended = folder, 0, threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def _look(self) -> None:
        self.bytes = max(self.bytes, _size(self.folder))

    def _watch(self) -> None:
        while not self.ended.wait(1.0):
            self._look()

    def __enter__(self) -> DiskPeak:
        self._look()
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.ended.set()
        self.thread.join()
        self._look()


def _size(folder: Path | None) -> int:
    if folder is None:
        return 0
    total = 0
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError):  # files come and go while others look
            total += file.stat().st_size if file.is_file() else 0
    return total
