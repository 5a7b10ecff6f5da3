"""DMAT-i that starts at the singular vectors of its own filtered rows: clustering accuracy against steps.

    python scripts/svd_start_study.py --seconds 200 --out rows.jsonl [GRAPH ..]

Every setting runs on every graph with seeds 100 and 101, which no committed row has; K-Means and labels only score.
One process a graph; a row is written as soon as it is known.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tuplet import load_dataset
from tuplet.filters import GraphFilter
from tuplet.filters.weights import ppr
from tuplet.losses import dmati_loss, to_unit
from tuplet.metrics import accuracy
from tuplet.rows.kmeans import kmeans
from tuplet.rows.svd import truncated_svd
from tuplet.rows.unit import scale_rows

GRAPHS = ("cora", "citeseer", "acm", "dblp", "pubmed", "amazon-photo", "coauthor-cs", "coauthor-phy")
CHECKS = (0, 30, 60, 100, 150, 200, 300)
SETTINGS = [
    {"alpha": alpha, "start": start, "lr": lr, "t": 1.0, "mask": 0.6}
    for start, lr, alpha in itertools.product(("svd64", "svd32", "svd128"), (3e-4, 1e-3), (0.1, 0.15))
]
ALPHAS = (0.1, 0.15)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", default=GRAPHS)
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    until = time.time() + args.seconds
    context = multiprocessing.get_context("spawn")
    jobs = [context.Process(target=study, args=(name, until, args.out)) for name in args.graphs]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()


def study(name: str, until: float, out: Path) -> None:
    """All settings on one graph, two seeds each, until the time is over."""
    torch.set_num_threads(1)
    graph = load_dataset(name)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = {alpha: filtered(graph, alpha) for alpha in ALPHAS}
    spectra = {alpha: truncated_svd(rows[alpha], 128, seed=100) for alpha in rows}
    held = {alpha: torch.from_numpy(rows[alpha]).to(device) for alpha in rows}
    for setting, seed in itertools.product(SETTINGS, (100, 101)):
        if time.time() > until:
            return
        scores = curve(graph, held[setting["alpha"]], spectra[setting["alpha"]], setting, seed)
        with out.open("a") as file:
            file.write(json.dumps({"graph": name, "seed": seed, **setting, "accuracy": scores}) + "\n")


def filtered(graph: Any, alpha: float) -> np.ndarray:
    x = scale_rows(graph.x)
    return scale_rows(GraphFilter(ppr(alpha), tol=1e-4).transform(graph, x=x))


def curve(graph: Any, rows: torch.Tensor, spectrum: Any, setting: dict[str, Any], seed: int) -> dict[int, float]:
    """Accuracy in percent after each of CHECKS steps."""
    weight = start(spectrum, setting["start"]).to(rows.device).requires_grad_()
    optimizer = torch.optim.AdamW([weight], lr=setting["lr"], weight_decay=0.02)
    rng = torch.Generator(device=rows.device).manual_seed(seed)
    found: dict[int, float] = {}
    for step in range(CHECKS[-1] + 1):
        if step in CHECKS:
            found[step] = score(graph, rows, weight, seed)
        batch = rows[torch.randperm(len(rows), generator=rng, device=rows.device)[:512]]
        u = batch @ weight
        loss = 0.0
        for _ in range(2):
            kept = torch.rand(rows.shape[1], generator=rng, device=rows.device) >= setting["mask"]
            loss = loss + dmati_loss(u, (batch * kept) @ weight, temperature=setting["t"]) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return found


def start(spectrum: Any, name: str) -> torch.Tensor:
    """(f, d): right singular vectors; "flat" divides by the square root of the singular value."""
    d = int(name.removeprefix("svd").removesuffix("-flat"))
    right = np.array(spectrum.right[:, :d], np.float32)
    if name.endswith("flat"):
        right = right / np.sqrt(spectrum.values[:d] / spectrum.values[0]).astype(np.float32)
    return torch.from_numpy(right)


def score(graph: Any, rows: torch.Tensor, weight: torch.Tensor, seed: int) -> float:
    with torch.no_grad():
        vectors = to_unit(rows @ weight).cpu().numpy()
    labels = kmeans(vectors, graph.n_classes, seed=seed, n_init=10, device=rows.device.type).labels
    return round(100 * accuracy(graph.y, labels), 2)


if __name__ == "__main__":
    main()
