"""The encoder of vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from tuplet._check import InputError
from tuplet.io.preparation._encoded import Encoded


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
