"""A block of feature columns, and when a matrix is held dense or as CSR. io/preparation makes the blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet.io.npz import narrow_csr


@dataclass(frozen=True)
class FeatureBlock:
    """The feature columns made from one table column.

    `values` is (n, width), dense float32 or CSR, zero where missing; `missing` (n,) marks the rows without a value.
    """

    column: str
    kind: str
    names: tuple[str, ...]
    values: Any
    missing: NDArray[np.bool_]


def pays_as_csr(n: int, f: int, nonzero: int) -> bool:
    """Whether an (n, f) matrix is smaller as CSR."""
    return f >= 16 and nonzero * 2 < n * f


def compact(values: Any) -> Any:
    """`values` as CSR where that takes less memory than dense (16 columns or more, under half filled)."""
    nonzero = values.nnz if sp.issparse(values) else int(np.count_nonzero(values))
    n, f = values.shape
    if not pays_as_csr(n, f, nonzero):
        return values.toarray() if sp.issparse(values) else values
    matrix = sp.csr_array(values)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return narrow_csr(matrix)
