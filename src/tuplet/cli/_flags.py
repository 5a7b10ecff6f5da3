"""The options of `read_graph` as flags: one table, from which every verb that takes a graph has them all."""

from __future__ import annotations

import csv
import functools
import inspect
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import typer

from tuplet._check import InputError

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
MaybeGraphOpt = Annotated[
    str | None,
    typer.Option("--graph", "-g", help="The graph of the vectors; without it, nothing is said of edges."),
]
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
    "weight": Flag("Column of the edges' weights; --no-weight: all edges count 1."),
    "id": Flag("Column of the node ids.", needs="nodes", names=("--id", "--id-column")),
    "columns": Flag("Feature columns to use, as a,b.", "texts", "features"),
    "exclude": Flag("Feature columns to leave out, as a,b.", "texts", "features"),
    "roles": Flag("What columns are, as size=number,kind=category.", "pairs", "features"),
    "categorical": Flag("Columns of numbers that are categories, as a,b.", "texts", "features"),
    "tokens": Flag("Text columns of tokens, as a,b or, with the separator, a=;,b=|.", "texts or pairs", "features"),
    "label": Flag("Label column, in --labels or else in --features; it is no feature then.", needs="nodes"),
    "scale": Flag("Scale number columns, or take them as they are.", "switch", "features", ("--scale/--no-scale",)),
    "directed": Flag("Keep the direction of the edges.", "switch", names=("--directed/--undirected",)),
    "missing": Flag("Missing feature values: by role (the default), zero, mean, propagate, error.", needs="features"),
    "unmatched": Flag("Nodes in one file only: error, keep or drop.", needs="nodes"),
    "header": Flag("The text files have a header, or have none.", "switch", "text", ("--header/--no-header",)),
    "separator": Flag("Between two columns of text files: a character, or tab.", needs="text"),
    "comment": Flag("Lines of text files that start so are skipped.", needs="text"),
    "decimal": Flag(
        'Decimal mark of numbers in text files, "," or "."; then 1.234,5 or 1,234.5 are read too.', needs="text"
    ),
    "preparation": Flag(
        "Saved model or graph folder: the columns pass as they did there; nothing is learned from them.",
        needs="features",
    ),
    "name": Flag("Name of the graph."),
}


_NO_WEIGHT = inspect.Parameter(  # read_graph(weight=False)
    "no_weight",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option("--no-weight", help="All edges count 1, whatever the table says.")],
)


def takes_graph(*, without: Collection[str] = ()) -> Callable[[Verb], Verb]:
    """A decorator: the verb gets a flag for each option of `read_graph`, and in `how` those that were given.

    `without` are spellings that the verb needs for itself.
    """

    def decorate(verb: Verb) -> Verb:
        signature = inspect.signature(verb, eval_str=True)
        own = [p.replace(kind=p.KEYWORD_ONLY) for p in signature.parameters.values() if p.name != "how"]
        parameters = [*own, *(_parameter(name, flag, without) for name, flag in FLAGS.items()), _NO_WEIGHT]

        @functools.wraps(verb)
        def with_flags(**given: Any) -> None:
            values = {name: given.pop(f"graph_{name}") for name in FLAGS}
            if given.pop("no_weight"):
                if values["weight"] is not None:
                    raise InputError("--weight and --no-weight contradict each other. Give one of them.")
                values["weight"] = False
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


def given_flags(how: Iterable[str]) -> str:
    """The flags in `how`, as they are typed."""
    return " and ".join(FLAGS[name].names_of(name)[0].partition("/")[0] for name in how)
