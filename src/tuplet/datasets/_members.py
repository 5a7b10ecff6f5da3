"""Arrays in an .npz read as streams, never whole: papers100M and Reddit are larger than memory should be."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet._files import read_header

BLOCK = 2**20  # values read at once; an edge takes about 90 bytes on its way to a bucket


class Member:
    """An array in an .npz, read forward in pieces."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self.archive = zipfile.ZipFile(path)
        self.file = self.archive.open(f"{name}.npy")
        self.shape, fortran, self.dtype = read_header(self.file)
        if (fortran and len(self.shape) > 1) or self.dtype.kind not in "iuf":
            raise InputError(f"{name} in {path.name} is {self.dtype} in another order than expected. Get it again.")

    def skip(self, count: int) -> None:
        """Pass over `count` values."""
        left = count * self.dtype.itemsize
        while left:
            left -= len(self._bytes(min(left, 2**24)))

    def read(self, count: int) -> NDArray[Any]:
        """The next `count` values."""
        return np.frombuffer(self._bytes(count * self.dtype.itemsize), dtype=self.dtype)

    def _bytes(self, size: int) -> bytes:
        block = self.file.read(size)
        if len(block) != size:
            raise InputError(f"{self.name} in {self.path.name} is cut off. Get the archive again.")
        return block

    def __enter__(self) -> Member:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()
        self.archive.close()


def shape_of(path: Path, name: str) -> tuple[int, ...]:
    """The shape of an array in an .npz."""
    with Member(path, name) as member:
        return member.shape


def whole_array(path: Path, name: str) -> NDArray[Any]:
    """An array in an .npz, all of it."""
    with Member(path, name) as member:
        return member.read(int(np.prod(member.shape))).reshape(member.shape)


def rows_of(path: Path, name: str) -> Iterator[NDArray[np.float32]]:
    """The rows of a matrix in an .npz as float32, in blocks."""
    with Member(path, name) as member:
        n, width = member.shape
        step = max(1, BLOCK // width)
        for start in range(0, n, step):
            size = min(step, n - start)
            yield member.read(size * width).reshape(size, width).astype(np.float32)
