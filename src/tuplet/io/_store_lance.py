"""Vectors in a Lance table: a folder `table.lance` that LanceDB opens too. Each load is a new version of it."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuplet._check import InputError, check_out_path, need_extra
from tuplet.io._uris import nearest_name
from tuplet.io._vector_table import Neighbors, no_such_id, other_width, wrong_columns

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("tuplet")
INDEXED_FROM = 10**6  # rows; below, comparing with every vector takes a fraction of a second
REFINE, PROBES = 10, 50  # candidates (times k) whose exact cosine is computed, and partitions that are searched


@dataclass(frozen=True)
class LanceStore:
    """The Lance table in the folder `path`."""

    path: Path

    @classmethod
    def at(cls, target: str) -> LanceStore:
        """From `lance:folder/table`."""
        path = Path(target.removeprefix("lance:"))
        if not path.name:
            raise InputError(f"{target} names no table. Write lance:folder/table.")
        if path.suffix != ".lance":
            path = path.with_name(f"{path.name}.lance")
        if not path.parent.exists() and path.parent.parent.is_dir():
            return cls(path)
        check_out_path(path)
        return cls(path)

    def check(self, width: int | None, id_type: pa.DataType | None) -> None:
        """Raise where the table holds something else."""
        if self.path.exists():
            there = self._width(self._open())
            if width is not None and there != width:
                raise other_width(str(self.path), there, width)

    def write(self, batches: Callable[[], pa.RecordBatchReader], metadata: str) -> None:
        """A new version of the table; a large one gets an index of its vectors."""
        lance = need_extra("lance", "stores", "A Lance store")
        import pyarrow as pa

        rows, kept = batches(), {"tuplet": metadata}
        named = (batch.replace_schema_metadata(kept) for batch in rows)
        reader = pa.RecordBatchReader.from_batches(rows.schema.with_metadata(kept), named)
        try:
            self.path.parent.mkdir(exist_ok=True)
            data = lance.write_dataset(reader, str(self.path), mode="overwrite" if self.path.exists() else "create")
        except (OSError, ValueError, RuntimeError) as error:
            raise InputError(f"{self.path} was not written ({error}). The version before is as it was.") from None
        self._index(data)

    def _index(self, data: Any) -> None:
        """Index a large table; without an index it is searched exactly."""
        rows, width = int(data.count_rows()), self._width(data)
        parts = max(i for i in range(1, width // 2 + 1) if width % i == 0) if width > 1 else 1
        if rows < INDEXED_FROM:
            return
        if parts < width / 8:
            log.warning(
                "no index: %d numbers cannot be cut into equal parts; %s is searched exactly", width, self.path
            )
            return
        try:
            data.create_index(
                "vector", "IVF_PQ", metric="cosine", num_partitions=math.isqrt(rows), num_sub_vectors=parts
            )
        except (OSError, ValueError, RuntimeError) as error:
            log.warning("no index (%s); %s is searched exactly", error, self.path)

    def read(self) -> pa.Table:
        """All rows."""
        data = self._open()
        return data.to_table().replace_schema_metadata(data.schema.metadata)

    def nearest(self, names: list[str], k: int, method: str) -> list[Neighbors]:
        """Neighbours by the index where there is one, unless `method` is "exact"."""
        data = self._open()
        indexed = any("vector" in index.field_names for index in data.describe_indices())
        if method == "hnsw" and not indexed:
            raise InputError(f"{self.path} has no index: it has under {INDEXED_FROM} rows. Say exact or auto.")
        return [self._nearest(data, name, k, use_index=indexed and method != "exact") for name in names]

    def _nearest(self, data: Any, name: str, k: int, *, use_index: bool) -> Neighbors:
        import pyarrow as pa

        number = pa.types.is_integer(data.schema.field("id").type)
        if number and not name.lstrip("-").isdigit():
            raise no_such_id(name, data.head(3)["id"].to_pylist())
        text = name if number else "'" + name.replace("'", "''") + "'"
        own = data.to_table(columns=["id", "vector"], filter=f"id = {text}")
        if not own.num_rows:
            raise no_such_id(name, data.head(3)["id"].to_pylist())
        asked: dict[str, Any] = {"column": "vector", "q": own["vector"][0].values, "k": k + 1, "metric": "cosine"}
        asked |= {"use_index": use_index} | ({"refine_factor": REFINE, "nprobes": PROBES} if use_index else {})
        table = data.to_table(columns=["id", "_distance"], nearest=asked)
        pairs = zip(table["id"].to_pylist(), table["_distance"].to_pylist())
        me = own["id"][0].as_py()
        return [(i, 1.0 - (1.0 if d is None else float(d))) for i, d in pairs if i != me][:k]

    def _open(self) -> Any:
        lance = need_extra("lance", "stores", "A Lance store")
        if not self.path.is_dir():
            beside = sorted(p.stem for p in self.path.parent.glob("*.lance")) if self.path.parent.is_dir() else []
            raise InputError(f"There is no table {self.path}." + nearest_name(self.path.stem, beside, "tables"))
        try:
            data = lance.dataset(str(self.path))
        except (OSError, ValueError, RuntimeError) as error:
            raise InputError(f"{self.path} is not a readable Lance table ({error}).") from None
        self._width(data)
        return data

    def _width(self, data: Any) -> int:
        import pyarrow as pa

        names = data.schema.names
        if not {"id", "vector"} <= set(names) or not pa.types.is_fixed_size_list(data.schema.field("vector").type):
            raise wrong_columns(str(self.path), names, "`id` and a vector column `vector`")
        return int(data.schema.field("vector").type.list_size)
