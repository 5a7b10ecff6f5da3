"""The work folder of a conversion: what is done already, so that an interrupted run can go on."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tuplet._files import open_array, put_in_place
from tuplet.graph import Graph

log = logging.getLogger("tuplet")
Progress = Callable[[str, float], None]


class Job:
    """The work folder and what is done in it; `state` survives an interruption."""

    def __init__(self, place: Path, key: list[Any], progress: Progress | None) -> None:
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
            self.folder.mkdir()
            self.save()

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

    def graph(self, directed: bool, name: str) -> Graph:
        """The graph over the arrays in the work folder."""
        names: Any = {key: tuple(self.state.get(key, ())) for key in ("feature_names", "label_names")}
        arrays: Any = {path.stem: open_array(path) for path in self.folder.glob("*.npy")}
        return Graph(**arrays, directed=directed, name=name, **names)

    def finish(self, place: Path) -> None:
        """Make the work folder the graph folder `place`."""
        (self.folder / "state.json").unlink()
        put_in_place(self.folder, place)

    def remove(self) -> None:
        """Throw the work away."""
        shutil.rmtree(self.folder, ignore_errors=True)
