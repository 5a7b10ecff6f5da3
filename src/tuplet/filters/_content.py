"""Keys of filtered rows: all of the graph, the features and the settings; and rows that are kept under such a key.

xxh3 (128 bits) reads at memory speed, so nothing is sampled: rows of changed features have another key.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np

from tuplet._files import DAMAGE, new_file
from tuplet._memory import forget_pages

log = logging.getLogger("tuplet")

_BLOCK = 2**24  # bytes hashed at once


def content_key(settings: str, arrays: list[Any]) -> str:
    """32 hex digits that change with the settings and with any byte, type or shape of the arrays.

    An array is dense, CSR, a memory map, or None.

    >>> content_key("a", [np.zeros(3)]) == content_key("a", [np.zeros(3)]) != content_key("a", [np.zeros(4)])
    True
    """
    from xxhash import xxh3_128

    digest = xxh3_128(settings.encode())
    for array in arrays:
        for part in _parts(array):
            digest.update(f"{part.dtype} {part.shape}".encode())
            rows = max(1, _BLOCK // max(1, part[:1].nbytes))
            for start in range(0, len(part), rows):
                digest.update(np.ascontiguousarray(part[start : start + rows]).data)
                forget_pages(part)
        digest.update(b"|")
    return digest.hexdigest()


def _parts(array: Any) -> list[Any]:
    if array is None:
        return []
    return [array.indptr, array.indices, array.data] if hasattr(array, "indptr") else [array]


def keep(file: Path, rows: Any) -> None:
    """Write the checksum of the rows in `file` beside it."""
    with new_file(_note(file)) as partial:
        partial.write_text(json.dumps({"sum": content_key("", [rows])}) + "\n")


def is_kept(file: Path) -> bool:
    """Whether `file` holds rows with the checksum beside it. What is damaged is removed, with a word in the log."""
    if not file.exists():
        return False
    try:
        told = json.loads(_note(file).read_text())["sum"]
        if told == content_key("", [np.load(file, mmap_mode="r", allow_pickle=False)]):
            return True
    except DAMAGE:  # no note, or no .npy file any more
        pass
    log.warning("the filtered rows in %s are damaged and will be made again", file)
    file.unlink()
    return False


def _note(file: Path) -> Path:
    return file.with_suffix(".json")
