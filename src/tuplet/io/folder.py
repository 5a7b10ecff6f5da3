"""The on-disk graph: a folder of .npy files and meta.json, opened as memory maps.

meta.json holds a format version, the sizes and a checksum of every file. A folder is written under another name and
renamed when it is whole.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError, check_out_path, is_there
from tuplet._files import DAMAGE, json_sum, new_folder, open_array, save_array
from tuplet._progress import Progress, in_shares
from tuplet._sums import npy_entries, wrong_file
from tuplet.graph import Graph
from tuplet.io._content import check_content
from tuplet.io.remote import local_path

FORMAT = "tuplet-graph"
VERSION = 2  # 1 where no file is so large that its checksum is that of its chunks: 0.1 reads those
_DTYPES = {"indptr": "i8", "indices": "i4 i8", "weights": "f4", "y": "i8", "x": "f2 f4 f8"}
_SPLIT = ("split_train", "split_val", "split_test")  # nodes of the split that came with the data
_DTYPES |= dict.fromkeys(_SPLIT, "i8")
_DTYPES |= {"x_indptr": "i4 i8", "x_indices": "i4 i8", "x_data": "f2 f4 f8"}


def save_graph(graph: Graph, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write `graph` as a folder that `open_graph` reads; it appears whole or not at all.

    >>> import tempfile, tuplet
    >>> g = tuplet.load_dataset("cora")
    >>> with tempfile.TemporaryDirectory() as tmp:
    ...     open_graph(save_graph(g, f"{tmp}/cora.graph")).fingerprint() == g.fingerprint()
    True
    """
    target = check_new_folder(folder, overwrite=overwrite)
    with new_folder(target) as partial:
        for name, array in _arrays(graph).items():
            save_array(partial / f"{name}.npy", array)
        shape = None if graph.x is None else graph.x.shape
        made = None if graph.preparation is None else graph.preparation.to_json()
        names = graph.label_names, graph.feature_names
        write_meta(
            partial, graph.name, graph.directed, shape, *names, preparation=made, label_column=graph.label_column
        )
    return target


def open_graph(
    folder: str | os.PathLike[str], *, verify: bool = False, check: bool = False, progress: Progress | None = None
) -> Graph:
    """The graph in a folder, its arrays as read-only memory maps.

    Sizes, types, row pointers and the range of all indices are always checked, in one pass over the index files the
    first time that a process opens them. `verify` also compares every file's checksum (`check` is its old name), and
    tells `progress` of it.
    """
    place = Path(local_path(folder))
    meta = read_meta(place)
    arrays = {name: _open_array(place, name, entry) for name, entry in meta["arrays"].items()}
    if verify or check:
        _check_sums(place, meta["arrays"], progress)
    try:
        graph = _graph(meta, arrays)
        check_content(place, graph)
        return graph
    except InputError as error:
        raise _damaged(place, str(error)) from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise _damaged(place, repr(error)) from None


def map_graph(folder: str | os.PathLike[str], *, part: int = 0, parts: int = 1) -> tuple[Graph, str]:
    """The graph in a folder as memory maps whose content is not looked at, and a key of that content.

    For processes that read some rows each, and check those. Checksums are compared by all together: of the files this
    process, `part` of `parts`, takes its share.
    """
    place = Path(local_path(folder))
    meta = read_meta(place)
    entries = meta["arrays"]
    arrays = {name: _open_array(place, name, entry) for name, entry in entries.items()}
    _check_sums(place, {name: entries[name] for name in sorted(entries)[part::parts]}, None)
    try:
        sums = [entries[name]["blake2b"] for name in sorted(entries) if name not in ("ids", "y", *_SPLIT)]
        return _graph(meta, arrays), hashlib.blake2b(repr(sums).encode(), digest_size=16).hexdigest()
    except InputError as error:
        raise _damaged(place, str(error)) from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise _damaged(place, repr(error)) from None


def _check_sums(folder: Path, entries: Mapping[str, Any], progress: Progress | None) -> None:
    """Raise where a file is not the one that was written; several threads read."""
    size = sum((folder / f"{name}.npy").stat().st_size for name in entries)
    told = None if progress is None else in_shares("checksums", size, progress)
    wrong = wrong_file(folder, entries, told)
    if wrong is not None:
        raise _damaged(folder, f"{wrong}.npy has another checksum than meta.json says")


def check_new_folder(folder: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """`folder` as a path that may be written: its parent is there, and it is new, or an old graph to replace."""
    target = check_out_path(folder)
    if target.exists() and not (overwrite and (target / "meta.json").is_file()):
        raise InputError(
            f"{target} exists already. Remove it, or choose another name (overwrite=True replaces a graph)."
        )
    return target


def write_meta(
    folder: Path, name: str, directed: bool, x_shape: Any, label_names: Sequence[str], feature_names: Sequence[str],
    *, preparation: Any = None, label_column: str = "",
) -> None:  # fmt: skip
    """Write meta.json for the arrays that lie in `folder`."""
    entries = npy_entries(sorted(folder.glob("*.npy")))
    meta = {
        "format": FORMAT,
        "version": VERSION if any("chunk" in entry for entry in entries.values()) else 1,
        "name": name,
        "directed": directed,
        "nodes": entries["indptr"]["shape"][0] - 1,
        "stored_edges": entries["indices"]["shape"][0],
        "x_shape": None if x_shape is None else list(x_shape),
        "label_names": list(label_names),
        "feature_names": list(feature_names),
        "preparation": preparation,
        "label_column": label_column,
        "arrays": entries,
    }
    meta["sum"] = json_sum(meta)
    (folder / "meta.json").write_text(json.dumps(meta, indent=1), encoding="utf-8")


def read_meta(folder: Path) -> dict[str, Any]:
    """meta.json, its format and version checked."""
    if not is_there(folder / "meta.json"):
        raise InputError(f"{folder} is not a graph folder: it has no meta.json. Make one with `tuplet convert`.")
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        known = meta["format"], int(meta["version"])
        valid = isinstance(meta["arrays"], dict) and {"indptr", "indices"} <= set(meta["arrays"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise _damaged(folder, f"meta.json: {error!r}") from None
    if known[0] != FORMAT or known[1] > VERSION:
        raise InputError(
            f"{folder} has format {known[0]!r} version {known[1]}; this tuplet reads {FORMAT!r} up to version "
            f"{VERSION}. Install a newer tuplet, or convert the graph again."
        )
    if not valid:
        raise _damaged(folder, "meta.json names no adjacency")
    if "sum" in meta and meta["sum"] != json_sum(meta):  # not in those of 0.1
        raise _damaged(folder, "meta.json has another checksum than it says")
    return dict(meta)


def n_nodes_in(folder: Path) -> int:
    """How many nodes the graph in a folder has, by its meta.json alone."""
    nodes = read_meta(folder).get("nodes")
    if type(nodes) is not int or nodes < 0:
        raise _damaged(folder, f"meta.json says {nodes!r} nodes")
    return nodes


def _arrays(graph: Graph) -> dict[str, NDArray[Any]]:
    found: dict[str, Any] = {"indptr": graph.indptr, "indices": graph.indices, "weights": graph.weights, "y": graph.y}
    found["ids"] = graph.ids.astype(str) if graph.ids is not None and graph.ids.dtype == object else graph.ids
    found |= feature_arrays(graph.x)
    found |= dict(zip(_SPLIT, graph.split or ()))
    return {name: array for name, array in found.items() if array is not None}


def feature_arrays(x: Any) -> dict[str, NDArray[Any]]:
    """The arrays of a feature matrix by the names of their files."""
    if sp.issparse(x):
        return {"x_indptr": x.indptr, "x_indices": x.indices, "x_data": x.data}
    return {} if x is None else {"x": x}


def _open_array(folder: Path, name: str, entry: Any) -> NDArray[Any]:
    path = folder / f"{name}.npy"
    try:
        dtype, shape = np.dtype(entry["dtype"]), tuple(int(size) for size in entry["shape"])
        array = open_array(path)
    except DAMAGE as error:
        raise _damaged(folder, f"{name}.npy: {error}") from None
    allowed = _DTYPES.get(name)
    if not array.dtype.isnative:
        raise _damaged(folder, f"{name}.npy has the byte order of another machine")
    if name in _DTYPES and array.ndim != (2 if name == "x" else 1):
        raise _damaged(folder, f"{name}.npy has the shape {array.shape}")
    if array.dtype != dtype or array.shape != shape or (allowed and array.dtype.str[1:] not in allowed.split()):
        raise _damaged(folder, f"{name}.npy is {array.dtype} {array.shape}, meta.json says {entry}")
    return array  # type: ignore[no-any-return]


def _graph(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Graph:
    indptr, indices = arrays["indptr"], arrays["indices"]
    n = int(meta["nodes"])
    if indptr.shape != (n + 1,) or int(indptr[0]) != 0 or int(indptr[-1]) != len(indices):
        raise InputError("the row pointers do not fit the edges")
    x: Any = arrays.get("x")
    if "x_indptr" in arrays:
        rows, columns = (int(size) for size in meta["x_shape"])
        parts = (arrays["x_data"], arrays["x_indices"], arrays["x_indptr"])
        if (
            rows != n
            or len(parts[2]) != n + 1
            or int(parts[2][-1]) != len(parts[1])
            or len(parts[0]) != len(parts[1])
        ):
            raise InputError("the sparse features do not fit the graph")
        x = sp.csr_array((n, columns), dtype=parts[0].dtype)
        x.data, x.indices, x.indptr = parts  # kept as memory maps
    for name, array in (("x", x), ("y", arrays.get("y")), ("ids", arrays.get("ids"))):
        if array is not None and array.shape[0] != n:
            raise InputError(f"{name} has {array.shape[0]} rows for {n} nodes")
    weights = arrays.get("weights")
    if weights is not None and weights.shape != indices.shape:
        raise InputError(f"there are {len(weights)} weights for {len(indices)} stored edges")
    return Graph(
        indptr,
        indices,
        x=x,
        weights=arrays.get("weights"),
        y=arrays.get("y"),
        ids=arrays.get("ids"),
        directed=bool(meta["directed"]),
        name=str(meta["name"]),
        label_names=tuple(map(str, meta["label_names"])),
        feature_names=tuple(map(str, meta["feature_names"])),
        split=_split(arrays, n),
        preparation=None if meta.get("preparation") is None else _preparation(meta["preparation"]),
        label_column=str(meta.get("label_column", "")),
    )


def _preparation(saved: Any) -> Any:
    from tuplet.io.preparation import Preparation

    return Preparation.from_json(saved)


def _split(arrays: dict[str, NDArray[Any]], n: int) -> Any:
    if not set(_SPLIT) <= set(arrays):
        return None
    parts = tuple(np.array(arrays[name]) for name in _SPLIT)
    if any(len(part) and (part.ndim != 1 or part.min() < 0 or part.max() >= n) for part in parts):
        raise InputError("The split of the graph names nodes that it does not have. Convert the graph again.")
    return parts


def _damaged(folder: Path, why: str) -> InputError:
    return InputError(f"The graph folder {folder} is damaged ({why}). Convert the graph again.")
