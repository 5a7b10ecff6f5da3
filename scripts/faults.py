"""Deliberate faults: each is put into a copy of the code, and the tests that should notice are run.

    python scripts/faults.py                  all faults; ends with "63 of 63 caught"
    python scripts/faults.py --only links     faults whose name or file has the word
    python scripts/faults.py --list           names only

A fault is a line of `faults.toml`: a file, a text that stands in it once, what to put there, and the tests that must
fail then. A fault whose text is no longer there is an error, so the list follows the code. The copy lies in a
temporary folder; the checkout is not touched.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shlex
import shutil
import sys
import tempfile
import time
import tomllib
import traceback
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FAULTS = Path(__file__).with_name("faults.toml")


@dataclass(frozen=True)
class Fault:
    """In `file` (below src/tuplet) the text `old` becomes `new`; one of `tests` must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: str

    def put_into(self, folder: Path) -> None:
        """Change the copy of the code in `folder`."""
        path = folder / "src" / "tuplet" / self.file
        text = path.read_text()
        if text.count(self.old) != 1:
            raise SystemExit(f"{self.name}: {self.file} has the text {text.count(self.old)} times: {self.old!r}")
        path.write_text(text.replace(self.old, self.new))


def read_faults(word: str = "") -> list[Fault]:
    """The faults of the list, those with `word` in their name or file."""
    found = [Fault(**entry) for entry in tomllib.loads(FAULTS.read_text())["fault"]]
    return [fault for fault in found if word in fault.name or word in fault.file]


def caught(fault: Fault, folder: Path) -> tuple[bool, str]:
    """Whether the tests fail with the fault in place, and the first test that does."""
    shutil.rmtree(folder / "src", ignore_errors=True)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("*.egg-info"))
    fault.put_into(folder)
    output = folder / "output.txt"
    code = _pytest(["-x", "-q", "--no-header", "-p", "no:cacheprovider", *shlex.split(fault.tests)], folder, output)
    text = output.read_text()
    if code not in (0, 1):
        raise SystemExit(f"{fault.name}: the tests did not run (exit code {code}).\n{text[-2000:]}")
    first = next((line for line in text.splitlines() if line.startswith(("FAILED", "ERROR"))), "")
    return code == 1, first.partition("::")[2].split(" - ")[0]


def _pytest(arguments: list[str], folder: Path, output: Path) -> int:
    """The exit code of pytest in a child of this process, so that the heavy libraries are imported once."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 70
    try:
        with output.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.chdir(folder)
        sys.path[:0] = [str(folder / "src"), str(folder)]
        os.environ["PYTHONPATH"] = str(folder / "src")  # for processes that tests start
        code = int(importlib.import_module("pytest").main(arguments))
    except BaseException:
        traceback.print_exc()
    finally:  # never back into the parent's code: it would remove the folder
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _import_libraries() -> None:
    """What nearly every test imports; importing takes longer than most of the tests."""
    for name in ("numba", "numpy", "pyarrow", "pytest", "scipy.sparse", "sklearn.cluster", "torch"):
        importlib.import_module(name)
    assert not any(name.split(".")[0] == "tuplet" for name in sys.modules)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a word in the fault's name or file")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    options = parser.parse_args()
    faults = read_faults(options.only)
    if options.list:
        print("\n".join(f"{fault.file:32} {fault.name}" for fault in faults))
        return
    _import_libraries()
    good = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("tests", "benchmarks", "docs", "examples", "scripts"):
            (folder / part).symlink_to(ROOT / part)
        for part in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / part, folder / part)
        for fault in faults:
            start = time.perf_counter()
            noticed, test = caught(fault, folder)
            good += noticed
            word = f"caught by {test}" if noticed else "NOT CAUGHT"
            print(f"{fault.file:32} {fault.name:60} {word} ({time.perf_counter() - start:.0f} s)", flush=True)
    print(f"{good} of {len(faults)} caught")
    sys.exit(0 if good == len(faults) else 1)


if __name__ == "__main__":
    main()
