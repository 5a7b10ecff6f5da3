"""The floors of the house: imports go down only, packages and modules have no cycle, heavy libraries stay put.

Imports inside functions count like those at the top of a file. What only type checkers read does not count.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import tuplet

ROOT = Path(tuplet.__file__).parent
FLOORS = [
    ["_check", "_seed", "_jit", "_files", "_sums", "_memory", "_threads", "_moved", "_html", "_progress"],
    ["kernels", "engines"],
    ["graph", "rows"],
    ["io", "filters", "metrics"],
    ["datasets", "losses", "training", "evaluation"],
    ["models", "baselines"],
    ["bench", "plots", "pages", "pyg"],
    ["cli"],
]
LEVEL = {name: level for level, names in enumerate(FLOORS) for name in names}
# The calls upward: `Graph.from_networkx` and its kin are methods of Graph, and live in io.
UPWARD = {("graph._graph", "io.libraries")}
# What a package must not know, though it lies on a lower or the same floor.
APART = {"training": {"graph", "filters", "io"}, "evaluation": {"training", "models", "filters"}, "rows": {"graph"}}

# Words that stand in two places and mean the same: each seam's `register`, each page's `report`; the cell encoders of
# io/preparation are saved by their names.
ALIKE = {"register", "report", "Vectors"}
# A study of one method's settings, which it draws beside the same filter without training.
STUDIES = {"bench.report.ablations"}


def modules() -> dict[str, Path]:
    """Dotted name below `tuplet` -> file; a package's name stands for its __init__."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name:
            found[name] = path
    return found


MODULES = modules()


def imports(path: Path) -> Iterator[str]:
    """Every module or name that `path` imports, at any depth of the file, in full dotted form."""
    tree = ast.parse(path.read_text())
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_imports(name: str) -> set[str]:
    """The modules of tuplet that the module `name` imports."""
    found = set()
    for full in imports(MODULES[name]):
        parts = full.split(".")
        if parts[0] != "tuplet" or len(parts) == 1:
            continue
        if ".".join(parts[1:]) in MODULES:
            found.add(".".join(parts[1:]))
        elif ".".join(parts[1:-1]) in MODULES:
            found.add(".".join(parts[1:-1]))
    return found


def room(name: str) -> str:
    return name.split(".")[0]


@pytest.mark.parametrize("name", MODULES)
def test_imports_go_down_only(name: str) -> None:
    for other in own_imports(name):
        if room(other) == room(name) or (name, other) in UPWARD:
            continue
        assert LEVEL[room(other)] <= LEVEL[room(name)], f"{name} imports {other}, which lies above it"
        assert room(other) not in APART.get(room(name), ()), f"{room(name)} must not know {room(other)}: {name}"


def test_the_design_shows_every_room_on_its_floor() -> None:
    tree = (
        (Path(__file__).parents[1] / "docs" / "design.md")
        .read_text()
        .split("```text\nsrc/tuplet/\n")[1]
        .split("```")[0]
    )
    shown: dict[str, int] = {}
    for line in tree.splitlines():
        floor, rooms = line[:4].strip(), line[4:28].replace("/", "").split()
        level = int(floor) if floor else max(shown.values())
        shown |= dict.fromkeys(rooms, level)
    assert shown == LEVEL


def cycle(edges: dict[str, set[str]]) -> list[str]:
    """A cycle among the imports, or nothing."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_modules_have_no_cycle() -> None:
    edges = {name: {o for o in own_imports(name) if (name, o) not in UPWARD and o != name} for name in MODULES}
    assert not cycle(edges)


def test_packages_have_no_cycle() -> None:
    edges: dict[str, set[str]] = {}
    for name in MODULES:
        below = {room(o) for o in own_imports(name) if (name, o) not in UPWARD}
        edges.setdefault(room(name), set()).update(below - {room(name)})
    assert not cycle(edges)


def test_a_cycle_would_be_found() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) and not cycle({"a": {"b"}, "b": {"c"}})


@pytest.mark.parametrize("name", MODULES)
def test_a_private_module_is_used_by_its_package_alone(name: str) -> None:
    for other in own_imports(name):
        private = other.split(".")[-1].startswith("_") and "." in other
        assert not private or room(other) == room(name), f"{name} imports {other}"


@pytest.mark.parametrize("name", MODULES)
def test_numba_stays_in_the_kernels(name: str) -> None:
    if room(name) not in ("_jit", "kernels"):
        assert not {n for n in imports(MODULES[name]) if n.split(".")[0] == "numba"}


@pytest.mark.parametrize("name", MODULES)
def test_ray_stays_in_the_engines(name: str) -> None:
    if room(name) != "engines":
        assert not {n for n in imports(MODULES[name]) if n.split(".")[0] == "ray"}


@pytest.mark.parametrize("name", MODULES)
def test_memory_is_probed_in_one_module(name: str) -> None:
    probes = ("getrusage", "/proc/self/stat", "/proc/meminfo", "mem_get_info", "psutil")
    assert name == "_memory" or not [probe for probe in probes if probe in MODULES[name].read_text()]


def test_no_grab_bag_modules() -> None:
    banned = {"utils", "util", "common", "helpers", "base", "misc"}
    assert not banned & {name.split(".")[-1].lstrip("_") for name in MODULES}


@pytest.mark.parametrize("name", [name for name in MODULES if name not in STUDIES])
def test_no_method_is_treated_by_its_name(name: str) -> None:
    """No comparison with a method's name or its class' name: the class says what it can do."""
    from tuplet.models.registry import class_paths

    known = set(class_paths()) | {path.split(":")[1] for path in class_paths().values()}
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        tested = [node] if isinstance(node, ast.Compare) else node.cases if isinstance(node, ast.Match) else []
        words = {c.value for part in tested for c in ast.walk(part) if isinstance(c, ast.Constant)}
        assert not known & words, f"{name}:{node.lineno}"  # type: ignore[attr-defined]


def test_one_word_means_one_thing() -> None:
    """No public function or class has the name of another; verbs and tasks are named after what they run."""
    homes: dict[str, list[str]] = {}
    for name, path in MODULES.items():
        if room(name) == "cli" or name.startswith("bench.tasks."):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(name)
    assert {word: places for word, places in homes.items() if len(places) > 1 and word not in ALIKE} == {}


def test_every_old_module_name_leads_to_a_module() -> None:
    from tuplet._moved import MOVED

    for old, new in MOVED.items():
        probe = f"import tuplet.{old}, tuplet.{new}; assert tuplet.{old} is tuplet.{new}"
        exec(probe, {})
    with pytest.raises(ModuleNotFoundError, match="nothing"):
        exec("import tuplet.nothing", {})


@pytest.mark.parametrize("code", ["import tuplet", "import tuplet.cli"])
def test_import_does_not_wait_for_heavy_libraries(code: str) -> None:
    heavy = "('numpy', 'torch', 'sklearn', 'numba', 'pyarrow', 'matplotlib', 'scipy.sparse')"
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
