"""All verbs in one command. Start reading at `app`."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from tuplet.cli import bench, data, demo, embed, estimate, evaluate, filtering, links, report, search, train
from tuplet.cli._failures import Commands

app = typer.Typer(
    name="tuplet",
    cls=Commands,
    help="One vector for each node of an attributed graph, by deep metric learning.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(demo.demo)
app.command()(embed.embed)
app.command("filter")(filtering.filter_rows)
app.command()(train.train)
app.command()(evaluate.cluster)
app.command()(evaluate.classify)
app.command()(links.links)
app.command()(evaluate.theory)
app.command()(search.neighbors)
app.command("map")(search.draw_map)
app.command()(report.report)
app.command()(data.info)
app.command()(data.convert)
app.command()(estimate.estimate)
app.add_typer(data.datasets, name="datasets")
app.add_typer(bench.bench, name="bench")


def _version(show: bool) -> None:
    if show:
        import tuplet

        sys.stdout.write(f"tuplet {tuplet.__version__}\n")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error, as TUPLET_DEBUG=1 does.")
    ] = False,
    log: Annotated[bool, typer.Option("--log", help="Show what the library logs.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options before the verb."""
    logging.basicConfig(level=logging.INFO if log else logging.WARNING, format="%(name)s: %(message)s")


def run() -> None:
    """The command that `sys.argv` names; ends with SystemExit."""
    if sys.argv[1:2] == ["bench"] and sys.argv[2:3] and sys.argv[2].endswith(".toml"):
        sys.argv.insert(2, "run")  # `tuplet bench SPEC.toml` is short for `tuplet bench run SPEC.toml`
    app()
