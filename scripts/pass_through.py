"""How many of tuplet's modules and packages a piece of work passes through, and how often it changes between them.

    python scripts/pass_through.py            the three of docs/design.md: tuplet embed, DMATi.fit, a bench job

Every call of a function of tuplet is noted with its module (`sys.setprofile`); a change is a call whose module is
another one than that of the call before. Imports do not count: each piece of work runs once before it is counted.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import tuplet

ROOT = str(Path(tuplet.__file__).parent)


def module_of(file: str) -> str:
    """The module of a file of tuplet; by the file, since compiled kernels have frames without a module's name."""
    parts = Path(file).relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "tuplet"


class Passage:
    """The modules that calls go through, in order, each change once."""

    def __init__(self) -> None:
        self.modules: list[str] = []

    def note(self, frame: FrameType, event: str, argument: Any) -> None:
        """The profile function of `sys.setprofile`."""
        if event == "call" and frame.f_code.co_filename.startswith(ROOT):
            name = module_of(frame.f_code.co_filename)
            if not self.modules or self.modules[-1] != name:
                self.modules.append(name)

    def counts(self) -> tuple[int, int, int, int]:
        """Modules, changes between modules, packages, changes between packages."""
        rooms = [name.split(".")[0] for name in self.modules]
        changes = sum(a != b for a, b in itertools.pairwise(rooms))
        return len(set(self.modules)), len(self.modules) - 1, len(set(rooms)), changes


def passage(work: Callable[[], Any]) -> Passage:
    """The passage of a second run of `work`."""
    work()
    found = Passage()
    sys.setprofile(found.note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def embed() -> None:
    """`tuplet embed cora`, in this process."""
    from tuplet.cli._verbs import run

    with tempfile.TemporaryDirectory() as folder:
        sys.argv = ["tuplet", "embed", "cora", "-o", f"{folder}/v.parquet", "-q"]
        try:
            run()
        except SystemExit as stop:
            assert not stop.code


def fit() -> None:
    """DMATi.fit on Cora, ten steps."""
    tuplet.DMATi(max_steps=10, device="cpu").fit(tuplet.load_dataset("cora"))


def bench_job() -> None:
    """One clustering job of the bench."""
    from tuplet.bench.fitting import Bench
    from tuplet.bench.spec import Job

    Bench("cpu").run(Job("clustering", "cora", "DMAT-i", "all", 0, {"max_steps": 10}))


def main() -> None:
    print("| work | modules | changes | packages | changes |\n|---|---|---|---|---|")
    for name, work in (("`tuplet embed`", embed), ("`DMATi.fit`", fit), ("a bench job", bench_job)):
        print(f"| {name} | " + " | ".join(str(count) for count in passage(work).counts()) + " |", flush=True)


if __name__ == "__main__":
    main()
