"""Long names in code may break after an underscore: a table column of them leaves the others room."""

from __future__ import annotations

import re
from typing import Any

NAME = re.compile(r'<span class="pre">([\w./:\[\]-]{36,})</span>')


def breakable(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    if "body" in context:
        context["body"] = NAME.sub(lambda found: re.sub(r"(_+|::)", r"\1<wbr>", found[0]), context["body"])


def setup(app: Any) -> dict[str, bool]:
    app.connect("html-page-context", breakable)
    return {"parallel_read_safe": True}
