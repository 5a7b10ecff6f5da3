"""Graphs in one .npz file: our own layout, SciPy sparse matrices, and gnn-benchmark's. Nothing is unpickled.

Our layout: adj_indptr, adj_indices (+ adj_data), x_indptr, x_indices, x_data, x_shape (or a dense x), labels, and
where known ids, label_names, feature_names, directed, name.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError, check_labels, check_out_path, is_there
from tuplet._files import DAMAGE, new_file
from tuplet.graph import Graph, checked_features

Arrays = dict[str, NDArray[Any]]
log = logging.getLogger("tuplet")
_NAMES_ONLY = {"node_names", "attr_names", "class_names", "metadata", "idx_to_node", "idx_to_attr", "idx_to_class"}


def read_npz(path: str | os.PathLike[str]) -> Graph:
    """The graph in an .npz file, whichever of the three layouts it has.

    >>> import tempfile, tuplet
    >>> g = tuplet.load_dataset("cora")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_npz(g, f"{folder}/g.npz")
    ...     read_npz(f"{folder}/g.npz").fingerprint() == g.fingerprint()
    True
    """
    arrays = load_arrays(path)
    try:
        return _graph(arrays)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except DAMAGE as error:
        raise InputError(
            f"{path} holds arrays that do not fit together ({error}). Write or download the file again."
        ) from None


def load_arrays(path: str | os.PathLike[str]) -> Arrays:
    """All arrays of an .npz file. Object arrays, which only pickle could read, are refused by name.

    Those that gnn-benchmark's files have beside the graph (names of nodes, attributes and classes) are left out.
    """
    if not (is_there(path) and Path(path).is_file()):
        raise InputError(f"There is no file {path}. Check the path.")
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("not a zip archive of arrays")
            pickled = [name for name in archive.files if _pickled(archive, name)]
            if set(pickled) <= _NAMES_ONLY:
                if pickled:
                    log.warning("%s: %s hold Python objects and are left out", path, ", ".join(pickled))
                return {name: _array(archive, name) for name in archive.files if name not in pickled}
    except DAMAGE as error:
        raise InputError(
            f"{path} is not a readable .npz file ({error}). It may be cut off; write or download it again."
        ) from None
    raise InputError(
        f"{path} holds Python objects in {', '.join(map(repr, pickled))}, which are never unpickled. Save them as "
        "numbers or text (array.astype(str))."
    )


def write_npz(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write `graph` in our layout, compressed; the file appears whole or not at all."""
    target = check_out_path(path)
    arrays: Arrays = {"adj_indptr": graph.indptr, "adj_indices": graph.indices, "name": np.array(graph.name)}
    arrays["directed"] = np.array(graph.directed)
    optional = {"adj_data": graph.weights, "labels": graph.y, "ids": _portable(graph.ids)}
    arrays |= {name: array for name, array in optional.items() if array is not None}
    x: Any = graph.x
    if sp.issparse(x):
        arrays |= {"x_indptr": x.indptr, "x_indices": x.indices, "x_data": x.data, "x_shape": np.array(x.shape)}
    elif x is not None:
        arrays["x"] = x
    for name in ("label_names", "feature_names"):
        if getattr(graph, name):
            arrays[name] = np.array(getattr(graph, name))
    with new_file(target) as partial, partial.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def _array(archive: Any, name: str) -> NDArray[Any]:
    found = archive[name]
    if not isinstance(found, np.ndarray):  # NumPy gives the bytes of a member that has no header of an array
        raise ValueError(f"{name} is no array")
    return found


def _pickled(archive: Any, name: str) -> bool:
    try:
        archive[name]
    except ValueError as error:
        if "allow_pickle" in str(error) or "Object arrays" in str(error):
            return True
        raise
    return False


def _portable(ids: NDArray[Any] | None) -> NDArray[Any] | None:
    """Ids as an array that needs no pickle: objects become text."""
    return ids.astype(str) if ids is not None and ids.dtype == object else ids


def _graph(arrays: Arrays) -> Graph:
    if "adj_indptr" in arrays:
        return _own(arrays)
    if "format" in arrays and "shape" in arrays:
        return Graph.from_scipy(_scipy_matrix(arrays))
    raise InputError(
        f"the arrays are {', '.join(sorted(arrays)) or 'none'}; no known graph layout has these names. "
        "Use a file of tuplet, scipy.sparse.save_npz or gnn-benchmark."
    )


def _own(arrays: Arrays) -> Graph:
    """Our layout, and gnn-benchmark's, which differs in the prefix of the features (attr_)."""
    indptr, indices = arrays["adj_indptr"], arrays["adj_indices"]
    n = len(indptr) - 1
    data = arrays.get("adj_data", np.ones(len(indices), np.float32))
    adj = checked_csr(data, indices, indptr, (n, n))
    prefix = "attr" if "attr_indptr" in arrays else "x"
    return Graph.from_scipy(
        adj,
        _features(arrays, prefix, n),
        None if "labels" not in arrays else check_labels("labels", arrays["labels"], n),
        ids=arrays.get("ids"),
        directed=bool(arrays["directed"]) if "directed" in arrays else False,
        name=str(arrays["name"]) if "name" in arrays else "",
        label_names=_names(arrays, "label_names", "class_names"),
        feature_names=_names(arrays, "feature_names", "attr_names"),
    )


def _names(arrays: Arrays, *keys: str) -> tuple[str, ...]:
    found = next((arrays[key] for key in keys if key in arrays), np.array([], dtype=str))
    return tuple(str(name) for name in found.ravel())


def _features(arrays: Arrays, prefix: str, n: int) -> Any:
    if f"{prefix}_indptr" in arrays:
        data, indices, rows = (arrays[f"{prefix}_{part}"] for part in ("data", "indices", "indptr"))
        shape = arrays[f"{prefix}_shape"]
        x = checked_csr(data, indices, rows, (int(shape[0]), int(shape[1])))
        if x.dtype != np.float32 and x.dtype != np.float64:
            x = x.astype(np.float32)
        x.sum_duplicates()
        return checked_features(x, n)
    dense = next((arrays[key] for key in ("x", "attr_matrix") if key in arrays), None)
    return None if dense is None else checked_features(dense, n)


def _scipy_matrix(arrays: Arrays) -> Any:
    kind = arrays["format"].item()
    kind = kind.decode() if isinstance(kind, bytes) else str(kind)
    shape = (int(arrays["shape"][0]), int(arrays["shape"][1]))
    if kind == "coo":
        row, col = arrays["row"], arrays["col"]
        if len(row) and (min(row.min(), col.min()) < 0 or row.max() >= shape[0] or col.max() >= shape[1]):
            raise InputError(f"the matrix has indices outside its shape {shape}. Write it again.")
        return sp.coo_array((arrays["data"], (row, col)), shape=shape)
    if kind not in ("csr", "csc"):
        raise InputError(f"the matrix is stored as {kind!r}. Save it as csr, csc or coo.")
    across = shape if kind == "csr" else (shape[1], shape[0])
    matrix = checked_csr(arrays["data"], arrays["indices"], arrays["indptr"], across)
    return matrix if kind == "csr" else matrix.T


def checked_csr(
    data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, int]
) -> sp.csr_array:
    """A CSR matrix whose arrays were checked against each other (SciPy itself trusts the row pointers)."""
    whole = indices.dtype.kind in "iu" and indptr.dtype.kind in "iu"
    if (
        not whole
        or indptr.ndim != 1
        or indices.ndim != 1
        or len(indptr) != shape[0] + 1
        or data.dtype.kind not in "fiub"
    ):
        raise InputError(f"the CSR arrays have wrong types or lengths for shape {shape}. Write the file again.")
    indptr = indptr.astype(np.int64)
    fits = indptr[0] == 0 and indptr[-1] == len(indices) == len(data) and bool((np.diff(indptr) >= 0).all())
    if not fits or (len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < shape[1]):
        raise InputError(f"the CSR arrays do not describe a matrix of shape {shape}. Write the file again.")
    return narrow_csr(sp.csr_array((data, indices, indptr), shape=shape))


def narrow_csr(matrix: sp.csr_array) -> sp.csr_array:
    """`matrix` with 32-bit indices where they suffice, so that equal matrices have equal arrays."""
    width = np.int32 if matrix.nnz < 2**31 and max(matrix.shape) < 2**31 else np.int64
    parts = (matrix.data, matrix.indices.astype(width, copy=False), matrix.indptr.astype(width, copy=False))
    return sp.csr_array(parts, shape=matrix.shape)
