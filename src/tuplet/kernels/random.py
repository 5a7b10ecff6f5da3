"""Random numbers from counters: the same for any number of threads, and nothing to carry between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tuplet._jit import jit


@jit  # type: ignore[untyped-decorator]
def mix(word: Any) -> Any:
    """SplitMix64's last step: neighbouring 64-bit words become unrelated ones."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@jit  # type: ignore[untyped-decorator]
def uniform(word: Any) -> Any:
    """A number in [0, 1) from a 64-bit state."""
    return np.float64(mix(word) >> np.uint64(11)) * 2.0**-53
