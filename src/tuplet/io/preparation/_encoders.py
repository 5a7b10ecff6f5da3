"""One class a role: what a column's sample taught, and how values become feature columns with it.

Each has `fit`, `transform` (values dense or CSR, with a count of strange tokens or levels), the `names` of its
feature columns, and fields of numbers, texts and lists only, so that it can be saved as JSON and arrays.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet.io.preparation import values as read

MANY_GAPS = (0.05, 0.5)  # between these shares of missing values, a column of its own says where they are
CLIP = 4.0  # scaled numbers end here
HEAVY = 5.0  # a tail this many quartile distances long is a heavy one
MOST_LEVELS = 1000  # of a category that have columns of their own
BUCKETS = 256  # columns of a category with very many levels
MOST_WORDS = 20_000
YEAR = 365.2425


@dataclass(frozen=True)
class Encoded:
    """`values` (n, width), dense float32 or CSR; `strange` of `total` tokens or levels were not known."""

    values: Any
    strange: int = 0
    total: int = 0


@dataclass(frozen=True)
class Numbers:
    """(t(v) - centre) / scale within [-4, 4]; t is sign(v) log(1 + |v| / unit) where the tail is heavy."""

    role: ClassVar[str] = "number"
    name: str
    centre: float
    scale: float
    unit: float = 0.0  # 0: no logarithm
    gaps: bool = False

    @classmethod
    def fit(cls, name: str, column: Any, *, gaps: bool = True) -> Self:
        values = read.numbers(name, column)
        known = values[~np.isnan(values)]
        unit = _unit(known)
        centre, scale = _centre(_log(known, unit))
        return cls(name, centre, scale, unit, gaps and many_gaps(np.isnan(values)))

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, f"{self.name}:missing") if self.gaps else (self.name,)

    @property
    def note(self) -> str:
        return "logarithm, scaled" if self.unit else "scaled"

    def transform(self, column: Any) -> Encoded:
        values = read.numbers(self.name, column)
        missing = np.isnan(values)
        scaled = ((_log(values, self.unit) - self.centre) / self.scale).clip(-CLIP, CLIP)
        return Encoded(_with_gaps(np.where(missing, 0, scaled)[:, None], missing, self.gaps))


def many_gaps(missing: NDArray[np.bool_]) -> bool:
    return bool(MANY_GAPS[0] < missing.mean() <= MANY_GAPS[1])


def _unit(known: NDArray[np.float64]) -> float:
    """The unit of the logarithm, the median size; 0 where the tails are not heavy."""
    low, first, middle, third, high = np.quantile(known, [0.01, 0.25, 0.5, 0.75, 0.99])
    spread = max(third - middle, middle - first)
    tail = max(high - third, first - low)
    sizes = np.abs(known[known != 0])
    return float(np.median(sizes)) if len(sizes) and tail > HEAVY * spread else 0.0


def _log(values: NDArray[np.float64], unit: float) -> NDArray[np.float64]:
    return values if not unit else np.sign(values) * np.log1p(np.abs(values) / unit)


def _centre(known: NDArray[np.float64]) -> tuple[float, float]:
    """Median, and the quartile distance as a standard deviation (the deviation itself where that is 0)."""
    first, middle, third = np.quantile(known, [0.25, 0.5, 0.75])
    scale = (third - first) / 1.349 or float(known.std()) or 1.0
    return float(middle), float(scale)


def _with_gaps(values: NDArray[Any], missing: NDArray[np.bool_], gaps: bool) -> NDArray[np.float32]:
    return np.column_stack([values, missing] if gaps else [values]).astype(np.float32)


@dataclass(frozen=True)
class Plain:
    """Numbers and booleans as they are; missing ones as `fill`."""

    role: ClassVar[str] = "plain"
    name: str
    fill: float = 0.0
    gaps: bool = False
    boolean: bool = False

    @classmethod
    def fit(cls, name: str, column: Any, *, gaps: bool = True) -> Self:
        import pyarrow as pa

        values = read.numbers(name, column)
        boolean = bool(pa.types.is_boolean(column.type))
        known = values[~np.isnan(values)]
        fill = float(np.median(known)) if len(known) and not boolean else 0.0
        return cls(name, fill, gaps and many_gaps(np.isnan(values)), boolean)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, f"{self.name}:missing") if self.gaps else (self.name,)

    @property
    def note(self) -> str:
        return "as it is"

    def transform(self, column: Any) -> Encoded:
        values = read.numbers(self.name, column)
        missing = np.isnan(values)
        with np.errstate(over="ignore"):
            dense = _with_gaps(np.where(missing, self.fill, values)[:, None], missing, self.gaps)
        if np.isinf(dense).any():
            big = values[np.isinf(dense[:, 0])][0]
            raise InputError(f"Column {self.name!r} holds {big:g}, too large for float32. Scale it.")
        return Encoded(dense)


@dataclass(frozen=True)
class Dates:
    """A trend, the day scaled as a number is; and the season, where the days cover half a year and more."""

    role: ClassVar[str] = "date"
    name: str
    centre: float
    scale: float
    season: bool = True
    gaps: bool = False

    @classmethod
    def fit(cls, name: str, column: Any, *, gaps: bool = True) -> Self:
        day = read.days(name, column)
        known = day[~np.isnan(day)]
        wide = len(known) > 0 and np.ptp(known) >= YEAR / 2 and len(np.unique(known % YEAR // 30)) > 3
        return cls(name, *_centre(known), bool(wide), gaps and many_gaps(np.isnan(day)))

    @property
    def names(self) -> tuple[str, ...]:
        endings = [":trend", *([":sin", ":cos"] if self.season else []), *([":missing"] if self.gaps else [])]
        return tuple(self.name + ending for ending in endings)

    @property
    def note(self) -> str:
        return "trend and season" if self.season else "trend"

    def transform(self, column: Any) -> Encoded:
        day = read.days(self.name, column)
        missing = np.isnan(day)
        parts = [((day - self.centre) / self.scale).clip(-CLIP, CLIP)]
        if self.season:
            angle = 2 * np.pi * (day % YEAR) / YEAR
            parts += [np.sin(angle), np.cos(angle)]
        values = np.where(missing[:, None], 0, np.column_stack(parts))
        return Encoded(_with_gaps(values, missing, self.gaps))


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
        kept = [level for level, count in zip(levels, counts) if count >= _least(len(text))][:MOST_LEVELS]
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
        return f"{len(self.rare)} rare levels as one" if self.rare else ""

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


def _least(n: int) -> int:
    """Rows that a level or word needs: 1 in a small table, else 2."""
    return 1 if n < 50 else 2


def counted(values: Any) -> tuple[list[str], list[int]]:
    """The different values and their counts, most frequent first, then in ascending order."""
    import pyarrow.compute as pc

    found = pc.value_counts(values.drop_null())
    pairs = sorted(zip(found.field("values").to_pylist(), found.field("counts").to_pylist()), key=_by_count)
    return [value for value, _ in pairs], [count for _, count in pairs]


def _by_count(pair: tuple[str, int]) -> tuple[int, str]:
    return -pair[1], pair[0]


@dataclass(frozen=True)
class Words:
    """Tokens weighted (1 + log count) idf, rows of unit length; plain counts where `weighted` is not set."""

    role: ClassVar[str] = "text"
    name: str
    vocabulary: tuple[str, ...]
    idf: NDArray[np.float32] = field(repr=False, compare=False)
    split: bool = True  # free text; else token lists
    separator: str | None = None
    weighted: bool = True
    usual: float = 0.0  # share of tokens outside the vocabulary when it was made

    @classmethod
    def fit(
        cls, name: str, column: Any, *, split: bool = True, separator: str | None = None, weighted: bool = True
    ) -> Self:
        lists = read.words(column) if split else read.parts(name, column, separator)
        tokens, rows = read.flat_tokens(lists)
        found, frequency, total = _document_counts(tokens, rows)
        if not found:
            raise InputError(f"Column {name!r} holds no tokens at all. Leave it out with exclude=.")
        least = _least(len(column)) if weighted else 1
        if not any(count >= least for count in frequency):
            least = 1
        kept = [(word, count) for word, count in zip(found, frequency) if count >= least][:MOST_WORDS]
        kept.sort()
        idf = np.array([1 + np.log((1 + len(column)) / (1 + count)) for _, count in kept], np.float32)
        known = {word for word, _ in kept}
        usual = 1 - sum(total[word] for word in known) / sum(total.values())
        return cls(name, tuple(word for word, _ in kept), idf, split, separator, weighted, usual)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}:{word}" for word in self.vocabulary)

    @property
    def note(self) -> str:
        return "" if self.weighted else "counts"

    def transform(self, column: Any) -> Encoded:
        import pyarrow as pa
        import pyarrow.compute as pc

        lists = read.words(column) if self.split else read.parts(self.name, column, self.separator)
        tokens, rows = read.flat_tokens(lists)
        vocabulary = pa.array(self.vocabulary, pa.large_string())
        codes = np.asarray(pc.fill_null(pc.index_in(tokens, value_set=vocabulary), -1), dtype=np.int64)
        kept = codes >= 0
        counts = sp.csr_array(
            (np.ones(int(kept.sum()), np.float32), (rows[kept], codes[kept])), shape=(len(column), len(vocabulary))
        )
        counts.sum_duplicates()
        return Encoded(self._weigh(counts) if self.weighted else counts, int((~kept).sum()), len(kept))

    def _weigh(self, counts: sp.csr_array) -> sp.csr_array:
        data = (1 + np.log(counts.data)) * self.idf[counts.indices]
        rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        lengths = np.sqrt(np.bincount(rows, data.astype(np.float64) ** 2, minlength=counts.shape[0]))
        return sp.csr_array(
            ((data / lengths[rows]).astype(np.float32), counts.indices, counts.indptr), shape=counts.shape
        )


def _document_counts(tokens: Any, rows: NDArray[np.int64]) -> tuple[list[str], list[int], dict[str, int]]:
    """Tokens and the number of rows that hold them, most frequent first; and how often each occurs in all."""
    import pyarrow.compute as pc

    if not len(tokens):
        return [], [], {}
    coded = pc.dictionary_encode(tokens)
    words, codes = coded.dictionary.to_pylist(), np.asarray(coded.indices, dtype=np.int64)
    pairs = np.unique(rows * len(words) + codes)
    frequency = np.bincount(pairs % len(words), minlength=len(words)).tolist()
    ordered = sorted(zip(words, frequency), key=_by_count)
    total = dict(zip(words, np.bincount(codes, minlength=len(words)).tolist()))
    return [word for word, _ in ordered], [count for _, count in ordered], total


@dataclass(frozen=True)
class Vectors:
    """Number lists of one length, as they are; a row without one is 0."""

    role: ClassVar[str] = "vector"
    name: str
    width: int

    @classmethod
    def fit(cls, name: str, column: Any) -> Self:
        import pyarrow.compute as pc

        lengths = pc.unique(pc.list_value_length(column).drop_null()).to_pylist()
        if len(lengths) != 1 or not lengths[0]:
            raise InputError(
                f"Column {name!r} holds lists of lengths {sorted(lengths)[:5]}. All must be equally long."
            )
        return cls(name, int(lengths[0]))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}[{i}]" for i in range(self.width))

    @property
    def note(self) -> str:
        return "as it is"

    def transform(self, column: Any) -> Encoded:
        """Chunk by chunk, sparse where that pays."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from tuplet.io._columns import compact

        lengths = pc.unique(pc.list_value_length(column).drop_null()).to_pylist()
        if any(length != self.width for length in lengths):
            raise InputError(f"Column {self.name!r} holds lists of lengths {sorted(lengths)[:5]}, not {self.width}.")
        parts = []
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            known = np.asarray(pc.is_valid(chunk), dtype=bool)
            flat = np.asarray(pc.fill_null(pc.list_flatten(chunk), float("nan")), dtype=np.float32)
            rows = np.zeros((len(chunk), self.width), np.float32)
            rows[known] = flat.reshape(-1, self.width)
            if not np.isfinite(rows).all():
                raise InputError(
                    f"Column {self.name!r} holds vectors with empty, NaN or infinite entries. Replace them first."
                )
            parts.append(compact(rows))
        if all(isinstance(part, np.ndarray) for part in parts):
            return Encoded(np.vstack(parts) if parts else np.zeros((0, self.width), np.float32))
        return Encoded(sp.csr_array(sp.vstack([sp.csr_array(part) for part in parts])))


Encoder = Numbers | Plain | Dates | Categories | Words | Vectors
ENCODERS: dict[str, Any] = {kind.__name__: kind for kind in (Numbers, Plain, Dates, Categories, Words, Vectors)}
