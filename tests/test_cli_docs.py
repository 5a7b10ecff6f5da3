"""docs/first-graph.md: every command on the page runs, on the files that the page shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pyarrow.csv
import pytest

from tests.conftest import Run

PAGE = Path(__file__).parent.parent / "docs" / "first-graph.md"


def test_the_page_runs(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PAGE.read_text()
    monkeypatch.chdir(tmp_path)
    named = r"`([\w.-]+\.(?:csv|toml))`[^`]*?:\n(?:[^`\n]*\n)*?\n?```\w+\n(.*?)```"
    for name, content in re.findall(named, text, re.S):
        Path(name).write_text(content)
    assert {p.name for p in tmp_path.iterdir()} == {"books.csv", "links.csv", "books.toml"}
    blocks = re.findall(r"```console\n(.*?)```", text, re.S)
    commands = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    assert len(commands) >= 9
    for command in commands:
        code, out, err = run(*shlex.split(command)[1:])
        assert code == 0 and "warning" not in err, (command, err)
        assert out
    assert pyarrow.csv.read_csv("clusters.csv").column_names == ["id", "cluster", "confidence"]
    predictions = pyarrow.csv.read_csv("genres.csv")
    assert predictions.column_names == ["id", "class", "probability", "known"]
    assert predictions["known"].to_pylist().count(False) == 6
    assert pyarrow.csv.read_csv("proposed.csv").num_rows == 5
    assert pyarrow.csv.read_csv("near.csv").num_rows == 3
    assert Path("parts", "part-00000.parquet").is_file() and Path("state").is_dir()
