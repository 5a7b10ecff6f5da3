"""`tuplet bench run | report | scale`: the tables and figures of the paper."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tuplet.cli._console import DeviceOpt, QuietOpt

bench = typer.Typer(help="Every table and figure of the paper from one command.", no_args_is_help=True)
