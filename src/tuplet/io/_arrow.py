"""Tables in memory (frames, dicts, arrays) -> Arrow, and Arrow's special types -> plain ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tuplet._check import InputError
from tuplet.io._layout import ID_NAMES, check_header, nameless

if TYPE_CHECKING:
    import pyarrow as pa


def from_memory(source: Any, what: str) -> Any:
    """An Arrow table, or the object itself where it streams Arrow batches as often as asked."""
    import pyarrow as pa

    library = type(source).__module__.split(".")[0]
    try:
        if isinstance(source, pa.RecordBatchReader):
            return source.read_all()
        if isinstance(source, pa.RecordBatch):
            return pa.Table.from_batches([source])
        if isinstance(source, pa.Table):
            return source
        if library == "pandas":
            return _from_pandas(source, what)
        if library == "polars":
            return (source.collect() if hasattr(source, "collect") else source).to_arrow()
        if hasattr(source, "__arrow_c_stream__"):
            return source
        if isinstance(source, Mapping):
            return pa.table({str(name): _column(values) for name, values in source.items()})
        array = np.asarray(source)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise InputError(
            f"The table cannot be read ({error}). Give columns of equal length and one type each."
        ) from None
    if array.ndim != 2 or array.dtype.kind not in "iufUSO" or not array.shape[1]:
        raise InputError(
            f"A table of type {type(source).__name__} with shape {array.shape} cannot be read. "
            "Give a path, a data frame, a dict of columns or a 2-d array."
        )
    return pa.table({name: _column(array[:, i]) for i, name in enumerate(nameless(array.shape[1]))})


def _from_pandas(frame: Any, what: str) -> pa.Table:
    import pyarrow as pa

    frame = _with_index(frame, what)
    check_header([str(name) for name in frame.columns], what)
    return pa.table({str(name): _column(frame[name]) for name in frame.columns})


def _with_index(frame: Any, what: str) -> Any:
    """The frame with its index as a column, `id` where it has no name.

    Not an index that only counts rows, or what a selection left of one: numbers without a name, of edges or beside
    a column that is named as ids are.
    """
    index = frame.index
    if index.name is None:
        counts = isinstance(index, type(frame.reset_index(drop=True).index))
        needless = what == "The edges" or any(str(name).lower() in ID_NAMES for name in frame.columns)
        if counts or (needless and index.nlevels == 1 and index.dtype.kind in "iu"):
            return frame
    return frame.reset_index(names=index.name if index.name is not None else "id")


def _column(values: Any) -> Any:
    """An Arrow array; objects that Arrow does not know (UUID, mixed ids) become text."""
    import pyarrow as pa

    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return pa.array([None if value is None else str(value) for value in values])


def plain_types(table: pa.Table) -> pa.Table:
    """Dictionary, string-view and extension columns, and lists of decimals, as their plain types."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for i, field in enumerate(table.schema):
        kind = field.type
        if isinstance(kind, pa.BaseExtensionType):
            column = _from_extension(table.column(i))
        elif pa.types.is_dictionary(kind):
            column = pc.cast(table.column(i), kind.value_type)
        elif kind in (pa.string_view(), pa.binary_view()):
            column = pc.cast(table.column(i), pa.large_string())
        elif pa.types.is_list(kind) and pa.types.is_decimal(kind.value_type):
            column = pc.cast(table.column(i), pa.list_(pa.float64()))  # [1.5, 2.0] in SQL
        else:
            continue
        table = table.set_column(i, field.name, column)
    return table


def _from_extension(column: pa.ChunkedArray) -> Any:
    import pyarrow as pa

    if "uuid" in str(column.type).lower():
        return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
    return pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
