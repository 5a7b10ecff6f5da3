"""Filtering from file to file: blocks of columns through memory, whatever the size of input and output.

Beside `out.npy` lies the folder `out.npy.parts` while the work goes on. It holds
  in-000.npy ..    X cut into blocks of columns, one file a block (only where X is a memory map that does not fit)
  done-000.npy ..  filtered blocks, each renamed into place when it is whole
and at the end the blocks are joined, row by row, into `out.npy.parts/out.npy`, which is then moved to `out.npy`.
A block has its checksum beside it (done-000.sum): after a kill, those that are whole and unharmed are taken, others
are made again. `job.json` says which filter, graph and features the parts belong to; other parts go.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet._files import file_sum, read_header, write_header
from tuplet._memory import forget_pages, mapped_file
from tuplet.engines import Tick
from tuplet.filters._cpu import Engine
from tuplet.filters._read import Block, put_rows
from tuplet.graph import Features

log = logging.getLogger("tuplet")

_CHUNK = 2**25  # bytes moved at a time


@dataclass(frozen=True)
class DiskJob:
    """One filtering to disk: `n` rows, `f` columns into `path`, `columns` at a time; `key` names the job."""

    path: Path
    key: str
    n: int
    f: int
    columns: int
    dtype: np.dtype[Any]

    @property
    def folder(self) -> Path:
        """Where the parts lie."""
        return self.path.with_name(self.path.name + ".parts")

    @property
    def firsts(self) -> range:
        """The first column of each block."""
        return range(0, self.f, self.columns)

    def part(self, kind: str, first: int) -> Path:
        """The file of the block that starts at column `first`."""
        return self.folder / f"{kind}-{first:07d}.npy"

    def width(self, first: int) -> int:
        """Columns of the block that starts at column `first`."""
        return min(self.columns, self.f - first)

    @property
    def bytes(self) -> int:
        """Bytes of the result."""
        return self.dtype.itemsize * self.n * self.f


def check_disk(job: DiskJob, split_bytes: int, *, whole: bool = False) -> None:
    """Refuse before any work when the disk cannot hold the result and, unless it is made `whole`, its parts."""
    need = job.bytes if whole else disk_bytes(job, split_bytes)
    have = shutil.disk_usage(job.path.parent).free
    if job.folder.is_dir():
        have += sum(file.stat().st_size for file in job.folder.iterdir())
    if have < need:
        raise InputError(
            f"Filtering to {job.path} needs {need / 1e9:.3g} GB of disk, but only {have / 1e9:.3g} GB are free. "
            "Choose another place for out=, filter fewer columns (columns=...), or free some space."
        )


def disk_bytes(job: DiskJob, split_bytes: int) -> int:
    """The most that lies on disk at one time: the blocks and the result, or the cut input and the blocks."""
    if len(job.firsts) == 1:
        return job.bytes
    return max(2 * job.bytes, split_bytes + job.dtype.itemsize * job.n * job.columns)


def run_job(job: DiskJob, engine: Engine, tick: Tick) -> NDArray[Any]:
    """Filter block by block, going on where an earlier run stopped, and return the result as a memory map."""
    blocks = len(job.firsts)
    for i, first in enumerate(job.firsts):
        if not is_good(job.part("done", first)):
            _read_ahead(job.part("in", first + job.columns))
            block = engine(first, job.width(first), lambda part, i=i: tick((i + part) / blocks))  # type: ignore[misc]
            write_block(job.part("done", first), block, job.dtype)
        for suffix in (".npy", ".sum"):
            job.part("in", first).with_suffix(suffix).unlink(missing_ok=True)
        tick((i + 1) / blocks)
    _join(job)
    return finish(job)


def run_whole(job: DiskJob, filter_into: Callable[[NDArray[Any]], bool]) -> NDArray[Any] | None:
    """Let `filter_into` write the whole result through a memory map, in any order; None where it says that it
    cannot. It has to be quick: a kill loses all of it.
    """
    target = npy.open_memmap(job.folder / "out.npy", "w+", job.dtype, (job.n, job.f))
    if filter_into(target):
        target.flush()
        return finish(job)
    del target
    (job.folder / "out.npy").unlink()
    return None


def finish(job: DiskJob) -> NDArray[Any]:
    """Put the joined rows in place, remove the parts, and open the rows."""
    (job.folder / "out.npy").replace(job.path)
    shutil.rmtree(job.folder)
    return np.load(job.path, mmap_mode="r")  # type: ignore[no-any-return]


def resumed(job: DiskJob) -> DiskJob:
    """The job with the block width of its earlier run, where one was stopped and that width still fits."""
    note = _read_note(job)
    before = note.get("columns")
    same = {**note, "columns": 0} == {"key": job.key, "n": job.n, "f": job.f, "columns": 0}
    return replace(job, columns=before) if same and type(before) is int and 0 < before <= job.columns + 16 else job


def _read_note(job: DiskJob) -> dict[str, Any]:
    try:
        return dict(json.loads((job.folder / "job.json").read_text()))
    except (OSError, ValueError, TypeError, RecursionError):
        return {}


def open_job(job: DiskJob) -> None:
    """Make the folder of parts; throw parts of another job away."""
    note = job.folder / "job.json"
    wanted = {"key": job.key, "n": job.n, "f": job.f, "columns": job.columns}
    if _read_note(job) == wanted:
        log.info("going on with %s", job.folder)
        return
    if job.folder.exists():
        if not note.exists() and any(job.folder.iterdir()):
            raise InputError(f"{job.folder} exists and is not tuplet's. Move it away, or choose another out=.")
        log.info("%s belongs to another filter or graph: starting afresh", job.folder)
        shutil.rmtree(job.folder)
    job.folder.mkdir()
    note.write_text(json.dumps(wanted))


def split_columns(job: DiskJob, x: NDArray[Any], tick: Tick) -> None:
    """Cut the memory map `x` into one file for each block of columns, reading it once from front to back."""
    todo = [first for first in job.firsts if not is_good(job.part("done", first))]
    if all(is_good(job.part("in", first)) for first in todo):
        return
    step = max(1, _CHUNK // max(1, x[:1].nbytes))
    with ExitStack() as stack:
        files = {
            first: stack.enter_context(_new_rows(job.part("in", first), (job.n, job.width(first)), x.dtype))
            for first in todo
        }
        for start in range(0, job.n, step):
            chunk = np.asarray(x[start : start + step])
            for first, write in files.items():
                write(chunk[:, first : first + job.columns])
            forget_pages(x)
            tick(min(1.0, (start + step) / job.n))


@contextmanager
def _new_rows(path: Path, shape: tuple[int, int], dtype: np.dtype[Any]) -> Iterator[Callable[[NDArray[Any]], None]]:
    """A function that appends rows to the new .npy file `path`; at the end its checksum is written beside it."""
    note, digest = path.with_suffix(".sum"), hashlib.blake2b(digest_size=16)  # as `file_sum` has it
    note.unlink(missing_ok=True)
    with path.open("wb") as file:
        header = io.BytesIO()
        write_header(header, shape, dtype)
        digest.update(header.getvalue())
        file.write(header.getvalue())

        def write(rows: NDArray[Any]) -> None:
            data = np.ascontiguousarray(rows).data
            digest.update(data)
            file.write(data)

        yield write
    note.write_text(digest.hexdigest())


def read_part(job: DiskJob) -> Any:
    """The reader of the cut blocks (see `_read.py`)."""

    def read(start: int, first: int, scale: Block, out: Block) -> None:
        with job.part("in", first).open("rb") as file:
            shape, _, dtype = read_header(file)
            file.seek(start * shape[1] * dtype.itemsize, os.SEEK_CUR)
            rows = np.fromfile(file, dtype, out.size).reshape(out.shape)
        np.multiply(rows, scale[start : start + len(out), None], out=out, casting="same_kind")

    return read


def must_split(x: Features, memory: int, blocks: int) -> bool:
    """Whether X is a memory map too large to be read once for each block of columns."""
    return blocks > 1 and not sp.issparse(x) and mapped_file(x) is not None and x.nbytes > memory


def _read_ahead(path: Path) -> None:
    """Ask the system to read the next block's file into its cache while this one is multiplied."""
    if path.exists() and hasattr(os, "posix_fadvise"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)


def write_block(path: Path, block: Block, dtype: np.dtype[Any]) -> None:
    """Write a filtered block and its checksum; it appears whole or not at all."""
    unfinished = path.with_suffix(f".{socket.gethostname()}-{os.getpid()}")  # two nodes may work on one block
    step = max(1, _CHUNK // block[:1].nbytes)
    with unfinished.open("wb") as file:
        write_header(file, block.shape, dtype)
        for start in range(0, len(block), step):
            rows = block[start : start + step]
            target = np.empty(rows.shape, dtype)
            put_rows(target, rows)
            file.write(target.data)
    note = unfinished.with_name(unfinished.name + ".sum")
    note.write_text(file_sum(unfinished))
    note.replace(path.with_suffix(".sum"))
    unfinished.replace(path)


def is_good(path: Path) -> bool:
    """Whether a block is there and has the bytes that were written; else it is made again."""
    if not path.exists():
        return False
    note = path.with_suffix(".sum")
    if note.exists() and note.read_bytes() == file_sum(path).encode():
        return True
    log.warning("%s is damaged or not whole and will be made again", path)
    return False


def _join(job: DiskJob) -> None:
    """Join the blocks into one row-major file, by chunks of rows."""
    if len(job.firsts) == 1:
        job.part("done", 0).replace(job.folder / "out.npy")
        return
    rows = max(1, _CHUNK // (job.dtype.itemsize * job.f))
    with ExitStack() as stack:
        files = [stack.enter_context(job.part("done", first).open("rb")) for first in job.firsts]
        out = stack.enter_context((job.folder / "out.npy").open("wb"))
        write_header(out, (job.n, job.f), job.dtype)
        for file in files:
            read_header(file)
        for start in range(0, job.n, rows):
            count = min(rows, job.n - start)
            parts = [np.fromfile(file, job.dtype, count * job.width(i)) for file, i in zip(files, job.firsts)]
            out.write(np.ascontiguousarray(np.hstack([part.reshape(count, -1) for part in parts])).data)
