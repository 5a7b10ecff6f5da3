"""The original files of the datasets: download, check, convert. One reader for each published layout.

pooch does the download. Files go to a temporary folder that is removed whatever happens; the caller caches.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from tuplet._check import InputError
from tuplet.datasets._unpickle import safe_unpickle
from tuplet.graph import Graph
from tuplet.io.npz import narrow_csr, read_npz

TIMEOUT = 60  # seconds without an answer


def fetch_graph(layout: str, name: str, url: str, files: dict[str, str]) -> Graph:
    """The graph made from `files` (name -> checksum) under `url`, read as `layout` (a key of READERS)."""
    with tempfile.TemporaryDirectory(prefix="tuplet-") as folder:
        for file, checksum in files.items():
            download(f"{url.rstrip('/')}/{file}", Path(folder) / file, checksum)
        return READERS[layout](Path(folder), name)


class _Told:
    """What pooch takes for a progress bar; it tells the share that has come."""

    def __init__(self, progress: Callable[[str, float], None]) -> None:
        self.progress, self.total, self.come = progress, 0, 0

    def update(self, size: int) -> None:
        """More bytes have come."""
        self.come += size
        self.progress("download", min(1.0, self.come / max(1, self.total)))

    def reset(self) -> None:
        """Begin anew."""
        self.come = 0

    def close(self) -> None:
        """Nothing is to be closed."""


def download(url: str, target: Path, checksum: str, progress: Callable[[str, float], None] | None = None) -> None:
    """Get `url` into `target`. `checksum`: a sha256, "git:" and the start of a git blob hash, or "unknown"."""
    import pooch

    sha256 = None if checksum == "unknown" or checksum.startswith("git:") else checksum
    loud = pooch.get_logger()
    level = loud.level
    loud.setLevel(logging.ERROR)  # the library never prints; pooch tells the hash of every unchecked file
    try:
        pooch.retrieve(
            url,
            known_hash=None,
            fname=target.name,
            path=target.parent,
            downloader=pooch.HTTPDownloader(timeout=TIMEOUT, progressbar=_Told(progress) if progress else False),
        )
    except Exception as error:  # requests, urllib3 and pooch each have their own
        raise InputError(
            f"{url} could not be downloaded ({error}). Check the network and try again, "
            "or set TUPLET_DATA to a folder that holds the graph as NAME.npz."
        ) from None
    finally:
        loud.setLevel(level)
    with target.open("rb") as file:
        _check_sum(url, "sha256", hashlib.file_digest(file, "sha256").hexdigest(), sha256)
    if checksum.startswith("git:"):
        _check_sum(url, "git blob", git_blob(target.read_bytes()), checksum.removeprefix("git:"))


def git_blob(data: bytes) -> str:
    """The hash under which git stores `data`.

    >>> git_blob(b"")
    'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
    """
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _check_sum(url: str, kind: str, found: str, expected: str | None) -> None:
    if expected is not None and not found.startswith(expected):
        raise InputError(
            f"{url} has {kind} {found}, expected {expected}. The file has changed or the download was cut off; "
            "nothing was kept. Try again later."
        )


def read_planetoid(folder: Path, name: str) -> Graph:
    """Planetoid's eight files: rows of allx, then row i of tx at the node that test.index names.

    Nodes of the graph that no file describes (15 of Citeseer) get a zero row and class 0, the usual convention.
    """
    parts = {}
    for part in ("tx", "ty", "allx", "ally", "graph"):
        parts[part] = safe_unpickle((folder / f"ind.{name}.{part}").read_bytes(), f"ind.{name}.{part}")
    try:
        places = np.array((folder / f"ind.{name}.test.index").read_text(encoding="ascii").split(), dtype=np.int64)
        return _planetoid_graph(parts, places, name)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, UnicodeError) as error:
        raise InputError(f"The Planetoid files of {name} do not fit together ({error}). Fetch them again.") from None


def _planetoid_graph(parts: dict[str, Any], places: np.ndarray[Any, Any], name: str) -> Graph:
    links: dict[int, list[int]] = parts["graph"]
    n, n_train = len(links), parts["allx"].shape[0]
    rows = np.concatenate([np.arange(n_train), places])
    y = np.zeros(n, dtype=np.int64)
    y[rows] = np.vstack([parts["ally"], parts["ty"]]).argmax(axis=1)
    stacked = sp.coo_array(sp.vstack([parts["allx"], parts["tx"]]))
    x = sp.csr_array((stacked.data, (rows[stacked.row], stacked.col)), shape=(n, stacked.shape[1]))
    sources = np.repeat(np.fromiter(links, np.int64, n), [len(targets) for targets in links.values()])
    targets = np.concatenate([np.asarray(t, dtype=np.int64) for t in links.values()])
    return _tidy(Graph.from_scipy(_binary(sources, targets, n), x, y, name=name))


def read_gnn_benchmark(folder: Path, name: str) -> Graph:
    """gnn-benchmark's npz; edge directions and repeated edges are dropped."""
    (path,) = folder.glob("*.npz")
    graph = read_npz(path)
    return _tidy(graph.with_(weights=None, name=name, ids=None, label_names=(), feature_names=()))


def read_graphdata(folder: Path, name: str) -> Graph:
    """GraphData's npz: adj_matrix and node_attr are pickled CSR matrices, node_label an array."""
    (path,) = folder.glob("*.npz")
    try:
        with zipfile.ZipFile(path) as archive:
            parts = {key: _member(archive, key) for key in ("adj_matrix", "node_attr", "node_label")}
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"{path.name} is not a readable GraphData file ({error}). Fetch it again.") from None
    adj = sp.coo_array(parts["adj_matrix"])
    x = sp.csr_array(parts["node_attr"])
    return _tidy(Graph.from_scipy(_binary(adj.row, adj.col, adj.shape[0]), x, parts["node_label"], name=name))


def _member(archive: zipfile.ZipFile, key: str) -> Any:
    with archive.open(f"{key}.npy") as file:
        version = np.lib.format.read_magic(file)
        reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = reader(file)
        if dtype.kind == "O":
            return safe_unpickle(file.read(), key)
        return np.frombuffer(file.read(), dtype=dtype).reshape(shape, order="F" if fortran else "C")


def read_npy_zip(folder: Path, name: str) -> Graph:
    """A zip of NAME_adj.npy, NAME_feat.npy and NAME_label.npy, all dense."""
    (path,) = folder.glob("*.zip")
    parts = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for part in ("adj", "feat", "label"):
                member = next(m for m in archive.namelist() if Path(m).name == f"{name}_{part}.npy")
                with archive.open(member) as file:
                    parts[part] = np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, StopIteration, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path.name} is not a readable zip of arrays ({error!r}). Fetch it again.") from None
    sources, targets = np.nonzero(parts["adj"])
    adj = _binary(sources, targets, len(parts["adj"]))
    x = sp.csr_array(parts["feat"].astype(np.float32))
    return _tidy(Graph.from_scipy(adj, x, parts["label"].astype(np.int64), name=name))


def read_heterophilous(folder: Path, name: str) -> Graph:
    """The npz of a heterophilous graph: node_features, node_labels, edges and ten splits (the first is kept)."""
    (path,) = folder.glob("*.npz")
    keys = ("node_features", "node_labels", "edges", "train_masks", "val_masks", "test_masks")
    try:
        with zipfile.ZipFile(path) as archive:
            x, y, edges, *masks = (_member(archive, key) for key in keys)
        split = tuple(np.flatnonzero(np.atleast_2d(mask)[0]) for mask in masks)
        graph = Graph.from_scipy(_binary(edges[:, 0], edges[:, 1], len(x)), x.astype(np.float32), y, name=name)
    except (OSError, KeyError, ValueError, IndexError, zipfile.BadZipFile) as error:
        raise InputError(f"{path.name} is not a readable file of this kind ({error}). Fetch it again.") from None
    return graph.with_(split=split)


def read_wikics(folder: Path, name: str) -> Graph:
    """WikiCS: data.json with features, labels, links and 20 splits (the first is kept)."""
    try:
        data = json.loads((folder / "data.json").read_text(encoding="utf-8"))
        links = data["links"]
        sources = np.repeat(np.arange(len(links)), [len(targets) for targets in links])
        targets = np.concatenate([np.asarray(targets, dtype=np.int64) for targets in links])
        x, y = np.asarray(data["features"], dtype=np.float32), np.asarray(data["labels"], dtype=np.int64)
        masks = [data["train_masks"][0], data["val_masks"][0], data["test_mask"]]
        graph = Graph.from_scipy(_binary(sources, targets, len(links)), x, y, name=name)
        split = tuple(np.flatnonzero(np.asarray(mask, dtype=bool)) for mask in masks)
    except (OSError, KeyError, ValueError, IndexError, TypeError) as error:
        raise InputError(f"data.json of {name} cannot be read ({error!r}). Fetch it again.") from None
    return graph.with_(split=split)


def read_graphsaint(folder: Path, name: str) -> Graph:
    """GraphSAINT's four files in a zip: adj_full.npz (CSR), feats.npy, class_map.json and role.json (the split)."""
    (path,) = folder.glob("*.zip")
    try:
        with zipfile.ZipFile(path) as archive:
            found = {Path(member).name: member for member in archive.namelist()}
            texts = {file: json.loads(archive.read(found[file])) for file in ("class_map.json", "role.json")}
            with archive.open(found["feats.npy"]) as file:
                x = np.lib.format.read_array(file, allow_pickle=False).astype(np.float32)
            with zipfile.ZipFile(io.BytesIO(archive.read(found["adj_full.npz"]))) as inner:
                indptr, indices = (_member(inner, key) for key in ("indptr", "indices"))
        y = np.full(len(x), -1, dtype=np.int64)
        y[[int(node) for node in texts["class_map.json"]]] = list(texts["class_map.json"].values())
        split = tuple(np.sort(np.asarray(texts["role.json"][part], dtype=np.int64)) for part in ("tr", "va", "te"))
        sources = np.repeat(np.arange(len(x)), np.diff(indptr))
        graph = Graph.from_scipy(_binary(sources, indices, len(x)), x, y, name=name)
    except (OSError, KeyError, ValueError, IndexError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path.name} is not a readable file of this kind ({error!r}). Fetch it again.") from None
    return graph.with_(split=split)


def _binary(sources: Any, targets: Any, n: int) -> sp.csr_array:
    """The adjacency with 1 for each pair, however often it is listed."""
    adj = sp.csr_array((np.ones(len(sources), np.float32), (sources, targets)), shape=(n, n))
    adj.sum_duplicates()
    adj.data[:] = 1
    return adj


def _tidy(graph: Graph) -> Graph:
    """Features as float32 CSR, sorted, without stored zeros."""
    x = sp.csr_array(graph.x).astype(np.float32)
    x.sum_duplicates()
    x.eliminate_zeros()
    return graph.with_(x=narrow_csr(x))


READERS: dict[str, Callable[[Path, str], Graph]] = {
    "planetoid": read_planetoid,
    "gnn-benchmark": read_gnn_benchmark,
    "graphdata": read_graphdata,
    "npy-zip": read_npy_zip,
    "heterophilous": read_heterophilous,
    "wikics": read_wikics,
    "graphsaint": read_graphsaint,
}
