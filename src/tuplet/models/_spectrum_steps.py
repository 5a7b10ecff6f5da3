"""The spectrum of filtered rows (see `_spectrum`) whose tall arrays are never changed: in files, or on a GPU.

The same numbers as `_spectrum.fit_spectrum`, to rounding. Where the subspace iteration wants orthonormal columns y R,
it takes y as it is and applies R (c, c) to the other end, H' (y R) = (H' y) R. So each tall array is made once, from
front to back, and a killed run goes on after the last one that was kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tuplet.models._cost import EXTRA
from tuplet.models._spectrum import Spectrum, random_signs, spectrum_of
from tuplet.rows.svd import Floats, first_columns, orthonormal, signed_right, times

_ITERATIONS = 2  # of the subspace iteration, as `operator_svd` has them
ORDER = ("signs", "forward-0", "backward-0", "forward-1", "backward-1", "last")  # of the filterings


class TallRows(Protocol):
    """H (n, f) as products. What has n rows is a file or lies on a device; only the steps that make it know which."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n, f)."""

    def kept(self, step: str, make: Callable[[], Any]) -> Any:
        """The small array of that step, as `make` or an earlier run made it."""

    def forward(self, step: str, q: Floats) -> Any:
        """F X q for q (f, c): H q, but for the lengths of its rows; the same again where it was made before."""

    def backward(self, step: str, y: Any, factors: Floats) -> Floats:
        """X' F (factors * y) for y (n, c): float32 (f, c). F is its own transpose."""

    def inverse_lengths(self, y: Any) -> Floats:
        """1 / |row| of each row of y (n,); 0 for zero rows."""

    def gram(self, y: Any, factors: Floats) -> NDArray[np.float64]:
        """(factors * y)' (factors * y), (c, c)."""

    def turned(self, step: str, y: Callable[[], Any], turn: Floats, factors: Floats) -> Any:
        """factors * (y() turn) for turn (c, d), where the rest of the work finds it: an array or a memory map."""

    def drop(self, *steps: str) -> None:
        """Forget tall arrays that no later step needs."""


def fit_in_steps(rows: TallRows, d: int, *, balance: bool, seed: int = 0) -> tuple[Spectrum, Any]:
    """The spectrum of H from its d largest singular values, and H's rows projected on it (n, d)."""
    n, f = rows.shape
    d = min(d, n, f)
    after = rows.kept("lengths", lambda: rows.inverse_lengths(rows.forward("signs", random_signs(f, seed))))
    rows.drop("signs")
    q, rounds = first_columns((n, f), d + EXTRA, _ITERATIONS, seed)
    for i in range(rounds):
        q = rows.kept(f"columns-{i}", lambda i=i, q=q: _iterated(rows, i, q, after))  # type: ignore[misc]
        rows.drop(f"forward-{i}", f"backward-{i}")
    q = orthonormal(q)
    turn = rows.kept("turn", lambda: np.linalg.eigh(rows.gram(rows.forward("last", q), after))[1][:, ::-1][:, :d])
    right, sign = signed_right(times(q, turn))
    turned = np.ascontiguousarray(turn * sign, np.float32)
    projected = rows.turned("rows", lambda: rows.forward("last", q), turned, after)
    rows.drop("last")
    return spectrum_of(right, projected, balance=balance), projected


def _iterated(rows: TallRows, i: int, q: Floats, after: Floats) -> Floats:
    """Orthonormal columns (f, c) that span H' H q."""
    y = rows.forward(f"forward-{i}", q)
    squares, turn = np.linalg.eigh(rows.gram(y, after))
    kept = squares > 1e-10 * max(squares[-1], 1e-30)
    factor = turn * np.where(kept, 1 / np.sqrt(np.where(kept, squares, 1)), 0)
    back = rows.backward(f"backward-{i}", y, after**2)
    return orthonormal(np.ascontiguousarray(back @ factor, np.float32))
