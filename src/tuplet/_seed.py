"""One integer seed -> named, independent random streams. Nothing here touches global state."""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from tuplet._check import check_int

if TYPE_CHECKING:
    import torch


@lru_cache(maxsize=1024)
def seed_of(seed: int, name: str) -> int:
    """A 63-bit integer that depends on both `seed` and the stream's `name`."""
    words = np.random.SeedSequence([seed, zlib.crc32(name.encode())]).generate_state(1, np.uint64)
    return int(words[0] >> np.uint64(1))


def stream(seed: int, name: str) -> np.random.Generator:
    """The NumPy generator of the stream `name`.

    >>> a, b = stream(0, "batches").integers(9**9), stream(0, "views").integers(9**9)
    >>> a != b and a == stream(0, "batches").integers(9**9)
    np.True_
    """
    return np.random.default_rng(seed_of(check_int("seed", seed, minimum=0), name))


def torch_stream(seed: int, name: str, device: str = "cpu") -> torch.Generator:
    """The torch generator of the stream `name` on `device`."""
    import torch

    return torch.Generator(device=device).manual_seed(seed_of(check_int("seed", seed, minimum=0), name))
