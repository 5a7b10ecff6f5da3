"""`tuplet links`: link prediction, and likely missing edges."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tuplet._check import InputError
from tuplet.cli import _method
from tuplet.cli._console import (
    DeviceOpt,
    JsonOpt,
    QuietOpt,
    SeedOpt,
    SeedsOpt,
    print_json,
    print_summary,
    progress_bars,
)
from tuplet.cli._graph import GraphArg, Options, load_graph, takes_graph
from tuplet.cli._vectors import graph_and_vectors
from tuplet.cli.evaluate import each


@takes_graph()
def links(
    graph: GraphArg,
    how: Options,
    method: Annotated[str | None, typer.Option(help="Any method of `tuplet embed`; default DMAT-i.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Any setting of the method, as name=value; repeatable.")
    ] = None,
    top: Annotated[
        int | None, typer.Option(min=1, help="Propose so many likely missing edges instead; needs --out.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="With --top: table of source, target, score.")
    ] = None,
    vectors: Annotated[
        str | None, typer.Option(help="With --top: compare these vectors of the graph; nothing is trained.")
    ] = None,
    val: Annotated[float | None, typer.Option(help="Fraction of edges for validation [default: 0.05].")] = None,
    test: Annotated[float | None, typer.Option(help="Fraction of edges for the test [default: 0.1].")] = None,
    device: DeviceOpt = "auto",
    seed: SeedOpt = 0,
    seeds: SeedsOpt = 1,
    quiet: QuietOpt = False,
    as_json: JsonOpt = False,
) -> None:
    """Link prediction: vectors are learned here, on a graph without the held-out edges.

    It measures a method, not a vectors file: vectors that saw an edge cannot be tested on it. With --top and -o the
    most likely missing edges are written; never one that exists.
    """
    if top is None or out is None:
        if top is not None or out is not None:
            raise InputError("--top and --out go together: --top 100 -o links.parquet proposes missing edges.")
        if vectors is not None:
            raise InputError(f"{vectors} has seen the edges, so it cannot be tested on them. Leave --vectors out, or "
                             "propose missing edges with --top and --out.")  # fmt: skip
        name = method or _method.for_links()
        params = _method.typed_params(name, settings=setting)
        shares = {"val": 0.05 if val is None else val, "test": 0.1 if test is None else test}
        _measure(graph, how, name, params, shares, device, range(seed, seed + seeds), quiet, as_json)
        return
    unused: dict[str, Any] = {"--val": val, "--test": test, "--seeds": None if seeds == 1 else seeds}
    unused |= {} if vectors is None else {"--method": method, "--set": setting}
    if any(value is not None for value in unused.values()):
        named = " and ".join(flag for flag, value in unused.items() if value is not None)
        raise InputError(f"{named} would not be used: no method is measured. Leave it out.")
    _propose(graph, how, method or _method.for_links(), setting, vectors, top, out, device, seed, quiet, as_json)


def _measure(
    graph: str,
    how: Options,
    name: str,
    params: dict[str, Any],
    shares: dict[str, Any],
    device: str,
    runs: range,
    quiet: bool,
    as_json: bool,
) -> None:
    from tuplet.evaluation.tasks import predict_links, repeat
    from tuplet.graph.splits import _part_sizes

    _part_sizes(1, "edges", **shares)  # shares that cannot be are told before the graph is read
    g = load_graph(graph, how)

    def run(s: int) -> Any:
        return predict_links(_method.build(name, params, g, seed=s, device=device), g, seed=s, **shares)

    with progress_bars(quiet) as progress:
        summary = repeat(each(run, runs, progress), runs)
    sizes = summary.results[0].sizes
    told = f"{sizes['test']} of {g.n_edges} edges and as many pairs without an edge test"
    print_summary(summary, f"links of {graph}, {name}", as_json, told)


def _propose(
    graph: str,
    how: Options,
    method: str,
    setting: list[str] | None,
    vectors: str | None,
    top: int,
    out: Path,
    device: str,
    seed: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write the likely missing edges of the whole graph."""
    from tuplet.evaluation.missing_links import missing_links
    from tuplet.io.write import check_table_path, write_table

    check_table_path(out)
    with progress_bars(quiet) as progress:
        if vectors is not None:
            g, table = graph_and_vectors(vectors, graph, how)
            z, by = table.z, str(vectors)
        else:
            params = _method.typed_params(method, settings=setting)
            g = load_graph(graph, how)
            estimator = _method.build(method, params, g, seed=seed, device=device)
            z, by = _method.fit(estimator, g, progress=progress).embedding_, method
        found = missing_links(z, g, top, seed=seed, progress=progress)
    source, target = (g.node_ids[found.pairs[:, side]] for side in (0, 1))
    write_table(out, {"source": source, "target": target, "score": found.score})
    compared = "all pairs compared" if found.exact else "pairs compared within and between near cells"
    if as_json:
        print_json({"links": str(out), "rows": len(found.pairs), "by": by, "exact": found.exact})
    else:
        fewer = "" if len(found.pairs) == top else f" (all that are missing; {top} were asked for)"
        sys.stdout.write(f"{out}: {len(found.pairs)} likely missing edges{fewer}, by {by}; {compared}\n")
