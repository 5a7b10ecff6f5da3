"""Ids -> node numbers for graphs that do not fit in memory: collected in one pass, looked up in the next.

Memory: whole numbers below an eighth of the budget in bytes take 1 byte each for the range while they are collected
and 0.2 bytes afterwards (a bitmap with counts); other whole numbers 32 bytes a node; text ids about four times their
length a node. A map that would need more than the budget is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet.io._ids import look_up, to_numpy

if TYPE_CHECKING:
    import pyarrow as pa

_PENDING = 2**22  # ids gathered before they are merged


class IdMap(Protocol):
    """Node numbers of ids, -1 for unknown ones; `n` nodes; `ids` in node order, None for 0, 1, ..."""

    n: int

    def look_up(self, values: pa.Array) -> NDArray[np.int64]: ...

    @property
    def ids(self) -> NDArray[Any] | None: ...


class BitmapMap:
    """Ascending whole numbers from 0 on: one bit for each number, and the count of set bits before every 64."""

    def __init__(self, seen: NDArray[np.bool_]) -> None:
        padded = np.zeros(-(-max(1, len(seen)) // 64) * 64, dtype=bool)
        padded[: len(seen)] = seen
        self.words = np.packbits(padded, bitorder="little").view(np.uint64)
        counts = np.bitwise_count(self.words).astype(np.int64)
        self.before = np.cumsum(counts) - counts
        self.n = int(counts.sum())

    def look_up(self, values: Any) -> NDArray[np.int64]:
        """Node numbers, -1 for numbers that were not collected."""
        number = np.array(values).astype(np.int64)
        inside = (number >= 0) & (number < 64 * len(self.words))
        number[~inside] = 0
        word, bit = self.words[number >> 6], (number & 63).astype(np.uint64)
        known = inside & ((word >> bit) & np.uint64(1)).astype(bool)
        below = word & ((np.uint64(1) << bit) - np.uint64(1))
        rank = self.before[number >> 6] + np.bitwise_count(below)
        return np.asarray(np.where(known, rank, -1))

    @property
    def ids(self) -> NDArray[Any] | None:
        """The numbers in ascending order; None if they are 0, 1, .., n - 1."""
        if bool(self.look_up([self.n - 1])[0] == self.n - 1):
            return None
        return np.flatnonzero(np.unpackbits(self.words.view(np.uint8), bitorder="little"))


class SortedMap:
    """Whole numbers in any order: kept sorted, with the node number of each."""

    def __init__(self, numbers: NDArray[Any], *, ascending: bool = False) -> None:
        self.n = len(numbers)
        self._order = None if ascending else np.argsort(numbers, kind="stable")
        self._sorted = numbers if self._order is None else numbers[self._order]
        self._ids = numbers

    def look_up(self, values: Any) -> NDArray[np.int64]:
        """Node numbers, -1 for unknown ids."""
        wanted = np.asarray(values)
        place = np.minimum(np.searchsorted(self._sorted, wanted), self.n - 1)
        known = self._sorted[place] == wanted
        return np.where(known, place if self._order is None else self._order[place], -1)

    @property
    def ids(self) -> NDArray[Any] | None:
        """The ids in node order; None if they are 0, 1, .., n - 1."""
        ascending = self._order is None and self.n and self._ids[0] == 0 and self._ids[-1] == self.n - 1
        return None if ascending or np.array_equal(self._ids, np.arange(self.n)) else self._ids


class TextMap:
    """Text ids in any order, in one Arrow array."""

    def __init__(self, texts: pa.Array) -> None:
        self.n, self._ids = len(texts), texts

    def look_up(self, values: pa.Array) -> NDArray[np.int64]:
        """Node numbers, -1 for unknown ids. Numbers are compared as text."""
        import pyarrow as pa
        import pyarrow.compute as pc

        encoded = pc.cast(values, pa.large_string()).dictionary_encode()
        places = look_up(encoded.dictionary, self._ids)
        return np.asarray(places[np.asarray(encoded.indices)])

    @property
    def ids(self) -> NDArray[Any] | None:
        """The texts in node order."""
        return to_numpy(self._ids)


class Collector:
    """Gathers the different ids of a stream; `finish` gives the map with ids in ascending order."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._seen: NDArray[np.bool_] | None = np.zeros(0, dtype=bool)  # while all ids are small whole numbers
        self._pending: list[Any] = []
        self._size, self._merged = 0, 0

    def add(self, values: pa.Array) -> None:
        """Take in the ids of one column of a chunk."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not len(values):
            return
        if pa.types.is_integer(values.type):
            numbers = np.asarray(values)
            if self._seen is not None and numbers.min() >= 0 and numbers.max() < self.memory // 8:
                self._mark(numbers)
                return
            part: Any = np.unique(numbers)
        else:
            part = pc.unique(values)
        self._leave_marks()
        self._pending.append(part)
        self._size += len(part)
        if self._size > max(_PENDING, 2 * self._merged):
            self._merge()

    def _mark(self, numbers: NDArray[Any]) -> None:
        high = int(numbers.max())
        assert self._seen is not None
        if high >= len(self._seen):
            grown = np.zeros(max(high + 1, 2 * len(self._seen)), dtype=bool)
            grown[: len(self._seen)] = self._seen
            self._seen = grown
        self._seen[numbers] = True

    def _leave_marks(self) -> None:
        """From here on ids are gathered as sets."""
        if self._seen is not None and len(self._seen):
            self._pending.append(np.flatnonzero(self._seen))
        self._seen = None

    def _merge(self) -> None:
        merged = _union(self._pending)
        needed = 4 * merged.nbytes
        if needed > self.memory:
            raise InputError(
                f"The ids of {len(merged)} nodes need {needed / 1e9:.2g} GB; memory is {self.memory / 1e9:.2g} GB. "
                "Give a larger memory, or number the nodes 0, 1, .. in the files."
            )
        self._pending, self._size, self._merged = [merged], len(merged), len(merged)

    def finish(self) -> IdMap:
        """The map from all ids that were taken in."""
        import pyarrow.compute as pc

        if self._seen is not None:
            return BitmapMap(self._seen)
        self._merge()
        ids = self._pending[0]
        if isinstance(ids, np.ndarray):
            return SortedMap(ids, ascending=True)
        return TextMap(ids.take(pc.sort_indices(ids)))


def _union(parts: list[Any]) -> Any:
    """Different ids of all parts: ascending numbers, or texts in any order; texts where the kinds differ."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if all(isinstance(part, np.ndarray) for part in parts):
        if len({part.dtype for part in parts}) == 1:
            return np.unique(np.concatenate(parts))
        if all(part.min() >= 0 for part in parts if len(part)):
            return np.unique(np.concatenate([part.astype(np.uint64) for part in parts]))
    texts = [pc.cast(pa.array(part) if isinstance(part, np.ndarray) else part, pa.large_string()) for part in parts]
    return pc.unique(pa.concat_arrays(texts))


class AnyMap:
    """The ids of a table in its order; asked with numbers or texts, whichever a chunk of edges has."""

    def __init__(self, ids: pa.Array) -> None:
        import pyarrow as pa

        self._ids = ids
        self._numbers = SortedMap(np.asarray(ids)) if pa.types.is_integer(ids.type) else None
        self._texts: TextMap | None = None

    def look_up(self, values: pa.Array) -> NDArray[np.int64]:
        """Node numbers, -1 for unknown ids. A number and its text are the same id."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._numbers is not None and pa.types.is_integer(values.type):
            return self._numbers.look_up(values)
        if self._texts is None:
            self._texts = TextMap(pc.cast(self._ids, pa.large_string()))
        return self._texts.look_up(values)
