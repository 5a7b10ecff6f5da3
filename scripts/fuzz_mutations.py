"""Ways to damage the files of fuzz.py: bytes of any file; values in JSON, TOML, text, tables, arrays and tensors."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
from fuzz_checksums import fit_checksums

if TYPE_CHECKING:
    from fuzz_graph import Kind

ODD_NUMBERS = [0, 1, -1, 2, 7, 127, 255, 2**15, 2**31 - 1, -(2**31), 2**31, 2**32, 2**53, 2**63 - 1, -(2**63)]
ODD_VALUES: list[Any] = [
    None, True, False, "", "a", "\x00", "../..", "nan", [], {}, [[]], {"a": 1}, 1.5, -1, 0, 10**9, 2**70, 1e308,
    float("nan"), float("inf"), "x" * 5000, [1] * 3000,
]  # fmt: skip
ODD_CELLS = [
    "", "nan", "inf", "-1", "1e400", "0x10", '"1,5"', '"', '""', "a b", " n01 ", "\x00", "é", "10%", "$10", "9" * 400,
    "x" * 5000, "#", ";", "\t", "true", "1_000", "2020-01-01", "-0", "1e19", "n01", "1.5", "\ufeff", "\u2028",
]  # fmt: skip
ODD_TOML = [
    "1", "-1", "1.5", "true", '""', '"a"', "[]", "[1]", '["a"]', "[[]]", "{}", "{a = 1}", "nan", "inf", "1e400",
    "99999999999999999999", "2020-01-01", f'"{"x" * 3000}"', "[" * 500, '"../.."', '["cora", 1]', '"\\u0000"',
]  # fmt: skip
ODD_KEYS = ["a", "seeds", "datasets", "methods", "task", "edges", "features", '""', "a.b.c", "label", "roles", "name"]


def damage(rng: random.Random, folder: Path, kind: Kind) -> None:
    """Damage one file of the folder in a way that fits it; often the checksums are then made to fit as well."""
    file = rng.choice(sorted(path for path in folder.glob(kind.damaged) if path.is_file()))
    inside = None if kind.truth and file.suffix == ".npz" else _INSIDE.get(file.suffix)  # an archive has checksums
    if rng.random() < 0.01:
        file.unlink()
    elif inside is None or rng.random() < 0.35:
        file.write_bytes(_bytes(rng, file.read_bytes()))
    else:
        inside(rng, file)
    if not kind.truth and rng.random() < 0.7:
        fit_checksums(folder)


def _bytes(rng: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 8])):
        where = rng.randrange(len(out) + 1)
        match rng.randrange(8):
            case 0 | 1 | 2 if out:
                out[where % len(out)] ^= 1 << rng.randrange(8)
            case 3 if out:
                out[where % len(out)] = rng.choice([0, 9, 10, 13, 32, 34, 44, 58, 91, 123, 255])
            case 4:
                del out[where:]
            case 5:
                del out[where : where + rng.randrange(1, 40)]
            case 6:
                out[where:where] = out[max(0, where - rng.randrange(1, 40)) : where]
            case _:
                number = rng.choice(ODD_NUMBERS)
                out[where : where + 8] = (number % 2**64).to_bytes(8, rng.choice(["little", "big"]))
    return bytes(out)


def _json(rng: random.Random, file: Path) -> None:
    value = json.loads(file.read_text())
    _odd_places(rng, value)
    file.write_text("[" * 200_000 if rng.random() < 0.01 else json.dumps(value))


def _odd_places(rng: random.Random, value: Any) -> None:
    """Odd values, or none, in one or two places of nested lists and dicts."""
    places = list(_places(value))
    for _ in range(rng.choice([1, 1, 2])):
        holder, key = rng.choice(places)
        try:
            if rng.random() < 0.2:
                del holder[key]
            else:
                holder[key] = rng.choice(ODD_VALUES)
        except (KeyError, IndexError):
            continue


def _places(value: Any) -> Any:
    """Every (holder, key) in nested lists and dicts."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def _json_lines(rng: random.Random, file: Path) -> None:
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    _odd_places(rng, rows)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _toml(rng: random.Random, file: Path) -> None:
    """Another value, key or table in one line."""
    lines = file.read_text().splitlines()
    where = rng.randrange(len(lines))
    key, _, value = lines[where].partition("=")
    match rng.randrange(4):
        case 0:
            lines[where] = f"{rng.choice(ODD_KEYS)} = {value or 1}"
        case 1:
            lines[where] = rng.choice(["[a]", "[[methods]]", "[methods]", "[methods.settings]", "[datasets]"])
        case _:
            lines[where] = f"{key or 'a'} = {rng.choice(ODD_TOML)}"
    file.write_text("\n".join(lines) + "\n")


def _lines(rng: random.Random, file: Path) -> None:
    """Other cells in a text table, lines with fewer cells, or one line more."""
    lines = file.read_text().splitlines()
    for _ in range(rng.choice([1, 1, 3])):
        where = rng.randrange(len(lines))
        cells = lines[where].split(",")
        cells[rng.randrange(len(cells))] = rng.choice(ODD_CELLS)
        line = ",".join(cells[: rng.choice([len(cells), len(cells), 1])])
        lines[where : where + rng.choice([0, 1, 1, 1])] = [line]
    file.write_text("\n".join(lines) + rng.choice(["\n", "", "\r\n"]))


def _gzip(rng: random.Random, file: Path) -> None:
    file.write_bytes(gzip.compress(_bytes(rng, gzip.decompress(file.read_bytes())), 1))


def _table(rng: random.Random, file: Path) -> None:
    """Another column in a whole Parquet or Arrow file: other types, gaps, odd values, or none at all."""
    table = pq.read_table(file) if file.suffix == ".parquet" else feather.read_table(file)
    where = rng.randrange(table.num_columns)
    name = table.column_names[where]
    match rng.randrange(6):
        case 0:
            table = table.drop_columns([name])
        case 1:
            table = table.rename_columns([rng.choice(["", "a", "id", "vector", n]) for n in table.column_names])
        case 2:
            table = table.slice(0, rng.choice([0, 1]))
        case _:
            table = table.set_column(where, name, _odd_column(rng, table.column(name).to_pylist()))
    if file.suffix == ".parquet":
        pq.write_table(table, file)
    else:
        feather.write_feather(table, str(file))


def _odd_column(rng: random.Random, values: list[Any]) -> Any:
    """The values, some of them odd, as a column of some type that takes them; else a column of another shape."""
    for _ in range(rng.choice([1, 2, len(values)])):
        values[rng.randrange(len(values))] = rng.choice([None, *ODD_NUMBERS, "a", "", 1.5, float("nan"), b"a"])
    types = [None, pa.string(), pa.float32(), pa.int8(), pa.binary(), pa.bool_(), pa.list_(pa.float32())]
    try:
        return pa.array(values, rng.choice(types))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        cells: list[Any] = [[1.0, float("nan")], [[1]], {"a": 1}, None, 2**62, b"\xff", "\x00"]
        return pa.array([rng.choice(cells)] * len(values))


def _npz(rng: random.Random, file: Path) -> None:
    """Damage one array of an .npz, or leave it out; the archive stays whole."""
    with np.load(file, allow_pickle=False) as opened:
        arrays = dict(opened)
    name = rng.choice(sorted(arrays))
    if rng.random() < 0.1:
        del arrays[name]
    else:
        arrays[name] = _odd_array(rng, arrays[name])
    np.savez(file, **arrays)


def _npy(rng: random.Random, file: Path) -> None:
    np.save(file, _odd_array(rng, np.load(file, allow_pickle=False)))


def _odd_array(rng: random.Random, array: Any) -> Any:
    """The array with odd numbers in it, or in another shape, type or order."""
    flat = array.reshape(-1).copy()
    match rng.randrange(6):
        case 0 | 1 | 2 if flat.size and flat.dtype.kind in "iuf":
            for _ in range(rng.choice([1, 1, 3])):
                _odd_entry(rng, flat, len(array) if array.ndim else 1)
            return flat.reshape(array.shape)
        case 3:
            return flat[: rng.randrange(flat.size + 1)]
        case 4 if array.dtype.kind in "iuf":
            with np.errstate(all="ignore"):
                return array.astype(rng.choice(["<i4", "<i8", "<f4", "<f8", "<f2", "|u1", ">i8", "<U5"]), copy=False)
        case _:
            turned = array[::-1] if array.ndim else array
            return rng.choice([array[None], array[..., None], np.asfortranarray(array), turned])


def _odd_entry(rng: random.Random, flat: Any, rows: int) -> None:
    odd = rng.choice([*ODD_NUMBERS, flat.size, rows, float("nan"), float("inf"), 1e30])
    with np.errstate(all="ignore"):
        if flat.dtype.kind == "f" or abs(odd) < float("inf"):
            flat[rng.randrange(flat.size)] = np.array(odd).astype(flat.dtype)


def _safetensors(rng: random.Random, file: Path) -> None:
    """Other values, shapes or names in the JSON header of a .safetensors file, which stays as long as it says."""
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    if "tuplet" in header.get("__metadata__", {}) and rng.random() < 0.7:
        meta = json.loads(header["__metadata__"]["tuplet"])
        _odd_places(rng, meta)
        header["__metadata__"]["tuplet"] = json.dumps(meta)
    else:
        _odd_places(rng, header)
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])


_INSIDE: dict[str, Callable[[random.Random, Path], None]] = {
    ".json": _json, ".jsonl": _json_lines, ".npy": _npy, ".npz": _npz, ".gz": _gzip, ".toml": _toml, ".csv": _lines,
    ".parquet": _table, ".feather": _table, ".safetensors": _safetensors,
}  # fmt: skip
