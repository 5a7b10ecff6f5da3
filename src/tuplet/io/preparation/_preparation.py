"""Preparation: what was decided for each column of a node table, and the features that follow from it."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from tuplet._check import InputError, check_choice
from tuplet.io._columns import Block
from tuplet.io._missing import side_by_side
from tuplet.io.preparation._encoders import ENCODERS, Encoder, Words
from tuplet.io.preparation._plan import Plan, plan_columns
from tuplet.io.preparation._sample import sample_rows
from tuplet.io.preparation._values import missing_of

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("tuplet")

STRANGE = 0.2  # share of unknown words or levels that is worth a warning
DOMINANT = 0.5  # share of the rows' squared length that one of several columns should not have
Chunks = Callable[[], "Iterable[pa.Table]"]


class Line(NamedTuple):
    """What became of one column: its role, the number of feature columns, the share of missing values, a note."""

    name: str
    role: str
    width: int
    missing: float
    note: str


@dataclass(frozen=True)
class Column:
    """A column in use: its encoder, the role it plays, the block that it weighs with, and its factor."""

    encoder: Encoder
    role: str
    block: str
    factor: float = 1.0
    missing: float = 0.0
    note: str = ""


@dataclass(frozen=True, eq=False)
class Preparation:
    """How the columns of a table become features, learned from one table and applied to others.

    `columns` are those in use; `left_out` says which are not, and why. `warnings` name columns that deserve a look.

    >>> import pyarrow as pa
    >>> table = pa.table({"size": [1.0, 2.0, 900.0], "kind": ["a", "b", "a"], "label": [0, 1, 0]})
    >>> found = Preparation.fit_table(table)
    >>> found.feature_names
    ('size', 'kind=a', 'kind=b')
    >>> [(line.name, line.role) for line in found.rows()]
    [('size', 'number'), ('kind', 'category'), ('label', 'label')]
    """

    columns: tuple[Column, ...]
    left_out: tuple[Line, ...] = ()
    warnings: tuple[str, ...] = ()
    scaled: bool = True

    @classmethod
    def fit(
        cls,
        chunks: Chunks,
        *,
        id: str | None = None,
        label: str | None = None,
        columns: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        roles: Mapping[str, str] | None = None,
        separators: Mapping[str, str | None] | None = None,
        scale: bool = True,
        gaps: bool = True,
    ) -> Self:
        """Learn from the tables that `chunks()` yields; one pass, and a sample of at most 65,536 rows is kept.

        `id` and `label` are no features. `columns` picks columns, also such as would be left out; `exclude` leaves
        some out; `roles` overrules what is found; `separators` split the tokens of text columns. `scale` False keeps
        numbers, counts and blocks as they are. `gaps` False makes no columns that say where values are missing.
        """
        sample, _ = sample_rows(chunks())
        if sample is None or not sample.num_rows:
            raise InputError("The features hold no rows. Give at least one.")
        plan = Plan(id, label, None if columns is None else tuple(columns), tuple(exclude), dict(roles or {}),
                    dict(separators or {}), scale, gaps)  # fmt: skip
        found, left_out = plan_columns(sample, plan)
        used = tuple(Column(encoder, role, block, note=note) for encoder, role, block, note in found)
        used, notes = _measured(used, sample, scale)
        warnings = (*notes, *_copies_of_label(sample, used, label))
        for text in warnings:
            log.warning("%s", text)
        return cls(used, tuple(Line(*line) for line in left_out), warnings, scale)

    @classmethod
    def fit_table(cls, table: pa.Table, **options: Any) -> Self:
        """`fit` on one table in memory."""
        return cls.fit(lambda: [table], **options)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the feature columns, in order."""
        return tuple(name for column in self.columns for name in column.encoder.names)

    def rows(self) -> list[Line]:
        """One line a column: those in use, then those left out."""
        used = [
            Line(c.encoder.name, c.role, len(c.encoder.names), c.missing, c.note or c.encoder.note)
            for c in self.columns
        ]
        return [*used, *self.left_out]

    def blocks(self, table: pa.Table, *, new: bool = False) -> list[Block]:
        """The features of `table`, one block of columns for each column in use.

        With `new` (rows that `fit` has not seen) words and levels that are not known are counted, ignored, and
        warned about where they are many.
        """
        self._check(table, new)
        return [self._block(column, table.column(column.encoder.name), new) for column in self.columns]

    def transform(self, table: pa.Table, *, new: bool = False) -> Any:
        """The features (n, f) of `table`, float32, dense or CSR, whichever is smaller."""
        return side_by_side([block.values for block in self.blocks(table, new=new)])

    def empty_row(self, column: Column) -> Any:
        """What a row without any value becomes, (1, width)."""
        import pyarrow as pa

        kind = pa.list_(pa.float32(), column.encoder.width) if column.role == "vector" else pa.large_string()
        if column.role == "tokens":
            kind = pa.large_list(pa.large_string())
        return self._block(column, pa.chunked_array([pa.nulls(1, kind)]), False).values

    def to_saved(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """JSON values and arrays from which `from_saved` makes the same preparation."""
        arrays, saved = {}, []
        for i, column in enumerate(self.columns):
            encoder = column.encoder
            state = {part.name: getattr(encoder, part.name) for part in fields(encoder)}
            if isinstance(encoder, Words):
                arrays[f"{i}.idf"] = state.pop("idf")
            own = asdict(replace(column, encoder=None))  # type: ignore[arg-type]
            own["encoder"] = {"kind": type(encoder).__name__, **{k: _plain(v) for k, v in state.items()}}
            saved.append(own)
        meta = {"format": 1, "scaled": self.scaled, "columns": saved, "left_out": [list(line) for line in self.left_out]}
        return meta | {"warnings": list(self.warnings)}, arrays

    @classmethod
    def from_saved(cls, meta: Mapping[str, Any], arrays: Mapping[str, Any]) -> Self:
        """The preparation that `to_saved` wrote."""
        try:
            columns = tuple(_column(own, arrays.get(f"{i}.idf")) for i, own in enumerate(meta["columns"]))
            left_out = tuple(Line(*line) for line in meta["left_out"])
            return cls(columns, left_out, tuple(meta["warnings"]), bool(meta["scaled"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"The saved preparation is damaged ({error!r}). Save the model again.") from None

    def _check(self, table: pa.Table, new: bool) -> None:
        names = table.column_names
        for column in self.columns:
            if column.encoder.name not in names:
                near = difflib.get_close_matches(column.encoder.name, names, n=1)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                raise InputError(
                    f"The column {column.encoder.name!r} is missing; the features were prepared with it. The columns "
                    f"are: {', '.join(names)}.{hint}"
                )
        known = {line.name for line in self.rows()}
        extra = [name for name in names if name not in known]
        if new and extra:
            log.info("columns that the preparation does not know are ignored: %s", ", ".join(extra))

    def _block(self, column: Column, values: Any, new: bool) -> Block:
        encoder = column.encoder
        if not len(values.chunks):
            values = values.combine_chunks()
        found = encoder.transform(values)
        if new:
            _tell_strange(encoder, found.strange, found.total)
        scaled = found.values if column.factor == 1 else found.values * np.float32(column.factor)
        return Block(encoder.name, column.role, encoder.names, scaled, missing_of(values))


def _measured(columns: tuple[Column, ...], sample: pa.Table, scale: bool) -> tuple[tuple[Column, ...], list[str]]:
    """The columns with factors, so that each block has a mean squared row length of 1; and what dominates.

    Inside a block the columns weigh the same. A block that keeps its values is left alone where it is the only one.
    """
    squares, missing = [], []
    for column in columns:
        values = sample.column(column.encoder.name)
        squares.append(_mean_square(column.encoder.transform(values).values))
        missing.append(float(missing_of(values).mean()))
    columns = tuple(replace(column, missing=gap) for column, gap in zip(columns, missing))
    if not scale:
        return columns, _dominant(columns, squares)
    names = [column.block for column in columns]
    if len(set(names)) == 1 and columns[0].role in ("vector", "plain"):
        return columns, []
    sums = {block: sum(s for s, name in zip(squares, names) if name == block) for block in names}
    out = []
    for column, square in zip(columns, squares):
        whole = column.block == "plain"  # the values inside are comparable: one factor for all of them
        size = sums[column.block] if whole else square * sum(1 for s, b in zip(squares, names) if b == column.block and s)
        out.append(replace(column, factor=float(1 / np.sqrt(size)) if size > 0 else 1.0))
    return tuple(out), []


def _mean_square(values: Any) -> float:
    data = values.data if sp.issparse(values) else values
    return float(np.square(data, dtype=np.float64).sum()) / max(1, values.shape[0])


def _dominant(columns: Sequence[Column], squares: Sequence[float]) -> list[str]:
    """A warning for a column that makes up most of the rows' length."""
    total = sum(squares)
    return [
        f"Column {column.encoder.name!r} makes up {square / total:.0%} of the rows' squared length, and hides the others. "
        "Let it be scaled, or leave it out."
        for column, square in zip(columns, squares)
        if len(columns) > 1 and total > 0 and square > DOMINANT * total and square > 10 * (total - square)
    ]


def _copies_of_label(sample: pa.Table, columns: Sequence[Column], label: str | None) -> list[str]:
    """A warning for a column whose values and the classes name each other."""
    import pyarrow.compute as pc

    if label is None or label not in sample.column_names:
        return []
    out = []
    classes = pc.dictionary_encode(sample.column(label).combine_chunks().cast("string")).indices
    for column in columns:
        values = sample.column(column.encoder.name)
        if column.role not in ("category", "number", "boolean", "plain"):
            continue
        codes = pc.dictionary_encode(values.combine_chunks().cast("string")).indices
        both = np.column_stack([np.asarray(part.fill_null(-1)) for part in (codes, classes)])
        known = both[(both >= 0).all(axis=1)]
        pairs, levels = len(np.unique(known, axis=0)), len(np.unique(known[:, 0])) if len(known) else 0
        if pairs > 1 and pairs == levels == len(np.unique(known[:, 1])) < len(known):
            out.append(f"Column {column.encoder.name!r} is a copy of the label {label!r}. Leave it out with exclude=.")
    return out


def _tell_strange(encoder: Encoder, strange: int, total: int) -> None:
    share = strange / total if total else 0.0
    usual = encoder.usual if isinstance(encoder, Words) else 0.0
    tell = log.warning if share - usual > STRANGE else log.info
    if strange:
        tell("column %r: %d of %d values are not known and are ignored (%.0f%%)", encoder.name, strange, total, 100 * share)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _column(own: Mapping[str, Any], idf: Any) -> Column:
    state = {name: tuple(v) if isinstance(v, list) else v for name, v in own["encoder"].items()}
    kind = ENCODERS[check_choice("encoder", state.pop("kind"), ENCODERS)]
    if kind is Words:
        state["idf"] = np.asarray(idf, dtype=np.float32)
    return Column(**{**own, "encoder": kind(**state)})
