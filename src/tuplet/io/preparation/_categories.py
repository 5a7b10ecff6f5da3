"""The encoder of categories."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet.io.preparation import values as read
from tuplet.io.preparation._encoded import Encoded, counted, least

MOST_LEVELS = 1000  # of a category that have columns of their own
BUCKETS = 256  # columns of a category with very many levels


@dataclass(frozen=True)
class Categories:
    """One column a level; rare levels together, a level for nothing; or, for very many levels, hashed columns."""

    role: ClassVar[str] = "category"
    name: str
    levels: tuple[str, ...]
    rare: tuple[str, ...] = ()
    gaps: bool = False
    buckets: int = 0

    @classmethod
    def fit(cls, name: str, column: Any, *, gaps: bool = True, merge: bool = True) -> Self:
        text, missing = read.texts(column)
        levels, counts = counted(text)
        gaps = gaps and bool(missing.any())
        if not merge or len(levels) <= 2:
            return cls(name, tuple(sorted(levels)), (), gaps)
        kept = [level for level, count in zip(levels, counts) if count >= least(len(text))][:MOST_LEVELS]
        share = sum(counts[: len(kept)]) / sum(counts)
        if len(levels) > MOST_LEVELS and share < 0.5:
            return cls(name, (), (), gaps, BUCKETS)
        rare = tuple(sorted(levels[len(kept) :]))
        if len(rare) == 1 and len(kept) < MOST_LEVELS:
            kept, rare = levels, ()
        return cls(name, tuple(sorted(kept)), rare, gaps)

    @property
    def names(self) -> tuple[str, ...]:
        if self.buckets:
            own = [f"{self.name}#{i}" for i in range(self.buckets)]
        else:
            own = [f"{self.name}={level}" for level in self.levels] + ([f"{self.name}=other"] if self.rare else [])
        return (*own, *([f"{self.name}=missing"] if self.gaps else []))

    @property
    def note(self) -> str:
        if self.buckets:
            return f"very many levels, hashed to {self.buckets}"
        rare = f"{len(self.rare)} rare levels as one" if self.rare else ""
        return "; ".join(filter(None, [rare, _by_case_only([*self.levels, *self.rare])]))

    def transform(self, column: Any) -> Encoded:
        text, missing = read.texts(column)
        codes, strange = self._hashed(text) if self.buckets else self._looked_up(text)
        width = len(self.names)
        if self.gaps:
            codes = np.where(missing, width - 1, codes)
        rows = np.flatnonzero(codes >= 0)
        ones = np.ones(len(rows), np.float32)
        values = sp.csr_array((ones, (rows, codes[rows])), shape=(len(text), width))
        return Encoded(values, strange, int((~missing).sum()))

    def _looked_up(self, text: Any) -> tuple[NDArray[np.int64], int]:
        import pyarrow as pa
        import pyarrow.compute as pc

        known = pa.array([*self.levels, *self.rare], pa.large_string())
        codes = np.asarray(pc.fill_null(pc.index_in(text, value_set=known), -1), dtype=np.int64)
        strange = int(((codes < 0) & np.asarray(pc.is_valid(text), dtype=bool)).sum())
        return np.minimum(codes, len(self.levels)), strange

    def _hashed(self, text: Any) -> tuple[NDArray[np.int64], int]:
        import pyarrow.compute as pc

        coded = pc.dictionary_encode(text)
        table = [zlib.crc32(level.encode()) % self.buckets for level in coded.dictionary.to_pylist()]
        place = np.asarray(pc.fill_null(coded.indices, -1), dtype=np.int64)
        return np.where(place >= 0, np.array([*table, 0], np.int64)[place], -1), 0


def _by_case_only(levels: list[str]) -> str:
    """A remark on levels that differ in case only, which are kept apart: a writer's whim, or a meaning?

    >>> _by_case_only(["Yes", "no", "yes"])
    "'Yes' and 'yes' differ in case only"
    """
    alike: dict[str, list[str]] = {}
    for level in sorted(levels):
        alike.setdefault(level.casefold(), []).append(level)
    found = [same for same in alike.values() if len(same) > 1]
    if not found:
        return ""
    others = sum(map(len, found)) - 2
    more = f", and {others} other level{'s' if others > 1 else ''}," if others else ""
    return f"{found[0][0]!r} and {found[0][1]!r}{more} differ in case only"
