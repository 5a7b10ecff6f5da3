"""Edges from files of any size, chunk by chunk: Parquet, Arrow or delimited text, one file or a folder of parts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet.io._arrow import kind_of, parts_of
from tuplet.io._edges import edge_columns
from tuplet.io._ids import id_column
from tuplet.io._text import scan_text

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 2**20  # edges in a chunk


@dataclass(frozen=True)
class Chunk:
    """Some edges: ids of both ends, weights or None, and the fraction of the input that is read after them."""

    source: pa.Array
    target: pa.Array
    weights: NDArray[np.float32] | None
    fraction: float


@dataclass(frozen=True)
class EdgeStream:
    """Where edges come from, and how columns are found in it. Iterating twice reads the files twice."""

    parts: tuple[Path, ...]
    source: str | None = None
    target: str | None = None
    weight: str | bool | None = None
    header: bool | None = None
    separator: str | None = None
    comment: str = "#"

    @classmethod
    def open(cls, edges: str | os.PathLike[str], **options: Any) -> EdgeStream:
        """The stream over a path; columns and text options as in `read_graph`."""
        return cls(tuple(parts_of(Path(edges))), **options)

    def facts(self) -> list[Any]:
        """What identifies the input: names, sizes and times of the files, and the options."""
        files = [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in self.parts]
        return [files, self.source, self.target, self.weight, self.header, self.separator, self.comment]

    def chunks(self, *, text_ids: bool | None = None) -> Iterator[Chunk]:
        """All edges in order. `text_ids` False reads ids of text files as numbers, True as text, None asks each
        chunk (a number that is not written as one, "007", makes its chunk text)."""
        for i, part in enumerate(self.parts):
            text = kind_of(part) not in ("parquet", "arrow")
            batches = self._text(part, text_ids is False) if text else self._columnar(part)
            for done, batch in batches:
                if batch.num_rows:
                    yield self._chunk(batch, (i + done) / len(self.parts), text and text_ids is None)

    def _chunk(self, batch: pa.RecordBatch, fraction: float, from_text: bool) -> Chunk:
        first, second = edge_columns(batch.schema.names, self.source, self.target)
        ends = [id_column(batch.column(name), f"column {name!r} of the edges", from_text=from_text)
                for name in (first, second)]  # fmt: skip
        name = self._weight_name(batch.schema.names, (first, second))
        return Chunk(ends[0], ends[1], None if name is None else _weights(batch.column(name), name), fraction)

    def _weight_name(self, names: Sequence[str], ends: tuple[str, str]) -> str | None:
        if self.weight is False:
            return None
        if isinstance(self.weight, str):
            if self.weight not in names:
                raise InputError(f"The edges have no weight column {self.weight!r}. Columns: {', '.join(names)}.")
            return self.weight
        others = [name for name in names if name not in ends]
        known = [name for name in others if name.lower() in ("weight", "w")]
        unnamed = list(names) == [f"c{i + 1}" for i in range(len(names))]
        return known[0] if known else others[0] if unnamed and others else None

    def _text(self, part: Path, numbers: bool) -> Iterator[tuple[float, pa.RecordBatch]]:
        import pyarrow as pa

        def types(names: Sequence[str]) -> dict[str, Any]:
            ends = edge_columns(names, self.source, self.target)
            weight = self._weight_name(names, ends)
            wanted = dict.fromkeys(ends, pa.int64() if numbers else pa.string())
            return wanted if weight is None else {**wanted, weight: pa.float64()}

        read, size = 0, max(1, part.stat().st_size)
        options: dict[str, Any] = {"header": self.header, "separator": self.separator, "comment": self.comment}
        for batch in scan_text(part, types=types, **options):
            read += batch.nbytes
            yield min(1.0, read / size), batch

    def _columnar(self, part: Path) -> Iterator[tuple[float, pa.RecordBatch]]:
        import pyarrow as pa
        from pyarrow import ipc
        from pyarrow import parquet as pq

        try:
            if kind_of(part) == "arrow":
                with pa.memory_map(str(part)) as file:
                    reader = ipc.open_file(file)
                    for i in range(reader.num_record_batches):
                        batch = reader.get_batch(i)
                        batch.validate(full=True)  # wrong offsets in a damaged file would crash the process later
                        yield (i + 1) / reader.num_record_batches, batch
                return
            with pq.ParquetFile(part) as file:
                first, second = edge_columns(file.schema_arrow.names, self.source, self.target)
                weight = self._weight_name(file.schema_arrow.names, (first, second))
                columns = [first, second] if weight is None else [first, second, weight]
                read, total = 0, max(1, file.metadata.num_rows)
                for batch in file.iter_batches(batch_size=ROWS, columns=columns):
                    read += batch.num_rows
                    batch.validate(full=True)
                    yield read / total, batch
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"{part} is not a readable {kind_of(part)} file ({error}). It may be cut off; write or copy it again."
            ) from None


def _weights(column: Any, name: str) -> NDArray[np.float32]:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        values = np.asarray(pc.fill_null(pc.cast(column, pa.float64()), float("nan")), dtype=np.float64)
    except pa.ArrowException:
        raise InputError(f"The weight column {name!r} holds {column.type}, not numbers. Say weight=False.") from None
    good = (values >= 0) & (values <= np.finfo(np.float32).max)
    if not good.all():
        bad = values[~good][0]
        raise InputError(f"The weight column {name!r} holds {bad:g}. Weights must be 0 or more and fit float32.")
    return values.astype(np.float32)
