"""`tuplet estimate`: what a graph will cost on one machine or many."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from tuplet.cli._console import JsonOpt, QuietOpt, print_json, print_table, progress_bars
from tuplet.cli._graph import GraphArg, Options, load_graph, takes_graph


@takes_graph()
def estimate(
    graph: GraphArg,
    how: Options,
    machines: Annotated[int, typer.Option(min=1, help="Machines of a kind.")] = 1,
    cores: Annotated[int | None, typer.Option(min=1, help="Cores of each; default: those of the constants.")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory of each, as 256GB; default: this machine's.")] = None,
    network: Annotated[
        str | None, typer.Option(help="Bytes a second between machines, as 5GB; default: 1.25GB, 10 Gbit.")
    ] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure this machine first, some 20 seconds.")
    ] = False,
    quiet: QuietOpt = False,
    as_json: JsonOpt = False,
) -> None:
    """Memory, disk, seconds and network of DMAT-i's stages, and how to run them; nothing is run."""
    from tuplet._check import parse_bytes
    from tuplet._memory import free_memory
    from tuplet.bench import calibration
    from tuplet.bench import estimate as cost

    room = free_memory() if memory is None else parse_bytes(memory)
    rate = None if network is None else parse_bytes(network)
    g = load_graph(graph, how)
    work = cost.workload_of(g, machines)
    with progress_bars(quiet) as progress:
        machine = calibration.calibrate(progress) if calibrate else cost.Machine()
    machine = machine.with_cores(cores or machine.cores, room, rate)
    found = cost.estimate(work, machine, machines)
    if as_json:
        print_json({**_facts(found), "machine": machine.__dict__, "measured": calibrate})
        return
    title = f"{g.n_nodes} nodes, {g.n_stored} stored edges, {work.f} columns; {machines} x {machine.cores} cores"
    columns = ["stage", "seconds", "memory GB", "disk GB", "network GB"]
    rows = [
        [
            stage.name,
            f"{stage.seconds:.3g}",
            *(f"{value / 1e9:.3g}" for value in (stage.memory, stage.disk, stage.network)),
        ]
        for stage in found.stages
    ]
    print_table(title, columns, [*rows, ["all", f"{found.seconds:.3g}", "", "", ""]])
    source = "measured now" if calibrate else "of a 2-core machine; --calibrate measures this one"
    others = "".join(f" By {name} the filter would take {value:.3g} s." for name, value in found.others.items())
    sys.stdout.write(f"{found.advice}.{others} Constants: {source}.\n")


def _facts(found: Any) -> dict[str, Any]:
    stages = {stage.name: {k: v for k, v in stage.__dict__.items() if k != "name"} for stage in found.stages}
    return {"stages": stages, "seconds": found.seconds, "advice": found.advice, "fits": found.fits,
            "others": dict(found.others)}  # fmt: skip
