"""The command line: parses, calls the library, draws progress, prints. Start reading at `app`.

Exit codes: 0 done, 1 something given cannot be used (one line says what to do), 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from tuplet.cli import bench, data, demo, embed, evaluate, links, report, search
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
app.command()(evaluate.cluster)
app.command()(evaluate.classify)
app.command()(links.links)
app.command()(evaluate.theory)
app.command()(search.neighbors)
app.command("map")(search.draw_map)
app.command()(report.report)
app.command()(data.info)
app.command()(data.convert)
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


def main() -> None:
    """Entry point of the `tuplet` command."""
    if sys.argv[1:2] == ["bench"] and sys.argv[2:3] and sys.argv[2].endswith(".toml"):
        sys.argv.insert(2, "run")  # `tuplet bench SPEC.toml` is short for `tuplet bench run SPEC.toml`
    app()


if __name__ == "__main__":
    main()
