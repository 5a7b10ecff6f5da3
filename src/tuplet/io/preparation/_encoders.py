"""One class a role: what a column's sample taught, and how values become feature columns with it.

Each has `fit`, `transform` (values dense or CSR, with a count of strange tokens or levels), the `names` of its
feature columns, and fields of numbers, texts and lists only, so that it can be saved as JSON and arrays.
"""

from __future__ import annotations

from typing import Any

from tuplet.io.preparation._categories import Categories
from tuplet.io.preparation._numbers import Dates, Numbers, Plain
from tuplet.io.preparation._vectors import Vectors
from tuplet.io.preparation._words import Words

__all__ = ["ENCODERS", "Categories", "Dates", "Encoder", "Numbers", "Plain", "Vectors", "Words"]

Encoder = Numbers | Plain | Dates | Categories | Words | Vectors
ENCODERS: dict[str, Any] = {kind.__name__: kind for kind in (Numbers, Plain, Dates, Categories, Words, Vectors)}
