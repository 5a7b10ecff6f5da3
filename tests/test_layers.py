"""The floors of the house: imports go down only, heavy libraries stay where they belong."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tuplet

ROOT = Path(tuplet.__file__).parent
FLOORS = [
    ["_check", "_seed", "_jit"],
    ["graph", "store", "io", "tables", "doors", "vectors", "datasets", "edges", "splits", "convert"]
    + ["npz", "unpickle", "sources", "delimited", "frames", "ids", "filling", "edge_tables", "node_tables"]
    + ["graph_tables", "new_nodes", "edge_stream", "node_stream", "id_maps", "buckets", "convert_job"]
    + ["convert_nodes", "overlay", "feature_rows"],
    ["weights", "kernels", "filters", "features", "svd", "spectral", "kmeans", "live_rows", "synth"]
    + ["filter_cpu", "filter_disk", "filter_estimate", "filter_gpu", "filter_operator", "filter_reduce"]
    + ["filter_rows", "filter_run"],
    ["views", "encoder", "losses", "losses_blockwise", "batches"],
    ["trainer", "train_config", "training_state", "checkpoint", "criteria", "captured"],
    ["estimators", "estimator_input", "selfdmat", "self_labels", "baselines", "methods", "updates"],
    ["metrics", "results", "tasks", "links", "probe", "tuples", "theory", "neighbors"],
    ["bench", "plots"],
    ["demo", "cli"],
]
LEVEL = {name: level for level, names in enumerate(FLOORS) for name in names}


def modules() -> list[Path]:
    return sorted(p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py")


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Every module that `path` imports, at any depth of the file, in full dotted form."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down_only(path: Path) -> None:
    here = LEVEL[room(path)]
    for name in imported(path):
        parts = name.split(".")
        if parts[0] == "tuplet" and len(parts) > 1 and parts[1] in LEVEL:
            assert LEVEL[parts[1]] <= here, f"{path.name} (floor {here}) imports {name} (floor {LEVEL[parts[1]]})"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_numba_stays_in_the_kernels(path: Path) -> None:
    if room(path) not in ("_jit", "kernels"):
        assert not {n for n in imported(path) if n.split(".")[0] == "numba"}


def test_no_grab_bag_modules() -> None:
    banned = {"utils", "util", "common", "helpers", "base", "misc"}
    assert not banned & {p.stem for p in modules()}


@pytest.mark.parametrize("code", ["import tuplet", "import tuplet.cli"])
def test_import_does_not_wait_for_heavy_libraries(code: str) -> None:
    heavy = "('torch', 'sklearn', 'numba', 'pyarrow', 'matplotlib', 'scipy.sparse')"
    probe = f"{code}; import sys; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_public_names_are_the_promised_ones() -> None:
    promised = (Path(__file__).parent / "public_api.txt").read_text().split()
    assert sorted(tuplet.__all__) == sorted(promised)
    for name in tuplet.__all__:
        assert getattr(tuplet, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tuplet.nothing
