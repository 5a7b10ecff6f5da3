"""Pairs of node numbers -> CSR on disk, in bounded memory: entries go to buckets of rows, each is sorted alone.

An entry is one 64-bit key, row << 33 | column << 1 | reversed (so n < 2^31), and a float32 weight if there are any.
A bucket too large for the budget is split again. Rows are appended to indptr.npy and indices.npy in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError

MOST_BUCKETS = 256
BYTES_PER_ENTRY = {False: 32, True: 56}  # peak while a bucket is sorted; True: with weights
HEADER = 128  # bytes of an .npy header that is written at the end
_COPY = 2**20  # entries moved at once


@dataclass(frozen=True)
class Buckets:
    """Rows are dealt to buckets of `rows` consecutive nodes each."""

    n: int
    rows: int
    weighted: bool
    entries_in_memory: int

    @classmethod
    def make(cls, n: int, entries: int, *, weighted: bool, memory: int) -> Buckets:
        """Buckets of about a quarter of what can be sorted in `memory`, at most MOST_BUCKETS."""
        most = max(1024, memory // BYTES_PER_ENTRY[weighted])
        wanted = min(MOST_BUCKETS, max(1, -(-4 * entries // most)))
        return cls(n, max(1, -(-n // wanted)), weighted, most)

    @property
    def count(self) -> int:
        """Number of buckets."""
        return -(-self.n // self.rows)


class Dealer:
    """Appends entries to bucket files `NAME-i.key` (and `.weight`) in a folder."""

    def __init__(self, folder: Path, name: str, start: int, rows: int, count: int, weighted: bool) -> None:
        self.start, self.rows, self.count = start, rows, count
        self.keys = [(folder / f"{name}-{i}.key").open("wb") for i in range(count)]
        self.weights = [(folder / f"{name}-{i}.weight").open("wb") for i in range(count)] if weighted else []

    def add(self, keys: NDArray[np.uint64], weights: NDArray[np.float32] | None) -> None:
        """Deal out entries by their row."""
        if not len(keys):
            return
        bucket = (((keys >> np.uint64(33)).astype(np.int64) - self.start) // self.rows).astype(np.uint16)
        order = np.argsort(bucket, kind="stable")  # a radix sort: 16-bit values
        keys = keys[order]
        ends = np.cumsum(np.bincount(bucket, minlength=self.count))
        sorted_weights = None if weights is None else weights[order]
        for i, (first, last) in enumerate(zip(np.r_[0, ends[:-1]], ends)):
            if last > first:
                keys[first:last].tofile(self.keys[i])
                if sorted_weights is not None:
                    sorted_weights[first:last].tofile(self.weights[i])

    def close(self) -> None:
        """Close all bucket files."""
        for file in [*self.keys, *self.weights]:
            file.close()


def make_keys(rows: NDArray[np.int64], columns: NDArray[np.int64], *, backwards: bool = False) -> NDArray[np.uint64]:
    """The keys of entries; `backwards` marks the second direction of an undirected edge."""
    keys = (rows.astype(np.uint64) << np.uint64(33)) | (columns.astype(np.uint64) << np.uint64(1))
    return keys | np.uint64(1) if backwards else keys


class RowWriter:
    """Appends rows to the CSR files. `mark` and `at` let an interrupted run go on where it was."""

    def __init__(self, folder: Path, n: int, *, weighted: bool, at: dict[str, int] | None = None) -> None:
        self.folder, self.n = folder, n
        self.row, self.entries = (at["row"], at["entries"]) if at else (0, 0)
        sizes = {"indptr": 8 * (self.row + 1), "indices": 4 * self.entries}
        if weighted:
            sizes["weights"] = 4 * self.entries
        self.files = {name: self._open(name, size, fresh=at is None) for name, size in sizes.items()}
        if at is None:
            np.zeros(1, np.int64).tofile(self.files["indptr"])

    def _open(self, name: str, size: int, *, fresh: bool) -> Any:
        file = (self.folder / f"{name}.npy").open("wb" if fresh else "r+b")
        if fresh:
            file.write(b"\0" * HEADER)
        else:
            file.truncate(HEADER + size)
            file.seek(HEADER + size)
        return file

    def add(
        self, degrees: NDArray[np.int64], columns: NDArray[np.int32], weights: NDArray[np.float32] | None
    ) -> None:
        """Append consecutive rows: their degrees, columns and weights."""
        (self.entries + np.cumsum(degrees)).astype(np.int64).tofile(self.files["indptr"])
        columns.tofile(self.files["indices"])
        if weights is not None:
            weights.tofile(self.files["weights"])
        self.row += len(degrees)
        self.entries += len(columns)

    def mark(self) -> dict[str, int]:
        """How far the rows are written (and flushed)."""
        for file in self.files.values():
            file.flush()
        return {"row": self.row, "entries": self.entries}

    def close(self, *, whole: bool) -> None:
        """Close the files; once they are `whole`, with their headers."""
        for name, file in self.files.items():
            if not whole:
                file.close()
                continue
            dtype, length = {"indptr": ("<i8", self.row + 1), "weights": ("<f4", self.entries)}.get(
                name, ("<i4", self.entries)
            )
            file.seek(0)
            file.write(npy_header(dtype, length))
            file.close()


def npy_header(dtype: str, length: int) -> bytes:
    """The header of an .npy file of one row, always of the same length."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({length},), }}".encode("latin1")
    padding = b" " * (HEADER - 10 - len(text) - 1) + b"\n"
    return b"\x93NUMPY\x01\x00" + (HEADER - 10).to_bytes(2, "little") + text + padding


def sort_bucket(folder: Path, name: str, first: int, last: int, plan: Buckets, writer: RowWriter) -> int:
    """Write the rows first..last-1 from the bucket `name`; returns how many repeats were merged."""
    path = folder / f"{name}.key"
    entries = path.stat().st_size // 8
    if entries > plan.entries_in_memory and last - first > 1:
        return _split(folder, name, first, last, plan, writer)
    keys = np.fromfile(path, np.uint64)
    weights = np.fromfile(folder / f"{name}.weight", np.float32) if plan.weighted else None
    if weights is None:
        keys, values = _merge_plain(keys), None
    else:
        keys, values = _merge_weighted(keys, weights)
    rows = (keys >> np.uint64(33)).astype(np.int64) - first
    degrees = np.bincount(rows, minlength=last - first)
    del rows
    columns = ((keys >> np.uint64(1)) & np.uint64(0xFFFFFFFF)).astype(np.int32)
    writer.add(degrees, columns, values)
    return entries - len(columns)


def remove_bucket(folder: Path, name: str) -> None:
    """Remove the files of a bucket whose rows are written."""
    for ending in (".key", ".weight"):
        (folder / f"{name}{ending}").unlink(missing_ok=True)


def _merge_plain(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    keys &= np.uint64(0xFFFFFFFFFFFFFFFE)
    keys.sort()
    if not len(keys):
        return keys
    fresh = np.empty(len(keys), dtype=bool)
    fresh[0] = True
    np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
    return keys[fresh]


def _merge_weighted(
    keys: NDArray[np.uint64], weights: NDArray[np.float32]
) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
    """Repeats summed; of the two directions of an edge the larger sum; entries of weight 0 left out."""
    order = np.argsort(keys, kind="stable")
    keys, weights = keys[order], weights[order]
    if not len(keys):
        return keys, weights
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
    with np.errstate(over="ignore"):
        sums = np.add.reduceat(weights, starts, dtype=np.float64).astype(np.float32)
    keys = keys[starts] >> np.uint64(1)
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
    values, keys = np.maximum.reduceat(sums, starts), keys[starts] << np.uint64(1)
    if not np.isfinite(values).all():
        raise InputError("The weights of an edge that is listed again add up to more than float32 holds. Scale them.")
    return keys[values > 0], values[values > 0]


def _split(folder: Path, name: str, first: int, last: int, plan: Buckets, writer: RowWriter) -> int:
    rows = -(-(last - first) // 16)
    count = -(-(last - first) // rows)
    dealer = Dealer(folder, name, first, rows, count, plan.weighted)
    with (folder / f"{name}.key").open("rb") as file:
        done = 0
        while len(keys := np.fromfile(file, np.uint64, _COPY)):
            weights = None
            if plan.weighted:
                weights = np.fromfile(folder / f"{name}.weight", np.float32, len(keys), offset=4 * done)
            dealer.add(keys, weights)
            done += len(keys)
    dealer.close()
    merged = 0
    for i in range(count):
        start = first + i * rows
        merged += sort_bucket(folder, f"{name}-{i}", start, min(last, start + rows), plan, writer)
        remove_bucket(folder, f"{name}-{i}")
    return merged
