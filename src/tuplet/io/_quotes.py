"""Where a row of text ends: at a line end, unless it lies inside a quoted cell."""

from __future__ import annotations

import re

import numpy as np


def row_end(data: bytes, separator: str) -> int:
    """Where the last whole row ends: the last line end, unless it lies inside a quoted cell."""
    cut = data.rfind(b"\n") + 1
    if not separator or data.find(b'"', 0, cut) < 0:
        return cut
    begin = open_quote(data, cut, ord(separator))
    return cut if begin < 0 else data.rfind(b"\n", 0, begin) + 1


def open_quote(data: bytes, cut: int, separator: int) -> int:
    """Where a quoted cell begins that does not end before `cut`; -1 if there is none.

    Only a quote at the beginning of a cell opens one; inside, two quotes stand for one. Where every second quote
    opens a cell or follows the one that closed it, they are counted; else each is looked at.
    """
    text = np.frombuffer(data, np.uint8, cut)
    quotes = np.flatnonzero(text == ord('"'))
    opens, closes = quotes[::2], quotes[1::2]
    before = np.where(opens > 0, text[opens - 1], 10)
    fresh = (before == 10) | (before == separator)
    again = np.zeros(len(opens), dtype=bool)  # the second of two quotes: the cell goes on
    again[1:] = opens[1:] == closes[: len(opens) - 1] + 1
    if (fresh | again).all():
        return -1 if len(quotes) % 2 == 0 else int(opens[fresh][-1])
    return stepped(data, cut, separator)


def stepped(data: bytes, cut: int, separator: int) -> int:
    """The same quote by quote."""
    begin, closed, opened = -1, -2, -1
    for found in re.finditer(b'"', data[:cut]):
        at = found.start()
        if begin < 0:
            before = data[at - 1] if at else 10
            blank = before == 32 and (at < 2 or data[at - 2] in (10, separator))
            if at == closed + 1:  # the second of two quotes: the cell goes on
                begin = opened
            elif before in (10, separator) or blank:
                begin = opened = at
        else:
            begin, closed = -1, at
    return begin
