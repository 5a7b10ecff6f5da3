"""Our docstrings as reStructuredText: lists of parameters, and absolute values, which are no substitutions."""

from __future__ import annotations

import re
from typing import Any

from sphinx.ext import autosummary

PARAMETER = re.compile(r"^(\w+(?:, \w+)*) : (.*)$")


def mend(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = _listed(lines)
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[i] = _escaped(line)


def _listed(lines: list[str]) -> list[str]:
    """`Parameters`, its rule and the lines "a, b : what they are" become a list."""
    if "Parameters" not in lines:
        return list(lines)
    start = lines.index("Parameters")
    end = next((i for i in range(start + 2, len(lines)) if not lines[i].strip()), len(lines))
    items: list[str] = []
    for line in lines[start + 2 : end]:
        for part in re.split(r"(?<=\.)  (?=\w+ : )", line):
            match = PARAMETER.match(part)
            items.append(f"- **{match[1]}**: {match[2]}" if match else f"  {part.strip()}")
    return [*lines[:start], ".. rubric:: Parameters", "", *items, *lines[end:]]


def _escaped(line: str) -> str:
    """Bars outside of backticks, |x|, are text."""
    parts = line.split("`")
    parts[::2] = [part.replace("|", "\\|") for part in parts[::2]]
    return "`".join(parts)


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", mend)
    autosummary.WELL_KNOWN_ABBREVIATIONS += ("Eq.",)  # "(paper, Eq. 5)" does not end a sentence
    return {"parallel_read_safe": True}
