"""Encoders of single values: numbers scaled, numbers and booleans as they are, dates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet.io.preparation import values as read
from tuplet.io.preparation._dates import ORDERS, days_in_order, find_order
from tuplet.io.preparation._encoded import Encoded

MANY_GAPS = (0.05, 0.5)  # between these shares of missing values, a column of its own says where they are
CLIP = 4.0  # scaled numbers end here
HEAVY = 5.0  # a tail this many quartile distances long is a heavy one
YEAR = 365.2425


@dataclass(frozen=True)
class Numbers:
    """(t(v) - centre) / scale within [-4, 4]; t is sign(v) log(1 + |v| / unit) where the tail is heavy."""

    role: ClassVar[str] = "number"
    name: str
    centre: float
    scale: float
    unit: float = 0.0  # 0: no logarithm
    gaps: bool = False

    @classmethod
    def fit(cls, name: str, column: Any, *, gaps: bool = True) -> Self:
        values = read.numbers(name, column)
        known = values[~np.isnan(values)]
        unit = _unit(known)
        centre, scale = _centre(_log(known, unit))
        return cls(name, centre, scale, unit, gaps and many_gaps(np.isnan(values)))

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, f"{self.name}:missing") if self.gaps else (self.name,)

    @property
    def note(self) -> str:
        return "logarithm, scaled" if self.unit else "scaled"

    def transform(self, column: Any) -> Encoded:
        values = read.numbers(self.name, column)
        missing = np.isnan(values)
        scaled = ((_log(values, self.unit) - self.centre) / self.scale).clip(-CLIP, CLIP)
        return Encoded(_with_gaps(np.where(missing, 0, scaled)[:, None], missing, self.gaps))


def many_gaps(missing: NDArray[np.bool_]) -> bool:
    return bool(MANY_GAPS[0] < missing.mean() <= MANY_GAPS[1])


def _unit(known: NDArray[np.float64]) -> float:
    """The unit of the logarithm, the median size; 0 where the tails are not heavy."""
    low, first, middle, third, high = np.quantile(known, [0.01, 0.25, 0.5, 0.75, 0.99])
    spread = max(third - middle, middle - first)
    tail = max(high - third, first - low)
    sizes = np.abs(known[known != 0])
    return float(np.median(sizes)) if len(sizes) and tail > HEAVY * spread else 0.0


def _log(values: NDArray[np.float64], unit: float) -> NDArray[np.float64]:
    return values if not unit else np.sign(values) * np.log1p(np.abs(values) / unit)


def _centre(known: NDArray[np.float64]) -> tuple[float, float]:
    """Median, and the quartile distance as a standard deviation (the deviation itself where that is 0)."""
    first, middle, third = np.quantile(known, [0.25, 0.5, 0.75])
    scale = (third - first) / 1.349 or float(known.std()) or 1.0
    return float(middle), float(scale)


def _with_gaps(values: NDArray[Any], missing: NDArray[np.bool_], gaps: bool) -> NDArray[np.float32]:
    return np.column_stack([values, missing] if gaps else [values]).astype(np.float32)


@dataclass(frozen=True)
class Plain:
    """Numbers and booleans as they are; missing ones as `fill`."""

    role: ClassVar[str] = "plain"
    name: str
    fill: float = 0.0
    gaps: bool = False
    boolean: bool = False

    @classmethod
    def fit(cls, name: str, column: Any, *, gaps: bool = True) -> Self:
        import pyarrow as pa

        values = read.numbers(name, column)
        boolean = bool(pa.types.is_boolean(column.type))
        known = values[~np.isnan(values)]
        fill = float(np.median(known)) if len(known) and not boolean else 0.0
        return cls(name, fill, gaps and many_gaps(np.isnan(values)), boolean)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, f"{self.name}:missing") if self.gaps else (self.name,)

    @property
    def note(self) -> str:
        return "as it is"

    def transform(self, column: Any) -> Encoded:
        values = read.numbers(self.name, column)
        missing = np.isnan(values)
        with np.errstate(over="ignore"):
            dense = _with_gaps(np.where(missing, self.fill, values)[:, None], missing, self.gaps)
        if np.isinf(dense).any():
            big = values[np.isinf(dense[:, 0])][0]
            raise InputError(f"Column {self.name!r} holds {big:g}, too large for float32. Scale it.")
        return Encoded(dense)


@dataclass(frozen=True)
class Dates:
    """A trend, the day scaled as a number is; and the season, where the days cover half a year and more."""

    role: ClassVar[str] = "date"
    name: str
    centre: float
    scale: float
    season: bool = True
    gaps: bool = False
    order: str = ""  # of day, month and year in texts; "": 2024-01-31

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ValueError(f"no order of dates is {self.order!r}")

    @classmethod
    def fit(cls, name: str, column: Any, *, gaps: bool = True) -> Self:
        order = find_order(name, column)
        day = days_in_order(name, column, order)
        known = day[~np.isnan(day)]
        wide = len(known) > 0 and np.ptp(known) >= YEAR / 2 and len(np.unique(known % YEAR // 30)) > 3
        return cls(name, *_centre(known), bool(wide), gaps and many_gaps(np.isnan(day)), order)

    @property
    def names(self) -> tuple[str, ...]:
        endings = [":trend", *([":sin", ":cos"] if self.season else []), *([":missing"] if self.gaps else [])]
        return tuple(self.name + ending for ending in endings)

    @property
    def note(self) -> str:
        found = "trend and season" if self.season else "trend"
        return f"{found}; {ORDERS[self.order]}" if self.order else found

    def transform(self, column: Any) -> Encoded:
        day = days_in_order(self.name, column, self.order)
        missing = np.isnan(day)
        parts = [((day - self.centre) / self.scale).clip(-CLIP, CLIP)]
        if self.season:
            angle = 2 * np.pi * (day % YEAR) / YEAR
            parts += [np.sin(angle), np.cos(angle)]
        values = np.where(missing[:, None], 0, np.column_stack(parts))
        return Encoded(_with_gaps(values, missing, self.gaps))
