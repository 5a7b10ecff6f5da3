"""Files that appear whole or not at all, locks between processes, checksums, and the headers of .npy files.

A writer works under a hidden name beside the target, `.NAME.part-PID`, and renames at the end: whoever looks sees the
old file or the new one, also after a kill. What a killed writer left under a hidden name is removed by the next one.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import shutil
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet._memory import forget_pages

# What NumPy, zipfile and zlib raise on bytes that are not what they should be.
DAMAGE: tuple[type[Exception], ...] = (OSError, ValueError, KeyError, EOFError, TypeError, IndexError, RuntimeError)
DAMAGE += (MemoryError, OverflowError, NotImplementedError, SyntaxError, tokenize.TokenError)  # NumPy's header parser
DAMAGE += (zipfile.BadZipFile, zlib.error)

BLOCK = 2**24  # bytes hashed or copied at once
_EXCHANGE, _HERE = 2, -100  # RENAME_EXCHANGE and AT_FDCWD of Linux


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """A path beside `target` to write to; it becomes `target` at the end and is removed if anything fails."""
    partial = _part(target)
    try:
        with writing(target):
            yield partial
            _sync(partial)
            partial.replace(target)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """An empty folder beside `target` to fill; it takes the place of `target` at the end, in one step on Linux."""
    partial = _part(target)
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with writing(target):
            partial.mkdir()
            yield partial
            for file in partial.iterdir():
                _sync(file)
            put_in_place(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """What the system says against writing, such as a full disk, becomes an InputError that names `target`."""
    try:
        yield
    except Exception as error:
        if not _is_io(error):
            raise
        raise InputError(f"{target} cannot be written ({error}). Free or choose another place.") from None


def _is_io(error: Exception) -> bool:
    """Whether the disk failed: also as safetensors tells it, which wraps the system's error in one of its own."""
    return isinstance(error, OSError) or (type(error).__name__ == "SafetensorError" and "I/O error" in str(error))


def put_in_place(partial: Path, target: Path) -> None:
    """Rename the folder `partial` to `target`; what stood there is removed after the new one is in place."""
    if not target.exists():
        partial.replace(target)
    elif _exchanged(partial, target):
        shutil.rmtree(partial, ignore_errors=True)
    else:
        old = target.with_name(f".{target.name}.old-{os.getpid()}")
        target.replace(old)
        partial.replace(target)
        shutil.rmtree(old, ignore_errors=True)


def _part(target: Path) -> Path:
    """The hidden name of this process beside `target`; those of processes that are gone are removed."""
    hidden = re.compile(re.escape(f".{target.name}.") + r"(?:part|old)-(\d+)")
    with suppress(OSError):
        for other in target.parent.iterdir():
            match = hidden.fullmatch(other.name)
            if match and not _alive(int(match[1])):
                shutil.rmtree(other, ignore_errors=True) if other.is_dir() else other.unlink(missing_ok=True)
    return target.with_name(f".{target.name}.part-{os.getpid()}")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _exchanged(one: Path, two: Path) -> bool:
    """Swap two names in one step; False where the system has no call for it."""
    try:
        swap = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError):
        return False
    return bool(swap(_HERE, os.fsencode(one), _HERE, os.fsencode(two), _EXCHANGE) == 0)


def _sync(path: Path) -> None:
    """Wait until the file lies on the disk, so that its new name never leads to half of it."""
    if path.is_file():
        with path.open("rb+") as opened:
            os.fsync(opened.fileno())


@contextmanager
def locked(target: Path, *, wait: float = 0.0) -> Iterator[None]:
    """Hold `target` against other processes; one that holds it already is waited for, `wait` seconds at most.

    The lock is a file `.NAME.lock` beside the target. The system lets it go when its holder ends, however that was.
    """
    from filelock import FileLock, Timeout

    path = target.with_name(f".{target.name}.lock")
    lock = FileLock(path)
    try:
        lock.acquire(timeout=wait)
    except Timeout:
        holder = ""
        with suppress(OSError):
            holder = path.with_suffix(".pid").read_text().strip()
        who = f"process {holder}" if holder else "another process"
        raise InputError(f"{target} is being written by {who}. Wait until it ends, or choose another name.") from None
    except OSError as error:
        raise InputError(f"{target} cannot be locked ({error}). Choose another place.") from None
    try:
        with suppress(OSError):
            path.with_suffix(".pid").write_text(str(os.getpid()))
        yield
    finally:
        for file in (
            path.with_suffix(".pid"),
            path,
        ):  # while it is held: who waits for a removed lock makes a new one
            with suppress(OSError):
                file.unlink(missing_ok=True)
        lock.release()


def file_sum(path: Path, told: Callable[[int], None] | None = None) -> str:
    """blake2b (16 bytes) of all bytes of a file; `told` is called with the size of every block that was read."""
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
            if told is not None:
                told(len(block))
    return digest.hexdigest()


def json_sum(value: Mapping[str, Any]) -> str:
    """blake2b (16 bytes) of what a table is as JSON, whatever the order of its keys, but for its own key "sum".

    >>> json_sum({"a": (1, 2), "b": 0.5}) == json_sum({"b": 0.5, "a": [1, 2], "sum": "7f"})
    True
    """
    plain = json.loads(json.dumps({name: entry for name, entry in value.items() if name != "sum"}))
    return hashlib.blake2b(json.dumps(plain, sort_keys=True).encode(), digest_size=16).hexdigest()


def write_header(file: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """The header of an .npy file, rows first."""
    npy.write_array_header_1_0(file, {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape})


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type from the header of an .npy file; `file` stands at the first value afterwards."""
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    return read(file)  # type: ignore[no-any-return]


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array as .npy block by block; memory maps are not pulled into memory."""
    rows = max(1, BLOCK // max(1, array[:1].nbytes))
    with path.open("wb") as file:
        write_header(file, array.shape, array.dtype)
        for start in range(0, len(array), rows):
            file.write(np.ascontiguousarray(array[start : start + rows]).data)


def open_array(path: Path) -> NDArray[Any]:
    """The array of an .npy file as a memory map; an empty one, which cannot be mapped, as it is."""
    with path.open("rb") as file:
        shape = read_header(file)[0]
    return np.load(path, mmap_mode=None if 0 in shape else "r", allow_pickle=False)  # type: ignore[no-any-return]


def placed(folder: Path, arrays: Mapping[str, Any]) -> dict[str, str]:
    """Where each array lies as an .npy file; those that lie in none are written into `folder`."""
    places = {}
    for name, array in arrays.items():
        path = file_of(array)
        if path is None:
            path = (folder / f"of-{name}.npy").resolve()
            if not _holds(path, array):
                with new_file(path) as partial:
                    save_array(partial, array)
        places[name] = str(path)
    return places


def _holds(path: Path, array: Any) -> bool:
    """Whether the .npy file `path` is there and has the bytes of `array`."""
    try:
        return path.exists() and content_key("", [open_array(path)]) == content_key("", [array])
    except DAMAGE:
        return False


def file_of(array: Any) -> Path | None:
    """The .npy file of which `array` is the unchanged memory map, or None."""
    owner = array
    while owner is not None and not isinstance(owner, np.memmap):
        owner = getattr(owner, "base", None)
    if owner is None or owner.mode == "c" or owner.filename is None or not array.flags.c_contiguous:
        return None
    path = Path(owner.filename).resolve()
    try:
        stored = open_array(path)
    except (OSError, ValueError):
        return None
    return path if stored.shape == array.shape and stored.dtype == array.dtype else None


def content_key(settings: str, arrays: list[Any]) -> str:
    """32 hex digits that change with the settings and with any byte, type or shape of the arrays.

    An array is dense, CSR, a memory map, or None.

    >>> content_key("a", [np.zeros(3)]) == content_key("a", [np.zeros(3)]) != content_key("a", [np.zeros(4)])
    True
    """
    from xxhash import xxh3_128

    digest = xxh3_128(settings.encode())
    for array in arrays:
        for part in _dense_parts(array):
            digest.update(f"{part.dtype} {part.shape}".encode())
            rows = max(1, BLOCK // max(1, part[:1].nbytes))
            for start in range(0, len(part), rows):
                digest.update(np.ascontiguousarray(part[start : start + rows]).data)
                forget_pages(part)
        digest.update(b"|")
    return digest.hexdigest()


def _dense_parts(array: Any) -> list[Any]:
    if array is None:
        return []
    return [array.indptr, array.indices, array.data] if hasattr(array, "indptr") else [array]
