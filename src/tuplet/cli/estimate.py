"""`tuplet estimate`: what a graph will cost on one machine or many."""

from __future__ import annotations

import re
import sys
from dataclasses import asdict
from typing import Annotated, Any

import typer

from tuplet._check import InputError, check_int
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
        bool, typer.Option("--calibrate", help="Measure this machine first, some 30 seconds; with a GPU twice that.")
    ] = False,
    quiet: QuietOpt = False,
    as_json: JsonOpt = False,
) -> None:
    """Memory, disk, seconds and network of DMAT-i's stages, and how to run them; nothing is run.

    GRAPH may also be the sizes of one that is not there yet: nodes=1e9,edges=1e10,columns=128.
    """
    from tuplet._check import parse_bytes
    from tuplet._memory import free_memory
    from tuplet.bench import calibration
    from tuplet.bench import estimate as cost

    room = free_memory() if memory is None else parse_bytes(memory)
    rate = None if network is None else parse_bytes(network, "network")
    sizes = _sizes(graph)
    if sizes is None:
        g = load_graph(graph, how)
        check_int("machines", machines, maximum=g.n_nodes)  # as groups of rows
        work = cost.workload_of(g, machines)
    else:
        check_int("machines", machines, maximum=sizes[0])
        work = cost.workload(*sizes)
    with progress_bars(quiet) as progress:
        machine = calibration.calibrate(progress) if calibrate else cost.Machine()
    machine = machine.with_cores(cores or machine.cores, room, rate)
    found = cost.estimate(work, machine, machines)
    if as_json:
        print_json(
            {
                **_facts(found, cost.convert_stage(work, machine, machines)),
                "machine": asdict(machine),
                "measured": calibrate,
            }
        )
        return
    title = f"{work.n} nodes, {work.stored} stored edges, {work.f} columns; {machines} x {machine.cores} cores"
    columns = ["stage", "seconds", "memory GB", "disk GB", "network GB"]
    rows = [
        [
            stage.name,
            f"{stage.seconds:.3g}",
            *(f"{value / 1e9:.3g}" for value in (stage.memory, stage.disk, stage.network)),
        ]
        for stage in (cost.convert_stage(work, machine, machines), *found.stages)
    ]
    print_table(title, columns, [*rows, ["all but convert", f"{found.seconds:.3g}", "", "", ""]])
    source = "measured now" if calibrate else "of a 2-core machine; --calibrate measures this one"
    others = "".join(f" By {name} the filter would take {value:.3g} s." for name, value in found.others.items())
    sys.stdout.write(f"{found.advice}.{others} Constants: {source}.\n")


def _sizes(graph: str) -> tuple[int, int, int] | None:
    """Nodes, edges and columns where GRAPH is written so."""
    if not re.match(r"\s*(nodes|edges|columns)\s*=", graph):
        return None
    found = re.fullmatch(r"nodes=([\d.e+]+),edges=([\d.e+]+),columns=([\d.e+]+)", graph.replace(" ", ""))
    try:
        if found is None:
            raise ValueError
        n, edges, f = (int(float(word)) for word in found.groups())
    except (ValueError, OverflowError):
        raise InputError(f"{graph} has no sizes. Write nodes=1e9,edges=1e10,columns=128.") from None
    return check_int("nodes", n, minimum=2), check_int("edges", edges), check_int("columns", f)


def _facts(found: Any, convert: Any) -> dict[str, Any]:
    every = (convert, *found.stages)
    stages = {stage.name: {k: v for k, v in stage.__dict__.items() if k != "name"} for stage in every}
    return {"stages": stages, "seconds": found.seconds, "advice": found.advice, "fits": found.fits,
            "others": dict(found.others)}  # fmt: skip
