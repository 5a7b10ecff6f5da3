"""Preparation: what was decided for each column of a node table, and the features that follow from it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from tuplet._check import InputError, check_choice, did_you_mean
from tuplet.io._columns import FeatureBlock
from tuplet.io._missing import side_by_side
from tuplet.io.preparation._encoded import Encoded
from tuplet.io.preparation._encoders import ENCODERS, Categories, Encoder, Plain, Vectors, Words
from tuplet.io.preparation._plan import Column, ColumnPlan, plan_columns
from tuplet.io.preparation._sample import sample_table
from tuplet.io.preparation._saved import check_fields, check_value
from tuplet.io.preparation._weights import copies_of_label, weighed
from tuplet.io.preparation.values import missing_of

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("tuplet")

FEW_LINES = 8  # like numbers up to this many have a line each
STRANGE = 0.2  # share of unknown words or levels that is worth a warning
Chunks = Callable[[], "Iterable[pa.Table]"]


class Line(NamedTuple):
    """What became of one column: its role, the number of feature columns, the share of missing values, a note."""

    name: str
    role: str
    width: int
    missing: float
    note: str


@dataclass(frozen=True, eq=False)
class Preparation:
    """How the columns of a table become features, learned from one table and applied to others.

    `columns` are those in use; `left_out` says which are not, and why. `warnings` name columns that deserve a look;
    `label` is the column of the labels, if the table has one.

    >>> import pyarrow as pa
    >>> table = pa.table({"size": [1.0, 2.0, 900.0], "kind": ["a", "b", "a"], "label": [0, 1, 0]})
    >>> found = Preparation.fit_table(table)
    >>> found.feature_names
    ('size', 'kind=a', 'kind=b')
    >>> [(line.name, line.role) for line in found.lines()]
    [('size', 'number'), ('kind', 'category'), ('label', 'label')]
    """

    columns: tuple[Column, ...]
    left_out: tuple[Line, ...] = ()
    warnings: tuple[str, ...] = ()
    scaled: bool = True
    label: str | None = None

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
        remarks: Mapping[str, str] | None = None,
    ) -> Self:
        """Learn from the tables that `chunks()` yields; one pass, and a sample of at most 65,536 rows is kept.

        `id` and `label` are no features. `columns` picks columns, also such as would be left out; `exclude` leaves
        some out; `roles` overrules what is found; `separators` split the tokens of text columns. `scale` False keeps
        numbers, counts and blocks as they are. `gaps` False makes no columns that say where values are missing.
        `remarks` are added to the notes of columns.
        """
        sample, _ = sample_table(chunks())
        if sample is None or not sample.num_rows:
            raise InputError("The features hold no rows. Give at least one.")
        plan = ColumnPlan(id, label, None if columns is None else tuple(columns), tuple(exclude), dict(roles or {}),
                    dict(separators or {}), scale, gaps)  # fmt: skip
        found, left_out = plan_columns(sample, plan)
        used, notes = weighed(found, sample, scale)
        used = tuple(_remarked(column, (remarks or {}).get(column.encoder.name)) for column in used)
        warnings = (*notes, *copies_of_label(sample, used, label))
        for text in warnings:
            log.warning("%s", text)
        return cls(used, tuple(Line(*line) for line in left_out), warnings, scale, label)

    @classmethod
    def fit_table(cls, table: pa.Table, **options: Any) -> Self:
        """`fit` on one table in memory."""
        return cls.fit(lambda: [table], **options)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the feature columns, in order."""
        return tuple(name for column in self.columns for name in column.encoder.names)

    @property
    def typed_columns(self) -> list[str]:
        """The columns whose values have to be of a type; all others are compared as texts, or are not in use."""
        kinds = (Categories, Words)
        return [column.encoder.name for column in self.columns if not isinstance(column.encoder, kinds)]

    @property
    def as_it_is(self) -> bool:
        """Whether a table's features do not depend on what was learned from it: numbers and vectors as they are."""
        return all(isinstance(one.encoder, Plain | Vectors) and one.factor == 1 for one in self.columns)

    def makes_same(self, other: Preparation) -> bool:
        """Whether both make the same features of any table without gaps."""
        return [_core(column) for column in self.columns] == [_core(column) for column in other.columns]

    def lines(self) -> list[Line]:
        """What became of each column: those in use, then those left out. Many like numbers have one line."""
        like = [column for column in self.columns if column.block == "plain"]
        out, said = [], False
        for column in self.columns:
            if column.block != "plain" or len(like) <= FEW_LINES:
                encoder = column.encoder
                note = column.note or encoder.note
                out.append(Line(encoder.name, column.role, len(encoder.names), column.missing, note))
            elif not said:
                said = True
                name = f"{like[0].encoder.name} .. {like[-1].encoder.name}"
                gaps = float(np.mean([one.missing for one in like]))
                out.append(Line(name, "plain", len(like), gaps, f"{len(like)} columns of like numbers, as they are"))
        return [*out, *self.left_out]

    def rows(self) -> list[dict[str, Any]]:
        """The lines as dicts: name, role, width, missing (a share), note."""
        return [line._asdict() for line in self.lines()]

    def blocks(self, table: pa.Table, *, new: bool = False) -> list[FeatureBlock]:
        """The features of `table`, one block of columns for each column in use.

        With `new` (rows that `fit` has not seen) words and levels that are not known are counted, ignored, and
        warned about where they are many.
        """
        (found,) = self.chunks([table], new=new)
        return found

    def chunks(self, tables: Iterable[pa.Table], *, new: bool = False) -> Iterator[list[FeatureBlock]]:
        """The blocks of each chunk of a table; what is not known is told once, after the last."""
        counts = np.zeros((len(self.columns), 2), np.int64)
        for i, table in enumerate(tables):
            self._check(table, new and not i)
            found = [self._encoded(column, table) for column in self.columns]
            counts += [[encoded.strange, encoded.total] for encoded, _ in found]
            yield [block for _, block in found]
        for column, (strange, total) in zip(self.columns, counts.tolist()):
            if new and strange:
                _tell_strange(column.encoder, strange, total)

    def transform(self, table: pa.Table, *, new: bool = False) -> Any:
        """The features (n, f) of `table`, float32, dense or CSR, whichever is smaller."""
        return side_by_side([block.values for block in self.blocks(table, new=new)])

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
        meta = {
            "format": 1,
            "scaled": self.scaled,
            "columns": saved,
            "left_out": [list(line) for line in self.left_out],
        }
        return meta | {"warnings": list(self.warnings), "label": self.label}, arrays

    @classmethod
    def from_saved(cls, meta: Mapping[str, Any], arrays: Mapping[str, Any]) -> Self:
        """The preparation that `to_saved` wrote."""
        try:
            columns = tuple(_column(own, arrays.get(f"{i}.idf")) for i, own in enumerate(meta["columns"]))
            left_out = tuple(_line(line) for line in meta["left_out"])
            own = {"warnings": tuple(meta["warnings"]), "scaled": meta["scaled"], "label": meta["label"]}
            check_fields(cls, own)
            return cls(columns, left_out, **own)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(f"The saved preparation is damaged ({error!r}). Save the model again.") from None

    def to_json(self) -> dict[str, Any]:
        """`to_saved` in JSON values alone."""
        meta, arrays = self.to_saved()
        return meta | {"arrays": {name: array.tolist() for name, array in arrays.items()}}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Self:
        """The preparation that `to_json` wrote."""
        arrays = saved.get("arrays") if isinstance(saved, Mapping) else None
        if not isinstance(arrays, Mapping):
            raise InputError("The saved preparation is damaged (it has no arrays). Convert the graph again.")
        return cls.from_saved(saved, arrays)

    def _check(self, table: pa.Table, new: bool) -> None:
        names = table.column_names
        if not self.columns:
            raise InputError("The saved preparation uses no column, so there are no features. Make it again.")
        for column in self.columns:
            if column.encoder.name not in names:
                hint = did_you_mean(column.encoder.name, names)
                raise InputError(
                    f"The column {column.encoder.name!r} is missing; the features were prepared with it. The columns "
                    f"are: {', '.join(names)}.{hint}"
                )
        known = {*(c.encoder.name for c in self.columns), *(line.name for line in self.left_out)}
        extra = [name for name in names if name not in known]
        if new and extra:
            log.info("columns that the preparation does not know are ignored: %s", ", ".join(extra))

    @staticmethod
    def _encoded(column: Column, table: pa.Table) -> tuple[Encoded, FeatureBlock]:
        encoder = column.encoder
        values = table.column(encoder.name)
        if not len(values.chunks):
            values = values.combine_chunks()
        found = encoder.transform(values)
        scaled = found.values if column.factor == 1 else found.values * np.float32(column.factor)
        return found, FeatureBlock(encoder.name, column.role, encoder.names, scaled, missing_of(values))


def _remarked(column: Column, remark: str | None) -> Column:
    return column if not remark else replace(column, note=f"{column.note or column.encoder.note}; {remark}")


def _tell_strange(encoder: Encoder, strange: int, total: int) -> None:
    share = strange / total
    usual = encoder.usual if isinstance(encoder, Words) else 0.0
    tell = log.warning if share - usual > STRANGE else log.info
    text = "column %r: %d of %d values are not known and are ignored (%.0f%%)"
    tell(text, encoder.name, strange, total, 100 * share)


def _core(column: Column) -> tuple[Any, ...]:
    """What the features of a column depend on, apart from the filling of gaps in plain numbers."""
    encoder = column.encoder
    if isinstance(encoder, Plain):
        encoder = replace(encoder, fill=0.0)
    idf = encoder.idf.tobytes() if isinstance(encoder, Words) else b""
    return type(encoder), encoder, idf, column.factor


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _column(own: Mapping[str, Any], idf: Any) -> Column:
    state = {name: tuple(v) if isinstance(v, list) else v for name, v in own["encoder"].items()}
    kind = ENCODERS[check_choice("encoder", str(state.pop("kind")), ENCODERS)]
    check_fields(kind, state)
    if kind is Words:
        weights = np.asarray(idf, dtype=np.float32)
        if weights.shape != (len(state["vocabulary"]),) or not np.isfinite(weights).all():
            raise ValueError("one finite weight for each word is missing")
        state["idf"] = weights
    check_fields(Column, own)
    return Column(**{**own, "encoder": kind(**state)})


def _line(saved: Any) -> Line:
    line = Line(*saved)
    for name, kind in zip(Line._fields, ("str", "str", "int", "float", "str")):
        check_value(name, kind, getattr(line, name))
    return line
