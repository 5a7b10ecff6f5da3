"""Table columns -> features: numbers, booleans, categories (one-hot), token lists and vector columns.

Each table column becomes a `Block` of feature columns with a mask of the rows where its value is missing; _missing.py
fills the blocks and sets them side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError, option
from tuplet.io._cells import NULL_WORDS
from tuplet.io.npz import narrow_csr

if TYPE_CHECKING:
    import pyarrow as pa

MANY_CATEGORIES = 1000
_NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"


@dataclass(frozen=True)
class Block:
    """The feature columns made from one table column.

    `values` is (n, width), dense float32 or CSR, zero where missing; `missing` (n,) marks the rows without a value.
    """

    column: str
    kind: str
    names: tuple[str, ...]
    values: Any
    missing: NDArray[np.bool_]


class Features:
    """How the columns of a table become features: learnt from all chunks of it, then used on each.

    `names` are the feature names. `categorical` names columns to one-hot encode though they hold numbers (or very
    many texts). `tokens` names text columns that hold several tokens each, split at blanks, or at the separator
    given for the name.

    >>> import pyarrow as pa
    >>> t = pa.table({"age": [1.0, 2.0], "kind": ["a", "b"], "words": [["x", "y"], ["x"]]})
    >>> [(block.kind, block.names) for block in Features([t], t.column_names).blocks(t)]
    [('numeric', ('age',)), ('categorical', ('kind=a', 'kind=b')), ('tokens', ('words:x', 'words:y'))]
    """

    def __init__(
        self,
        chunks: Iterable[pa.Table],
        columns: Sequence[str],
        *,
        categorical: Sequence[str] = (),
        tokens: Sequence[str] | Mapping[str, str] = (),
    ) -> None:
        self._columns = [_column(name, categorical, tokens) for name in columns]
        rows = 0
        for chunk in chunks:
            for column in self._columns:
                column.learn(chunk.column(column.name), rows)
            rows += chunk.num_rows
        for column in self._columns:
            column.finish(rows)
        self.names = tuple(name for column in self._columns for name in column.names)

    def check_missing(self, what: str) -> None:
        """Raise if any column misses a value, with the count and the first place."""
        for column in self._columns:
            if column.missing:
                raise InputError(
                    f"Column {column.name!r} of {what} misses {column.missing} of {column.rows} values, first in row "
                    f"{column.first_missing + 1}. Choose how to fill them: {option('missing', 'zero')}, 'mean' or "
                    "'propagate'."
                )

    def blocks(self, chunk: pa.Table) -> list[Block]:
        """One block for each column of the chunk."""
        return [column.block(chunk.column(column.name)) for column in self._columns]


def _column(name: str, categorical: Sequence[str], tokens: Sequence[str] | Mapping[str, str]) -> _Column:
    if name in categorical:
        return _Column(name, "categorical", forced=True)
    if name in tokens:
        return _Column(name, "tokens", separator=tokens[name] if isinstance(tokens, Mapping) else None)
    return _Column(name)


class _Column:
    """One column: its kind, and for categories, tokens and vectors the values or width that all chunks have."""

    def __init__(self, name: str, kind: str = "", *, forced: bool = False, separator: str | None = None) -> None:
        self.name, self.kind, self.forced, self.separator = name, kind, forced, separator
        self.rows = self.missing = self.known = 0
        self.first_missing = -1
        self.names: tuple[str, ...] = (name,)
        self.values: Any = None
        self.width = 0
        self._texts = 0  # among the known values of a text column, those that are no numbers
        self._first_text: tuple[str, int] | None = None

    def learn(self, column: Any, first: int) -> None:
        """Take in a chunk of the column, whose first row is row `first` of the table."""
        self.kind = self.kind or _kind_by_type(self.name, column.type)
        column = _split(column, self.separator) if self.kind == "tokens" else column
        missing = _missing(column, self.kind)
        if missing.any() and not self.missing:
            self.first_missing = first + int(missing.argmax())
        self.rows += len(missing)
        self.missing += int(missing.sum())
        self.known += int(len(missing) - missing.sum())
        if self.kind == "categorical":
            self._learn_categories(column, missing, first)
        elif self.kind == "tokens":
            self._add_values(_flat_tokens(self.name, column)[0])
        elif self.kind == "vector":
            self._learn_width(column)

    def _learn_categories(self, column: Any, missing: NDArray[np.bool_], first: int) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        text = pc.cast(column, pa.large_string())
        known = text.filter(pa.array(~missing))
        self._add_values(known)
        if not self.forced and len(known):
            number = np.asarray(pc.match_substring_regex(known, _NUMBER), dtype=bool)
            self._texts += int((~number).sum())
            if self._first_text is None and not number.all():
                place = int((~number).argmax())
                row = first + int(np.flatnonzero(~missing)[place])
                self._first_text = (known[place].as_py(), row)

    def _add_values(self, values: Any) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        fresh = pc.unique(values)
        self.values = fresh if self.values is None else pc.unique(pa.concat_arrays([self.values, fresh]))

    def _learn_width(self, column: Any) -> None:
        import pyarrow.compute as pc

        lengths = set(pc.unique(pc.list_value_length(column).drop_null()).to_pylist())
        lengths |= {self.width} if self.width else set()
        if len(lengths) > 1 or 0 in lengths:
            raise InputError(
                f"Column {self.name!r} holds lists of lengths {sorted(lengths)[:5]}. All must be equally long."
            )
        self.width = int(next(iter(lengths), 0))

    def finish(self, rows: int) -> None:
        """Fix the feature names; raise where the column cannot be used."""
        import pyarrow.compute as pc

        if self.kind in ("categorical", "tokens"):
            self.values = self.values.take(pc.sort_indices(self.values))
            if self.kind == "tokens" and not len(self.values):
                raise InputError(
                    f"Column {self.name!r} holds no tokens at all. Leave it out with {option('columns')}"
                )
            self._check_texts()
            mark = "=" if self.kind == "categorical" else ":"
            self.names = tuple(f"{self.name}{mark}{value}" for value in self.values.to_pylist())
        elif self.kind == "vector":
            if not self.width:
                raise InputError(
                    f"Column {self.name!r} holds no vector at all. Leave it out with {option('columns')}"
                )
            self.names = tuple(f"{self.name}[{i}]" for i in range(self.width))

    def _check_texts(self) -> None:
        """Raise where a column is mostly numbers (one stray word makes no categories) or has very many texts."""
        if self.kind != "categorical" or self.forced:
            return
        if self._texts > 0 and self._texts * 2 < self.known and self._first_text is not None:
            text, row = self._first_text
            raise InputError(
                f"Column {self.name!r} holds text in {self._texts} of {self.known} values, first {text!r} in row "
                f"{row + 1}; the others are numbers. Correct or empty them, or say {option('categorical', [self.name])}."
            )
        if len(self.values) > MANY_CATEGORIES and len(self.values) > self.known / 2:
            raise InputError(
                f"Column {self.name!r} holds {len(self.values)} different texts in {self.known} rows, too many for "
                f"categories. Leave it out with {option('columns')}, split it with {option('tokens', [self.name])}, or "
                f"insist with {option('categorical', [self.name])}."
            )

    def block(self, column: Any) -> Block:
        """The features of a chunk."""
        make: dict[str, Any] = {"categorical": self._one_hot, "tokens": self._counts, "vector": self._vectors}
        column = _split(column, self.separator) if self.kind == "tokens" else column
        missing = _missing(column, self.kind)
        values = make.get(self.kind, self._numbers)(column, missing)
        return Block(self.name, self.kind, self.names, values, missing)

    def _numbers(self, column: Any, missing: NDArray[np.bool_]) -> NDArray[np.float32]:
        values = np.where(missing, 0, _floats(column, self.kind))
        if np.isinf(values).any():
            raise InputError(
                f"Column {self.name!r} holds infinity in row {int(np.isinf(values).argmax()) + 1}. Replace it."
            )
        with np.errstate(over="ignore"):
            dense = values.astype(np.float32)[:, None]
        if np.isinf(dense).any():
            raise InputError(
                f"Column {self.name!r} holds {values[np.isinf(dense[:, 0])][0]:g}, too large for float32. Scale it."
            )
        return dense

    def _one_hot(self, column: Any, missing: NDArray[np.bool_]) -> sp.csr_array:
        import pyarrow as pa
        import pyarrow.compute as pc

        known = pc.cast(column, pa.large_string()).filter(pa.array(~missing))
        codes = np.asarray(pc.index_in(known, value_set=self.values), dtype=np.int64)
        rows = np.flatnonzero(~missing)
        ones = np.ones(len(rows), np.float32)
        return sp.csr_array((ones, (rows, codes)), shape=(len(missing), len(self.values)))

    def _counts(self, column: Any, missing: NDArray[np.bool_]) -> sp.csr_array:
        import pyarrow.compute as pc

        flat, rows = _flat_tokens(self.name, column)
        codes = np.asarray(pc.index_in(flat, value_set=self.values), dtype=np.int64)
        matrix = sp.csr_array(
            (np.ones(len(codes), np.float32), (rows, codes)), shape=(len(missing), len(self.values))
        )
        matrix.sum_duplicates()
        return matrix

    def _vectors(self, column: Any, missing: NDArray[np.bool_]) -> Any:
        """Piece by piece, sparse where that pays."""
        import pyarrow.compute as pc

        parts = []
        for piece in column.chunks:
            known = np.asarray(pc.is_valid(piece), dtype=bool)
            flat = np.asarray(pc.fill_null(pc.list_flatten(piece), float("nan")), dtype=np.float32)
            rows = np.zeros((len(piece), self.width), np.float32)
            rows[known] = flat.reshape(-1, self.width)
            if not np.isfinite(rows).all():
                raise InputError(
                    f"Column {self.name!r} holds vectors with empty, NaN or infinite entries. Replace them first."
                )
            parts.append(compact(rows))
        dense = all(isinstance(part, np.ndarray) for part in parts)
        return np.vstack(parts) if dense else sp.csr_array(sp.vstack([sp.csr_array(part) for part in parts]))


def _kind_by_type(name: str, kind: Any) -> str:
    import pyarrow as pa

    types = pa.types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind):
        return "numeric"
    if types.is_boolean(kind):
        return "boolean"
    if types.is_string(kind) or types.is_large_string(kind):
        return "categorical"
    if types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind):
        inner = kind.value_type
        if types.is_string(inner) or types.is_large_string(inner):
            return "tokens"
        if types.is_floating(inner) or (types.is_fixed_size_list(kind) and types.is_integer(inner)):
            return "vector"
        if types.is_integer(inner):
            return "tokens"
    raise InputError(
        f"Column {name!r} holds {kind}, which is not a feature. Convert it to numbers, or leave it out with "
        f"{option('columns')}"
    )


def _missing(column: Any, kind: str) -> NDArray[np.bool_]:
    """The rows without a value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    absent = np.asarray(pc.is_null(column), dtype=bool)
    if kind in ("numeric", "boolean"):
        return np.asarray(absent | np.isnan(_floats(column, kind)))
    if kind == "categorical":
        text = pc.cast(column, pa.large_string())
        words = pc.is_in(text, value_set=pa.array(NULL_WORDS, pa.large_string()))
        return np.asarray(absent | np.asarray(pc.fill_null(words, True), dtype=bool))
    return absent


def _floats(column: Any, kind: str) -> NDArray[np.float64]:
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = pc.cast(pc.cast(column, pa.int8()) if kind == "boolean" else column, pa.float64(), safe=False)
    return np.asarray(pc.fill_null(numbers, float("nan")), dtype=np.float64)


def _split(column: pa.ChunkedArray, separator: str | None) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    if separator is None:
        return pc.utf8_split_whitespace(pc.utf8_trim_whitespace(column))
    return pc.split_pattern(column, separator)


def _flat_tokens(name: str, column: Any) -> tuple[Any, NDArray[np.int64]]:
    """All tokens one after another, and the row of each."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        raise InputError(f"Column {name!r} holds {kind}, not token lists or text. Leave it out of {option('tokens')}")
    flat = pc.list_flatten(column)
    rows = np.asarray(pc.list_parent_indices(column), dtype=np.int64)
    filled = np.asarray(pc.is_valid(flat), dtype=bool)
    if pa.types.is_string(flat.type) or pa.types.is_large_string(flat.type):
        filled &= np.asarray(pc.fill_null(pc.not_equal(flat, ""), False), dtype=bool)
    return flat.filter(pa.array(filled)), rows[filled]


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
