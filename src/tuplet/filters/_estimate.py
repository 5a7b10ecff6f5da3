"""What a filtering will cost, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FilterEstimate:
    """Cost of one `GraphFilter.transform`.

    `products`: sparse products a column (0 for push). `memory`: bytes beside the graph and its features, with the
    result in memory; `streamed`: the least with `out=`. `disk`: bytes at the worst moment with `out=`. `seconds`: a
    range (low, high); the machine, and for push the features, decide where in it the truth lies.
    """

    method: str
    device: str
    products: int
    rows: int
    columns: int
    memory: int
    streamed: int
    disk: int
    seconds: tuple[float, float]

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values."""
        return {**self.__dict__, "seconds": list(self.seconds)}

    def __str__(self) -> str:
        low, high = (_time(s) for s in self.seconds)
        return (
            f"{self.rows} x {self.columns} rows by {self.method} on {self.device}, {self.products} products: "
            f"{low} to {high}, {_size(self.memory)} of memory; "
            f"with out= {_size(self.streamed)} at least, and {_size(self.disk)} of disk"
        )


def exact_seconds(products: int, stored: int, n: int, f: int, device: str, threads: int) -> tuple[float, float]:
    """A range of seconds from the bytes that the products gather and stream."""
    gathered = 4.0 * products * stored * f
    streamed = 4.0 * (3 * products + 6) * n * f
    if device != "cpu":
        moved = 8.0 * n * f
        return (gathered + streamed) / 4e12 + moved / 50e9, 1 + (gathered + streamed) / 1e12 + moved / 5e9
    return (gathered / 16e9 + streamed / 20e9) / threads, 0.5 + (gathered / 3e9 + streamed / 2e9) / threads


def push_seconds(degree_mass: float, alpha: float, r_max: float, n: int, f: int, threads: int) -> tuple[float, float]:
    """A range of seconds for push: from one look at each node up to the method's own bound on edges passed.

    A push at u takes alpha d_u R_u >= alpha d_u r_max S off the degree-weighted residue, so that at most
    `degree_mass` / (alpha r_max) edges are passed a column, degree_mass = sum of d_u B_u / sum of B_u.
    """
    edges = min(degree_mass / (alpha * r_max), 1e15)
    return 2e-9 * n * f / threads, 0.5 + (2e-8 * n + 2e-8 * edges) * f / threads


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"
