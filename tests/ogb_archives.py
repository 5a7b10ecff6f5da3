"""Archives in exactly the published layouts of OGB, Flickr and Reddit, of any size, for tests and measurements."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp


def numbers(n: int = 40, m: int = 120, f: int = 5, classes: int = 4, seed: int = 0) -> dict[str, Any]:
    """Random edges (with self loops and repeats), features, labels and a split."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    y = rng.integers(0, classes, n)
    y[:classes] = np.arange(classes)
    return {
        "n": n,
        "edges": rng.integers(0, n, (m, 2)),
        "x": rng.normal(size=(n, f)).astype(np.float32),
        "y": y,
        "split": {"train": order[: n // 2], "valid": order[n // 2 : 3 * n // 4], "test": order[3 * n // 4 :]},
    }


def write_csv_layout(folder: Path, data: dict[str, Any], split: str = "time") -> Path:
    """arxiv and products: raw/*.csv.gz and split/KIND/*.csv.gz; returns the folder."""
    raw = folder / "raw"
    _gz(raw / "edge.csv.gz", data["edges"])
    _gz(raw / "node-feat.csv.gz", data["x"])
    _gz(raw / "node-label.csv.gz", data["y"])
    _gz(raw / "node_year.csv.gz", np.full(data["n"], 2020))
    _gz(raw / "num-node-list.csv.gz", np.array([data["n"]]))
    _gz(raw / "num-edge-list.csv.gz", np.array([len(data["edges"])]))
    _splits(folder / "split" / split, data)
    (folder / "RELEASE_v1.txt").write_text("")
    (folder / "mapping").mkdir(exist_ok=True)
    return folder


def write_mag_layout(folder: Path, data: dict[str, Any]) -> Path:
    """mag: relations, features and labels by node kind; only papers have features and labels."""
    raw = folder / "raw"
    kinds = ["author", "field_of_study", "institution", "paper"]
    _text(raw / "num-node-dict.csv.gz", ",".join(kinds) + f"\n7,3,2,{data['n']}\n")
    _text(raw / "triplet-type-list.csv.gz", "author,writes,paper\npaper,cites,paper\n")
    _text(raw / "nodetype-has-label.csv.gz", ",".join(kinds) + "\nFalse,False,False,True\n")
    _text(raw / "nodetype-has-feat.csv.gz", ",".join(kinds) + "\nFalse,False,False,True\n")
    for relation, edges in {"author___writes___paper": np.array([[0, 1], [6, 2]]),
                            "paper___cites___paper": data["edges"]}.items():  # fmt: skip
        _gz(raw / "relations" / relation / "edge.csv.gz", edges)
        _gz(raw / "relations" / relation / "edge_reltype.csv.gz", np.zeros(len(edges), np.int64))
        _gz(raw / "relations" / relation / "num-edge-list.csv.gz", np.array([len(edges)]))
    _gz(raw / "node-feat" / "paper" / "node-feat.csv.gz", data["x"])
    _gz(raw / "node-label" / "paper" / "node-label.csv.gz", data["y"])
    _text(folder / "split" / "time" / "nodetype-has-split.csv.gz", ",".join(kinds) + "\nFalse,False,False,True\n")
    _splits(folder / "split" / "time" / "paper", data)
    return folder


def write_binary_layout(folder: Path, data: dict[str, Any]) -> Path:
    """papers100M: raw/data.npz and raw/node-label.npz; unlabelled nodes are NaN."""
    raw = folder / "raw"
    raw.mkdir(parents=True)
    y = data["y"].astype(np.float32).reshape(-1, 1)
    y[data.get("unlabelled", np.empty(0, int))] = np.nan
    np.savez_compressed(
        raw / "data.npz",
        edge_index=np.ascontiguousarray(data["edges"].T),
        node_feat=data["x"],
        node_year=np.full((data["n"], 1), 2020),
        num_nodes_list=np.array([data["n"]]),
        num_edges_list=np.array([len(data["edges"])]),
    )
    np.savez_compressed(raw / "node-label.npz", node_label=y)
    _splits(folder / "split" / "time", data)
    return folder


def write_flickr(folder: Path, data: dict[str, Any]) -> Path:
    """GraphSAINT's four files; returns the folder."""
    folder.mkdir(parents=True)
    adj = sp.csr_matrix((np.ones(len(data["edges"])), data["edges"].T), shape=(data["n"], data["n"]))
    np.savez(folder / "adj_full.npz", data=adj.data, indices=adj.indices, indptr=adj.indptr, shape=adj.shape)
    np.save(folder / "feats.npy", data["x"].astype(np.float64))
    (folder / "class_map.json").write_text(json.dumps({str(i): int(c) for i, c in enumerate(data["y"])}))
    parts = {"tr": "train", "va": "valid", "te": "test"}
    (folder / "role.json").write_text(json.dumps({key: data["split"][part].tolist() for key, part in parts.items()}))
    return folder


def write_reddit(folder: Path, data: dict[str, Any]) -> Path:
    """The two files of DGL's reddit.zip; returns the folder."""
    folder.mkdir(parents=True)
    kinds = np.zeros(data["n"], np.int32)
    for kind, part in enumerate(("train", "valid", "test"), start=1):
        kinds[data["split"][part]] = kind
    np.savez(folder / "reddit_data.npz", feature=data["x"], label=data["y"].astype(np.int32), node_types=kinds,
             node_ids=np.arange(data["n"]))  # fmt: skip
    adj = sp.coo_matrix((np.ones(len(data["edges"])), data["edges"].T), shape=(data["n"], data["n"]))
    sp.save_npz(folder / "reddit_graph.npz", adj)
    return folder


def packed(folder: Path) -> Path:
    """The zip of an archive folder, which it holds under its own name."""
    target = folder.with_suffix(".zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder.parent))
    return target


def _splits(folder: Path, data: dict[str, Any]) -> None:
    for part, nodes in data["split"].items():
        _gz(folder / f"{part}.csv.gz", nodes)


def _gz(path: Path, values: Any) -> None:
    text = io.StringIO()
    np.savetxt(text, np.asarray(values), fmt="%d" if values.dtype.kind in "iu" else "%.9g", delimiter=",")
    _text(path, text.getvalue())


def _text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write(text)
