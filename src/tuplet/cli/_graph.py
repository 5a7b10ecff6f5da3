"""The graph that the user named on the command line: a dataset, a stored graph, a TOML file or an edge list.

What was given is used or refused, never ignored.
"""

from __future__ import annotations

import glob
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuplet._check import InputError, is_there
from tuplet._progress import Progress, progress_lines
from tuplet.cli._flags import FLAGS, GraphArg, GraphOpt, MaybeGraphOpt, Options, given_flags, takes_graph
from tuplet.cli._graph_file import read_graph_file

if TYPE_CHECKING:
    from tuplet.graph import Graph

__all__ = ["FLAGS", "GraphArg", "GraphOpt", "MaybeGraphOpt", "Options", "given_flags", "load_graph", "takes_graph"]
LARGE = 10**9  # bytes of a graph folder whose reading is told
_BINARY = (".parquet", ".arrow", ".feather", ".ipc", ".npy", ".npz")


def load_graph(source: str, how: Options | None = None, /, **more: Any) -> Graph:
    """The graph that the user named: a dataset, a stored graph, a TOML file or an edge list with its options.

    Options of a TOML file are added to `how`; `more` goes to `read_graph` as it is. The checksums of a graph folder
    are compared: who types a command has read nothing of it yet.
    """
    from tuplet.datasets import load_dataset
    from tuplet.io import read_graph
    from tuplet.io.folder import open_graph

    how = {} if how is None else how
    edges: Any = source
    if source.lower().endswith(".toml"):
        edges, merged = read_graph_file(Path(source), how, prepared=more.get("preparation") is not None)
        how.update(merged)  # the verb tells which column is the label
    if _is_name(edges):
        _refuse(edges, how)
        graph = load_dataset(edges)
        return graph.with_(name=how.get("name", graph.name))
    if not isinstance(edges, list) and is_whole(Path(edges)):
        _refuse(edges, how)
        if is_there(Path(edges) / "meta.json"):
            return read_graph(open_graph(edges, verify=True, progress=_lines(Path(edges))), **how)
        return read_graph(edges, **how)
    for table in _listed(edges):
        _refuse_vectors(Path(table))
    check_used(edges, how)
    options = {**table_options(read_graph, how, "read_graph"), **more}
    return read_graph(**with_stdin(edges, options))


def stage_on_nodes(graph: str, engine: str | None) -> None:
    """A graph in a bucket is copied to each node of the engine."""
    from tuplet.io.remote import is_remote, stage

    if engine not in (None, "local") and is_remote(graph):
        stage(graph, str(engine))


def with_stdin(edges: Any, options: Mapping[str, Any]) -> Options:
    """The edges and options of a reader, standard input in the place of -, which may stand there once."""
    given = {**options, "edges": edges}
    tables = [name for name in ("edges", "features", "labels") if "-" in _listed(given.get(name))]
    if len(tables) > 1 or any(len(_listed(given[name])) > 1 for name in tables):
        raise InputError("Standard input (-) is one table: give the others as files.")
    return {name: sys.stdin.buffer if name in tables else value for name, value in given.items()}


def _lines(folder: Path) -> Progress | None:
    """Lines of progress for a graph folder whose checksums take more than a second or so.

    No bars: some verbs draw theirs around the loading of the graph.
    """
    small = sum(path.stat().st_size for path in folder.glob("*.npy")) < LARGE
    return None if small or {"-q", "--quiet"} & {*sys.argv} else progress_lines()


def _is_name(edges: Any) -> bool:
    """Whether `edges` can only be the name of a dataset: no file is there, and nothing looks like one."""
    from tuplet.datasets import dataset_names

    if isinstance(edges, list) or edges == "-" or glob.has_magic(edges) or is_there(edges):
        return False
    return edges in dataset_names() or not (Path(edges).suffix or "/" in edges)


def is_edge_list(source: str) -> bool:
    """Whether `source` names a table of edges, not a dataset, a graph folder, an .npz or a TOML file."""
    path = Path(source)
    if source == "-" or (glob.has_magic(source) and not is_there(path)):
        return True
    return is_there(path) and path.suffix.lower() != ".toml" and not is_whole(path)


def is_whole(path: Path) -> bool:
    """Whether `path` holds a whole graph: an .npz, or a folder made by `tuplet convert`."""
    return path.suffix == ".npz" or is_there(path / "meta.json")


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


def table_options(function: Callable[..., Any], how: Options, what: str) -> Options:
    """`how` as `function` takes it, the preparation read from its folder; an error for what it does not have."""
    unknown = how.keys() - inspect.signature(function).parameters.keys()
    if unknown:
        raise InputError(f"{what} has no option for {given_flags(sorted(unknown))}. Leave it out.")
    return how if how.get("preparation") is None else {**how, "preparation": _preparation(how["preparation"])}


def _preparation(place: str) -> Any:
    """The preparation in a graph folder or a saved model."""
    from tuplet.io import read_graph
    from tuplet.models.saving import load

    found = read_graph(place).preparation if is_whole(Path(place)) else load(place).preparation_
    if found is None:
        raise InputError(f"{place} does not come from a table: it knows no preparation. Leave --preparation out.")
    return found


def _listed(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]
