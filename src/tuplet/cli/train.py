"""`tuplet train`: filtered rows in, a model out, by one worker or many."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tuplet._check import InputError, check_out_path
from tuplet.cli import _method
from tuplet.cli._console import DeviceOpt, QuietOpt, SeedOpt, progress_bars


def train(
    rows: Annotated[Path, typer.Argument(metavar="ROWS", help="Filtered rows: an .npy file, one row a node.")],
    out: Annotated[str, typer.Option("--out", "-o", help="Folder of the model; `tuplet embed --model` reads it.")],
    labels: Annotated[
        Path | None, typer.Option(help="Labels: an .npy file of whole numbers, -1 for unknown, in the rows' order.")
    ] = None,
    method: Annotated[str | None, typer.Option(help="Default: DMAT with --labels, else DMAT-i.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Any setting of the method, as name=value; repeatable.")
    ] = None,
    workers: Annotated[int, typer.Option(help="1, 2, 4 or 8, on all machines together; the same bits.")] = 1,
    machines: Annotated[int, typer.Option(min=1, help="Machines; run the same command on each.")] = 1,
    head: Annotated[str | None, typer.Option(help="host:port of one of the machines, where they meet.")] = None,
    restarts: Annotated[int, typer.Option(min=0, help="How often killed workers are replaced.")] = 3,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Folder for the state of training; default: beside the model, until it is done."),
    ] = None,
    every: Annotated[int | None, typer.Option(min=1, help="Steps between checkpoints; default: ten minutes.")] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on from the state in the checkpoint; without, one that is there is refused."
        ),
    ] = False,
    device: DeviceOpt = "auto",
    seed: SeedOpt = 0,
    quiet: QuietOpt = False,
) -> None:
    """Train the encoder on filtered rows, by many workers where asked, and save the model.

    ROWS are what the method's filter makes of a graph: GraphFilter.transform(out=ROWS), or the file in the folder of
    `tuplet embed --cache`. The filter's own settings (--set alpha=..) are kept in the model, to embed graphs with.
    """
    from tuplet.engines.launch import check_launch, launch
    from tuplet.engines.workers import started_as_worker
    from tuplet.models.registry import default_method
    from tuplet.models.saving import check_model_folder
    from tuplet.training.group import check_workers

    name = method or default_method(labels=labels is not None, rows=True)
    params = _method.typed_params(name, settings=setting)
    model, data, classes = _checked(name, params, rows, labels, seed, device)
    folder = check_model_folder(out)
    state = checkpoint or folder.with_name(f"{folder.name}.training")
    check_out_path(state)
    check_workers(workers)
    check_launch(workers, machines, head)
    if not started_as_worker():
        _method.check_state(state, resume)
    if workers > 1 and not started_as_worker():
        code = launch(["tuplet.cli", *sys.argv[1:]], workers, machines=machines, head=head, restarts=restarts)
        raise typer.Exit(code and (130 if code in (130, -2) else 1))
    with progress_bars(quiet) as progress:
        _work(model, data, classes, folder, state, every, resume, progress)
    if checkpoint is None:
        shutil.rmtree(state, ignore_errors=True)


def _checked(
    name: str, params: dict[str, Any], rows: Path, labels: Path | None, seed: int, device: str
) -> tuple[Any, Any, Any]:
    """The unfitted model, the rows as a memory map and the labels."""
    import numpy as np

    from tuplet._check import check_finite, check_labels
    from tuplet._files import DAMAGE, open_array
    from tuplet.engines.workers import started_as_worker
    from tuplet.models.dmat import MetricEstimator
    from tuplet.models.registry import make_estimator

    model = make_estimator(name, **{"seed": seed, "device": device} | params)
    if not isinstance(model, MetricEstimator):
        raise InputError(f"{name} does not train an encoder on filtered rows. DMAT-i, DMAT and DMT do.")
    try:
        data = open_array(rows)
        classes = None if labels is None else open_array(labels)
    except DAMAGE as error:
        raise InputError(f"ROWS and --labels must be readable .npy files ({error}).") from None
    if data.ndim != 2 or data.dtype not in (np.float32, np.float16):
        raise InputError(f"{rows} holds {data.dtype} {data.shape}. Rows are float32 or float16, one a node.")
    if not started_as_worker():  # who started the workers has looked
        check_finite(f"{rows}", data)
    if (classes is not None) != model.needs_labels:
        wants = "needs --labels FILE.npy" if model.needs_labels else "reads no labels: leave --labels out"
        raise InputError(f"{name} {wants}.")
    return model, data, None if classes is None else check_labels("labels", classes, len(data))


def _work(
    model: Any, rows: Any, labels: Any, folder: Path, state: Path, every: int | None, resume: bool, progress: Any
) -> None:
    """What each worker does; the first one writes."""
    from tuplet.engines.workers import local_device, was_restarted
    from tuplet.models.on_rows import fit_on_rows
    from tuplet.training.batches import pick_device
    from tuplet.training.checkpoint import Checkpoints
    from tuplet.training.group import joined_group

    checkpoints = Checkpoints(state, minutes=10.0 if every is None else None, steps=every)
    task = {"method": type(model).__name__, **model.get_params(deep=False), "rows": rows.shape, "every": every}
    with joined_group(pick_device(model.device), task) as group:
        first = group.rank == 0
        model.set_params(device=local_device(model.device))
        go_on = group.any(resume or was_restarted()) and group.any(first and checkpoints.file.exists())
        fit_on_rows(
            model, rows, labels, group=group, checkpoint=checkpoints, resume=go_on,
            progress=progress if first else None,
        )  # fmt: skip
        if first:
            model.save(folder)
            last = model.history_.rows[-1]
            sys.stdout.write(f"{folder}: {type(model).__name__}, {last['step']} steps, loss {last['loss']:.4f}\n")
        group.wait()
