"""The node side of a conversion: the features, written in node order as x.npy or, where that is smaller, as CSR."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._files import open_array, save_array, write_header
from tuplet.io._columns import FeatureBlock, pays_as_csr
from tuplet.io._convert_job import ConvertJob
from tuplet.io._features import encode_table
from tuplet.io._ids import look_up
from tuplet.io._inputs import Inputs, encoding
from tuplet.io._missing import ColumnMeans, filled, side_by_side
from tuplet.io.folder import feature_arrays

_ROWS = 2**16  # rows written or read again at once


def write_features(job: ConvertJob, inputs: Inputs, x_ids: Any, order: Any, options: dict[str, Any]) -> None:
    """The feature files of all nodes: the rows of the table in its order, then nodes without a row."""
    names: tuple[str, ...] = ()
    if inputs.features is None:
        for name, array in feature_arrays(inputs.matrix).items():
            save_array(job.folder / f"{name}.npy", array)
        shape = inputs.matrix.shape
    else:
        table, missing = inputs.features, options["missing"]
        encoded = encode_table(table.chunks, table.features, **encoding(table, options))
        job.save(preparation=encoded.preparation.to_json())
        names, kept = encoded.names, look_up(x_ids, order) >= 0
        means = _means(_kept(encoded.chunks(), kept)) if missing == "mean" else None
        writer = FeatureWriter(job.folder, len(order), len(names))
        for blocks in _kept(encoded.chunks(), kept):
            writer.add(_filled_rows(blocks, means))
            job.tell("features", writer.row / len(order))
        rest = np.zeros(len(names)) if means is None else np.concatenate(means)
        while writer.row < len(order):
            rows = min(_ROWS, len(order) - writer.row)
            writer.add(np.repeat(rest[None].astype(np.float32), rows, axis=0))
        writer.close()
        shape = (len(order), len(names))
    job.save(feature_names=names, x_shape=list(shape))


def _kept(chunks: Iterator[list[FeatureBlock]], kept: NDArray[np.bool_]) -> Iterator[list[FeatureBlock]]:
    """The blocks of each chunk, rows of nodes only."""
    start = 0
    for blocks in chunks:
        stop = start + len(blocks[0].missing)
        keep = np.flatnonzero(kept[start:stop])
        start = stop
        yield [FeatureBlock(b.column, b.kind, b.names, b.values[keep], b.missing[keep]) for b in blocks]


def _means(chunks: Iterator[list[FeatureBlock]]) -> list[NDArray[np.float64]]:
    means = ColumnMeans()
    for blocks in chunks:
        means.add(blocks)
    return means.values()


def _filled_rows(blocks: list[FeatureBlock], means: list[NDArray[np.float64]] | None) -> Any:
    if means is None:
        return side_by_side([block.values for block in blocks])
    return side_by_side([filled(block, mean) for block, mean in zip(blocks, means)])


class FeatureWriter:
    """Appends rows to x.npy or to the three CSR files; the first rows choose, `close` corrects the choice."""

    def __init__(self, folder: Path, n: int, f: int) -> None:
        self.folder, self.n, self.f = folder, n, f
        self.row = self.nonzero = 0
        self.files: dict[str, Any] = {}
        for name in ("x", "x_indptr", "x_indices", "x_data"):
            (folder / f"{name}.npy").unlink(missing_ok=True)

    def add(self, rows: Any) -> None:
        """Append rows, dense or CSR."""
        if not rows.shape[0]:
            return
        if not self.files:
            self.sparse = sp.issparse(rows)
            for name in ("indptr", "indices", "data") if self.sparse else ("x",):
                self.files[name] = (self.folder / f"x_{name}.raw").open("wb")
            if self.sparse:
                np.zeros(1, np.int64).tofile(self.files["indptr"])
        if self.sparse:
            self._add_csr(rows)
        else:
            dense = rows.toarray() if sp.issparse(rows) else rows
            self.nonzero += int(np.count_nonzero(dense))
            np.ascontiguousarray(dense, np.float32).tofile(self.files["x"])
        self.row += rows.shape[0]

    def _add_csr(self, rows: Any) -> None:
        matrix = sp.csr_array(rows)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        (self.nonzero + matrix.indptr[1:].astype(np.int64)).tofile(self.files["indptr"])
        matrix.indices.astype(np.int32).tofile(self.files["indices"])
        matrix.data.astype(np.float32).tofile(self.files["data"])
        self.nonzero += matrix.nnz

    def close(self) -> None:
        """Write the .npy files of the smaller form."""
        for file in self.files.values():
            file.close()
        wanted = pays_as_csr(self.n, self.f, self.nonzero)
        if wanted != self.sparse:
            self._other_form(wanted)
        elif self.sparse:
            self._save_csr()
        else:
            self._save("x", (self.n, self.f), np.float32, np.float32)
        for path in self.folder.glob("x_*.raw"):
            path.unlink()

    def _save_csr(self) -> None:
        width: Any = np.int32 if self.nonzero < 2**31 else np.int64
        self._save("x_indptr", (self.n + 1,), np.int64, width)
        self._save("x_indices", (self.nonzero,), np.int32, width)
        self._save("x_data", (self.nonzero,), np.float32, np.float32)

    def _save(self, name: str, shape: tuple[int, ...], stored: Any, wanted: Any) -> None:
        """An .npy file from the raw values, in another type where asked."""
        raw = self.folder / f"{'x_x' if name == 'x' else name}.raw"
        with raw.open("rb") as source, (self.folder / f"{name}.npy").open("wb") as file:
            write_header(file, shape, np.dtype(wanted))
            while len(values := np.fromfile(source, stored, 2**20)):
                values.astype(wanted, copy=False).tofile(file)

    def _other_form(self, sparse: bool) -> None:
        """Read the rows again and write them in the other form."""
        if self.sparse:
            self._save_csr()
            parts = {name: open_array(self.folder / f"x_{name}.npy") for name in ("indptr", "indices", "data")}
        else:
            self._save("x", (self.n, self.f), np.float32, np.float32)
            parts = {"x": open_array(self.folder / "x.npy")}
        other = FeatureWriter.__new__(FeatureWriter)
        other.folder, other.n, other.f, other.row, other.nonzero, other.files = self.folder, self.n, self.f, 0, 0, {}
        for start in range(0, self.n, _ROWS):
            rows = _rows(parts, start, min(self.n, start + _ROWS), self.f)
            other.add(sp.csr_array(rows) if sparse else rows)
        del parts
        for name in ("x", "x_indptr", "x_indices", "x_data"):
            (self.folder / f"{name}.npy").unlink(missing_ok=True)
        other.close()


def _rows(parts: dict[str, Any], start: int, stop: int, f: int) -> NDArray[np.float32]:
    if "x" in parts:
        return np.asarray(parts["x"][start:stop])
    first, last = int(parts["indptr"][start]), int(parts["indptr"][stop])
    indptr = np.asarray(parts["indptr"][start : stop + 1]).astype(np.int64) - first
    csr = sp.csr_array((parts["data"][first:last], parts["indices"][first:last], indptr), shape=(stop - start, f))
    return np.asarray(csr.toarray())
