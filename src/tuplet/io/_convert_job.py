"""The work folder of a conversion: what is done already, so that an interrupted run can go on."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tuplet._files import put_in_place

log = logging.getLogger("tuplet")
Progress = Callable[[str, float], None]


class ConvertJob:
    """The work folder and what is done in it; `state` survives an interruption."""

    def __init__(self, place: Path, key: Any, progress: Progress | None) -> None:
        self.folder, self.progress = place.with_name(f".{place.name}.work"), progress
        self.key = hashlib.blake2b(json.dumps(key, default=str).encode(), digest_size=16).hexdigest()
        self.state: dict[str, Any] = {"key": self.key}
        try:
            found = json.loads((self.folder / "state.json").read_text(encoding="utf-8"))
            if found.get("key") == self.key and len(found) > 1:
                self.state = found
                log.info("going on with the conversion in %s", self.folder)
        except (OSError, ValueError, AttributeError):
            pass
        if len(self.state) == 1:
            self.remove()
            self.buckets.mkdir(parents=True)
            self.save()

    @property
    def buckets(self) -> Path:
        """The folder for edges that are not sorted yet."""
        return self.folder / "buckets"

    def save(self, **changes: Any) -> None:
        """Record what is done, in one step."""
        self.state |= changes
        partial = self.folder / "state.part"
        partial.write_text(json.dumps(self.state), encoding="utf-8")
        partial.replace(self.folder / "state.json")

    def tell(self, phase: str, fraction: float) -> None:
        """Report progress."""
        if self.progress is not None:
            self.progress(phase, fraction)

    def finish(self, place: Path) -> None:
        """Make the work folder the graph folder `place`; nothing but the graph's own files comes along."""
        shutil.rmtree(self.buckets, ignore_errors=True)
        for file in self.folder.iterdir():
            if file.suffix != ".npy" and file.name != "meta.json":
                file.unlink()
        put_in_place(self.folder, place)

    def remove(self) -> None:
        """Throw the work away."""
        shutil.rmtree(self.folder, ignore_errors=True)
