"""Search the settings of data/recipes.toml: many stacked models a graph, scored with labels, logged as JSON lines.

    python scripts/search_recipes.py --out local/search.jsonl --minutes 8
    python scripts/search_recipes.py --tasks links --datasets cora,acm --out local/links.jsonl
    python scripts/search_recipes.py --tasks clustering --datasets dblp --layers 512 --grid l2=1e-3,3e-3 --seeds 4
    python scripts/search_recipes.py --again local/search.jsonl --tasks clustering --out local/again.jsonl
    python scripts/search_recipes.py --quick --datasets dblp --out /tmp/search.jsonl      # seconds, on a CPU

Four searches (`--tasks`):
  clustering      DMAT-i on all nodes; K-Means on unit and plain rows; chosen by accuracy, NMI, ARI and F1
  classification  DMAT-i on all nodes; a ridge probe; chosen on validation nodes
  labels          DMT, DMAT and DMAT-i on the 10% training nodes; a ridge probe; chosen on validation nodes
  links           DMAT-i on the graph without the held-out edges; chosen on validation edges
Then the best few of each run again with ten new seeds, and what wins is printed. `--again LOG` skips the grid and
takes the best few from a log. `--apply --out LOG` writes the winners of a log into data/recipes.toml: what was varied
is marked "tuned", what was held fixed is not.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import sys
import time
import tomllib
import traceback
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from stacked import Model, Stack, cluster_scores, filter_rows, kmeans, link_scores, probe_scores, train, unit

from tuplet import load_dataset, split_edges, split_nodes
from tuplet.bench.report.published import read_published
from tuplet.rows.unit import scale_rows

ROOT = Path(__file__).resolve().parents[1]
RECIPES = ROOT / "src/tuplet/data/recipes.toml"
METHODS = {"dmt": "DMT", "dmat": "DMAT", "dmati": "DMAT-i:train"}
TABLES = {"labels": "classification", "classification": "classification", "links": "links"}
DATASETS = ("acm", "dblp", "cora", "citeseer", "amazon-photo", "pubmed", "coauthor-cs", "coauthor-phy")
TASKS = ("clustering", "classification", "labels", "links")
# The most promising first: what the time does not allow falls off the end.
ALPHAS = {
    "clustering": {
        "acm": (0.4, 0.3),
        "dblp": (0.6, 0.5, 0.7, 0.4),
        "cora": (0.1, 0.15, 0.2),
        "citeseer": (0.3, 0.4, 0.2),
        "pubmed": (0.05, 0.03, 0.08),
        "amazon-photo": (0.1, 0.05),
        "coauthor-cs": (0.1, 0.2),
        "coauthor-phy": (0.015, 0.03, 0.05),
    },
    "classification": defaultdict(lambda: (0.1, 0.3, 0.05), {"dblp": (0.3, 0.6, 0.1), "acm": (0.3, 0.1, 0.5)}),
    "labels": defaultdict(lambda: (0.1, 0.2, 0.05), {"dblp": (0.3, 0.6), "acm": (0.3, 0.5)}),
    "links": defaultdict(lambda: (0.3, 0.1, 0.5)),
}
RATES = {"lr": (3e-4, 1e-3), "l2": (0.0, 1e-4, 3e-4, 1e-3)}  # l2 0: AdamW with the paper's weight decay
GRIDS = {
    "clustering": {"temperature": (0.5, 1.0, 2.0), "mask_fraction": (0.2, 0.6), **RATES},
    "classification": {"temperature": (0.2, 0.5, 1.0), "mask_fraction": (0.1, 0.3, 0.6), **RATES},
    "labels": {"temperature": (0.3, 1.0), "mask_fraction": (0.2, 0.5), **RATES},
    "links": {"temperature": (0.1, 0.2, 0.5, 1.0), "mask_fraction": (0.1, 0.3, 0.6), **RATES},
}
# Where the paper or earlier runs point elsewhere.
SPECIAL = {
    ("clustering", "dblp"): GRIDS["clustering"] | {"mask_fraction": (0.1, 0.2, 0.4)},
    ("clustering", "citeseer"): GRIDS["clustering"] | {"temperature": (1.0, 2.0, 4.0)},
}
STOPS = {
    "clustering": (10, 30, 60, 100, 200, 400, 600, 800, 1200, 1500),
    "classification": (100, 300, 1000),
    "labels": (15, 30, 60, 100, 200),
    "links": (60, 150, 300, 600, 1200),
}
LAYERS = {
    "clustering": ((256, 256),),
    "classification": ((512, 512),),
    "labels": ((256, 256),),
    "links": ((256, 256),),
}
SPLITS = {"labels": (0, 1, 2, 3)}  # of the training nodes; the others hold one fixed split, or several for the probe
DECAY = {"amazon-photo": 0.1, "acm": 0.02, "cora": 0.02}  # the paper's; 0.05 for the others
KEPT: dict[tuple[str, float], torch.Tensor] = {}
VARIED = ("alpha", "temperature", "mask_fraction", "lr", "max_steps")  # and l2: optimizer and weight_decay
HELD = ("layers", "n_views", "batch_size")
KEYS = ("alpha", "layers", "temperature", "mask_fraction", "lr", "l2", "n_views", "batch_size", "max_steps", "rows")


class Search:
    """One task on one graph: runs stacks, logs every score, keeps what it saw."""

    def __init__(self, task: str, name: str, args: argparse.Namespace, log, deadline: float) -> None:
        self.task, self.name, self.args, self.log, self.deadline = task, name, args, log, deadline
        self.graph = load_dataset(name)
        self.device = args.device
        self.y = torch.as_tensor(self.graph.y, device=self.device)
        self.seen: list[dict] = []
        self.published = published(name)

    def run(self) -> None:
        """The grid, most promising alpha first, then the best few again with new seeds."""
        if self.args.again:
            self.seen = [r for r in read_log(self.args.again) if (r["task"], r["dataset"]) == (self.task, self.name)]
        else:
            self.search()
        for kind in sorted({row["kind"] for row in self.seen}):
            self.refine(kind)

    def search(self) -> None:
        """The grid of every alpha and loss, as far as the time allows."""
        alphas = self.args.alphas or ALPHAS[self.task][self.name][: 1 if self.args.quick else None]
        for kind in ("dmt", "dmat", "dmati") if self.task == "labels" else ("dmati",):
            for alpha, layers in itertools.product(alphas, self.args.layers or LAYERS[self.task]):
                if time.monotonic() > self.deadline:
                    print(f"  {self.name} {self.task}: out of time before alpha {alpha} of {kind}")
                    break
                self.stacks(kind, alpha, layers, self.grid(), seeds=(0,))

    def grid(self) -> list[Model]:
        values = (SPECIAL.get((self.task, self.name), GRIDS[self.task]) | dict(self.args.grid)).values()
        models = [Model(*setting, seed=seed) for *setting, seed in itertools.product(*values, range(self.args.seeds))]
        return models[:2] if self.args.quick else models

    def refine(self, kind: str, seeds: tuple[int, ...] = tuple(range(11, 21))) -> None:
        """Train the best settings again from other seeds, so that the winner is not the luckiest."""
        groups = defaultdict(list)
        for alpha, layers, *model in promising([r for r in self.seen if r["kind"] == kind], self.args.top):
            groups[alpha, layers] += [Model(*model, seed=seed) for seed in seeds[: 2 if self.args.quick else None]]
        for (alpha, layers), models in groups.items():
            self.stacks(kind, alpha, layers, models, seeds=seeds[:1], refined=True)

    def stacks(self, kind: str, alpha: float, layers, models, seeds, refined: bool = False) -> None:
        """Train one stack for each split, score it at every stop, log the scores."""
        stops, batch = ((3, 6), 64) if self.args.quick else (STOPS[self.task], self.args.batch)
        stops = [stop for stop in stops if stop <= self.args.max_steps]
        layers = (32, 32) if self.args.quick else layers
        for split_seed in (0,) if self.args.quick else SPLITS.get(self.task, (0,)):
            rows, y, score = self.setup(alpha, split_seed)
            stack = Stack(models, rows.shape[1], layers, DECAY.get(self.name, 0.05), self.device)
            began = time.monotonic()
            for steps in train(stack, rows, stops, kind=kind, y=y, views=self.args.views, batch=batch, seed=seeds[0]):
                shared = {"dataset": self.name, "task": self.task, "kind": kind, "alpha": alpha}
                shared |= {
                    "layers": list(layers),
                    "n_views": self.args.views,
                    "batch_size": batch,
                    "max_steps": steps,
                    "refined": refined,
                }
                self.note(models, shared | {"split": split_seed}, score(stack))
            spent = f"{len(models)} models, {max(stops)} steps, {time.monotonic() - began:.1f} s"
            print(f"  {self.name} {self.task} {kind} alpha {alpha}: {spent}", flush=True)

    def setup(self, alpha: float, split_seed: int) -> tuple:
        """(training rows, their labels or None, function from stack to scores) for this task."""
        graph = self.graph
        if self.task == "links":
            split = split_edges(graph, seed=split_seed)
            rows = training_rows(split.graph, alpha, self.device)
            return rows, None, lambda stack: self.score_links(stack.embed(rows), split)
        rows = self.rows(alpha)
        if self.task == "clustering":
            return rows, None, lambda stack: self.score_clusters(stack.embed(rows))
        if self.task == "classification":
            splits = [split_nodes(graph.y, seed=seed) for seed in (0, 1, 2)]
            return rows, None, lambda stack: self.score_probe(stack.embed(rows), splits)
        split = split_nodes(graph.y, seed=split_seed)
        part = torch.as_tensor(split.train, device=self.device)
        return rows[part], self.y[part], lambda stack: self.score_probe(stack.embed(rows), [split])

    def rows(self, alpha: float) -> torch.Tensor:
        """The rows of the whole graph, kept for the tasks that follow."""
        if (self.name, alpha) not in KEPT:
            KEPT[self.name, alpha] = training_rows(self.graph, alpha, self.device)
        return KEPT[self.name, alpha]

    def score_clusters(self, z) -> Iterator[tuple[str, list[dict]]]:
        """Scores of K-Means on unit and on plain rows; `score` counts points above the paper, at most 2 a metric."""
        for rows in ("unit", "plain"):
            labels = kmeans(unit(z) if rows == "unit" else z, self.graph.n_classes)
            scores = cluster_scores(labels, self.y, self.graph.n_classes)
            for values in scores:
                gaps = {m: min(2.0, values[m] - self.published.get(m, values[m])) for m in values}
                values["score"] = (2 * gaps["accuracy"] + gaps["nmi"] + gaps["ari"] + gaps["f1"]) / 5
            yield rows, scores

    def score_probe(self, z, splits) -> Iterator[tuple[str, list[dict]]]:
        found = [probe_scores(z, self.y, self.graph.n_classes, split) for split in splits]
        val, test = (torch.stack(part).mean(0).tolist() for part in zip(*found))
        yield "plain", [{"score": v, "val_accuracy": v, "accuracy": t} for v, t in zip(val, test)]

    def score_links(self, z, split) -> Iterator[tuple[str, list[dict]]]:
        for rows in ("unit", "centred unit"):
            found = {name: values.tolist() for name, values in link_scores(z, split, rows).items()}
            scores = [dict(zip(found, values)) for values in zip(*found.values())]
            for values in scores:
                values["score"] = (values["val_auc"] + values["val_ap"]) / 2
            yield rows, scores

    def note(self, models, shared: dict, found) -> None:
        for rows, scores in found:
            for model, values in zip(models, scores):
                entry = shared | {"rows": rows} | vars(model) | {k: round(float(v), 3) for k, v in values.items()}
                self.seen.append(entry)
                self.log.write(json.dumps(entry) + "\n")
        self.log.flush()


def promising(rows: list[dict], top: int) -> list[tuple]:
    """The `top` settings (alpha, layers, temperature, mask fraction, lr, l2) by mean score at their best stop."""
    groups = defaultdict(list)
    for row in rows:
        setting = (
            row["alpha"],
            tuple(row["layers"]),
            *(row[key] for key in ("temperature", "mask_fraction", "lr", "l2")),
        )
        groups[setting, row["max_steps"], row["rows"]].append(row)
    means = sorted(((_mean_score(found), setting) for (setting, *_), found in groups.items()), reverse=True)
    return list(dict.fromkeys(setting for _, setting in means))[:top]


def read_log(file: Path) -> list[dict]:
    """The rows of a log of JSON lines, plain or gzipped."""
    text = gzip.decompress(file.read_bytes()).decode() if file.suffix == ".gz" else file.read_text()
    missing = {"l2": 0.0, "batch_size": 512}  # what older logs held fixed
    return [missing | json.loads(line) for line in text.splitlines()]


def winners(log: Iterable[dict]) -> dict[tuple[str, str, str], dict]:
    """(dataset, task, kind) -> the setting with the best mean score, of those that ran with the most seeds."""
    groups: dict[tuple, dict[tuple, dict]] = defaultdict(lambda: defaultdict(dict))
    for row in log:
        if row["refined"]:
            setting = tuple(json.dumps(row[key]) for key in KEYS)
            groups[row["dataset"], row["task"], row["kind"]][setting][row["seed"], row["split"]] = row
    return {key: _mean_of(_best(found)) for key, found in groups.items()}


def _best(found: dict[tuple, dict]) -> list[dict]:
    runs = [list(rows.values()) for rows in found.values()]
    most = max(map(len, runs))
    return max((rows for rows in runs if len(rows) == most), key=_mean_score)


def _mean_score(rows: list[dict]) -> float:
    return sum(row["score"] for row in rows) / len(rows)


def _mean_of(rows: list[dict]) -> dict:
    measures = [k for k in ("accuracy", "nmi", "ari", "f1", "auc", "ap", "score") if k in rows[0]]
    means = {k: round(sum(row[k] for row in rows) / len(rows), 2) for k in measures}
    return {key: rows[0][key] for key in KEYS} | {"mean": means, "runs": len(rows)}


def training_rows(graph, alpha: float, device: str) -> torch.Tensor:
    """Unit features, filtered, unit again: (n, f) on the device."""
    x = scale_rows(graph.x)
    x = torch.as_tensor(x.toarray() if hasattr(x, "toarray") else x, device=device)
    return unit(filter_rows(graph.indptr, graph.indices, x, alpha))


def published(dataset: str) -> dict[str, float]:
    """The paper's clustering row of DMAT-i for `dataset`."""
    numbers = read_published(ROOT / "benchmarks/paper/published")
    mine = ("clustering", dataset, "DMAT-i")
    return {cell[4]: number.mean for cell, number in numbers.items() if cell[:3] == mine}


def apply(log: Path) -> None:
    """Write the winners of `log` into data/recipes.toml, each value with source "tuned"."""
    rows = read_log(log)
    book = tomllib.loads(RECIPES.read_text())
    for (dataset, task, kind), best in winners(rows).items():
        block = book[dataset] if task == "clustering" else book[dataset].setdefault(TABLES[task], {})
        if task == "labels":
            block = block.setdefault(METHODS[kind], {})
        if task == "clustering":
            _pin(block)
        block |= {key: {"value": best[key], "source": "tuned"} for key in VARIED}
        block |= _optimizer(best["l2"], dataset)
        inherited = book[dataset] | (book[dataset].get(TABLES[task], {}) if task != "clustering" else {})
        for key in HELD:
            if task == "labels" or key in block or inherited[key]["value"] != best[key]:
                block[key] = _held(inherited | block, key, best[key])
        if task == "clustering":
            unit_rows = {"value": best["rows"] == "unit", "source": "tuned"}
            block.setdefault("clustering", {})["evaluate"] = {"unit_rows": unit_rows}
    lines = RECIPES.read_text().splitlines(keepends=True)
    head = "".join(itertools.takewhile(lambda line: line.startswith("#"), lines))
    RECIPES.write_text(head + "".join(_toml_block(name, block) for name, block in book.items()))


def _optimizer(l2: float, dataset: str) -> dict:
    """What `l2` means for a recipe: Adam with that weight decay, or AdamW with the one of the paper."""
    if l2:
        return {name: {"value": v, "source": "tuned"} for name, v in (("optimizer", "adam"), ("weight_decay", l2))}
    return {
        "optimizer": {"value": "adamw", "source": "paper"},
        "weight_decay": {"value": DECAY.get(dataset, 0.05), "source": "paper"},
    }


def _pin(block: dict) -> None:
    """Give the other tasks their own copy of what they share with clustering, which is about to change."""
    for task in ("classification", "links"):
        shared = {key: block[key] for key in (*VARIED, *HELD, "optimizer", "weight_decay")}
        block[task] = shared | block.get(task, {})


def _held(block: dict, key: str, value: object) -> dict:
    """A value that the search held fixed: it keeps its source where it is the one that stood there, else a guess."""
    same = key in block and block[key]["value"] == value
    return block[key] if same else {"value": value, "source": "guess"}


def _toml_block(name: str, block: dict) -> str:
    """A table of recipes.toml and those inside it."""
    values = {k: v for k, v in block.items() if set(v) == {"value", "source"}}
    lines = [f'{k} = {{ value = {json.dumps(v["value"])}, source = "{v["source"]}" }}' for k, v in values.items()]
    text = "\n".join(["", f"[{name}]", *lines, ""]) if lines else ""
    inner = {k if k.replace("-", "").isalnum() else f'"{k}"': v for k, v in block.items() if k not in values}
    return text + "".join(_toml_block(f"{name}.{k}", v) for k, v in inner.items())


def _layers(text: str) -> list[tuple[int, ...]]:
    return [tuple(int(width) for width in encoder.split("-")) for encoder in text.split(",")]


def _values(text: str) -> tuple[str, tuple[float, ...]]:
    name, _, values = text.partition("=")
    if name not in GRIDS["clustering"]:
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(GRIDS['clustering'])}")
    return name, tuple(float(value) for value in values.split(","))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("local/search.jsonl"))
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--alphas", type=lambda text: [float(a) for a in text.split(",")], default=None)
    parser.add_argument("--grid", type=_values, action="append", default=[], help="e.g. temperature=0.5,1 or l2=1e-3")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each setting of the grid")
    parser.add_argument("--max-steps", type=int, default=10**6)
    parser.add_argument("--views", type=int, default=2)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--layers", type=_layers, default=None, help="encoders to try, e.g. 512 or 512,256-256")
    parser.add_argument(
        "--again", type=Path, default=None, help="no grid: the best settings of this log, with new seeds"
    )
    parser.add_argument("--top", type=int, default=6, help="how many settings run again with new seeds")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--quick", action="store_true", help="tiny grids, to see that it runs")
    parser.add_argument(
        "--apply", action="store_true", help="search nothing: write the winners of --out to the recipes"
    )
    args = parser.parse_args()
    if args.apply:
        apply(args.out)
        return
    torch.backends.cuda.matmul.allow_tf32 = True
    args.out.parent.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * args.minutes
    plan = [(task, name) for task in args.tasks.split(",") for name in args.datasets.split(",")]
    failed = 0
    with args.out.open("a") as log:
        for done, (task, name) in enumerate(plan):
            now = time.monotonic()
            try:
                search = Search(task, name, args, log, deadline=now + 0.75 * max(0.0, end - now) / (len(plan) - done))
                search.run()
                for (_, _, kind), best in winners(search.seen).items():
                    print(f"{name} {task} {kind}: {json.dumps(best)}", flush=True)
            except Exception:
                failed += 1
                traceback.print_exc()
            if args.device == "cuda":
                torch.cuda.empty_cache()
    sys.exit(1 if failed == len(plan) else 0)


if __name__ == "__main__":
    main()
