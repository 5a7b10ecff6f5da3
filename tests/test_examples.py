"""The scripts in examples/ and the lessons in tutorials/ run as they stand; no example is longer than 80 lines."""

from __future__ import annotations

import runpy
import warnings
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))
LESSONS = sorted((FOLDER.parent / "tutorials").glob("plot_*.py"))
SLOW = {"pyg.py", *(lesson.name for lesson in LESSONS)}  # importing torch-geometric takes seconds


@pytest.mark.parametrize(
    "script",
    [pytest.param(s, id=s.stem, marks=[pytest.mark.slow] if s.name in SLOW else []) for s in SCRIPTS + LESSONS],
)
def test_example_runs(
    script: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if script.stem.endswith("pyg"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            pytest.importorskip("torch_geometric.data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out.strip()
    assert not list(tmp_path.iterdir())  # examples clean up


def test_examples_are_short_and_five() -> None:
    assert len(SCRIPTS) == 5 and len(LESSONS) == 5
    assert all(len(script.read_text().splitlines()) <= 80 for script in SCRIPTS)
