"""How a graph is named on the command line: one table of flags for all verbs, and the loader that uses them.

Each option of `read_graph` is a flag of the same name; a verb decorated with `takes_graph` has them all. They may
also stand in a TOML file (_graph_file.py). What was given is used or refused, never ignored.
"""

from __future__ import annotations

import csv
import functools
import glob
import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from tuplet._check import InputError

if TYPE_CHECKING:
    from tuplet.graph import Graph

Verb: TypeAlias = Callable[..., None]
Options: TypeAlias = dict[str, Any]  # the options of read_graph that were given, by name
GraphArg = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        help="Dataset name, graph folder, .npz, graph.toml, or edge list (CSV, TSV, Parquet, parts, a glob in "
        "quotes); - reads CSV from standard input.",
    ),
]
GraphOpt = Annotated[str, typer.Option("--graph", "-g", help="The graph of the vectors: as for `tuplet embed`.")]
_BINARY = (".parquet", ".arrow", ".feather", ".ipc", ".npy", ".npz")
_SEPARATORS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " ", "pipe": "|"}


@dataclass(frozen=True)
class Flag:
    """One option of `read_graph`. `kind`: path, text, texts (a,b), pairs (a=x,b=y) or switch; `needs`: a table."""

    help: str
    kind: str = "text"
    needs: str = ""  # "features", "nodes" (features or labels) or "text" (a text file)
    names: tuple[str, ...] = ()

    def names_of(self, name: str) -> tuple[str, ...]:
        """The spellings of the flag."""
        return self.names or (f"--{name}",)


FLAGS: dict[str, Flag] = {
    "features": Flag(
        "Node features: CSV, TSV, Parquet or .npy (one row a node); repeatable.", "path", names=("--features", "-f")
    ),
    "labels": Flag("Node labels: a table with an id and a label; repeatable.", "path", names=("--labels", "-l")),
    "source": Flag("Column of the edges' first ends."),
    "target": Flag("Column of the edges' second ends."),
    "weight": Flag("Column of the edges' weights; none: all edges count 1."),
    "id": Flag("Column of the node ids.", needs="nodes", names=("--id", "--id-column")),
    "columns": Flag("Feature columns to use, as a,b.", "texts", "features"),
    "exclude": Flag("Feature columns to leave out, as a,b.", "texts", "features"),
    "roles": Flag("What columns are, as size=number,kind=category.", "pairs", "features"),
    "categorical": Flag("Columns of numbers that are categories, as a,b.", "texts", "features"),
    "tokens": Flag("Text columns of tokens, as a,b or, with the separator, a=;,b=|.", "texts or pairs", "features"),
    "label": Flag("Label column, in --labels or else in --features; it is no feature then.", needs="nodes"),
    "scale": Flag("Scale number columns, or take them as they are.", "switch", "features", ("--scale/--no-scale",)),
    "directed": Flag("Keep the direction of the edges.", "switch", names=("--directed/--undirected",)),
    "missing": Flag("Missing feature values: error, zero, mean or propagate.", needs="features"),
    "unmatched": Flag("Nodes in one file only: error, keep or drop.", needs="nodes"),
    "header": Flag("The text files have a header, or have none.", "switch", "text", ("--header/--no-header",)),
    "separator": Flag("Between two columns of text files: a character, or tab.", needs="text"),
    "comment": Flag("Lines of text files that start so are skipped.", needs="text"),
    "name": Flag("Name of the graph."),
}


def takes_graph(*, without: Collection[str] = ()) -> Callable[[Verb], Verb]:
    """A decorator: the verb gets a flag for each option of `read_graph`, and in `how` those that were given.

    `without` are spellings that the verb needs for itself.
    """

    def decorate(verb: Verb) -> Verb:
        signature = inspect.signature(verb, eval_str=True)
        own = [p.replace(kind=p.KEYWORD_ONLY) for p in signature.parameters.values() if p.name != "how"]
        parameters = [*own, *(_parameter(name, flag, without) for name, flag in FLAGS.items())]

        @functools.wraps(verb)
        def with_flags(**given: Any) -> None:
            values = {name: given.pop(f"graph_{name}") for name in FLAGS}
            verb(**given, how={name: _read(name, value) for name, value in values.items() if value is not None})

        with_flags.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        with_flags.__annotations__ = {p.name: p.annotation for p in parameters}
        return with_flags

    return decorate


def _parameter(name: str, flag: Flag, without: Collection[str]) -> inspect.Parameter:
    kind: Any = {"switch": bool | None, "path": list[str] | None}.get(flag.kind, str | None)
    spelled = [text for text in flag.names_of(name) if text not in without]
    annotation = Annotated[kind, typer.Option(*spelled, help=flag.help)]
    return inspect.Parameter(f"graph_{name}", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _read(name: str, value: Any) -> Any:
    """The value for `read_graph` of what was typed."""
    kind = FLAGS[name].kind
    if kind == "path":
        return value[0] if len(value) == 1 else (value or None)
    if name == "weight" and value == "none":
        return False
    if name == "separator":
        return _SEPARATORS.get(value, value)
    if kind in ("text", "switch"):
        return value
    parts = [part.strip() for part in next(csv.reader([value], skipinitialspace=True), [])]
    if not parts or not all(parts):
        raise InputError(f"--{name} {value!r} holds an empty name. Write it as a,b.")
    if kind == "texts" or (kind != "pairs" and not any("=" in part for part in parts)):
        return parts
    pairs = [part.partition("=")[::2] for part in parts]
    if any(not left.strip() or not right for left, right in pairs):
        raise InputError(f"--{name} {value!r} is not understood. Write it as column=value,column=value.")
    return {left.strip(): right.strip() or right for left, right in pairs}


def load_graph(source: str, how: Options | None = None, /, **more: Any) -> Graph:
    """The graph that the user named: a dataset, a stored graph, a TOML file or an edge list with its options."""
    from tuplet.datasets import load_dataset
    from tuplet.io import read_graph

    how = {**(how or {}), **{name: value for name, value in more.items() if value is not None}}
    edges: Any = source
    if source.lower().endswith(".toml"):
        from tuplet.cli._graph_file import read_graph_file

        edges, how = read_graph_file(Path(source), how)
    if _is_name(edges):
        _refuse(edges, how)
        graph = load_dataset(edges)
        return graph.with_(name=how.get("name", graph.name))
    if not isinstance(edges, list) and is_whole(Path(edges)):
        _refuse(edges, how)
        return read_graph(edges, **how)
    for table in _listed(edges):
        _refuse_vectors(Path(table))
    check_used(edges, how)
    return read_graph(sys.stdin.buffer if edges == "-" else edges, **supported(read_graph, how, "read_graph"))


def _is_name(edges: Any) -> bool:
    """Whether `edges` can only be the name of a dataset: no file is there, and nothing looks like one."""
    from tuplet.datasets import dataset_names

    if isinstance(edges, list) or edges == "-" or glob.has_magic(edges) or Path(edges).exists():
        return False
    return edges in dataset_names() or not (Path(edges).suffix or "/" in edges)


def is_edge_list(source: str) -> bool:
    """Whether `source` names a table of edges, not a dataset, a graph folder, an .npz or a TOML file."""
    path = Path(source)
    if source == "-" or (glob.has_magic(source) and not path.exists()):
        return True
    return path.exists() and path.suffix.lower() != ".toml" and not is_whole(path)


def is_whole(path: Path) -> bool:
    """Whether `path` holds a whole graph: an .npz, or a folder made by `tuplet convert`."""
    return path.suffix == ".npz" or (path / "meta.json").is_file()


def given_flags(how: Iterable[str]) -> str:
    """The flags in `how`, as they are typed."""
    return " and ".join(FLAGS[name].names_of(name)[0].partition("/")[0] for name in how)


def check_used(edges: Any, how: Mapping[str, Any]) -> None:
    """Raise where an option of `how` would not be used with the tables that are given."""
    there = {"features": "features" in how, "nodes": "features" in how or "labels" in how}
    tables = [*_listed(edges), *_listed(how.get("features")), *_listed(how.get("labels"))]
    there["text"] = not all(str(table).lower().endswith(_BINARY) for table in tables)
    wanted = {"features": "--features FILE", "nodes": "--features or --labels FILE", "text": "a text file"}
    for name in how:
        needs = FLAGS[name].needs
        if needs and not there[needs]:
            flag = given_flags([name])
            raise InputError(f"{flag} would not be used: it needs {wanted[needs]}. Add that, or leave {flag} out.")


def _refuse(source: str, how: Mapping[str, Any]) -> None:
    unused = {name: value for name, value in how.items() if name != "name"}
    if unused:
        raise InputError(
            f"{source} holds a whole graph: {given_flags(unused)} would not be used. Leave that out, or give the "
            "edges as a table."
        )


def _refuse_vectors(path: Path) -> None:
    if path.suffix.lower() == ".parquet" and path.is_file():
        from tuplet.io.vectors import is_vectors

        if is_vectors(path):
            raise InputError(f"{path} holds vectors, not edges. Give the graph that they were made for.")


def supported(function: Callable[..., Any], how: Options, what: str) -> Options:
    """`how`, or an error for an option that `function` does not have."""
    unknown = how.keys() - inspect.signature(function).parameters.keys()
    if unknown:
        raise InputError(f"{what} has no option for {given_flags(sorted(unknown))}. Leave it out.")
    return how


def _listed(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]
