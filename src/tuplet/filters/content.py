"""Keys of filtered rows: all of the graph, the features and the settings; and rows that are kept under such a key.

xxh3 (128 bits) reads at memory speed, so nothing is sampled: rows of changed features have another key.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from tuplet._files import DAMAGE, content_key, new_file, open_array

log = logging.getLogger("tuplet")
_DAMAGE: tuple[type[Exception], ...] = (*DAMAGE, RecursionError)  # of the note's JSON


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
        if told == content_key("", [open_array(file)]):
            return True
    except _DAMAGE:  # no note, or no .npy file any more
        pass
    log.warning("the rows in %s are damaged and will be made again", file)
    file.unlink()
    return False


def _note(file: Path) -> Path:
    return file.with_suffix(".json")
