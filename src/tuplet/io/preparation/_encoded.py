"""What every encoder gives back, and the counts that encoders of levels and of words share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Encoded:
    """`values` (n, width), dense float32 or CSR; `strange` of `total` tokens or levels were not known."""

    values: Any
    strange: int = 0
    total: int = 0


def least(n: int) -> int:
    """Rows that a level or word needs: 1 in a small table, else 2."""
    return 1 if n < 50 else 2


def counted(values: Any) -> tuple[list[str], list[int]]:
    """The different values and their counts, most frequent first, then in ascending order."""
    import pyarrow.compute as pc

    found = pc.value_counts(values.drop_null())
    pairs = sorted(zip(found.field("values").to_pylist(), found.field("counts").to_pylist()), key=by_count)
    return [value for value, _ in pairs], [count for _, count in pairs]


def by_count(pair: tuple[str, int]) -> tuple[int, str]:
    return -pair[1], pair[0]


def document_counts(tokens: Any, rows: NDArray[np.int64]) -> tuple[list[str], list[int], dict[str, int]]:
    """Tokens and the number of rows that hold them, most frequent first; and how often each occurs in all."""
    import pyarrow.compute as pc

    if not len(tokens):
        return [], [], {}
    coded = pc.dictionary_encode(tokens)
    words, codes = coded.dictionary.to_pylist(), np.asarray(coded.indices, dtype=np.int64)
    pairs = np.unique(rows * len(words) + codes)
    frequency = np.bincount(pairs % len(words), minlength=len(words)).tolist()
    ordered = sorted(zip(words, frequency), key=by_count)
    total = dict(zip(words, np.bincount(codes, minlength=len(words)).tolist()))
    return [word for word, _ in ordered], [count for _, count in ordered], total
