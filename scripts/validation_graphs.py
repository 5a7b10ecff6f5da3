"""Graphs to choose settings on, made up on the spot: what the eight graphs of the paper do not show.

    python scripts/validation_graphs.py write folder      # NAME.npz for each, in the datasets' format
    python scripts/validation_graphs.py list
    python scripts/validation_graphs.py measure c --seeds 3 --out rows.jsonl    # methods side by side
    python scripts/validation_graphs.py measure many-a --nodes 60000,120000 --seeds 1 --out rows.jsonl    # larger
    python scripts/validation_graphs.py groups a --out rows.jsonl    # how many groups SelfDMAT finds, seed 100

Eight kinds, three graphs each. The third of each kind ("-c") was kept unseen until every choice was made; docs/LOG.md
has the figures. Classes lie in families that share words and edges, degrees and words follow power laws, sizes and
strengths are drawn from the graph's own seed, so that no two graphs of a kind are alike.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class Kind:
    """What a kind of graph is like. `spread`: exponent of the class sizes, 0 for even ones."""

    k: tuple[int, int] = (4, 9)
    n: tuple[int, int] = (2000, 5000)
    spread: float = 0.4
    degree: tuple[float, float] = (5, 9)
    inside: tuple[float, float] = (0.6, 0.75)  # share of a node's edges that stay in its class
    family: float = 0.5  # share of the other edges that stay in its family of classes
    words: tuple[int, int] = (12, 25)
    topical: tuple[float, float] = (0.25, 0.4)  # share of a node's words that come from its class
    turned: bool = False  # edges go to another class, not to the own one
    dense: bool = False  # features are Gaussian columns


KINDS = {
    "plain": Kind(topical=(0.12, 0.2), inside=(0.5, 0.6)),
    "uneven": Kind(k=(8, 12), spread=1.3, n=(4000, 8000), degree=(20, 40), inside=(0.65, 0.8)),
    "many": Kind(k=(45, 55), n=(8000, 12000), spread=0.5, degree=(6, 12), inside=(0.5, 0.6), topical=(0.15, 0.25)),
    "dense": Kind(k=(5, 10), n=(3000, 6000), degree=(40, 70), inside=(0.45, 0.6), topical=(0.15, 0.25)),
    "weak-features": Kind(topical=(0.05, 0.1), degree=(8, 12), inside=(0.7, 0.8)),
    "weak-edges": Kind(topical=(0.45, 0.6), inside=(0.25, 0.35), degree=(3, 5)),
    "turned": Kind(turned=True, topical=(0.4, 0.6), inside=(0.6, 0.8)),
    "columns": Kind(dense=True, spread=0.8),
}
NAMES = tuple(f"{kind}-{letter}" for kind in KINDS for letter in "abc")
UNSEEN = tuple(name for name in NAMES if name.endswith("-c"))


def make(name: str, nodes: tuple[int, int] | None = None) -> dict[str, Any]:
    """The graph called `name`: adjacency (n, n) CSR, features `x` (n, f) CSR or dense, labels `y` (n,).

    `nodes` is the range of its size in place of its kind's.
    """
    title, letter = name.rsplit("-", 1)
    kind = KINDS[title] if nodes is None else replace(KINDS[title], n=nodes)
    rng = np.random.default_rng([list(KINDS).index(title), "abc".index(letter), 2026])
    k, n = int(rng.integers(*kind.k, endpoint=True)), int(rng.integers(*kind.n, endpoint=True))
    share = np.arange(1, k + 1.0) ** -kind.spread
    y = rng.choice(k, n, p=share / share.sum())
    y[:k] = np.arange(k)
    families = rng.permutation(np.arange(k) % max(2, round(k**0.5)))
    adj = _edges(y, families, kind, rng)
    x = _columns(y, families, kind, rng) if kind.dense else _bag(y, families, kind, rng)
    return {"adj": adj, "x": x, "y": y.astype(np.int64)}


def _edges(y: Any, families: Any, kind: Kind, rng: Any) -> sp.csr_array:
    n, k = len(y), len(families)
    m = int(n * rng.uniform(*kind.degree) / 2)
    pull = rng.pareto(2.5, n) + 0.3  # hubs
    pools = [np.flatnonzero(y == c) for c in range(k)]
    u = rng.choice(n, m, p=pull / pull.sum())
    goal = _goals(y[u], families, kind, rng)
    v = np.empty(m, np.int64)
    for c in range(k):
        here = goal == c
        v[here] = rng.choice(pools[c], int(here.sum()), p=pull[pools[c]] / pull[pools[c]].sum())
    keep = u != v
    rows, cols = np.concatenate([u[keep], v[keep]]), np.concatenate([v[keep], u[keep]])
    adj = sp.csr_array((np.ones(len(rows), np.float32), (rows, cols)), shape=(n, n))
    adj.sum_duplicates()
    adj.data[:] = 1
    return adj


def _goals(c: Any, families: Any, kind: Kind, rng: Any) -> Any:
    """The class that an edge from class c goes to."""
    k, m = len(families), len(c)
    share = rng.uniform(*kind.inside)
    home = (c + 1) % k if kind.turned else c
    relatives = [np.flatnonzero(families == f) for f in families]
    kin = np.array([relatives[i][rng.integers(len(relatives[i]))] for i in c])
    other = np.where(rng.random(m) < kind.family, kin, rng.integers(k, size=m))
    return np.where(rng.random(m) < share, home, other)


def _bag(y: Any, families: Any, kind: Kind, rng: Any) -> sp.csr_array:
    n, k, f = len(y), len(families), 1500
    zipf = 1 / np.arange(3, f + 3.0)
    topics = np.array([_topic(f, zipf, rng) for _ in range(k)])
    shared = np.array([_topic(f, zipf, rng) for _ in range(families.max() + 1)])
    topical = rng.uniform(*kind.topical)
    count = rng.poisson(rng.uniform(*kind.words), n).clip(3)
    rows = np.repeat(np.arange(n), count)
    origin = rng.random(len(rows))
    words = rng.choice(f, len(rows), p=zipf / zipf.sum())
    for c in range(k):
        mine = (y[rows] == c) & (origin < topical)
        words[mine] = rng.choice(f, int(mine.sum()), p=topics[c])
        kin = (y[rows] == c) & (origin >= topical) & (origin < 1.5 * topical)
        words[kin] = rng.choice(f, int(kin.sum()), p=shared[families[c]])
    x = sp.csr_array((np.ones(len(rows), np.float32), (rows, words)), shape=(n, f))
    x.sum_duplicates()
    x.data[:] = 1
    return x


def _topic(f: int, zipf: Any, rng: Any) -> Any:
    weight = np.zeros(f)
    chosen = rng.choice(f, f // 10, replace=False)
    weight[chosen] = zipf[chosen] ** 0.5
    return weight / weight.sum()


def _columns(y: Any, families: Any, kind: Kind, rng: Any) -> Any:
    f, signal = 100, rng.uniform(0.8, 1.4)
    own = rng.standard_normal((len(families), f)) / f**0.5
    kin = rng.standard_normal((families.max() + 1, f)) / f**0.5
    return (signal * (own[y] + kin[families[y]]) + rng.standard_normal((len(y), f)) * 0.5).astype(np.float32)


METHODS = ("SelfDMAT", "FilterSVD", "M-S2CAG")


def measure(ending: str, seeds: int, nodes: tuple[int, int] | None, out: Path) -> None:
    """Clustering accuracy of the methods' own labels, with their defaults and the number of classes given."""
    from tuplet.graph import Graph
    from tuplet.metrics import accuracy
    from tuplet.models.registry import make_estimator
    from tuplet.rows.kmeans import kmeans

    for name in (name for name in NAMES if name.endswith(ending)):
        made = make(name, nodes)
        graph, k = Graph.from_scipy(made["adj"], made["x"]), len(np.unique(made["y"]))
        for method, seed in ((method, seed) for method in METHODS for seed in range(100, 100 + seeds)):
            begun = time.perf_counter()
            model = make_estimator(method, n_clusters=k, seed=seed).fit(graph)
            seconds = time.perf_counter() - begun
            on_vectors = kmeans(model.embedding_, k, seed=seed).labels
            row = {"graph": name, "nodes": graph.n_nodes, "k": k, "method": method, "seed": seed}
            row |= {"seconds": round(seconds, 2)}
            row |= {"accuracy": round(100 * float(accuracy(made["y"], model.labels_)), 3)}
            row |= {"kmeans": round(100 * float(accuracy(made["y"], on_vectors)), 3)}
            with out.open("a") as file:
                file.write(json.dumps(row) + "\n")


def count_groups(ending: str, out: Path) -> None:
    """The number of groups that SelfDMAT finds, and the true one."""
    from tuplet import Graph, SelfDMAT

    for name in (name for name in NAMES if name.endswith(ending)):
        made = make(name)
        model = SelfDMAT(seed=100, max_steps=1).fit(Graph.from_scipy(made["adj"], made["x"]))
        row = {"graph": name, "classes": len(np.unique(made["y"])), "k": model.n_clusters_, "range": model.k_range_}
        row |= {"sure": model.k_sure_, "edges": model.k_edges_}
        with out.open("a") as file:
            file.write(json.dumps(row) + "\n")


def write(folder: Path) -> None:
    """NAME.npz of each graph, as `load_dataset` reads it from TUPLET_DATA."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        graph = make(name)
        x = sp.csr_array(graph["x"])
        np.savez_compressed(
            folder / f"{name}.npz",
            adj_indices=graph["adj"].indices.astype(np.int32),
            adj_indptr=graph["adj"].indptr.astype(np.int64),
            x_data=x.data,
            x_indices=x.indices.astype(np.int32),
            x_indptr=x.indptr.astype(np.int64),
            x_shape=np.array(x.shape),
            labels=graph["y"],
        )


def node_range(text: str) -> tuple[int, int]:
    low, high = text.split(",")
    return int(low), int(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("list", help="the names")
    verbs.add_parser("write", help="NAME.npz of each graph").add_argument("folder", type=Path)
    for verb, told in (("measure", "accuracy of the methods' labels"), ("groups", "how many groups are found")):
        options = verbs.add_parser(verb, help=told)
        options.add_argument("ending", help="graphs whose name ends so: c, many-a")
        options.add_argument("--out", type=Path, required=True, help="rows are appended here")
        if verb == "measure":
            options.add_argument("--seeds", type=int, default=3)
            options.add_argument("--nodes", type=node_range, help="LOW,HIGH in place of the kind's")
    given = parser.parse_args()
    if given.verb == "list":
        print(*NAMES, sep="\n")
    elif given.verb == "write":
        write(given.folder)
    elif given.verb == "measure":
        measure(given.ending, given.seeds, given.nodes, given.out)
    else:
        count_groups(given.ending, given.out)


if __name__ == "__main__":
    main()
