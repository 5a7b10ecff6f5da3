"""K-Means on a folder of Parquet parts by the tasks of an engine: a part a task, none of them whole in the driver.

The start comes from a sample, as that of `rows.kmeans`. In each step every task assigns the rows of its part to the
nearest centres and returns sums and counts, which are added in the order of the parts: engines give the same labels.
Centres and labels lie in a work folder: a driver that was killed goes on from its last step.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError, check_int, check_out_path
from tuplet._files import DAMAGE, locked, new_file, new_folder
from tuplet.engines import Engine, connected
from tuplet.io._vector_parts import is_parts, read_parquet, vector_files, vector_objects, vectors_of
from tuplet.io._vector_tasks import parts_before, remove_parts
from tuplet.io.remote import cache_dir, check_target, is_remote, local_path, make_cache, upload
from tuplet.rows.lloyd import SETTLED, STEPS, assigned
from tuplet.rows.starts import sample_places, sample_size, start_on
from tuplet.rows.unit import scale_rows

Progress = Callable[[str, float], None]


def cluster_parts(
    folder: Path | str,
    k: int,
    out: Path | str,
    *,
    engine: str = "local",
    seed: int = 0,
    n_init: int = 10,
    unit_rows: bool = True,
    progress: Progress | None = None,
) -> tuple[NDArray[np.int64], float]:
    """Write the vectors of `folder` to the folder `out` with a column `cluster`; (nodes of each cluster, inertia).

    `folder` and `out` lie on storage that all nodes of `engine` see, where they may be the same, or in an object
    store: then a node copies the parts of its tasks into its cache, and the work lies in that of the driver, which
    all nodes must see (TUPLET_CACHE).
    """
    files, known, rows = _inputs(folder)
    k = check_int("k", k, maximum=sum(rows))
    target, work = _places(folder, out)
    settings = {
        "files": known,
        "rows": rows,
        "k": k,
        "seed": seed,
        "n_init": n_init,
        "unit_rows": unit_rows,
    }
    with locked(work if isinstance(target, str) else target), connected(engine) as nodes:
        _open(work, settings)
        nodes.check_sees([work.resolve() / "task.json", *(Path(file) for file in files if not is_remote(file))])
        items = [{"work": str(work.resolve()), "file": file, "part": i} for i, file in enumerate(files)]
        counts, inertia, step = _clustered(nodes, items, work, settings, progress)
        _write(nodes, [{**item, "step": step} for item in items], target)
        shutil.rmtree(work)
    return counts, inertia


def _inputs(folder: Path | str) -> tuple[list[str], list[str], list[int]]:
    """The parts, what tells them from files that were written later, and their rows."""
    if isinstance(folder, str) and is_remote(folder):
        return vector_objects(folder)
    files, rows = vector_files(Path(folder))
    return [str(path.resolve()) for path in files], [_identity(path) for path in files], rows


def _places(folder: Path | str, out: Path | str) -> tuple[Path | str, Path]:
    """Where the clustered parts go, and where the work lies until then."""
    if not (isinstance(out, str) and is_remote(out)):
        target = check_out_path(out)
        if target.exists() and not (is_parts(target) or (target.is_dir() and not any(target.iterdir()))):
            raise InputError(f"{target} exists and holds something else than vectors. Choose another place.")
        return target, target.with_name(f".{target.name}.clusters")
    if str(folder).rstrip("/") == out.rstrip("/"):
        raise InputError(f"{out} cannot be replaced part by part while it is read. Choose another place.")
    check_target(out)
    parts_before(out)
    home = cache_dir() / "clusters"
    make_cache(home)
    return out, home / hashlib.blake2b(out.encode(), digest_size=12).hexdigest()


def _write(nodes: Engine, items: list[dict[str, Any]], target: Path | str) -> None:
    """The parts with their clusters; to a bucket the first one last, as it says how many there are."""
    if isinstance(target, Path):
        with new_folder(target) as partial:
            nodes.map(write_clusters, [{**item, "target": str(partial.resolve())} for item in items])
        return
    before = parts_before(target)
    for some in (items[1:], items[:1]):
        nodes.map(write_clusters, [{**item, "target": target} for item in some])
    remove_parts(target, before - {PurePosixPath(item["file"]).name for item in items})


def _open(work: Path, settings: Mapping[str, Any]) -> None:
    """The work folder; one of other vectors or settings is thrown away."""
    note = work / "task.json"
    with suppress(OSError, ValueError, RecursionError):
        if json.loads(note.read_text()) == settings:
            return
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    with new_file(note) as partial:
        partial.write_text(json.dumps(settings))


def _identity(path: Path) -> str:
    """What tells a file from one that was written later."""
    return f"{path.resolve()} {path.stat().st_size} {path.stat().st_mtime_ns}"


def _clustered(
    nodes: Engine, items: list[dict[str, Any]], work: Path, settings: Mapping[str, Any], progress: Progress | None
) -> tuple[NDArray[np.int64], float, int]:
    """Counts, inertia, and the step whose labels they are; the start is made on the rows that `kmeans` takes."""
    k, seed, ends = int(settings["k"]), int(settings["seed"]), np.cumsum([0, *settings["rows"]])
    n = int(ends[-1])
    chosen = sample_places(n, sample_size(k), seed)
    asked = [
        {**item, "rows": (chosen[(chosen >= low) & (chosen < high)] - low).tolist()}
        for item, low, high in zip(items, ends, ends[1:])
    ]
    sample = scale_rows(np.vstack(nodes.map(sample_of_part, asked)), bool(settings["unit_rows"]))
    start = start_on(np.ascontiguousarray(sample), k, seed, int(settings["n_init"]), whole=len(sample) == n)
    if len(sample) < n:
        return _settle(nodes, items, work, start.centres, n, progress)
    for i, (low, high) in enumerate(pairwise(ends)):
        _save(work, 0, i, start.labels[low:high])
    return np.bincount(start.labels, minlength=k), start.inertia, 0


def _settle(
    nodes: Engine, items: list[dict[str, Any]], work: Path, centres: NDArray[np.float32], n: int, progress: Any
) -> tuple[NDArray[np.int64], float, int]:
    """Lloyd's steps until the labels settle: counts, inertia, and the last step."""
    step, done, known = 0, 0.0, work / "state.npz"
    if known.exists():
        step, centres = _read_state(known, centres.shape)
    while True:
        with new_file(known) as partial, partial.open("wb") as file:
            np.savez(file, step=step, centres=centres)
        for old in work.glob(f"labels-{step - 2}-*.npz"):
            old.unlink()
        parts = nodes.map(assign_part, [{**item, "step": step} for item in items])
        sums, counts = (np.sum([part[name] for part in parts], axis=0) for name in ("sums", "counts"))
        moved, squares = (sum(part[name] for part in parts) for name in ("moved", "squares"))
        if progress is not None:
            share = max(moved / n, SETTLED)
            done = max(done, 0.95 * math.log(share) / math.log(SETTLED))  # the share of moved rows falls about evenly
            progress("cluster", done)
        if moved <= SETTLED * n or step + 1 == STEPS:
            break
        means = sums / np.maximum(counts, 1)[:, None]
        centres = np.where(counts[:, None] > 0, means, centres).astype(np.float32)
        step += 1
    within = squares - float((np.square(sums).sum(axis=1) / np.maximum(counts, 1)).sum())
    return counts, max(0.0, within), step


def sample_of_part(item: Mapping[str, Any]) -> NDArray[np.float32]:
    """Task: some rows of a part."""
    return _vectors(item)[np.asarray(item["rows"], np.int64)]


def assign_part(item: Mapping[str, Any]) -> dict[str, Any]:
    """Task: the nearest centre of each row of a part; sums (k, d) and counts (k,) come back."""
    work, step, part = Path(item["work"]), int(item["step"]), int(item["part"])
    settings, rows = json.loads((work / "task.json").read_text()), _vectors(item)
    centres = _read_state(work / "state.npz", (settings["k"], rows.shape[1]))[1]
    labels, sums, counts, squares = assigned(rows, centres, unit_rows=settings["unit_rows"])
    before = _labels(work, step - 1, part, len(rows)) if step else np.full_like(labels, -1)
    _save(work, step, part, labels)
    return {"sums": sums, "counts": counts, "moved": int((labels != before).sum()), "squares": squares}


def write_clusters(item: Mapping[str, Any]) -> None:
    """Task: the part with its column `cluster`."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    source = Path(local_path(item["file"]))
    table = pq.read_table(source, page_checksum_verification=True)
    labels = _labels(Path(item["work"]), item["step"], item["part"], len(table))
    table = table.drop_columns([name for name in ("cluster",) if name in table.column_names])
    table = table.append_column("cluster", pa.array(labels.astype(np.int64)))
    name = PurePosixPath(item["file"]).name
    how: Any = {"use_dictionary": ["id", "cluster"], "write_page_checksum": True}
    if is_remote(item["target"]):
        with tempfile.TemporaryDirectory(prefix="tuplet-part-") as folder:
            pq.write_table(table, Path(folder) / name, **how)
            upload(Path(folder) / name, f"{item['target'].rstrip('/')}/{name}")
        return
    with new_file(Path(item["target"]) / name) as partial:
        pq.write_table(table, partial, **how)


def _save(work: Path, step: int, part: int, labels: NDArray[np.int64]) -> None:
    with new_file(work / f"labels-{step}-{part}.npz") as partial, partial.open("wb") as file:
        np.savez(file, labels=labels.astype(np.int32))  # an archive has checksums


def _labels(work: Path, step: int, part: int, rows: int) -> NDArray[np.int32]:
    """The labels of the rows of a part after a step."""
    (labels,) = _read(work / f"labels-{step}-{part}.npz", {"labels": ("i", (rows,))})
    return np.asarray(labels)


def _read_state(file: Path, shape: tuple[int, ...]) -> tuple[int, NDArray[np.float32]]:
    """The last step that was begun, and its centres (k, d)."""
    step, centres = _read(file, {"step": ("i", ()), "centres": ("f", shape)})
    return int(step), centres


def _read(file: Path, kinds: Mapping[str, tuple[str, tuple[int, ...]]]) -> list[Any]:
    """The arrays of an archive, each of a kind and a shape."""
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as arrays:  # NumPy may leave it open
            found = [np.asarray(arrays[name]) for name in kinds]  # a member that is no array comes as bytes
    except DAMAGE as error:
        raise InputError(f"{file} is damaged ({error}). Remove the folder {file.parent} and start again.") from None
    for array, (name, (kind, shape)) in zip(found, kinds.items()):
        if array.shape != shape or array.dtype.kind != kind or (kind == "f" and not np.isfinite(array).all()):
            raise InputError(f"{file} is damaged ({name}). Remove the folder {file.parent} and start again.")
    return found


def _vectors(item: Mapping[str, Any]) -> NDArray[np.float32]:
    path = Path(local_path(item["file"]))
    return vectors_of(read_parquet(path)[0], path)
