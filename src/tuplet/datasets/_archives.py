"""Large archives -> graph folders in bounded memory: a zip is unpacked beside the target, then streamed."""

from __future__ import annotations

import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tuplet._check import InputError

Progress = Callable[[str, float], None]


@contextmanager
def unpacked(archive: str | Path, beside: str | Path, wanted: Callable[[str], bool]) -> Iterator[Path]:
    """A folder with the `wanted` members of a zip, for as long as the block lasts; a folder stands for itself."""
    place = Path(archive)
    if place.is_dir():
        yield place
        return
    if not place.is_file():
        raise InputError(f"There is no archive {place}. Check the path.")
    with tempfile.TemporaryDirectory(prefix="tuplet-archive-", dir=Path(beside).parent) as folder:
        try:
            with zipfile.ZipFile(place) as packed:
                packed.extractall(folder, [member for member in packed.namelist() if wanted(member)])
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError) as error:
            raise InputError(f"{place} is not a readable zip ({error}). Download it again.") from None
        yield Path(folder)
