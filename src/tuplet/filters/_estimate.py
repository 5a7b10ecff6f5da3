"""What a filtering will cost, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Cost:
    """`memory`: bytes beside the graph and its features, all in memory; `streamed`: the least where rows go to files;
    `disk`: bytes of files then, at the worst moment. `seconds`: a range (low, high).
    """

    memory: int
    streamed: int
    disk: int
    seconds: tuple[float, float]

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values."""
        return {**self.__dict__, "seconds": list(self.seconds)}

    def text(self, streaming: str) -> str:
        """The cost for people; `streaming` says what sends the rows to files."""
        low, high = (time_text(s) for s in self.seconds)
        return (
            f"{low} to {high}, {size_text(self.memory)} of memory; {streaming} {size_text(self.streamed)} at least, "
            f"and {size_text(self.disk)} of disk"
        )


@dataclass(frozen=True, kw_only=True)
class FilterEstimate(Cost):
    """Cost of one `GraphFilter.transform`; `products`: sparse products a column (0 for push).

    The machine, and for push the features, decide where between the two `seconds` the truth lies.
    """

    method: str
    device: str
    products: int
    rows: int
    columns: int

    def __str__(self) -> str:
        what = f"{self.rows} x {self.columns} rows by {self.method} on {self.device}, {self.products} products"
        return f"{what}: {self.text('with out=')}"


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


def size_text(count: float) -> str:
    """Bytes for people, as 1.5 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def time_text(seconds: float) -> str:
    """Seconds for people, as 3 min."""
    if seconds < 120:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"
