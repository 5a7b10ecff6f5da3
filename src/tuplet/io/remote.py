"""Object stores: a URI -> a local path, and back.

What is read is copied once into the cache, block by block, and read from there like any file: a graph that is read
twice, or again tomorrow, travels once. The copy is named by the URI and the sizes, times and ETags of its objects.
Graph folders carry the checksum of each file, which is compared. What is written is made here and uploaded when it is
whole.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tuplet._check import InputError
from tuplet._files import locked, new_folder
from tuplet._sums import wrong_file
from tuplet.engines import connected
from tuplet.io._filesystems import CHECK, failures, filesystem, is_remote, said
from tuplet.io._uris import shown

__all__ = [
    "cache_dir", "check_target", "fetch", "fetched", "filesystem", "is_remote", "local_path", "make_cache", "remove",
    "stage", "upload", "uploaded",
]  # fmt: skip
log = logging.getLogger("tuplet")
BLOCK = 2**24  # bytes read at once
TRIES, PAUSE = 4, 0.5  # attempts at a block, and seconds before the second
PATIENCE = 60  # seconds after which no attempt is begun: the clients of the stores try again by themselves too
TAGGED = 100  # folders of up to so many objects are asked for the ETag of each
_LAST = ("meta.json", "model.json", "config.json")  # uploaded last: without them a folder is not taken for whole
Files = dict[str, tuple[str, int, Any]]  # name below the folder -> (path in the store, bytes, time)


def local_path(given: Any) -> Any:
    """`given`, or where it is the URI of an object store, the path of its local copy."""
    return fetch(given) if is_remote(given) else given


def cache_dir() -> Path:
    """The folder for what was downloaded: TUPLET_CACHE, else the platform's cache folder."""
    chosen = os.environ.get("TUPLET_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "tuplet"


def fetch(uri: str, *, progress: Callable[[str, float], None] | None = None) -> Path:
    """The local copy of the file, folder or pattern (`*`) behind `uri`; what is there already is not copied again."""
    store, path = filesystem(uri)
    files = _files(store, path, uri)
    key = _key(store, uri, files)
    home = cache_dir() / "remote"
    name = "files" if "*" in path else path.rstrip("/").rsplit("/", 1)[-1] or "files"
    place = home / key / name
    single = list(files) == [""]
    if not place.exists():
        make_cache(home)
        with locked(home / key, wait=3600):
            if not place.exists():
                with new_folder(home / key) as partial:
                    _copy_all(store, files, partial / name, uri, progress)
    log.info("%s is read from its copy %s", shown(uri), place)
    return place if single or place.is_dir() else home / key


def stage(uri: str, engine: str) -> None:
    """Copy what lies behind `uri` once to each node of an engine, as `fetch` does; it must lie there under one path.

    Two nodes with caches in different places are an error: tasks name files by their path.
    """
    with connected(engine) as nodes:
        places = {str(place) for place in nodes.everywhere(fetched, uri)}
    if len(places) > 1:
        found = ", ".join(sorted(places))
        raise InputError(f"The nodes keep {shown(uri)} in different places ({found}). Set TUPLET_CACHE on all.")


def fetched(uri: str) -> str:
    """Task: the path of this node's copy."""
    return str(fetch(uri))


def _key(store: Any, uri: str, files: Files) -> str:
    """The name of the copy: another one as soon as an object has changed."""
    facts = [[name, size, str(when)] for name, (_, size, when) in sorted(files.items())]
    if len(files) <= TAGGED:
        facts += [[_tag(store, path)] for path, _, _ in files.values()]
    where = [uri.rstrip("/"), os.environ.get("AWS_ENDPOINT_URL", "")]
    return hashlib.blake2b(json.dumps([where, facts]).encode(), digest_size=12).hexdigest()


def _tag(store: Any, path: str) -> str:
    """What the store itself says identifies the content, where it does."""
    try:
        with store.open_input_stream(path) as file:
            return str((file.metadata() or {}).get("ETag", ""))
    except (OSError, NotImplementedError):
        return ""


def _files(store: Any, path: str, uri: str) -> Files:
    """The objects that are meant; "" is the name of a single one."""
    from pyarrow import fs

    base = path.split("*")[0].rsplit("/", 1)[0] if "*" in path else path.rstrip("/")
    try:
        info = store.get_file_info(base)
        if info.type == fs.FileType.File:
            return {"": (base, info.size, info.mtime)}
        found = (
            [] if info.type == fs.FileType.NotFound else store.get_file_info(fs.FileSelector(base, recursive=True))
        )
    except failures() as error:
        raise InputError(f"{shown(uri)} cannot be read ({said(error)}). {CHECK}") from None
    files = {
        item.path[len(base) :].lstrip("/"): (item.path, item.size, item.mtime)
        for item in found
        if item.type == fs.FileType.File and ("*" not in path or fnmatch.fnmatch(item.path, path))
    }
    if not files:
        raise InputError(f"There is nothing at {shown(uri)}. Check the bucket and the path.")
    return files


def _copy_all(store: Any, files: Files, target: Path, uri: str, progress: Any) -> None:
    total, done = max(1, sum(size for _, size, _ in files.values())), 0
    for name, (path, size, _) in files.items():
        place = target / name if name else target
        place.parent.mkdir(parents=True, exist_ok=True)
        _copy(store, path, size, place, uri)
        done += size
        if progress is not None:
            progress("download", done / total)
    _check_sums(target, uri)


def _copy(store: Any, path: str, size: int, place: Path, uri: str) -> None:
    """Copy one object block by block."""
    with place.open("wb") as out:
        at = 0
        while at < size:
            block = _block(store, path, at, min(BLOCK, size - at), uri)
            out.write(block)
            at += len(block)


def _block(store: Any, path: str, at: int, size: int, uri: str) -> bytes:
    start = time.monotonic()
    for i in range(1, TRIES + 1):
        try:
            with store.open_input_file(path) as file:
                file.seek(at)
                block: bytes = file.read(size)
            if len(block) == size:
                return block
            error: Exception = EOFError(f"{len(block)} of {size} bytes came")
        except failures() as problem:
            error = problem
        if time.monotonic() - start > PATIENCE:
            break
        if i < TRIES:
            log.warning("%s: the connection is lost (%s); trying again", path, error)
            time.sleep(PAUSE * i)
    raise InputError(
        f"{shown(uri)} was lost while {path} was read ({error}), {i} times. Nothing was kept; run it again."
    )


def _check_sums(target: Path, uri: str) -> None:
    """Compare the files of a graph folder, as they were copied, with the checksums in its meta.json."""
    if not (target / "meta.json").is_file():
        return
    try:
        wrong = wrong_file(target, json.loads((target / "meta.json").read_text(encoding="utf-8")).get("arrays", {}))
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise InputError(f"{shown(uri)} has a damaged meta.json ({error!r}). Upload the graph again.") from None
    if wrong is not None:
        raise InputError(
            f"{shown(uri)}: {wrong}.npy is absent or has another checksum than meta.json says. Nothing was kept; "
            "upload the graph again."
        )


@contextmanager
def uploaded(uri: str) -> Iterator[Path]:
    """A local path to write to; when all went well, what lies there is uploaded to `uri`."""
    check_target(uri)
    name = uri.split("?")[0].rstrip("/").rsplit("/", 1)[-1]
    folder, kept = tempfile.mkdtemp(prefix="tuplet-upload-"), False
    try:
        yield Path(folder) / name
        try:
            upload(Path(folder) / name, uri)
        except InputError as error:
            kept = True
            raise InputError(f"{error} What was made lies in {Path(folder) / name}.") from None
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)


def check_target(uri: str) -> None:
    """Raise at once, before the work, where nothing can be written to `uri`: no such bucket, no credentials."""
    from pyarrow import fs

    store, path = filesystem(uri)
    bucket = path.split("/")[0]
    if not bucket or "allow_bucket_creation" in uri:
        return
    try:
        there = store.get_file_info(bucket).type != fs.FileType.NotFound
    except failures() as error:
        raise InputError(f"{shown(uri)} cannot be reached ({said(error)}). {CHECK}") from None
    if not there:
        raise InputError(f"{shown(uri)} cannot be written: there is no bucket {bucket!r}. {CHECK}")


def upload(path: Path, uri: str) -> None:
    """Copy a file or a folder to `uri`; the file that makes a folder whole goes last."""
    store, target = filesystem(uri)
    files = [path] if path.is_file() else [file for file in sorted(path.rglob("*")) if file.is_file()]
    files.sort(key=lambda file: file.name in _LAST)
    for file in files:
        place = target if path.is_file() else f"{target.rstrip('/')}/{file.relative_to(path).as_posix()}"
        try:
            with file.open("rb") as source, store.open_output_stream(place) as out:
                shutil.copyfileobj(source, out, BLOCK)
            size = store.get_file_info(place).size
        except failures() as error:
            raise InputError(f"{shown(uri)} cannot be written ({said(error)}). {CHECK}") from None
        if size != file.stat().st_size:
            raise InputError(f"{shown(uri)} holds {size} bytes of {file.stat().st_size}. Upload it again.")


def objects_at(uri: str) -> list[Any]:
    """What lies in a folder of an object store, as pyarrow tells it; nothing where there is none."""
    from pyarrow import fs

    store, path = filesystem(uri)
    try:
        return list(store.get_file_info(fs.FileSelector(path.rstrip("/"), allow_not_found=True)))
    except failures() as error:
        raise InputError(f"{shown(uri)} cannot be read ({said(error)}). {CHECK}") from None


def remove(uri: str) -> None:
    """Remove one object."""
    store, path = filesystem(uri)
    try:
        store.delete_file(path)
    except OSError as error:
        raise InputError(f"{shown(uri)} cannot be removed ({error}). Check bucket and credentials.") from None


def make_cache(folder: Path) -> None:
    """Make a folder of the cache, or say how to choose another place."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"The cache folder {folder} cannot be made ({error}). Set TUPLET_CACHE to another."
        ) from None
