"""Numbers as people write them: 1234.5, with a decimal comma, with marks between thousands.

Plain numbers (1234.5, 1e3) are read always. Marks between thousands and a decimal comma are read where the user names
the decimal mark; else they are refused, and what is plain but may be meant otherwise (1.200) is told.
"""

from __future__ import annotations

import re
from typing import Any

from tuplet._check import option

DECIMALS = (".", ",")
_PLAIN = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"
_THOUSANDS = {".": ",'’ \u00a0\u202f", ",": ".'’ \u00a0\u202f"}  # the marks between them, by the decimal mark
_DOTS = r"^[-+]?[1-9]\d{0,2}\.\d{3}$"  # 1.200, but not 0.120
_ODD = (  # 1,5 and 1.234,5 and 1'234 and 1,00,000, perhaps with a sign; but no 1.2.3 or 10.0.0.1
    r"^[-+]?\s*[$€£¥]?\s*[-+]?(\d+([.,]\d+)?|\d{1,3}([.,'’ \x{a0}\x{202f}]\d{3})+([.,]\d+)?"
    r"|\d{1,3}(,\d{2,3})+(\.\d+)?)\s*[%$€£¥]?$"
)
OTHER_DATE = (  # 31.01.2024, 1/31/2024, 2024/01/31, perhaps with the time of day
    r"^\s*(\d{1,2}[./-]\d{1,2}[./-][12]\d{3}|[12]\d{3}[./]\d{1,2}[./]\d{1,2})"
    r"([T ]\d{1,2}:\d\d(:\d\d(\.\d+)?)?\s*([AaPp][Mm])?)?\s*$"
)


def form_of(decimal: str | None) -> str:
    """The regular expression of the numbers that are read; of plain ones where no decimal mark is named."""
    if decimal is None:
        return _PLAIN
    groups = "|".join(rf"({re.escape(mark)}\d{{3}})+" for mark in _THOUSANDS[decimal])
    point = re.escape(decimal)
    return rf"^[-+]?((\d+|[1-9]\d{{0,2}}({groups}))({point}\d*)?|{point}\d+)([eE][-+]?\d+)?$"


def plainly(cells: Any, decimal: str | None) -> Any:
    """Numbers in the form of `decimal` as plain ones: no mark between thousands, a decimal point."""
    import pyarrow.compute as pc

    if decimal is None:
        return cells
    bare = pc.replace_substring_regex(cells, f"[{_THOUSANDS[decimal]}]", "")
    return pc.replace_substring(bare, decimal, ".")


def are_numbers(cells: Any, decimal: str | None) -> Any:
    """Which cells are numbers that are read."""
    import pyarrow.compute as pc

    return pc.match_substring_regex(cells, form_of(decimal))


def odd_numbers(cells: Any, decimal: str | None = None) -> Any:
    """Which cells are numbers in a form that is not read; dates are none."""
    import pyarrow.compute as pc

    number, plain, date = (pc.match_substring_regex(cells, form) for form in (_ODD, _PLAIN, OTHER_DATE))
    return pc.and_not(pc.or_(number, plain), pc.or_(are_numbers(cells, decimal), date))


def ways_to_say(cell: str) -> str:
    """What an odd number would be by each decimal mark that explains it, as options: "decimal=',' (1.5)"."""
    import pyarrow as pa

    meant = [
        f"{option('decimal', mark)} ({float(plainly(pa.scalar(cell), mark).as_py()):.15g})"
        for mark in DECIMALS
        if re.match(form_of(mark), cell)
    ]
    return " or ".join(meant)


class Dots:
    """Whether the dots of a column's numbers may be marks between thousands: 1.200 and 950, never 0.5 or 1.25."""

    def __init__(self) -> None:
        self._first, self._other = "", False

    def add(self, cells: Any) -> None:
        """Take in texts that are plain numbers."""
        import pyarrow.compute as pc

        if self._other:
            return
        dotted = cells.filter(pc.match_substring(cells, "."))
        if len(dotted):
            self._first = self._first or dotted[0].as_py()
            self._other = not pc.all(pc.match_substring_regex(dotted, _DOTS)).as_py()

    @property
    def remark(self) -> str:
        """What was seen and what to do, or nothing."""
        if self._other or not self._first:
            return ""
        whole = self._first.replace(".", "")
        return f"{self._first!r} is read as {float(self._first):g}: if that is {whole}, say {option('decimal', ',')}"
