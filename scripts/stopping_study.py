"""How well label-free criteria find the best moment to stop, and what block shuffling costs.

    python scripts/stopping_study.py cora citeseer acm dblp       criteria; prints Markdown tables
    python scripts/stopping_study.py --shuffle cora acm           full against block shuffling

Each graph is trained far past its best step; every few steps the criteria are measured as in training (a fixed
sample, no labels) and, only to judge them, the accuracy of K-Means with labels. For each criterion: the step it
picks, and the accuracy there, against the best of all measured steps and the one nearest the default length.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from tuplet import DMATi, cluster_nodes, load_dataset
from tuplet.training import batches as row_batches
from tuplet.training.config import DEFAULT_STEPS
from tuplet.training.criteria import CRITERIA, sample_edges
from tuplet.training.encoder import encode, make_encoder
from tuplet.training.loop import TrainConfig, train

EIGHT = ["cora", "citeseer", "pubmed", "acm", "dblp", "amazon-photo", "coauthor-cs", "coauthor-phy"]


def measured(name: str, seed: int, steps: int, every: int, k: int | None) -> dict[str, list[float]]:
    """Accuracy and criteria at every `every`-th step of one long run."""
    graph = load_dataset(name)
    model = DMATi(seed=seed)
    rows = model._rows(graph, None)
    encoder = make_encoder(rows.shape[1], model.layers, seed)
    config = TrainConfig(
        temperature=model.temperature,
        mask_fraction=model.mask_fraction,
        n_views=model.n_views,
        lr=model.lr,
        max_steps=steps,
        check_every=every,
        criteria=tuple(CRITERIA),
        n_clusters=k or graph.n_classes,
    )
    accuracy = []

    def score(phase: str, done: float) -> None:
        if round(done * steps) % every == 0:
            z = encode(encoder, rows)
            accuracy.append(cluster_nodes(z, graph, seed=seed, n_init=5).values["accuracy"])

    history = train(encoder, rows, config, seed=seed, progress=score, edges=sample_edges(graph, seed))
    return {"accuracy": accuracy, "step": history["step"], **{c: history[c] for c in CRITERIA}}


def picked(values: list[float], criterion: str, patience: int | None) -> int:
    """Position that the criterion picks: its best value, before `patience` worse ones in a row where given."""
    best = 0
    for i, value in enumerate(values):
        if CRITERIA[criterion] * (value - values[best]) > 0:
            best = i
        elif patience is not None and i - best >= patience:
            break
    return best


def criteria_table(runs: list[dict[str, Any]], patience: int | None) -> str:
    """Markdown: for each graph the best step and accuracy, then accuracy (and step) at each criterion's pick."""
    names = list(CRITERIA)
    lines = [f"| graph | best | fixed | last | {' | '.join(names)} |", "|---|---|---|---|" + "---|" * len(names)]
    lost: dict[str, list[float]] = {c: [] for c in ("fixed", "last", *names)}
    for graph in dict.fromkeys(run["graph"] for run in runs):
        mine = [run for run in runs if run["graph"] == graph]
        best = [(max(r["accuracy"]), r["step"][int(np.argmax(r["accuracy"]))]) for r in mine]
        cells = [_cell(best)]
        for c in lost:
            at = [_moment(r, c, patience) for r in mine]
            cells.append(_cell([(r["accuracy"][i], r["step"][i]) for r, i in zip(mine, at)]))
            lost[c] += [max(r["accuracy"]) - r["accuracy"][i] for r, i in zip(mine, at)]
        lines.append(f"| {graph} | {' | '.join(cells)} |")
    means = [f"-{np.mean(lost[c]):.1f}" for c in lost]
    return "\n".join([*lines, f"| points lost, mean | 0 | {' | '.join(means)} |"])


def _moment(run: dict[str, Any], criterion: str, patience: int | None) -> int:
    """Position where to stop: by a criterion, at the end, or at the default number of steps ("fixed")."""
    if criterion == "last":
        return len(run["step"]) - 1
    if criterion == "fixed":
        return int(np.argmin(np.abs(np.array(run["step"]) - DEFAULT_STEPS)))
    return picked(run[criterion], criterion, patience)


def _cell(pairs: list[tuple[float, float]]) -> str:
    accuracy, step = np.mean(pairs, axis=0)
    return f"{accuracy:.1f} ({step:.0f})"


def shuffle_table(graphs: list[str], seeds: int) -> str:
    """Markdown: accuracy with a full permutation, and with blocks of 64 rows, 8 of them shuffled together."""
    lines = ["| graph | full | blocks |", "|---|---|---|"]
    for name in graphs:
        graph, cells = load_dataset(name), []
        for shuffle in ("full", "blocks"):
            scores = []
            for seed in range(seeds):
                model = DMATi(seed=seed)
                rows = model._rows(graph, None)
                row_batches.BLOCK_BYTES = 64 * rows[:1].nbytes
                row_batches.GROUP_BYTES = 8 * row_batches.BLOCK_BYTES
                encoder = make_encoder(rows.shape[1], model.layers, seed)
                config = TrainConfig(**{**vars(model.train_config()), "shuffle": shuffle})
                train(encoder, rows, config, seed=seed)
                scores.append(cluster_nodes(encode(encoder, rows), graph, seed=seed).values["accuracy"])
            cells.append(f"{np.mean(scores):.1f} ± {np.std(scores):.1f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", default=EIGHT)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--every", type=int, default=15)
    parser.add_argument("--k", type=int, help="clusters of the criteria; by default the number of classes")
    parser.add_argument("--shuffle", action="store_true")
    parser.add_argument(
        "--out", type=Path, help="append the measured runs as JSON rows; existing ones are used again"
    )
    options = parser.parse_args()
    if options.shuffle:
        print(shuffle_table(options.graphs, options.seeds))
        return
    runs = []
    if options.out is not None and options.out.exists():
        runs = [json.loads(line) for line in options.out.read_text().splitlines()]
    known = {(run["graph"], run["seed"]) for run in runs}
    for name in options.graphs:
        for seed in range(options.seeds):
            if (name, seed) in known:
                continue
            values = measured(name, seed, options.steps, options.every, options.k)
            runs.append({"graph": name, "seed": seed, **values})
            if options.out is not None:
                with options.out.open("a") as file:
                    file.write(json.dumps(runs[-1]) + "\n")
    for patience in (None, 3):
        print("\nbest of the whole run:\n" if patience is None else f"\nwith patience {patience}:\n")
        print(criteria_table(runs, patience))


if __name__ == "__main__":
    main()
