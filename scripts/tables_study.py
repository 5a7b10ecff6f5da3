"""Column preparations compared on four real tables: what SelfDMAT makes of each, by clusters and by a linear probe.

    python scripts/tables_study.py [TABLE ..] [--seeds 5] [--out ROWS.jsonl] [--only NAME ..]

The tables lie in benchmarks/tables (scripts/make_tables.py and make_npm_table.py made them). Preparations:

default                what read_graph does
text, text+tokens, ..  made by hand, each with scikit-learn's parts (HAND below); the best of them is the mark
ColumnTransformer      scikit-learn, as its guide has it: tf-idf, one-hot, median and StandardScaler
TableVectorizer        skrub with its defaults (where skrub is installed)
raw                    numbers as they are, one-hot and counts: scale=False
default + COLUMN       a column that says nothing is added: raw size, index, constant, random ids

Rows that are there already are not measured again. Labels are read by the scores alone.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.sparse as sp
from pyarrow import parquet as pq
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from tuplet import Graph, SelfDMAT, classify_nodes, metrics
from tuplet.io.preparation import Preparation

FOLDER = Path(__file__).parent.parent / "benchmarks" / "tables"
TEXT = {"debian": ["summary"], "installed": ["description"], "pypi": ["summary"], "npm": ["description"]}
TOKENS = {"debian": ["tags"], "installed": [], "pypi": ["keywords"], "npm": ["keywords"]}
CATEGORIES = {
    "debian": ["priority", "architecture", "multi_arch", "maintainer", "homepage_host"],
    "installed": ["priority", "architecture", "multi_arch", "maintainer", "homepage_host"],
    "pypi": ["licence", "status", "audience", "requires_python", "author"],
    "npm": ["licence", "author", "engine", "homepage_host", "has_types"],
}
NUMBERS = {
    "debian": ["installed_size", "size"],
    "installed": ["installed_size", "changes", "conffiles"],
    "pypi": ["files", "readme_length"],
    "npm": ["unpacked_size", "files", "versions", "maintainers", "readme_length"],
}
DATES = {
    "debian": ["version_date"],
    "installed": ["first_change", "last_change"],
    "pypi": ["first_upload", "last_upload"],
    "npm": ["created", "changed"],
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


def words(frame: pd.DataFrame, column: str) -> Any:
    return unit(TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(frame[column].fillna("")))


def tokens(frame: pd.DataFrame, column: str) -> Any:
    lists = frame[column].map(lambda v: [] if v is None else list(v))
    return unit(TfidfVectorizer(analyzer=list, sublinear_tf=True, min_df=2).fit_transform(lists))


def levels(frame: pd.DataFrame, column: str) -> Any:
    return unit(OneHotEncoder(min_frequency=2).fit_transform(frame[[column]].astype(str)))


def number(values: pd.Series) -> Any:
    logs = np.log1p(values.astype(float).fillna(values.astype(float).median()))
    return unit(StandardScaler().fit_transform(logs.to_numpy()[:, None]))


def day(frame: pd.DataFrame, column: str) -> pd.Series:
    when = pd.to_datetime(frame[column])
    return (when - when.min()).dt.days


def by_hand(parts: str) -> Callable[[str, pa.Table], Any]:
    """Features by hand from some parts: t text, k tokens, c categories (as one), n numbers and dates (as one)."""

    def make(name: str, nodes: pa.Table) -> Any:
        frame, blocks = nodes.to_pandas(), []
        blocks += [words(frame, c) for c in TEXT[name] if "t" in parts]
        blocks += [tokens(frame, c) for c in TOKENS[name] if "k" in parts]
        if "c" in parts:
            blocks.append(unit(sp.hstack([levels(frame, c) for c in CATEGORIES[name]])))
        if "n" in parts:
            numbers = [number(frame[c]) for c in NUMBERS[name]] + [number(day(frame, c)) for c in DATES[name]]
            blocks.append(unit(sp.hstack(numbers)))
        return sp.hstack(blocks)

    return make


def column_transformer(name: str, nodes: pa.Table) -> Any:
    frame = nodes.to_pandas()
    for c in DATES[name]:
        frame[c] = day(frame, c)
    for c in TOKENS[name]:
        frame[c] = frame[c].map(lambda v: "" if v is None else " ".join(v))
    texts = [
        (c, make_pipeline(FunctionTransformer(_filled), TfidfVectorizer()), c) for c in TEXT[name] + TOKENS[name]
    ]
    known = OneHotEncoder(handle_unknown="ignore")
    scaled = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    rest = [("levels", known, CATEGORIES[name]), ("numbers", scaled, NUMBERS[name] + DATES[name])]
    frame[CATEGORIES[name]] = frame[CATEGORIES[name]].astype(str)
    return ColumnTransformer([*texts, *rest]).fit_transform(frame)


def _filled(column: pd.Series) -> pd.Series:
    return column.fillna("")


def table_vectorizer(name: str, nodes: pa.Table) -> Any:
    from skrub import TableVectorizer

    frame = nodes.drop_columns(["id", "label"]).to_pandas()
    for c in TOKENS[name]:
        frame[c] = frame[c].map(lambda v: None if v is None else " ".join(v))
    return np.nan_to_num(TableVectorizer().fit_transform(frame).to_numpy(dtype=np.float64))


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


def run(names: list[str], seeds: int, out: Path, only: list[str]) -> None:
    done = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    known = {(row["table"], row["preparation"], row["seed"]): row for row in done}
    for name in names:
        nodes, adj, y = read(name)
        same: dict[str, str] = {}
        for method, make in METHODS.items():
            if only and method not in only:
                continue
            try:
                start = time.perf_counter()
                x = make(name, nodes)
            except ImportError:
                continue
            seconds = time.perf_counter() - start
            x = sp.csr_array(x).astype(np.float32) if sp.issparse(x) else np.asarray(x, np.float32)
            graph = Graph.from_scipy(adj, x, y)
            twin = same.setdefault(graph.fingerprint(), method)
            for seed in range(seeds):
                if (name, method, seed) in known:
                    continue
                row = known.get((name, twin, seed))
                found = {k: row[k] for k in ("accuracy", "nmi", "probe", "seconds")} if row else measure(graph, seed)
                row = {"table": name, "preparation": method, "seed": seed, "width": x.shape[1], **found}
                row |= {"prepare_seconds": seconds, "same_features_as": twin if twin != method else None}
                row = {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}
                row["machine"] = f"{platform.machine()}, 2 cores shared"
                known[name, method, seed] = row
                with out.open("a") as file:
                    file.write(json.dumps(row) + "\n")


def show(out: Path) -> None:
    """The means over seeds, and the difference from the best hand-made preparation and from the default."""
    rows = pd.DataFrame([json.loads(line) for line in out.read_text().splitlines()])
    means = rows.groupby(["table", "preparation"], sort=False)[["width", "accuracy", "nmi", "probe"]].mean()
    print(means.round(1).to_string())
    for name in means.index.get_level_values(0).unique():
        table = means.loc[name]
        for score in ("accuracy", "probe"):
            best = table.loc[[m for m in HAND if m in table.index], score]
            line = f"{name} {score}: default {table.loc['default', score]:.1f}, "
            line += f"best by hand {best.max():.1f} ({best.idxmax()})"
            drops = {
                m: table.loc[m, score] - table.loc["default", score] for m in table.index if m.startswith("default +")
            }
            print(line + "".join(f"; {m.removeprefix('default ')} {d:+.1f}" for m, d in drops.items()))


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=["debian", "installed", "pypi", "npm"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=FOLDER.parent / "results" / "tables-pairs.jsonl")
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    run(options.tables, options.seeds, options.out, options.only)
    show(options.out)


if __name__ == "__main__":
    main()
