"""Column preparations compared on five real tables: what SelfDMAT makes of each, by clusters and by a linear probe.

    OMP_NUM_THREADS=1 python scripts/tables_study.py [TABLE ..] [--seeds 5] [--workers 1] [--only NAME ..]

The tables lie in benchmarks/tables (scripts/make_tables.py, make_npm_table.py and make_language_table.py made them;
`languages` was made last and measured once, after everything here was settled). Preparations:

default                what read_graph does
text, text+tokens, ..  made by hand, each with scikit-learn's parts (HAND below); the best of them is the mark
ColumnTransformer      scikit-learn, as its guide has it: tf-idf, one-hot, median and StandardScaler
TableVectorizer        skrub with its defaults (where skrub is installed)
TableVectorizer + SquashingScaler, + StandardScaler
                       the steps that skrub's tabular_pipeline puts before a linear model; its scaler or the usual one
raw                    numbers as they are, one-hot and counts: scale=False
default + COLUMN       a column that says nothing is added: raw size, index, constant, random ids

Rows that are there already are not measured again. Labels are read by the scores alone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from pyarrow import parquet as pq
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from tuplet import Graph, SelfDMAT, classify_nodes, metrics
from tuplet.io.preparation import Preparation

Row = dict[str, Any]
Key = tuple[str, str, int]
FOLDER = Path(__file__).parent.parent / "benchmarks" / "tables"
TEXT = {
    "debian": ["summary"],
    "installed": ["description"],
    "pypi": ["summary"],
    "npm": ["description"],
    "languages": ["summary"],
}
TOKENS = {"debian": ["tags"], "installed": [], "pypi": ["keywords"], "npm": ["keywords"], "languages": ["tags"]}
CATEGORIES = {
    "debian": ["priority", "architecture", "multi_arch", "maintainer", "homepage_host"],
    "installed": ["priority", "architecture", "multi_arch", "maintainer", "homepage_host"],
    "pypi": ["licence", "status", "audience", "requires_python", "author"],
    "npm": ["licence", "author", "engine", "homepage_host", "has_types"],
    "languages": ["priority", "architecture", "multi_arch", "maintainer", "homepage_host"],
}
NUMBERS = {
    "debian": ["installed_size", "size"],
    "installed": ["installed_size", "changes", "conffiles"],
    "pypi": ["files", "readme_length"],
    "npm": ["unpacked_size", "files", "versions", "maintainers", "readme_length"],
    "languages": ["installed_size", "size"],
}
DATES = {
    "debian": ["version_date"],
    "installed": ["first_change", "last_change"],
    "pypi": ["first_upload", "last_upload"],
    "npm": ["created", "changed"],
    "languages": ["version_date"],
}


def read(name: str) -> tuple[pa.Table, Any, np.ndarray]:
    """The node table, the adjacency and the classes."""
    nodes, edges = (pq.read_table(FOLDER / f"{name}.{kind}.parquet") for kind in ("nodes", "edges"))
    place = {node: i for i, node in enumerate(nodes["id"].to_pylist())}
    ends = [[place[v] for v in edges[end].to_pylist()] for end in ("source", "target")]
    adj = sp.coo_array((np.ones(len(ends[0])), ends), shape=(len(place), len(place))).tocsr()
    adj.data[:] = 1
    return nodes, adj, np.unique(nodes["label"].to_pylist(), return_inverse=True)[1]


def default(name: str, nodes: pa.Table, **options: Any) -> Any:
    return Preparation.fit_table(nodes, id="id", label="label", **options).transform(nodes)


def unit(block: Any) -> Any:
    """Mean squared row length 1."""
    block = sp.csr_array(block)
    return block / np.sqrt(block.multiply(block).sum() / block.shape[0])


def texts(nodes: pa.Table, column: str) -> list[str]:
    return [" ".join(v) if isinstance(v, list) else v or "" for v in nodes[column].to_pylist()]


def words(nodes: pa.Table, column: str) -> Any:
    return unit(TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(texts(nodes, column)))


def tokens(nodes: pa.Table, column: str) -> Any:
    lists = [v or [] for v in nodes[column].to_pylist()]
    return unit(TfidfVectorizer(analyzer=list, sublinear_tf=True, min_df=2).fit_transform(lists))


def cells(nodes: pa.Table, column: str) -> np.ndarray:
    """The levels of a category as texts, with one for nothing."""
    return np.array([str(v) for v in nodes[column].to_pylist()], object)


def levels(nodes: pa.Table, column: str) -> Any:
    return unit(OneHotEncoder(min_frequency=2).fit_transform(cells(nodes, column)[:, None]))


def numbers(nodes: pa.Table, column: str) -> np.ndarray:
    return np.array([np.nan if v is None else float(v) for v in nodes[column].to_pylist()])


def days(nodes: pa.Table, column: str) -> np.ndarray:
    """Days since the first date of the column."""
    when = np.asarray(nodes[column].cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.float64()).fill_null(np.nan))
    return np.floor((when - np.nanmin(when)) / 86_400e6)


def number(values: np.ndarray) -> Any:
    logs = np.log1p(np.where(np.isnan(values), np.nanmedian(values), values))
    return unit(StandardScaler().fit_transform(logs[:, None]))


def by_hand(parts: str) -> Callable[[str, pa.Table], Any]:
    """Features by hand from some parts: t text, k tokens, c categories (as one), n numbers and dates (as one)."""

    def make(name: str, nodes: pa.Table) -> Any:
        blocks = [words(nodes, c) for c in TEXT[name] if "t" in parts]
        blocks += [tokens(nodes, c) for c in TOKENS[name] if "k" in parts]
        if "c" in parts:
            blocks.append(unit(sp.hstack([levels(nodes, c) for c in CATEGORIES[name]])))
        if "n" in parts:
            found = [*(numbers(nodes, c) for c in NUMBERS[name]), *(days(nodes, c) for c in DATES[name])]
            blocks.append(unit(sp.hstack([number(values) for values in found])))
        return sp.hstack(blocks)

    return make


def column_transformer(name: str, nodes: pa.Table) -> Any:
    columns: dict[str, Any] = {c: texts(nodes, c) for c in TEXT[name] + TOKENS[name]}
    columns |= {c: cells(nodes, c) for c in CATEGORIES[name]} | {c: numbers(nodes, c) for c in NUMBERS[name]}
    columns |= {c: days(nodes, c) for c in DATES[name]}
    place = {c: i for i, c in enumerate(columns)}
    array = np.empty((nodes.num_rows, len(columns)), object)
    for c, i in place.items():
        array[:, i] = columns[c]
    words = [(c, TfidfVectorizer(), place[c]) for c in TEXT[name] + TOKENS[name]]
    known = OneHotEncoder(handle_unknown="ignore")
    scaled = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    rest = [("levels", known, [place[c] for c in CATEGORIES[name]])]
    rest.append(("numbers", scaled, [place[c] for c in NUMBERS[name] + DATES[name]]))
    return ColumnTransformer([*words, *rest]).fit_transform(array)


def skrub_frame(name: str, nodes: pa.Table) -> Any:
    frame = nodes.drop_columns(["id", "label"]).to_pandas()
    for c in TOKENS[name]:
        frame[c] = frame[c].map(lambda v: None if v is None else " ".join(v))
    return frame


def table_vectorizer(name: str, nodes: pa.Table) -> Any:
    from skrub import TableVectorizer

    return np.nan_to_num(TableVectorizer().fit_transform(skrub_frame(name, nodes)).to_numpy(dtype=np.float64))


def scaled_vectorizer(scaler: str) -> Callable[[str, pa.Table], Any]:
    """The steps of skrub's `tabular_pipeline` before a linear model, with its own scaler or StandardScaler."""

    def make(name: str, nodes: pa.Table) -> Any:
        from skrub import tabular_pipeline

        steps = tabular_pipeline(Ridge())[:-1]
        if scaler not in [type(step).__name__ for step in steps]:
            place = next(i for i, step in enumerate(steps.named_steps) if "scaler" in step)
            steps.steps[place] = ("standardscaler", StandardScaler())
        return np.asarray(steps.fit_transform(skrub_frame(name, nodes)), dtype=np.float64)

    return make


def added(kind: str) -> Callable[[str, pa.Table], Any]:
    """The default preparation of the table with one more column."""

    def make(name: str, nodes: pa.Table) -> Any:
        n, rng = nodes.num_rows, np.random.default_rng(5)
        column = {
            "raw size": np.round(np.exp(rng.normal(10, 3, n))),
            "index": np.arange(n),
            "constant": np.full(n, 7.5),
            "random number id": rng.choice(10**9, n, replace=False),
            "random text id": [f"{value:016x}" for value in rng.integers(2**62, size=n)],
        }[kind]
        return default(name, nodes.append_column("extra", pa.array(column)))

    return make


METHODS: dict[str, Callable[[str, pa.Table], Any]] = {
    "default": default,
    "text": by_hand("t"),
    "text+tokens": by_hand("tk"),
    "text+tokens+categories": by_hand("tkc"),
    "all by hand": by_hand("tkcn"),
    "ColumnTransformer": column_transformer,
    "TableVectorizer": table_vectorizer,
    "TableVectorizer + SquashingScaler": scaled_vectorizer("SquashingScaler"),
    "TableVectorizer + StandardScaler": scaled_vectorizer("StandardScaler"),
    "raw": lambda name, nodes: default(name, nodes, scale=False),
} | {
    f"default + {kind}": added(kind)
    for kind in ("raw size", "index", "constant", "random number id", "random text id")
}
HAND = ("text", "text+tokens", "text+tokens+categories", "all by hand")


def measure(graph: Graph, seed: int) -> dict[str, float]:
    start = time.perf_counter()
    model = SelfDMAT(graph.n_classes, seed=seed).fit(graph)
    seconds = time.perf_counter() - start
    probe = classify_nodes(model.embedding_, graph, seed=seed).values["accuracy"]
    found = {
        "accuracy": 100 * metrics.accuracy(graph.y, model.labels_),
        "nmi": 100 * metrics.nmi(graph.y, model.labels_),
    }
    return {**found, "probe": probe, "seconds": seconds}


def features(name: str, method: str, nodes: pa.Table, made: Path | None) -> Any:
    """The features by one preparation; skrub's are kept in `made`, for machines where it is not installed."""
    kept = None if made is None or "Vectorizer" not in method else made / f"{name}.{method.replace(' ', '')}.npy"
    if kept is not None and kept.exists():
        return np.load(kept)
    try:
        x = METHODS[method](name, nodes)
    except ImportError:
        return None
    if kept is not None:
        np.save(kept, x.astype(np.float32))
    return x


def rows_of(name: str, methods: list[str], seeds: int, made: Path | None, known: dict[Key, Row]) -> list[Row]:
    """The rows of some preparations of a table that are not known yet; equal features are measured once."""
    nodes, adj, y = read(name)
    same: dict[str, str] = {}
    known, found = dict(known), []
    for method in methods:
        start = time.perf_counter()
        x = features(name, method, nodes, made)
        if x is None:
            continue
        seconds = time.perf_counter() - start
        x = sp.csr_array(x).astype(np.float32) if sp.issparse(x) else np.asarray(x, np.float32)
        graph = Graph.from_scipy(adj, x, y)
        twin = same.setdefault(graph.fingerprint(), method)
        for seed in range(seeds):
            if (name, method, seed) in known:
                continue
            twins = known.get((name, twin, seed))
            scores = {k: twins[k] for k in ("accuracy", "nmi", "probe", "seconds")} if twins else measure(graph, seed)
            row: Row = {"table": name, "preparation": method, "seed": seed, "width": x.shape[1], **scores}
            row |= {"prepare_seconds": seconds, "same_features_as": twin if twin != method else None}
            row = {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}
            known[name, method, seed] = row
            found.append(row)
    return found


def run(names: list[str], seeds: int, workers: int, made: Path | None, out: Path, only: list[str]) -> None:
    done = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    known = {(row["table"], row["preparation"], row["seed"]): row for row in done}
    code = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    machine = {"code": code, "machine": f"{platform.machine()}, one thread of {os.cpu_count()} shared cores"}
    wanted = [method for method in METHODS if not only or method in only]
    groups = [[method] for method in wanted if not method.startswith("default")]
    groups += [[method for method in wanted if method.startswith("default")]]
    jobs = [(name, group, seeds, made, known) for name in names for group in groups if group]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for ready in as_completed([pool.submit(rows_of, *job) for job in jobs]):
            with out.open("a") as file:
                file.writelines(json.dumps(row | machine) + "\n" for row in ready.result())


def show(out: Path) -> None:
    """The means over seeds, and the difference from the best hand-made preparation and from the default."""
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    for name in dict.fromkeys(row["table"] for row in rows):
        means = {}
        for method in METHODS:
            mine = [row for row in rows if (row["table"], row["preparation"]) == (name, method)]
            if mine:
                means[method] = {s: float(np.mean([row[s] for row in mine])) for s in ("accuracy", "nmi", "probe")}
                spread = np.std([row["accuracy"] for row in mine], ddof=1) if len(mine) > 1 else 0.0
                figures = " / ".join(f"{value:.1f}" for value in means[method].values())
                print(f"{name:10} {method:34} {figures}  ({len(mine)} seeds, deviation {spread:.1f})")
        for score in ("accuracy", "probe"):
            best = max((method for method in HAND if method in means), key=lambda m: means[m][score])
            line = f"{name} {score}: default {means['default'][score]:.1f}, by hand {means[best][score]:.1f} ({best})"
            for method in (method for method in means if method.startswith("default +")):
                line += f"; {method.removeprefix('default ')} {means[method][score] - means['default'][score]:+.1f}"
            print(line)


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=["debian", "installed", "pypi", "npm", "languages"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--made", type=Path, help="folder for skrub's features")
    parser.add_argument("--out", type=Path, default=FOLDER.parent / "results" / "tables-0.2.jsonl")
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    run(options.tables, options.seeds, options.workers, options.made, options.out, options.only)
    show(options.out)


if __name__ == "__main__":
    main()
