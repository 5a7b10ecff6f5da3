"""Folders of Parquet parts written by the tasks of an engine: one part a task, to shared storage or to a bucket.

Vectors, ids and clusters lie as .npy files that all nodes see. A part appears whole: it is written under a hidden
name and renamed, or made on the node's own disk and uploaded. The first part goes last: it says what made them.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet._files import file_of, new_file, new_folder, open_array, placed
from tuplet.engines import Engine, Tick, connected
from tuplet.io._vector_parts import PART_BYTES, part_name, write_parquet
from tuplet.io.remote import is_remote, objects_at, remove, upload


def write_parts_on(
    name: str,
    target: Path | str,
    z: NDArray[Any],
    ids: NDArray[Any],
    groups: Any,
    info: Mapping[str, Any],
    dtype: Any,
    tick: Tick | None = None,
) -> None:
    """The vectors as a folder of parts, each made by a task of the engine `name`; `target` may lie in a bucket."""
    with connected(name) as engine, _shared(z, target) as work:
        known = {"z": z, "ids": ids.astype(str) if ids.dtype.kind == "O" else ids, "groups": groups}
        arrays = placed(work, {key: array for key, array in known.items() if array is not None})
        facts = {"arrays": arrays, "info": json.dumps(dict(info), default=str), "dtype": np.dtype(dtype).str}
        if isinstance(target, str):
            _to_bucket(engine, target, work, facts, z, tick)
            return
        with new_folder(target) as partial:
            _write(engine, str(partial.resolve()), work, facts, z, tick)


def write_part(item: Mapping[str, Any]) -> None:
    """Task: one part, to a folder or to a bucket."""
    facts = json.loads(Path(item["facts"]).read_text())
    arrays = {key: open_array(Path(path)) for key, path in facts["arrays"].items()}
    i, info = int(item["part"]), json.loads(facts["info"])
    about = {"format": info["format"], "part": i, "parts": item["parts"]} | (info if i == 0 else {})
    made = (arrays["z"], arrays["ids"], arrays.get("groups"), about, np.dtype(facts["dtype"]), slice(*item["rows"]))
    if not is_remote(item["target"]):
        with new_file(Path(item["target"]) / part_name(i)) as partial:
            write_parquet(partial, *made)
        return
    with tempfile.TemporaryDirectory(prefix="tuplet-part-") as folder:
        write_parquet(Path(folder) / part_name(i), *made)
        upload(Path(folder) / part_name(i), f"{item['target'].rstrip('/')}/{part_name(i)}")


def _write(engine: Engine, target: str, work: Path, facts: Mapping[str, Any], z: Any, tick: Tick | None) -> int:
    """All parts, the first one last; their number."""
    file = work.resolve() / "parts.json"
    file.write_text(json.dumps(facts))
    engine.check_sees([file, *map(Path, facts["arrays"].values()), *([] if is_remote(target) else [Path(target)])])
    rows = max(1, PART_BYTES // (z.shape[1] * np.dtype(facts["dtype"]).itemsize))
    count: int = max(1, -(-len(z) // rows))
    items = [
        {"facts": str(file), "target": target, "part": i, "parts": count,
         "rows": [i * rows, min(len(z), (i + 1) * rows)]}
        for i in range(count)
    ]  # fmt: skip
    engine.map(write_part, items[1:], tick)
    engine.map(write_part, items[:1])
    return count


def _to_bucket(engine: Engine, uri: str, work: Path, facts: Mapping[str, Any], z: Any, tick: Tick | None) -> None:
    """Parts in a bucket; those of a larger set that lay there before are removed."""
    before = parts_before(uri)
    remove_parts(uri, before - {part_name(i) for i in range(_write(engine, uri, work, facts, z, tick))})


def parts_before(uri: str) -> set[str]:
    """The names of the parts that lie in a folder of a bucket; anything else there is an error."""
    names = {info.base_name for info in objects_at(uri)}
    strange = sorted(name for name in names if not Path(name).match("part-*.parquet"))
    if strange:
        raise InputError(f"{uri} holds something else than vectors ({strange[0]}). Choose another place.")
    return names


def remove_parts(uri: str, names: set[str]) -> None:
    """Remove parts of a larger set that lay there before."""
    for name in names:
        remove(f"{uri.rstrip('/')}/{name}")


@contextmanager
def _shared(z: Any, target: Path | str) -> Iterator[Path]:
    """A folder for what the tasks read: beside the vectors' own file, beside the target, or in the system's."""
    home = file_of(z)
    beside = home.parent if home is not None else target.parent if isinstance(target, Path) else None
    writable = beside is not None and os.access(beside, os.W_OK)
    folder = tempfile.mkdtemp(prefix=".tuplet-parts-", dir=beside if writable else None)
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
