"""Checksums of large arrays and .npy files by chunks, in several threads; what was read for one is not read again.

blake2b goes through its input in one thread. What has more than LARGE bytes is cut into chunks of whole rows, and its
checksum is that of the chunks' digests: the same for an array in memory and in a file, on any number of threads.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tuplet._files import DAMAGE, file_of, read_header
from tuplet._memory import forget_pages
from tuplet._threads import over

LARGE = 2**28  # bytes: what is smaller has the plain blake2b of all its bytes, as everything had in version 0.1
CHUNK = 2**22  # bytes hashed at once by one thread
_AT_ONCE = 2**20  # bytes that a thread holds of a file
_SETTLED = 2 * 10**9  # nanoseconds since the last change; a second write within the clock's tick would not show
_known: dict[Path, tuple[tuple[int, ...], bytes]] = {}  # of files that were read: their identity, `content_sum`
Told = Callable[[int], None]


class _Piece(NamedTuple):
    """Bytes of a file."""

    path: Path
    start: int
    stop: int


def npy_entries(paths: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """What meta.json says of new .npy files, by their stems: type, shape, checksum, and the chunk it was cut into."""
    cut = {path: path.stat().st_size > LARGE for path in paths}
    sums = npy_sums(cut)
    entries: dict[str, dict[str, Any]] = {}
    for path, total in sums.items():
        with path.open("rb") as file:
            shape, _, dtype = read_header(file)
        entries[path.stem] = {"dtype": dtype.str, "shape": list(shape), "blake2b": total}
        entries[path.stem] |= {"chunk": CHUNK} if cut[path] else {}
    return entries


def wrong_file(folder: Path, entries: Mapping[str, Any], told: Told | None = None) -> str | None:
    """The first array of `entries` (name -> its entry in meta.json) whose file is absent or another one; or None."""
    files = {name: folder / f"{name}.npy" for name in entries}
    for name, entry in entries.items():
        if not files[name].is_file() or entry.get("chunk") not in (None, CHUNK):
            return name
    sums = npy_sums({files[name]: "chunk" in entry for name, entry in entries.items()}, told)
    return next((name for name, entry in entries.items() if sums[files[name]] != entry.get("blake2b")), None)


def npy_sums(files: Mapping[Path, bool], told: Told | None = None) -> dict[Path, str]:
    """The checksum of each .npy file, of those with True by their chunks; one read of each, all threads together.

    By chunks: blake2b (16 bytes) of the digests of the header and of each chunk. `told` is called with the size of
    every block that was read.
    """
    digests = _digests(files, told)
    return {path: (_joined(digests[path]) if cut else digests[path][0]).hex() for path, cut in files.items()}


def feed(digest: Any, array: Any, *, whole: bool = False) -> None:
    """Add type, shape and bytes of `array` (or None) to `digest`; of a large one `content_sum`, unless `whole`."""
    if array is None:
        digest.update(b"none")
        return
    digest.update(f"{array.dtype} {array.shape}".encode())
    if array.nbytes > LARGE and not whole:
        digest.update(b"chunks " + content_sum(array))
        return
    for block in _blocks(array):
        digest.update(np.ascontiguousarray(array[block]).data)
        forget_pages(array)


def content_sum(array: Any) -> bytes:
    """blake2b (16 bytes) of the digests of the chunks of `array`; a file that was read already is not read again."""
    path = None if array.flags.writeable else file_of(array)
    if path is None:
        return _joined(over(partial(_block_digest, array), _blocks(array), hold=False))
    identity, found = _known.get(path, ((), b""))
    return found if identity == _identity(path) else _joined(_digests({path: True})[path][1:])


def _digests(files: Mapping[Path, bool], told: Told | None = None) -> dict[Path, list[bytes]]:
    """The digests of each file's pieces: one of a whole file, or (True) of its header and its chunks."""
    before = {path: _identity(path) for path in files}
    pieces = [_Piece(path, 0, before[path][0]) for path, cut in files.items() if not cut]
    pieces += [piece for path, cut in files.items() if cut for piece in _cut(path)]  # last: they fill what is idle
    found: dict[Path, list[bytes]] = {path: [] for path in files}
    for piece, digest in zip(pieces, over(partial(_digest, told=told), pieces, hold=False)):
        found[piece.path].append(digest)
    for path, cut in files.items():
        if cut and time.time_ns() - max(before[path][1:3]) > _SETTLED:
            _known[path.resolve()] = before[path], _joined(found[path][1:])
    return found


def _blocks(array: Any) -> list[slice]:
    rows = _chunk_rows(array.shape, array.dtype)
    return [slice(start, start + rows) for start in range(0, len(array), rows)]


def _cut(path: Path) -> list[_Piece]:
    """The header of an .npy file and its chunks, the last to the end of the file; all of it, if that is no header."""
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            shape, _, dtype = read_header(file)
            head = file.tell()
    except DAMAGE:
        return [_Piece(path, 0, size)]
    step = _row_bytes(shape, dtype) * _chunk_rows(shape, dtype)
    return [_Piece(path, 0, head), *(_Piece(path, at, min(at + step, size)) for at in range(head, size, step))]


def _chunk_rows(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    return max(1, CHUNK // _row_bytes(shape, dtype))


def _row_bytes(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    return max(1, math.prod(shape[1:]) * dtype.itemsize)


def _digest(piece: _Piece, told: Told | None = None) -> bytes:
    digest, left = hashlib.blake2b(digest_size=16), piece.stop - piece.start
    with piece.path.open("rb", buffering=0) as file:
        file.seek(piece.start)
        while left > 0 and (block := file.read(min(left, _AT_ONCE))):
            digest.update(block)
            left -= len(block)
            if told is not None:
                told(len(block))
    return digest.digest()


def _block_digest(array: Any, block: slice) -> bytes:
    found = hashlib.blake2b(np.ascontiguousarray(array[block]).data, digest_size=16).digest()
    forget_pages(array)
    return found


def _joined(digests: Iterable[bytes]) -> bytes:
    return hashlib.blake2b(b"".join(digests), digest_size=16).digest()


def _identity(path: Path) -> tuple[int, ...]:
    stat = path.stat()
    return stat.st_size, stat.st_ctime_ns, stat.st_mtime_ns, stat.st_ino
