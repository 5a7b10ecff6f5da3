"""`tuplet embed`: a graph in, a vectors file out."""

from __future__ import annotations

import inspect
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tuplet._check import InputError, check_out_path
from tuplet.cli import _method
from tuplet.cli._console import (
    DeviceOpt,
    JsonOpt,
    QuietOpt,
    SeedOpt,
    progress_bars,
)
from tuplet.cli._graph import GraphArg, Options, given_flags, load_graph, stage_on_nodes, takes_graph
from tuplet.cli._made import Made, Target, tell
from tuplet.cli.report import named, print_written


@takes_graph()
def embed(
    graph: GraphArg,
    how: Options,
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            help="Vectors: .parquet, .csv, .npy; a folder of parts (vectors/); a table (lance:folder/table, "
            "postgresql://host/base/table, x.duckdb); s3://..; - is CSV on stdout.",
        ),
    ] = "vectors.parquet",
    method: Annotated[
        str | None, typer.Option(help="Default: DMAT with --labels, else the label-free default.")
    ] = None,
    recipe: Annotated[str | None, typer.Option(help="Settings tuned for one of the paper's graphs.")] = None,
    dim: Annotated[int | None, typer.Option(min=1, help="Length of the vectors.")] = None,
    clusters: Annotated[
        int | None, typer.Option("--clusters", "-k", min=2, help="Number of clusters, if known.")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Any setting of the method, as name=value; repeatable.")
    ] = None,
    memory: Annotated[str | None, typer.Option(help="Memory that the filter may use, as 8GB.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Folder for filtered rows; found again by the next run.")] = None,
    engine: Annotated[
        str | None, typer.Option(help="Where the filter runs: local, ray, or ray://host:10001 (docs: cluster).")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder for the state of training; Ctrl-C loses nothing.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the state in --checkpoint; without, one is refused.")
    ] = False,
    dtype: Annotated[str, typer.Option(help="Numbers in the file: float32 or float16.")] = "float32",
    save_model: Annotated[str | None, typer.Option(help="Folder to save the model in.")] = None,
    with_rows: Annotated[
        bool, typer.Option("--with-rows", help="Keep the filtered rows in the saved model: --new is fast then.")
    ] = False,
    model: Annotated[str | None, typer.Option(help="Use this saved model; nothing is trained.")] = None,
    rows: Annotated[
        Path | None,
        typer.Option(help="With --model: GRAPH's filtered rows, of `tuplet filter`; the graph gives ids only."),
    ] = None,
    new: Annotated[
        tuple[Path, Path] | None,
        typer.Option(help="With --model: edges and features of nodes that are new to GRAPH; only they are embedded."),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Also write the report page, as `tuplet report` does.")] = None,
    device: DeviceOpt = "auto",
    seed: SeedOpt = 0,
    quiet: QuietOpt = False,
    as_json: JsonOpt = False,
) -> None:
    """Learn one vector for each node and write them with the node ids."""
    target = Target.checked(out, dtype, save_model)
    _check_report(report, new)
    training: dict[str, Any] = {
        "--method": method,
        "--recipe": recipe,
        "--dim": dim,
        "--clusters": clusters,
        "--set": setting,
    }
    training |= {
        "--with-rows": with_rows or None,
        "--memory": memory,
        "--cache": cache,
        "--checkpoint": checkpoint,
        "--resume": resume or None,
    }
    if new is not None and model is None:
        raise InputError("--new needs --model: new nodes are embedded by a model that was trained before.")
    if rows is not None and (model is None or new is not None):
        raise InputError("--rows needs --model, and does not go with --new: the rows are encoded by a trained model.")
    if with_rows and save_model is None:
        raise InputError("--with-rows needs --save-model DIR: the rows are kept in the saved model.")
    if model is not None:
        _check_unused(training, how)
        estimator = _loaded(model)
        if engine is not None:
            _method.check_has(estimator, "engine")
            estimator.set_params(engine=_checked_engine(engine))
        stage_on_nodes(graph, engine)
        g = load_graph(graph, how, preparation=estimator.preparation_)
        target.check(estimator, g)
        with progress_bars(quiet) as progress:
            made = (
                _apply(estimator, g, new, how, progress) if rows is None else _of_rows(estimator, g, rows, progress)
            )
    else:
        name = _method.chosen_method(method, labelled="labels" in how, recipe=recipe)
        extras = {
            "memory": _checked_memory(memory),
            "cache": _checked_cache(cache),
            "engine": _checked_engine(engine),
        }
        params = _method.typed_params(
            name, recipe=recipe, dim=dim, clusters=clusters, settings=setting, extras=extras
        )
        _method.check_resumable(name, checkpoint, resume)
        if with_rows:
            _method.check_with_rows(name)
        stage_on_nodes(graph, engine)
        g = load_graph(graph, how)
        estimator = _method.build(name, params, g, seed=seed, device=device)
        target.check(estimator, g)
        with progress_bars(quiet) as progress, _saying_how_to_resume(checkpoint):
            _method.fit(estimator, g, progress=progress, checkpoint=checkpoint, resume=resume)
        made = _fitted(estimator, g)
    with progress_bars(quiet) as progress:
        target.write(made, g, dtype, save_model, with_rows, progress)
    if rows is not None:
        _forget_file(made.z)
    tell(target, made, g, how, as_json)
    if report is not None:
        _write_report(report, made, named(g, graph), seed, quiet)


def _check_report(report: Path | None, new: Any) -> None:
    from tuplet.pages import check_page_path

    if report is None:
        return
    if new is not None:
        raise InputError("--report would not be used with --new: only new nodes are embedded. Leave one of them out.")
    check_page_path(report)


def _write_report(report: Path, made: Made, g: Any, seed: int, quiet: bool) -> None:
    import time

    from tuplet.pages import SAMPLE
    from tuplet.pages import report as write

    start = time.perf_counter()
    with progress_bars(quiet) as progress:
        write(made.estimator, g, report, vectors=made.z, seed=seed, progress=progress)
    print_written(report, g, SAMPLE, time.perf_counter() - start, to=sys.stderr)


def _checked_memory(memory: str | None) -> str | None:
    from tuplet._check import parse_bytes

    if memory is not None:
        parse_bytes(memory)
    return memory


def _checked_engine(engine: str | None) -> str | None:
    from tuplet.engines import check_engine

    return None if engine is None else check_engine(engine)


def _checked_cache(cache: Path | None) -> str | None:
    if cache is None:
        return None
    check_out_path(cache)
    if cache.exists() and not cache.is_dir():
        raise InputError(f"{cache} is a file. Give a folder with --cache.")
    return str(cache)


def _check_unused(training: dict[str, Any], how: Options) -> None:
    """With --model nothing is trained: what would steer training is refused."""
    unused = [flag for flag, value in training.items() if value]
    unused += [given_flags([name]) for name in ("labels", "preparation") if name in how]
    if unused:
        raise InputError(
            f"With --model nothing is trained: {' and '.join(unused)} would not be used. Leave that out."
        )


class _saying_how_to_resume:
    """On Ctrl-C, say what is kept and how to go on."""

    def __init__(self, checkpoint: Path | None) -> None:
        self.checkpoint = checkpoint

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not KeyboardInterrupt:
            return
        if self.checkpoint is None:
            told = "Nothing was written. With --checkpoint DIR an interrupted run can be resumed."
        else:
            typed = [arg for arg in sys.argv[1:] if arg != "--resume"]
            told = f"The state is in {self.checkpoint}. Go on with: tuplet {shlex.join([*typed, '--resume'])}"
        sys.stderr.write(told + "\n")


def _fitted(estimator: Any, g: Any) -> Made:
    from tuplet.io.seen import seen_by

    z = estimator.embedding_
    clusters = getattr(estimator, "labels_", None)
    clusters = clusters if clusters is not None and len(clusters) == len(z) else None
    seen = seen_by(g, labels=estimator.needs_labels)
    return Made(g.node_ids, z, clusters, seen, estimator)


def _loaded(folder: str) -> Any:
    """The model in `folder`, if it can embed other graphs: asked before the graph is read."""
    from tuplet.models.saving import load

    estimator = load(folder)
    estimator.check_inductive()
    return estimator


def _apply(estimator: Any, g: Any, new: tuple[Path, Path] | None, how: Options, progress: Any) -> Made:
    """The vectors of the whole graph, or of new nodes only, by a saved model."""
    from tuplet.io.seen import seen_by

    seen = seen_by(g, labels=False)
    if estimator.needs_labels:
        seen["labels"] = "unknown"  # the model does not say which
    if new is None:
        z = estimator.transform(g, progress=progress)
        return Made(g.node_ids, z, None, seen, estimator)
    from tuplet.io.new_nodes import read_new_nodes
    from tuplet.models.new_nodes import embed_new

    options = {k: v for k, v in how.items() if k in inspect.signature(read_new_nodes).parameters and k != "features"}
    nodes = read_new_nodes(g, *new, **options)
    z = embed_new(estimator, g, nodes.x, nodes.edges, weights=nodes.weights)
    return Made(nodes.ids, z, None, seen, estimator)


def _of_rows(estimator: Any, g: Any, rows: Path, progress: Any) -> Made:
    """The vectors of rows that were filtered before, by a saved model."""
    import numpy as np

    from tuplet._files import DAMAGE
    from tuplet.io.seen import seen_by

    if not hasattr(estimator, "transform_rows"):
        raise InputError(f"--rows would not be used: {type(estimator).__name__} has no rows of one filter.")
    try:
        data = np.load(rows, mmap_mode="r", allow_pickle=False)
    except DAMAGE as error:
        raise InputError(f"{rows} is not a readable .npy file ({error}). Filter the graph again.") from None
    if data.ndim != 2 or len(data) != g.n_nodes:
        raise InputError(f"{rows} has shape {data.shape}, but the graph {g.n_nodes} nodes. Give one row a node.")
    seen = seen_by(g, labels=False)
    if estimator.needs_labels:
        seen["labels"] = "unknown"
    return Made(g.node_ids, estimator.transform_rows(data, progress=progress), None, seen, estimator)


def _forget_file(z: Any) -> None:
    """Remove the file of vectors that were written elsewhere."""
    from tuplet._files import file_of

    file = file_of(z)
    if file is not None:
        file.unlink(missing_ok=True)
