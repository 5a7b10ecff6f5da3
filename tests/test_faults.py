"""The list of deliberate faults follows the code: a fault whose line is gone would stop `scripts/faults.py`."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_text_of_each_fault_stands_once_in_its_file():
    """And its tests exist."""
    faults = tomllib.loads((ROOT / "scripts" / "faults.toml").read_text())["fault"]
    counts = {f["name"]: (ROOT / "src" / "tuplet" / f["file"]).read_text().count(f["old"]) for f in faults}
    assert len(counts) == len(faults)
    assert {name: count for name, count in counts.items() if count != 1} == {}
    for fault in faults:
        assert fault["new"] != fault["old"]
        assert (ROOT / fault["tests"].split()[0].split("::")[0]).is_file(), fault["name"]
