"""The encoder of free text and of token lists."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError, option
from tuplet.io.preparation import values as read
from tuplet.io.preparation._encoded import Encoded, document_counts, least

MOST_WORDS = 20_000


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
        found, frequency, total = document_counts(tokens, rows)
        if not found:
            raise InputError(f"Column {name!r} holds no tokens at all. Leave it out: {option('exclude', [name])}.")
        fewest = least(len(column)) if weighted else 1
        if not any(count >= fewest for count in frequency):
            fewest = 1
        kept = [(word, count) for word, count in zip(found, frequency) if count >= fewest][:MOST_WORDS]
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
