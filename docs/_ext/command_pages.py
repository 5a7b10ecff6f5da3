"""The page of all commands, written from the command line itself, so that it cannot differ from `--help`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

PAGE = "commands.md"
HEAD = """# All commands

Made from the code when these pages are built: what stands here is what `--help` says. {doc}`cli` explains how graphs
and vectors are given.

"""
SHARED = "Options that say how a graph is read"


def write_page(app: Any) -> None:
    """`commands.md` beside the other pages; left alone where nothing changed: Sphinx need not read it again then."""
    target, text = Path(app.srcdir) / PAGE, page()
    if not target.is_file() or target.read_text() != text:
        target.write_text(text)


def page() -> str:
    """The whole page: each verb with its own options, and once those that all verbs on graphs share."""
    from tuplet.cli import app

    root = typer.main.get_command(app)
    shared = _options(root.commands["info"], skip={"--quiet", "--json", "--help"})
    parts = [HEAD, _section("tuplet", root, {}, level=2)]
    for name, command in root.commands.items():
        parts.append(_section(f"tuplet {name}", command, shared, level=2))
        for inner, verb in getattr(command, "commands", {}).items():
            parts.append(_section(f"tuplet {name} {inner}", verb, shared, level=3))
    parts.append(f"## {SHARED}\n\n{_table(shared)}")
    return "".join(parts)


def _section(name: str, command: Any, shared: dict[str, str], level: int) -> str:
    mine = _options(command)
    uses = bool(shared) and shared.items() <= mine.items()
    own = {key: text for key, text in mine.items() if not (uses and key in shared)}
    usage = " ".join([name, *(_argument(p) for p in _arguments(command)), "[OPTIONS]"])
    if hasattr(command, "commands"):
        usage = f"{name} COMMAND .."
    more = f"\nand the [options of the graph](#{SHARED.lower().replace(' ', '-')}).\n" if uses else ""
    words = " ".join((command.help or "").split())
    head = f"{'#' * level} `{name}`\n\n{words}\n\n```text\n{usage}\n```\n\n"
    return f"{head}{_arguments_table(command)}{_table(own)}{more}\n"


def _arguments(command: Any) -> list[Any]:
    return [p for p in command.params if p.param_type_name == "argument"]


def _argument(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name).strip("{}").upper()
    return name if parameter.required else f"[{name}]"


def _arguments_table(command: Any) -> str:
    rows = {_argument(p): p.help for p in _arguments(command) if getattr(p, "help", None)}
    return _table(rows, "argument") + "\n" if rows else ""


def _options(command: Any, skip: set[str] | frozenset[str] = frozenset()) -> dict[str, str]:
    """Names of each option -> what it does."""
    context = command.context_class(command, info_name="tuplet") if hasattr(command, "context_class") else None
    found = {}
    for p in command.get_params(context):
        record = p.get_help_record(context) if p.param_type_name == "option" else None
        if record is not None and not skip & set(p.opts) and "--help" not in p.opts:
            found[record[0]] = " ".join(record[1].split())
    return found


def _table(rows: dict[str, str], head: str = "option") -> str:
    if not rows:
        return ""
    lines = [f"| `{key}` | {_cell(text)} |" for key, text in rows.items()]
    return "\n".join([f"| {head} | |", "|---|---|", *lines]) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[").replace("*", "\\*")


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", write_page)
    return {"parallel_read_safe": True}
