"""Node tables of any size -> ids, x.npy and y.npy: read in batches, written in the order of the file.

Features may be numbers, booleans or number lists. Texts and token lists need a vocabulary of the whole file first;
read_graph does that in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet.io._arrow import kind_of, parts_of
from tuplet.io._columns import column_blocks
from tuplet.io._ids import check_unique, id_column
from tuplet.io._nodes import id_name
from tuplet.io._text import scan_text

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 2**16


@dataclass(frozen=True)
class NodeStream:
    """A feature file or folder of parts; `id` and `columns` as in `read_graph`."""

    parts: tuple[Path, ...]
    id: str | None
    columns: tuple[str, ...] | None
    leave_out: tuple[str, ...]
    options: dict[str, Any]

    def facts(self) -> list[Any]:
        """What identifies the input."""
        files = [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in self.parts]
        return [files, self.id, self.columns, self.leave_out, sorted(self.options.items(), key=str)]

    def ids(self) -> pa.Array:
        """The id of each row, checked to be unique."""
        import pyarrow as pa

        columns = [column for part in self.parts for column in self._id_columns(part)]
        if not columns:
            raise InputError("The features hold no rows. Give at least one.")
        texts = kind_of(self.parts[0]) not in ("parquet", "arrow")
        ids = id_column(pa.chunked_array(columns), "the features", from_text=texts)
        check_unique(ids, "the features")
        return ids

    def blocks(self, missing: str) -> Iterator[tuple[NDArray[np.float32], tuple[str, ...]]]:
        """Feature rows batch by batch, float32 (rows, f), with the feature names."""
        import pyarrow as pa

        start = 0
        for part in self.parts:
            for batch in self._batches(part):
                table = pa.Table.from_batches([batch])
                skip = (id_name(table.column_names, self.id, "the features"), *self.leave_out)
                blocks = column_blocks(table, self.columns, leave_out=skip)
                for block in blocks:
                    if block.kind in ("categorical", "tokens"):
                        raise InputError(
                            f"Column {block.column!r} holds {block.kind} values; convert takes numbers, booleans and "
                            "number lists. Encode it first, or leave it out with columns=."
                        )
                    if block.missing.any() and missing == "error":
                        row = start + int(block.missing.argmax()) + 1
                        raise InputError(f"Column {block.column!r} misses a value in row {row}. Say missing='zero'.")
                dense = [b.values if isinstance(b.values, np.ndarray) else b.values.toarray() for b in blocks]
                start += batch.num_rows
                yield np.hstack(dense), tuple(name for block in blocks for name in block.names)

    def _id_columns(self, part: Path) -> Iterator[Any]:
        import pyarrow as pa
        from pyarrow import parquet as pq

        if kind_of(part) == "parquet":
            with _reading(part), pq.ParquetFile(part) as file:
                name = id_name(file.schema_arrow.names, self.id, "the features")
                yield from file.read([name]).column(0).chunks
        elif kind_of(part) == "arrow":
            for batch in self._batches(part):
                yield batch.column(id_name(batch.schema.names, self.id, "the features"))
        else:
            types = lambda names: {id_name(names, self.id, "the features"): pa.string()}  # noqa: E731
            for batch in scan_text(part, types=types, **self.options):
                yield batch.column(0)

    def _batches(self, part: Path) -> Iterator[Any]:
        import pyarrow as pa
        from pyarrow import ipc
        from pyarrow import parquet as pq

        if kind_of(part) == "parquet":
            with _reading(part), pq.ParquetFile(part) as file:
                for batch in file.iter_batches(batch_size=_ROWS):
                    batch.validate(full=True)
                    yield batch
        elif kind_of(part) == "arrow":
            with _reading(part), pa.memory_map(str(part)) as file:
                reader = ipc.open_file(file)
                for i in range(reader.num_record_batches):
                    batch = reader.get_batch(i)
                    batch.validate(full=True)  # wrong offsets in a damaged file would crash the process later
                    yield batch
        else:
            yield from scan_text(part, types=self._text_types, **self.options)

    def _text_types(self, names: Sequence[str]) -> dict[str, Any]:
        """Text files: every feature is read as a number, so that all batches agree."""
        import pyarrow as pa

        key = id_name(names, self.id, "the features")
        wanted = self.columns or [name for name in names if name != key and name not in self.leave_out]
        return {key: pa.string(), **{name: pa.float64() for name in wanted if name in names}}


def node_stream(
    path: Any, id: str | None, columns: Sequence[str] | None, leave_out: Sequence[str], options: dict[str, Any]
) -> NodeStream:
    """The stream over a feature file or folder."""
    chosen = None if columns is None else tuple(columns)
    return NodeStream(tuple(parts_of(Path(path))), id, chosen, tuple(leave_out), options)


class _reading:
    """Turns pyarrow's errors on a damaged file into InputError."""

    def __init__(self, part: Path) -> None:
        self.part = part

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        import pyarrow as pa

        if isinstance(error, pa.ArrowException | OSError) and not isinstance(error, InputError):
            raise InputError(
                f"{self.part} is not a readable file ({error}). It may be cut off; copy it again."
            ) from None
