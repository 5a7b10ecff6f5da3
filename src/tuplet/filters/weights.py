"""Coefficient sequences of a graph filter, and bounds on what a truncation leaves out.

A filter is g(M) X = sum over l of w_l M^l X, where M is the normalised adjacency. Each family here gives the w_l,
the closed form g(s) = sum of w_l s^l on the spectrum [-1, 1] of an undirected graph, and two ways to cut it short:
the first hops of the series itself, or the first terms of its Chebyshev expansion, which usually needs far fewer
products for the same error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError, check_int, check_number

Doubles = NDArray[np.float64]

_LONGEST = 200_000  # hops; past this a tolerance is refused instead of searched for


@dataclass(frozen=True)
class Family:
    """A kind of weights, by functions of its parameters v. A new one is one `Family` and one `register_family` call.

    `names`: of the parameters. `coefficients(v, hops)`: w_0 .. w_hops, or all of a shorter sequence.
    `response(v, s)`: the sum of w_l s^l. `length(v)`: the last power; -1 for an endless sequence, which must then
    have `tail(v, hops)`, the sum of |w_l| over l > hops.
    """

    names: tuple[str, ...]
    coefficients: Callable[[tuple[float, ...], int], NDArray[Any]]
    response: Callable[[tuple[float, ...], Doubles], Any]
    length: Callable[[tuple[float, ...]], int] = lambda v: -1
    tail: Callable[[tuple[float, ...], int], float] | None = None


@dataclass(frozen=True)
class Weights:
    """The weights w_0, w_1, .. of the powers of the operator. Made by `ppr`, `heat`, `markov`, `laplacian`, `custom`.

    >>> ppr(0.5).coefficients(3)
    array([0.5   , 0.25  , 0.125 , 0.0625])
    >>> ppr(0.5).tail(3)
    0.0625
    >>> ppr(0.1).hops(1e-4), ppr(0.1).degree(1e-4)
    (87, 20)
    """

    family: str
    values: tuple[float, ...]

    def coefficients(self, hops: int) -> Doubles:
        """w_0 .. w_hops, float64 (hops + 1,); zeros past the end of a finite sequence."""
        head = FAMILIES[self.family].coefficients(self.values, hops)
        return np.pad(head[: hops + 1], (0, max(0, hops + 1 - len(head))))

    def tail(self, hops: int) -> float:
        """Sum of |w_l| over l > hops: what is left out when the series stops after `hops` products."""
        tail = FAMILIES[self.family].tail
        if tail is not None:
            return tail(self.values, hops)
        return float(np.abs(self.coefficients(max(hops, self.length))[hops + 1 :]).sum())

    def hops(self, tol: float) -> int:
        """The smallest number of products of the plain series with `tail(hops) <= tol`."""
        tol = check_number("tol", tol, low=0, open_low=self.length < 0)
        if self.length >= 0:
            left = np.abs(self.coefficients(self.length))[::-1].cumsum()[::-1]  # left[l] = sum from l on
            return int(np.count_nonzero(left[1:] > tol))
        high = 1
        while self.tail(high) > tol:
            high *= 2
            if high > _LONGEST:
                raise InputError(f"{self!r} needs over {_LONGEST} hops for tol={tol:g}. Use a larger tol or alpha.")
        low = -1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if middle >= 0 and self.tail(middle) <= tol else (middle, high)
        return max(high, 0)

    @property
    def length(self) -> int:
        """The last power of a finite sequence; -1 where the sequence does not end."""
        return FAMILIES[self.family].length(self.values)

    def response(self, s: Any) -> Any:
        """g(s) = sum of w_l s^l, in closed form: the factor by which an eigenvector with eigenvalue s is scaled."""
        return FAMILIES[self.family].response(self.values, np.asarray(s, dtype=np.float64))

    def chebyshev(self, degree: int) -> Doubles:
        """c_0 .. c_degree with g(s) ~ sum of c_k T_k(s) on [-1, 1], float64 (degree + 1,)."""
        series = _chebyshev_series(self)
        return np.pad(series[: degree + 1], (0, max(0, degree + 1 - len(series))))

    def chebyshev_tail(self, degree: int) -> float:
        """Sum of |c_k| over k > degree: bounds |g(s) - truncated sum| everywhere on [-1, 1]."""
        return float(np.abs(_chebyshev_series(self)[degree + 1 :]).sum())

    def degree(self, tol: float) -> int:
        """The smallest degree with `chebyshev_tail(degree) <= tol`: products of the Chebyshev evaluation."""
        tol = check_number("tol", tol, low=0)
        left = np.abs(_chebyshev_series(self))[::-1].cumsum()[::-1]
        return int(np.count_nonzero(left[1:] > max(tol, 1e-14)))

    def __repr__(self) -> str:
        names = FAMILIES[self.family].names
        if self.family == "custom":
            return f"custom({list(self.values)})"
        return f"{self.family}({', '.join(f'{name}={value:g}' for name, value in zip(names, self.values))})"


def ppr(alpha: float = 0.1) -> Weights:
    """Personalised PageRank: w_l = alpha (1 - alpha)^l, with `alpha` in (0, 1] the teleport probability."""
    return Weights("ppr", (check_number("alpha", alpha, low=0, high=1, open_low=True),))


def heat(t: float) -> Weights:
    """Heat kernel: w_l = e^-t t^l / l!.

    >>> heat(3).hops(1e-3), heat(3).degree(1e-3)
    (10, 6)
    """
    return Weights("heat", (check_number("t", t, low=0, open_low=True),))


def markov(hops: int = 16, alpha: float = 0.05) -> Weights:
    """Markov diffusion with equal weights (SSGC): w_0 = alpha, w_1 .. w_hops = (1 - alpha) / hops."""
    return Weights("markov", (check_int("hops", hops), check_number("alpha", alpha, low=0, high=1)))


def laplacian(power: int, gamma: float = 0.5) -> Weights:
    """Laplacian smoothing (gamma M + (1 - gamma) I)^power; AGC has gamma = 1/2, AGE gamma = 1/lambda_max.

    >>> laplacian(2).coefficients(2)
    array([0.25, 0.5 , 0.25])
    """
    gamma = check_number("gamma", gamma, low=0, high=1, open_low=True)
    return Weights("laplacian", (check_int("power", power), gamma))


def custom(coefficients: Sequence[float]) -> Weights:
    """Any finite sequence w_0, w_1, ..

    >>> float(custom([1, 0, 0.5]).response(1.0))
    1.5
    """
    values = tuple(check_number("coefficients", value) for value in coefficients)
    if not values:
        raise InputError("coefficients is empty. Give at least w_0, for example custom([0.5, 0.5]).")
    return Weights("custom", values)


def _heat_coefficients(values: tuple[float, ...], hops: int) -> Doubles:
    from scipy.special import gammaln

    l = np.arange(hops + 1)
    return np.asarray(np.exp(l * math.log(values[0]) - values[0] - gammaln(l + 1)))


def _laplacian_coefficients(values: tuple[float, ...], hops: int) -> Doubles:
    from scipy.special import gammaln, xlog1py

    power, gamma = values
    l = np.arange(int(power) + 1)
    binomial = gammaln(power + 1) - gammaln(l + 1) - gammaln(power - l + 1)
    return np.asarray(np.exp(binomial + l * math.log(gamma) + xlog1py(power - l, -gamma)))


def _markov_coefficients(values: tuple[float, ...], hops: int) -> Doubles:
    length, alpha = int(values[0]), values[1]
    return np.array([alpha, *[(1 - alpha) / length] * length])


def _markov_response(values: tuple[float, ...], s: Doubles) -> Doubles:
    length, alpha = int(values[0]), values[1]
    total = np.zeros_like(s)
    for _ in range(length):  # Horner: exact at s = 1, where the geometric formula divides by zero
        total = s * (1 + total)
    return np.asarray(alpha + (1 - alpha) / length * total)


def _heat_tail(values: tuple[float, ...], hops: int) -> float:
    from scipy.special import gammainc

    return float(gammainc(hops + 1, values[0]))


FAMILIES: dict[str, Family] = {}


def register_family(name: str, family: Family) -> None:
    """Put `family` into the table; `Weights(name, values)` are then weights as any other."""
    FAMILIES[name] = family


register_family(
    "ppr",
    Family(
        ("alpha",),
        lambda v, hops: v[0] * (1 - v[0]) ** np.arange(hops + 1),
        lambda v, s: v[0] / (1 - (1 - v[0]) * s),
        tail=lambda v, hops: float((1 - v[0]) ** (hops + 1)),
    ),
)
register_family("heat", Family(("t",), _heat_coefficients, lambda v, s: np.exp(v[0] * (s - 1)), tail=_heat_tail))
register_family(
    "markov", Family(("hops", "alpha"), _markov_coefficients, _markov_response, length=lambda v: int(v[0]))
)
register_family(
    "laplacian",
    Family(
        ("power", "gamma"),
        _laplacian_coefficients,
        lambda v, s: (v[1] * s + 1 - v[1]) ** int(v[0]),
        length=lambda v: int(v[0]),
    ),
)
register_family(
    "custom",
    Family(
        (),
        lambda v, hops: np.array(v),
        lambda v, s: np.polynomial.polynomial.polyval(s, v),
        length=lambda v: len(v) - 1,
    ),
)


@lru_cache(maxsize=64)
def _chebyshev_series(weights: Weights) -> Doubles:
    """All Chebyshev coefficients of g that matter in float64; a type-I cosine transform of samples of g."""
    from scipy.fft import dct

    size = 64
    while True:
        samples = weights.response(np.cos(np.pi * np.arange(size + 1) / size))
        series = dct(samples, type=1) / size
        series[0] /= 2
        series[-1] /= 2
        floor = 1e-16 * np.abs(series).max()
        if np.abs(series[-size // 8 :]).max() <= 32 * floor or size >= 2**17:
            return np.asarray(np.where(np.abs(series) > 4 * floor, series, 0.0))
        size *= 2
