"""Small pieces of HTML for notebooks and reports: text made safe, tables, a curve. Strings, nothing is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_CELL = "text-align:left;padding:2px 14px 2px 0;border:0"


def table(title: str, rows: Iterable[Sequence[str]], *, head: Sequence[str] = (), notes: Iterable[str] = ()) -> str:
    """A titled table with one line for each of `rows`; every text is escaped.

    >>> "&lt;b&gt;" in table("<b>", [["nodes", "3"]])
    True
    """
    lines = [f"<caption style='{_CELL};font-weight:600'>{escape(title)}</caption>"]
    if head:
        lines.append(
            "<tr>" + "".join(f"<th scope='col' style='{_CELL}'>{escape(text)}</th>" for text in head) + "</tr>"
        )
    for name, *values in rows:
        cells = "".join(f"<td style='{_CELL}'>{escape(value)}</td>" for value in values)
        lines.append(
            f"<tr><th scope='row' style='{_CELL};font-weight:400;opacity:.7'>{escape(name)}</th>{cells}</tr>"
        )
    below = "".join(f"<div style='opacity:.7'>{escape(note)}</div>" for note in notes)
    return f"<div><table style='border-collapse:collapse'>{''.join(lines)}</table>{below}</div>"


def curve(x: Sequence[float], y: Sequence[float], *, name: str, axis: str, mark: float | None = None) -> str:
    """An SVG line of `y` against `x` with the ends of both axes written out; `mark` draws a vertical line at an x.

    >>> curve([1, 2], [3.0, 1.0], name="loss", axis="step").count("<polyline")
    1
    """
    width, height, left, below = 420, 180, 52, 30
    low, high = min(y), max(y)
    first, last = min(x), max(x)

    def across(value: float) -> float:
        return left + (width - left - 12) * ((value - first) / (last - first) if last > first else 0.5)

    def down(value: float) -> float:
        return 10 + (height - below - 10) * ((high - value) / (high - low) if high > low else 0.5)

    points = " ".join(f"{across(a):.1f},{down(b):.1f}" for a, b in zip(x, y))
    floor = height - below
    parts = [
        f"<path d='M{left} 10V{floor}H{width - 12}' fill='none' stroke='currentColor' opacity='.35'/>",
        f"<polyline points='{points}' fill='none' stroke='#4477aa' stroke-width='2' stroke-linejoin='round'/>",
    ]
    if len(x) == 1:
        parts.append(f"<circle cx='{across(x[0]):.1f}' cy='{down(y[0]):.1f}' r='3' fill='#4477aa'/>")
    if mark is not None and first <= mark <= last:
        place = f"{across(mark):.1f}"
        parts.append(f"<path d='M{place} 10V{floor}' stroke='#aa3377' stroke-dasharray='3 3'/>")
    texts: list[tuple[float, float, str, str]] = [
        (left - 6, down(high) + 4, "end", f"{high:.4g}"),
        (left, height - 12, "start", f"{first:g}"),
    ]
    texts += [(left - 6, down(low) + 4, "end", f"{low:.4g}")] if high > low else []
    texts += [(width - 12, height - 12, "end", f"{last:g}")] if last > first else []
    texts.append(((left + width) / 2, height - 12, "middle", axis))
    parts += [f"<text x='{a:.0f}' y='{b:.0f}' text-anchor='{c}'>{escape(d)}</text>" for a, b, c, d in texts]
    label = f"{name} against {axis}: from {y[0]:.4g} to {y[-1]:.4g}"
    return (
        f"<svg role='img' aria-label='{escape(label)}' viewBox='0 0 {width} {height}' width='{width}' "
        f"style='max-width:100%' font-size='11' font-family='system-ui,sans-serif' fill='currentColor'>"
        f"{''.join(parts)}</svg>"
    )
