"""`tuplet filter`: a graph in, the filtered rows out that `tuplet train` reads; by groups of rows where asked."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tuplet._check import InputError, check_out_path
from tuplet.cli import _method
from tuplet.cli._console import QuietOpt, progress_bars
from tuplet.cli._graph import GraphArg, Options, load_graph, takes_graph


@takes_graph()
def filter_rows(
    graph: GraphArg,
    how: Options,
    out: Annotated[Path, typer.Option("--out", "-o", help="The rows: an .npy file.")] = Path("rows.npy"),
    method: Annotated[str, typer.Option(help="Whose filter: DMAT-i, DMAT or DMT.")] = "DMAT-i",
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Any setting of the method, as name=value; repeatable.")
    ] = None,
    memory: Annotated[str | None, typer.Option(help="Memory that each process may use, as 8GB.")] = None,
    engine: Annotated[
        str, typer.Option(help="Where blocks of columns are filtered: local, ray, or ray://host:10001.")
    ] = "local",
    groups: Annotated[
        int, typer.Option(min=1, help="Processes that share the rows, on all machines; GRAPH is a folder then.")
    ] = 1,
    partition: Annotated[
        str | None,
        typer.Option(help="Rows of each group: metis, or an .npy with the group of each node; default: in order."),
    ] = None,
    machines: Annotated[int, typer.Option(min=1, help="Machines; run the same command on each.")] = 1,
    head: Annotated[str | None, typer.Option(help="host:port of one of the machines, where they meet.")] = None,
    restarts: Annotated[int, typer.Option(min=0, help="How often killed processes are replaced.")] = 3,
    quiet: QuietOpt = False,
) -> None:
    """Filter the features over the graph, and write the rows that `tuplet train` reads."""
    from tuplet.models.dmat import MetricEstimator
    from tuplet.models.registry import make_estimator

    model = make_estimator(method, **{"device": "cpu"} | _method.typed_params(method, settings=setting))
    if not isinstance(model, MetricEstimator):
        raise InputError(f"{method} has no rows of one filter. DMAT-i, DMAT and DMT have.")
    check_out_path(out)
    if out.suffix != ".npy":
        raise InputError(f"The rows are an .npy file, got {out}. Choose a name that ends with .npy.")
    if groups > 1:
        if engine != "local" or how:
            raise InputError("--groups takes a graph folder as it is, and no --engine. Leave other options out.")
        _by_groups(model, graph, out, groups, partition, memory, (machines, head, restarts), quiet)
        return
    if machines > 1 or head is not None or partition is not None:
        raise InputError("--machines, --head and --partition would not be used without --groups. Leave them out.")
    g = load_graph(graph, how)
    with progress_bars(quiet) as progress:
        rows = model.filtered(g, progress, out=out, memory=memory, engine=engine)[0]
    sys.stdout.write(f"{out}: {rows.shape[0]} rows of {rows.shape[1]} numbers\n")


def _by_groups(
    model: Any,
    graph: str,
    out: Path,
    groups: int,
    partition: str | None,
    memory: str | None,
    where: tuple[int, str | None, int],
    quiet: bool,
) -> None:
    from tuplet.engines.launch import check_launch, launch
    from tuplet.engines.workers import started_as_worker
    from tuplet.filters.row_groups import check_groups
    from tuplet.io.folder import n_nodes_in, read_meta

    machines, head, restarts = where
    check_launch(groups, machines, head)
    if not Path(graph).is_dir():
        raise InputError(f"--groups needs a graph folder, got {graph}. Make one with `tuplet convert`.")
    meta = read_meta(Path(graph))
    nodes = n_nodes_in(Path(graph))
    check_groups(model.graph_filter_, nodes, groups)
    file = Path(partition) if partition not in (None, "metis") else None
    if partition == "metis":
        file = out.with_name(f".{out.name}.{groups}-groups-{_content(meta)}.npy")
    if started_as_worker():
        _work(model, graph, out, file, memory, quiet)
        return
    if file is not None:
        _check_partition(file, graph, nodes, groups, make=partition == "metis")
    code = launch(["tuplet.cli", *sys.argv[1:]], groups, machines=machines, head=head, restarts=restarts)
    if partition == "metis" and not code and file is not None:
        file.unlink(missing_ok=True)
    if code:
        raise typer.Exit(130 if code in (130, -2) else 1)


def _content(meta: Any) -> str:
    """What names the arrays of a graph folder."""
    sums = {name: entry.get("blake2b") for name, entry in meta["arrays"].items()}
    return hashlib.blake2b(repr(sorted(sums.items())).encode(), digest_size=6).hexdigest()


def _check_partition(file: Path, graph: str, n: int, groups: int, *, make: bool) -> None:
    """Raise unless `file` deals the nodes to so many groups; one by METIS is made by the first who comes."""
    from tuplet._files import locked, new_file, save_array
    from tuplet.filters.partition import metis, partitioned
    from tuplet.io.folder import open_graph

    if make:
        with locked(file, wait=24 * 3600):
            if not file.exists():
                with new_file(file) as partial:
                    save_array(partial, metis(open_graph(graph), groups))
    partitioned(_read_partition(file), n, groups)


def _read_partition(file: Path) -> Any:
    try:
        return np.load(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{file} is not a readable .npy ({error}). Write it again, or say metis.") from None


def _work(model: Any, graph: str, out: Path, partition: Path | None, memory: str | None, quiet: bool) -> None:
    """What each process does; the first one draws the bar and tells what was done."""
    import torch

    from tuplet.engines.workers import joined_team
    from tuplet.filters.row_groups import filter_by_rows
    from tuplet.io.folder import map_graph

    task = {"graph": graph, "out": out, "partition": partition, **model.graph_filter_.settings()}
    with joined_team(torch.device("cpu"), task) as team:
        first = team.rank == 0
        g, key = map_graph(graph, part=team.rank, parts=team.size)
        with progress_bars(quiet or not first) as progress:
            key = f"{key} {sorted(model.graph_filter_.settings().items())!r} {model.unit_rows}"
            options: dict[str, Any] = {"unit_rows": model.unit_rows, "memory": memory, "progress": progress}
            options["partition"] = None if partition is None else _read_partition(partition)
            received = filter_by_rows(model.graph_filter_, g, out, team, key, **options)
        moved = team.gather(torch.tensor([received])).sum()
        if first:
            sizes = f"{g.n_nodes} rows of {g.n_features} numbers, by {team.size} groups of rows"
            sys.stdout.write(f"{out}: {sizes}, {float(moved) / 1e6:.3g} MB between them\n")
