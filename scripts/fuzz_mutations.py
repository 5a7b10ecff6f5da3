"""Ways to damage the files of fuzz.py: bytes of any file, values of JSON and TOML, numbers inside .npy arrays."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fuzz_kinds import Kind

ODD_NUMBERS = [0, 1, -1, 2, 7, 127, 255, 2**15, 2**31 - 1, -(2**31), 2**31, 2**32, 2**53, 2**63 - 1, -(2**63)]
ODD_VALUES: list[Any] = [
    None, True, False, "", "a", "\x00", "../..", "nan", [], {}, [[]], {"a": 1}, 1.5, -1, 0, 10**9, 2**70, 1e308,
    float("nan"), float("inf"), "x" * 5000, [1] * 3000,
]  # fmt: skip


def damage(rng: random.Random, folder: Path, kind: Kind) -> None:
    """Damage one file of the folder, in a way that fits it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    file = rng.choice(files)
    if file.suffix == ".json" and rng.random() < 0.7:
        _json(rng, file)
    elif file.suffix == ".npy" and rng.random() < 0.6:
        _array(rng, file)
        if rng.random() < 0.7:
            fit_checksums(folder)
    elif file.suffix == ".gz" and rng.random() < 0.5:
        file.write_bytes(gzip.compress(_bytes(rng, gzip.decompress(file.read_bytes())), 1))
    elif rng.random() < 0.02:
        file.unlink()
    else:
        file.write_bytes(_bytes(rng, file.read_bytes()))


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
    try:
        value = json.loads(file.read_text())
    except ValueError:
        return
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
    text = json.dumps(value)
    file.write_text("[" * 200_000 if rng.random() < 0.01 else text)


def _places(value: Any) -> Any:
    """Every (holder, key) in nested lists and dicts."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def _array(rng: random.Random, file: Path) -> None:
    """Put odd numbers into an array, or give it another shape, type or order; the file stays a whole .npy."""
    try:
        array = np.load(file, allow_pickle=False)
    except (ValueError, OSError, EOFError):
        return
    flat = array.reshape(-1).copy()
    match rng.randrange(6):
        case 0 | 1 | 2 if flat.size and flat.dtype.kind in "iuf":
            for _ in range(rng.choice([1, 1, 3])):
                with np.errstate(all="ignore"):
                    odd = rng.choice([*ODD_NUMBERS, flat.size, len(array), float("nan"), float("inf"), 1e30])
                    if flat.dtype.kind == "f" or (odd == odd and abs(odd) != float("inf")):
                        flat[rng.randrange(flat.size)] = np.array(odd).astype(flat.dtype)
            array = flat.reshape(array.shape)
        case 3:
            array = flat[: rng.randrange(flat.size + 1)]
        case 4 if array.dtype.kind in "iuf":
            array = array.astype(rng.choice(["<i4", "<i8", "<f4", "<f8", "<f2", "|u1", ">i8", "<U5"]), copy=False)
        case _:
            array = rng.choice([array[None], array[..., None], np.asfortranarray(array), array[::-1]])
    np.save(file, array)


def fit_checksums(folder: Path) -> None:
    """Make the sizes and checksums of a graph folder's meta.json fit its files again."""
    for meta in folder.rglob("meta.json"):
        try:
            value = json.loads(meta.read_text())
            for name, entry in value["arrays"].items():
                path = meta.parent / f"{name}.npy"
                array = np.load(path, mmap_mode="r", allow_pickle=False)
                digest = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
                entry |= {"blake2b": digest, "dtype": array.dtype.str, "shape": list(array.shape)}
            meta.write_text(json.dumps(value))
        except (ValueError, OSError, KeyError, TypeError, AttributeError, EOFError):
            continue
