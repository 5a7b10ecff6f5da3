"""A sample of a table's rows that does not depend on how the table is cut into chunks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE_ROWS = 2**16


def sample_table(chunks: Iterable[pa.Table], most: int = SAMPLE_ROWS) -> tuple[pa.Table | None, int]:
    """Up to `most` rows in table order, and the number of all rows; None where there is no chunk.

    Every row number has a fixed hash; the rows with the smallest ones are kept. So memory is bounded, one pass is
    enough, and a table of at most `most` rows is kept whole.
    """
    import pyarrow as pa

    kept: pa.Table | None = None
    keys, places, n = np.zeros(0, np.uint64), np.zeros(0, np.int64), 0
    for chunk in chunks:
        here = np.arange(n, n + chunk.num_rows)
        keys, places, n = np.concatenate([keys, _hash(here)]), np.concatenate([places, here]), n + chunk.num_rows
        kept = chunk if kept is None else pa.concat_tables([kept, chunk], promote_options="permissive")
        if len(keys) > most:
            order = np.sort(np.argpartition(keys, most - 1)[:most])
            keys, places, kept = keys[order], places[order], kept.take(pa.array(order)).combine_chunks()
    return kept, n


def _hash(rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """splitmix64 of the row numbers: all different, and as good as random."""
    z = (rows.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
