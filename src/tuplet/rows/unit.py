"""Rows of unit length: of vectors, and of X before the filter without a second n x f array for data on disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError, check_finite

BLOCK_VALUES = 2**22  # feature values handled at once


def checked_vectors(z: Any, n: int | None = None) -> Any:
    """`z` as (n, d) floats, dense, memory map or CSR, all finite."""
    z = sp.csr_array(z) if sp.issparse(z) else np.asanyarray(z)
    if z.ndim != 2 or z.shape[1] == 0 or z.dtype.kind not in "fiub":
        raise InputError(f"The vectors have shape {z.shape} and type {z.dtype}. Give numbers, one row a node.")
    if n is not None and z.shape[0] != n:
        raise InputError(f"There are {z.shape[0]} vectors but the graph has {n} nodes. Give one row a node.")
    check_finite("The vectors", z.data if sp.issparse(z) else z)
    return z


def scale_rows(rows: Any, unit_rows: bool = True) -> Any:
    """`rows` as float32, dense or CSR, each scaled to unit length unless told not to; zero rows stay zero."""
    rows = rows.astype(np.float32)
    if not unit_rows:
        return rows
    lengths = row_lengths(rows)
    factors = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    if sp.issparse(rows):
        return sp.csr_array(sp.diags_array(factors) @ rows)
    return rows * factors[:, None]


def row_lengths(rows: Any) -> NDArray[Any]:
    """Euclidean length of each row, dense or CSR."""
    lengths: NDArray[Any] = (
        np.sqrt(rows.multiply(rows).sum(axis=1)) if sp.issparse(rows) else np.linalg.norm(rows, axis=1)
    )
    return lengths


@contextmanager
def unit_features(x: Any) -> Iterator[Any]:
    """`x` (n, f) with rows of unit length; zero rows stay zero. Give it to a filter inside the `with` block.

    CSR stays CSR. Rows that have unit length already come back as they are. The scaled copy of a dense array in
    memory is an array; that of a memory map is a temporary file of the same size in float32 beside it (or in the
    system's temporary folder, where its own cannot be written), gone after the block.
    """
    if sp.issparse(x):
        yield unit_rows_of(x)
        return
    factors = 1 / unit_lengths(x)
    if np.allclose(factors, 1, rtol=0, atol=1e-6):
        yield x
    elif not isinstance(x, np.memmap):
        yield (x * factors[:, None]).astype(np.float32, copy=False)
    else:
        with tempfile.TemporaryDirectory(prefix="tuplet-unit-", dir=_folder_of(x)) as folder:
            yield _scaled_file(x, factors, Path(folder) / "x.npy")


def unit_lengths(x: Any) -> NDArray[np.float64]:
    """Length of each dense row, 1 for zero rows; in float64, so that nothing overflows."""
    lengths = np.ones(x.shape[0])
    step = max(1, BLOCK_VALUES // x.shape[1])
    for start in range(0, x.shape[0], step):
        block = np.asarray(x[start : start + step], dtype=np.float64)
        found = np.sqrt(np.einsum("ij,ij->i", block, block))
        lengths[start : start + step] = np.where(found > 0, found, 1)
    return lengths


def unit_rows_of(x: Any) -> Any:
    """The CSR rows scaled to unit length; zero rows stay zero."""
    squares = np.asarray(x.multiply(x).sum(axis=1), dtype=np.float64).ravel()
    factors = 1 / np.sqrt(np.where(squares > 0, squares, 1))
    data = (x.data * np.repeat(factors, np.diff(x.indptr))).astype(np.float32)
    return sp.csr_array((data, x.indices, x.indptr), shape=x.shape)


def _scaled_file(x: Any, factors: NDArray[np.float64], file: Path) -> Any:
    scaled = np.lib.format.open_memmap(file, mode="w+", dtype=np.float32, shape=x.shape)
    step = max(1, BLOCK_VALUES // x.shape[1])
    for start in range(0, x.shape[0], step):
        scaled[start : start + step] = x[start : start + step] * factors[start : start + step, None]
    return scaled


def _folder_of(x: np.memmap[Any, Any]) -> str | None:
    folder = None if x.filename is None else Path(x.filename).parent
    return str(folder) if folder is not None and os.access(folder, os.W_OK) else None
