"""What a usage error adds where a name of other tools is typed: the flag that it has here."""

from __future__ import annotations

from typing import Any

_HERE = {  # the flag here: its other names
    "--features": ("nodes", "node-features", "node-table", "node-file", "attributes", "vertices", "feature", "x"),
    "--labels": ("classes", "label-file", "labels-file", "y"),
    "--label": ("label-column", "label-col", "class", "class-column", "target-column"),
    "--id": ("id-col", "node-id", "index", "key", "node"),
    "--graph": ("edges", "edge-list", "edgelist", "network", "input", "in"),
    "--separator": ("sep", "delimiter", "delim"),
    "--exclude": ("drop", "ignore", "skip", "without"),
    "--columns": ("use", "only", "cols", "usecols"),
    "--weight": ("weights", "weight-column"),
    "--out": ("output", "out-file", "outfile", "save", "to"),
    "--seed": ("random-state", "random-seed", "rng"),
    "--method": ("model-name", "algorithm", "algo", "estimator"),
    "-k": ("k", "clusters", "n-clusters", "num-clusters"),
    "--dim": ("dimensions", "dims", "size", "embedding-size", "n-components"),
}


def add_hint(error: Any) -> None:
    """Add to a usage error of typer, where it is known, what would have been right."""
    command = getattr(getattr(error, "ctx", None), "command", None)
    if command is None:
        return
    flags = {text for param in command.params for text in (*param.opts, *param.secondary_opts)}
    places = [param.metavar or param.name for param in command.params if param.param_type_name == "argument"]
    typed = getattr(error, "option_name", None)
    if typed is not None and hasattr(error, "possibilities"):
        hint = _of_option(typed, flags, places)
        error.possibilities = None if hint else error.possibilities
    elif "unexpected extra argument" in error.message:
        hint = _of_extra(flags, places)
    else:
        param = getattr(error, "param", None)
        missing = param is not None and param.name == "graph" and "--graph" in flags and not error.message
        hint = "Give the graph that the vectors were made for, as it was given to `tuplet embed`." if missing else ""
    if hint:
        error.message = f"{error.message.rstrip('.')}. {hint}" if error.message else hint


def _of_option(typed: str, flags: set[str], places: list[str]) -> str:
    name = typed.lstrip("-").replace("_", "-").lower()
    for flag, others in _HERE.items():
        if name in others and flag in flags:
            return f"Did you mean {flag}?"
    if name in (*_HERE["--graph"], "graph") and "GRAPH" in places:
        return "The graph or its edges are given without a flag, first: tuplet VERB GRAPH."
    return ""


def _of_extra(flags: set[str], places: list[str]) -> str:
    if not places or "--features" not in flags:
        return ""
    if "VECTORS" in places:
        return (
            "One file of vectors is taken; the graph goes with --graph GRAPH, tables of nodes with --features FILE."
        )
    return (
        "A table of nodes goes with --features FILE, labels with --labels FILE; edges in several files are "
        'a glob in quotes, as "edges-*.csv".'
    )
