"""The steps of a long computation, kept in a folder: each is a file that appears when it is whole, with a checksum.

A run that was killed finds the finished ones and goes on from there. `job.json` says what they belong to.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tuplet._check import InputError, check_out_path
from tuplet._files import open_array, save_array
from tuplet.filters.content import is_kept, keep

log = logging.getLogger("tuplet")


class Steps:
    """Finished steps in `folder`, made by the job that `key` names."""

    def __init__(self, folder: Path, key: str) -> None:
        self.folder, self.key = folder, key

    @classmethod
    def opened(cls, folder: Path, key: str, *, resume: bool) -> Steps:
        """The steps in `folder`; with `resume` those of the same job are kept, all others are thrown away."""
        check_out_path(folder)
        note, known = folder / "job.json", None
        try:
            known = json.loads(note.read_text())["key"] if note.exists() else None
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            known = "damaged"
        if known is None and folder.exists() and any(file.suffix != ".tmp" for file in folder.iterdir()):
            raise InputError(f"{folder} holds something else than a run of tuplet. Choose another folder.")
        if resume and known not in (None, key):
            raise InputError(
                f"{folder} holds the run of another graph or of other settings. Give the same ones, or another "
                "folder to start anew."
            )
        if not resume and folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        if not note.exists():
            unfinished = note.with_suffix(".tmp")
            unfinished.write_text(json.dumps({"format": "tuplet-steps", "key": key}) + "\n")
            unfinished.replace(note)
        return cls(folder, key)

    def array(self, name: str, make: Callable[[], Any]) -> Any:
        """The small array `name`, made unless it is there; in memory."""

        def save(path: Path) -> None:
            unfinished = path.with_suffix(".tmp")
            save_array(unfinished, np.ascontiguousarray(make()))
            unfinished.replace(path)

        return np.array(self.rows(name, save))

    def rows(self, name: str, make: Callable[[Path], None]) -> Any:
        """The array `name` as a memory map; `make(path)` writes it where it is not there, or is damaged."""
        path = self.folder / f"{name}.npy"
        if is_kept(path):
            log.info("going on after %s", path)
        else:
            make(path)
            keep(path, open_array(path))
        return open_array(path)

    def drop(self, *names: str) -> None:
        """Remove steps that no later one needs."""
        for name in names:
            for suffix in (".npy", ".json"):
                (self.folder / f"{name}{suffix}").unlink(missing_ok=True)
