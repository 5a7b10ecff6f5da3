"""`tuplet bench SPEC.toml`, `bench report`, `bench scale`: the tables and figures of the paper."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuplet.cli._console import DeviceOpt, QuietOpt

if TYPE_CHECKING:
    from tuplet.bench import RunState

bench = typer.Typer(
    help="Every table and figure of the paper. `tuplet bench SPEC.toml` runs a spec.", no_args_is_help=True
)
RowsOut = Annotated[Path, typer.Option("--out", "-o", help="Rows are appended here; jobs that it holds are skipped.")]
JobsOpt = Annotated[int, typer.Option(min=1, help="Processes that share the work.")]


@bench.command("run")
def run(
    spec: Annotated[Path, typer.Argument(help="Spec in TOML, for example benchmarks/paper/clustering.toml.")],
    only: Annotated[list[str] | None, typer.Option(help="Keep jobs by key=value, for example dataset=cora.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds, instead of the spec's number.")] = None,
    device: DeviceOpt = "auto",
    out: RowsOut = Path("rows.jsonl"),
    jobs: JobsOpt = 1,
    retry_errors: Annotated[bool, typer.Option("--retry-errors", help="Run jobs again that failed before.")] = False,
    limit: Annotated[
        float | None, typer.Option(help="Seconds a job may take; its row then says how far it was. Else the spec's.")
    ] = None,
    quiet: QuietOpt = False,
) -> None:
    """Run the jobs of a spec one by one; kill it at any time and start it again."""
    from tuplet.bench import LiveTable, run_spec

    with LiveTable(quiet=quiet) as live:
        state = run_spec(
            spec,
            only=only or (),
            seeds=seeds,
            device=device,
            out=out,
            jobs=jobs,
            retry_errors=retry_errors,
            limit=limit,
            on_row=live.on_row,
            on_state=live.on_state,
        )
    _tell(out, state, "jobs")


@bench.command("tune")
def tune(
    spec: Annotated[Path, typer.Argument(help="Spec with a `space`, for example benchmarks/blocks/tuned.toml.")],
    only: Annotated[list[str] | None, typer.Option(help="Keep cells by key=value, for example dataset=cora.")] = None,
    device: DeviceOpt = "auto",
    out: Annotated[Path, typer.Option("--out", "-o", help="Rows of trials are appended here.")] = Path(
        "trials.jsonl"
    ),
    test: Annotated[Path | None, typer.Option(help="Also run the test seeds of what was chosen, into this.")] = None,
    jobs: JobsOpt = 1,
    seconds: Annotated[
        float | None, typer.Option(min=1, help="Stop after this long; go on by the same call.")
    ] = None,
    quiet: QuietOpt = False,
) -> None:
    """Choose settings by random search on validation nodes and edges: 40 fits a method, graph and task."""
    from contextlib import nullcontext

    from tuplet.bench import LiveTable, load_spec
    from tuplet.bench.tune import tune, tune_and_test
    from tuplet.bench.workers import OutOfTime, Workers

    found = load_spec(spec)
    deadline = None if seconds is None else time.monotonic() + seconds
    workers = Workers(jobs, device) if jobs > 1 else nullcontext(None)
    try:
        with LiveTable(quiet=quiet) as live, workers as pool:
            shown = {"on_row": live.on_row, "on_state": live.on_state}
            how: Any = {"only": only or (), "device": device, "pool": pool, "deadline": deadline, **shown}
            if test is None:
                tune(found, out=out, **how)
            else:
                tune_and_test(found, trials=out, tests=test, **how)
    except OutOfTime:
        sys.stderr.write(f"{seconds:g} s are over; what was done is in {out}. The same command goes on.\n")
        raise typer.Exit(1) from None
    sys.stdout.write(f"{out}: trials are done; the choices are written\n")


@bench.command("scale")
def scale(
    max_nodes: Annotated[float, typer.Option(help="Largest rung of the ladder, for example 1e5.")] = 1e5,
    spec: Annotated[Path, typer.Option(help="Spec of the ladder.")] = Path("benchmarks/paper/scalability.toml"),
    only: Annotated[list[str] | None, typer.Option(help="Keep jobs by key=value, for example method=DMAT-i.")] = None,
    device: DeviceOpt = "auto",
    out: RowsOut = Path("scale.jsonl"),
    quiet: QuietOpt = False,
) -> None:
    """The scale ladder: R-MAT graphs of growing size, phases timed apart."""
    from tuplet.bench import LiveTable, run_jobs, scale_jobs

    todo = scale_jobs(spec, max_nodes=int(max_nodes), only=only or ())
    with LiveTable(quiet=quiet) as live:
        state = run_jobs(todo, device=device, out=out, on_row=live.on_row, on_state=live.on_state)
    _tell(out, state, "rungs")


def _tell(out: Path, state: RunState, what: str) -> None:
    """What was run, on standard output; exit code 1 where a job failed, now or in an earlier run of the same file."""
    sys.stdout.write(f"{out}: {state.done} {what} run, {state.skipped} were done, {state.failed} failed\n")
    if state.failed_before:
        sys.stderr.write(f"{state.failed_before} failed before; --retry-errors runs them again\n")
    if state.failed or state.failed_before:
        raise typer.Exit(1)


@bench.command("report")
def report_(
    rows: Annotated[list[Path], typer.Argument(help="Files of rows.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Markdown file; else standard output.")] = None,
    figures: Annotated[Path | None, typer.Option(help="Folder for the figures.")] = None,
    readme: Annotated[Path | None, typer.Option(help="README whose results table is renewed.")] = None,
    ablations: Annotated[
        Path | None, typer.Option(help="Page whose part on ablations is renewed; the report then links to it.")
    ] = None,
    published: Annotated[
        Path | None, typer.Option(help="Folder of published numbers; else the paper's, benchmarks/paper/published.")
    ] = None,
) -> None:
    """Tables in Markdown, ours beside the published values."""
    from tuplet.bench.report import draw_figures, report, update_ablations, update_readme

    if figures is not None:
        draw_figures(rows, figures)
    beside = Path() if out is None else out.parent
    drawn, page = (None if place is None else _link(place, beside) for place in (figures, ablations))
    text = report(rows, published=published, figures=drawn, ablations=page)
    if readme is not None:
        update_readme(readme, rows)
    if ablations is not None:
        update_ablations(ablations, rows, figures=None if figures is None else _link(figures, ablations.parent))
    if out is None:
        sys.stdout.write(text)
    else:
        from tuplet._files import new_file

        with new_file(out) as partial:
            partial.write_text(text, encoding="utf-8")


def _link(place: Path, beside: Path) -> str:
    """`place` as a page in the folder `beside` links to it."""
    return Path(os.path.relpath(place, beside)).as_posix()
