"""All rows encoded by the tasks of an engine: one range of rows a task, into one file of vectors.

Ranges are whole blocks of `encode`, so that the products have the same shapes, and the vectors the same bits. Beside
the file lies `NAME.parts` meanwhile, with the encoder and a mark for each finished range: a driver that was killed
goes on when it is started again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from tuplet._files import file_of, locked, new_file, open_array, read_header, write_header
from tuplet.engines import Tick, connected
from tuplet.training.checkpoint import read_state, restore, write_state
from tuplet.training.encoder import block_rows, encode, layer_sizes, make_encoder

_RANGES = 4  # for each place
_ENCODER = "encoder.safetensors"


def can_encode_on(engine: str, rows: Any) -> bool:
    """Whether the nodes of an engine can read `rows`: they are the memory map of a file."""
    return engine != "local" and isinstance(rows, np.ndarray) and file_of(rows) is not None


def encode_on(
    engine: str, encoder: nn.Sequential, rows: Any, out: Path, *, unit_rows: bool = True, tick: Tick | None = None
) -> NDArray[Any]:
    """The vectors (n, d) float32 of all `rows`, written to `out` by the nodes of `engine`, as a memory map."""
    source, (n, f), d = file_of(rows), rows.shape, layer_sizes(encoder)[-1]
    folder = out.with_name(out.name + ".parts").resolve()
    with locked(out), connected(engine) as nodes:
        folder.mkdir(exist_ok=True)
        write_state(folder / _ENCODER, encoder.state_dict(), {"layers": layer_sizes(encoder)})
        facts = {"rows": str(source), "shape": [n, f, d], "unit_rows": unit_rows}
        _begin(folder, facts)
        nodes.check_sees([folder / _ENCODER, Path(str(source))])
        step = block_rows(f) * max(1, -(-n // (block_rows(f) * _RANGES * nodes.places)))
        items = [{"folder": str(folder), "start": start, "stop": min(n, start + step)} for start in range(0, n, step)]
        nodes.map(encode_rows, items, tick)
        (folder / "vectors.npy").replace(out)
        shutil.rmtree(folder)
    return np.load(out, mmap_mode="r")  # type: ignore[no-any-return]


def encode_rows(item: Mapping[str, Any]) -> None:
    """Task: the vectors of one range of rows, unless they are there."""
    folder, start, stop = Path(item["folder"]), int(item["start"]), int(item["stop"])
    mark = folder / f"done-{start}-{stop}"
    if mark.exists():
        return
    facts = json.loads((folder / "task.json").read_text())
    tensors, meta = read_state(folder / _ENCODER)
    encoder = make_encoder(meta["layers"][0], meta["layers"][1:])
    restore(encoder, tensors, str(folder))
    rows = open_array(Path(facts["rows"]))
    z = encode(encoder, rows[start:stop], unit_rows=facts["unit_rows"])
    with (folder / "vectors.npy").open("r+b", buffering=0) as file:
        read_header(file)
        head = file.tell()
        os.pwrite(file.fileno(), z.data, head + 4 * start * z.shape[1])
        os.fsync(file.fileno())
    mark.touch()


def _begin(folder: Path, facts: Mapping[str, Any]) -> None:
    """The file of vectors at its full size; marks and vectors of an earlier run with other facts are thrown away.

    The encoder's content is part of the name of the folder (its caller's duty), so it is not compared here.
    """
    note = folder / "task.json"
    if note.exists() and json.loads(note.read_text()) == facts and (folder / "vectors.npy").exists():
        return
    for old in folder.glob("done-*"):
        old.unlink()
    n, _, d = facts["shape"]
    with new_file(folder / "vectors.npy") as partial, partial.open("wb") as file:
        write_header(file, (n, d), np.dtype(np.float32))
        file.truncate(file.tell() + 4 * n * d)
    with new_file(note) as partial:
        partial.write_text(json.dumps(facts))
