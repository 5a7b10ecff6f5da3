"""The checks of what a graph is made from: adjacency, features, ids."""

from __future__ import annotations

import logging
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError, check_finite
from tuplet._memory import forget_pages

log = logging.getLogger("tuplet")

LARGEST, SMALLEST = 1e15, 1e-15  # sizes of the largest feature whose squares, summed over columns, fit float32

Features: TypeAlias = "NDArray[Any] | sp.csr_array"


def checked_features(x: Any, n: int) -> Features:
    """`x` as float16/32/64 (n, f), dense or CSR, all values finite. Other number types become float32."""
    if sp.issparse(x):
        matrix = sp.csr_array(x)
        values = matrix.data
    else:
        matrix = values = np.asanyarray(x)
        if matrix.dtype.kind not in "fiub":
            raise InputError(
                f"x must hold numbers, got {matrix.dtype}. Encode text or categories first (read_graph does)."
            )
    if matrix.ndim != 2 or matrix.shape[0] != n:
        raise InputError(
            f"x has shape {matrix.shape} but the graph has {n} nodes. "
            "Give one feature row for each node, in node order; read_graph(..., missing='zero') fills absent rows."
        )
    if matrix.shape[1] == 0:
        raise InputError("x has no columns. Give at least one feature, or x=None.")
    check_finite("x", values)
    check_size(values)
    if matrix.dtype.kind != "f":
        matrix = matrix.astype(np.float32)
    return matrix


def check_size(values: NDArray[Any]) -> None:
    """Raise where squares of the features would leave float32: every vector would come out the same, or infinite."""
    if values.dtype == np.float16:
        return  # all of its numbers lie between
    step = max(1, 2**22 // max(1, int(np.prod(values.shape[1:]))))
    largest = 0.0
    for start in range(0, len(values), step):
        block = values[start : start + step]
        largest = max(largest, abs(float(block.max(initial=0))), abs(float(block.min(initial=0))))
        forget_pages(values)
    if largest > LARGEST or 0 < largest < SMALLEST:
        raise InputError(
            f"The largest feature is {largest:.3g} in size; between {SMALLEST:g} and {LARGEST:g} it can be computed "
            "with. Scale the columns first, for example x / abs(x).max(axis=0)."
        )


def checked_adjacency(adj: Any) -> sp.csr_array:
    """`adj` as a square float32 matrix of weights above 0, repeats summed, self loops dropped."""
    given = adj if sp.issparse(adj) else np.asarray(adj)
    if given.dtype.kind not in "fiub":
        raise InputError(f"The adjacency must hold numbers, got {given.dtype}.")
    matrix = sp.csr_array(given)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"The adjacency has shape {matrix.shape}. It must be square: one row and one column a node.")
    if matrix.shape[0] < 2:
        raise InputError(f"The graph has {matrix.shape[0]} nodes. At least 2 are needed.")
    matrix = matrix.astype(np.float32)
    check_finite("The adjacency", matrix.data)
    matrix.sum_duplicates()
    if matrix.nnz and matrix.data.min() < 0:
        raise InputError(f"The adjacency holds the negative weight {matrix.data.min():g}. Weights must be 0 or more.")
    loops = int(np.count_nonzero(matrix.diagonal()))
    if loops:
        log.info("dropped %d self loops", loops)
        matrix.setdiag(0)
    matrix.eliminate_zeros()
    return matrix


def checked_ids(ids: Any, n: int) -> NDArray[Any]:
    """`ids` as an array (n,), each of them once."""
    array = np.asarray(ids)
    if array.shape != (n,):
        raise InputError(f"ids has shape {array.shape} but the graph has {n} nodes. Give one id a node.")
    values, counts = np.unique(array, return_counts=True)
    if len(values) != n:
        raise InputError(
            f"{n - len(values)} node ids are repeated, for example {values[counts.argmax()]!r}. Ids must be unique."
        )
    return array
