"""A graph in a TOML file: `edges`, and the options of `read_graph` by name. Paths are relative to the file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from tuplet._check import InputError, check_choice
from tuplet.cli._flags import FLAGS, Options

_TYPES: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "path": (str, list),
    "texts": (list,),
    "pairs": (dict,),
    "texts or pairs": (list, dict),
    "switch": (bool,),
}
_WORDS = {str: "text", list: "a list of texts", dict: "a table of texts", bool: "true or false"}


# What a file says of columns was for the table that taught a preparation; what is typed besides one is refused.
_STEERING = {name for name, flag in FLAGS.items() if flag.needs == "features"} - {"missing", "preparation"}


def read_graph_file(path: Path, given: Options, *, prepared: bool = False) -> tuple[str, Options]:
    """Edges and options of a TOML file; those that were `given` on the command line take the place of the file's.

    With a preparation, `given` or there (`prepared`), what the file says of columns is left out.
    """
    values = _parsed(path)
    for name, value in values.items():
        check_choice(f"{path}: key", name, ["edges", *FLAGS])
        _check_type(path, name, value)
    if "edges" not in values:
        raise InputError(f'{path} has no edges. Add a line like edges = "edges.csv".')
    for name in ("edges", "features", "labels", "preparation"):
        if name in values:
            values[name] = _beside(path, values[name])
    edges = values.pop("edges")
    if isinstance(edges, list) and len(edges) == 1:
        edges = edges[0]
    if prepared or "preparation" in {**values, **given}:
        values = {name: value for name, value in values.items() if name not in _STEERING}
    return edges, {**values, **given}


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"There is no file {path}. Check the path.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f'{path} is not a TOML file ({error}). Write lines like edges = "edges.csv".') from None


def _check_type(path: Path, name: str, value: Any) -> None:
    allowed = _TYPES["path" if name == "edges" else FLAGS[name].kind]
    if name == "weight":
        allowed = (str, bool)
    inner = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    if not isinstance(value, allowed) or not all(isinstance(item, str) for item in inner) or value == []:
        wanted = " or ".join(_WORDS[kind] for kind in allowed)
        raise InputError(f"{path}: {name} is {value!r}. Give {wanted}.")


def _beside(path: Path, value: Any) -> Any:
    """A path of the file, seen from here; - stays standard input, and the name of a dataset stays a name."""
    if isinstance(value, list):
        return [_beside(path, item) for item in value]
    return value if value == "-" else str(path.parent / value)
