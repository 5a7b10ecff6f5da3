"""`tuplet embed`: a graph in, a vectors file out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tuplet._check import InputError, check_out_path
from tuplet.cli._console import (
    DeviceOpt,
    DirectedOpt,
    FeaturesOpt,
    GraphArg,
    JsonOpt,
    LabelsOpt,
    QuietOpt,
    SeedOpt,
    load_graph,
    print_json,
    progress_bars,
)


def embed(
    graph: GraphArg,
    features: FeaturesOpt = None,
    labels: LabelsOpt = None,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Vectors file: .parquet, .csv or .npy; - writes CSV to standard output."),
    ] = Path("vectors.parquet"),
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
    label: Annotated[
        str | None, typer.Option(help="Label column in the features file; it is no feature then.")
    ] = None,
    directed: DirectedOpt = False,
    missing: Annotated[str, typer.Option(help="Missing feature values: error, zero, mean or propagate.")] = "error",
    unmatched: Annotated[str, typer.Option(help="Nodes in one file only: error, keep or drop.")] = "error",
    save_model: Annotated[Path | None, typer.Option(help="Folder to save the model in.")] = None,
    model: Annotated[Path | None, typer.Option(help="Use this saved model; nothing is trained.")] = None,
    new: Annotated[
        tuple[Path, Path] | None,
        typer.Option(help="With --model: edges and features of nodes that are new to GRAPH; only they are embedded."),
    ] = None,
    device: DeviceOpt = "auto",
    seed: SeedOpt = 0,
    quiet: QuietOpt = False,
    as_json: JsonOpt = False,
) -> None:
    """Learn one vector for each node and write them with the node ids."""
    from tuplet.io.vectors import write_vectors

    to_stdout = str(out) == "-"
    if not to_stdout:
        check_out_path(out)
    if new is not None and model is None:
        raise InputError("--new needs --model: new nodes are embedded by a model that was trained before.")
    g = load_graph(graph, features, labels, directed, missing=missing, unmatched=unmatched, label=label)
    with progress_bars(quiet) as progress:
        if model is not None:
            ids, z, estimator = _apply(model, g, new, progress)
        else:
            params = _params(method, g, recipe, dim, clusters, setting, seed, device, labels is not None)
            estimator = _fit(params, g, progress)
            ids, z = g.node_ids, estimator.embedding_
        metadata = {"model": repr(estimator), "graph": g.fingerprint()}
        if not to_stdout:
            write_vectors(out, z, ids, metadata=metadata)
        if save_model is not None:
            estimator.save(save_model)
    if to_stdout:
        _print_vectors(ids, z)
        return
    facts = {"vectors": str(out), "rows": len(z), "dim": int(z.shape[1]), "method": type(estimator).__name__}
    if as_json:
        print_json(facts)
    else:
        sys.stdout.write(f"{out}: {len(z)} vectors of {z.shape[1]} numbers, by {facts['method']}\n")


def _params(
    method: str | None,
    g: Any,
    recipe: str | None,
    dim: int | None,
    clusters: int | None,
    settings: list[str] | None,
    seed: int,
    device: str,
    labelled: bool,
) -> dict[str, Any]:
    """Method name and constructor parameters: recipe first, then what was typed."""
    method = method or ("DMAT" if labelled else "SelfDMAT")
    params: dict[str, Any] = {"seed": seed, "device": device}
    if recipe is not None:
        from tuplet.bench.recipes import estimator_settings, recipe_settings

        method = "DMAT-i" if method == "SelfDMAT" else method
        params |= estimator_settings(recipe_settings(recipe, method=method))
    if dim is not None:
        params["dim" if method == "SelfDMAT" else "layers"] = dim if method == "SelfDMAT" else (256, dim)
    if clusters is not None:
        params["n_clusters"] = clusters
    elif method == "SelfDMAT" and g.n_classes:
        params["n_clusters"] = g.n_classes
    params |= dict(_setting(text) for text in settings or ())
    return {"method": method, **params}


def _setting(text: str) -> tuple[str, Any]:
    """("lr", 0.001) from "lr=1e-3"; values are read as Python literals, else kept as text."""
    import ast

    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InputError(f"--set {text!r} has no value. Write it as name=value, for example --set epochs=20.")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def _fit(params: dict[str, Any], g: Any, progress: Any) -> Any:
    from tuplet.models.registry import make_estimator

    params = dict(params)
    return make_estimator(params.pop("method"), **params).fit(g, progress=progress)


def _apply(folder: Path, g: Any, new: tuple[Path, Path] | None, progress: Any) -> tuple[Any, Any, Any]:
    """Ids, vectors and the model in `folder`, applied to the whole graph or to new nodes only."""
    from tuplet.models.dmat import load

    estimator = load(folder)
    if new is None:
        return g.node_ids, estimator.transform(g, progress=progress), estimator
    from tuplet.io.new_nodes import read_new_nodes
    from tuplet.models.new_nodes import embed_new

    nodes = read_new_nodes(g, *new)
    return nodes.ids, embed_new(estimator, g, nodes.x, nodes.edges, weights=nodes.weights), estimator


def _print_vectors(ids: Any, z: Any) -> None:
    """The vectors as CSV on standard output, as `write_vectors` writes them to a .csv file."""
    import shutil
    import tempfile

    from tuplet.io.vectors import write_vectors

    with tempfile.TemporaryDirectory() as folder:
        path = write_vectors(Path(folder) / "vectors.csv", z, ids)
        with path.open(encoding="utf-8") as file:
            shutil.copyfileobj(file, sys.stdout)
