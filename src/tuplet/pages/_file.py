"""The report as one HTML file: arrays as compressed binary in base64, the rest as JSON; written and read back.

Nothing from the data becomes HTML here: names stand in JSON (with < as \\u003c) and the page writes them as text.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError, check_out_path
from tuplet._files import DAMAGE, new_file

_STATIC = files("tuplet.pages") / "static"
_FACTS = re.compile(r'<script type="application/json" id="facts">(.*?)</script>', re.S)
_ARRAYS = re.compile(r'<script type="text/plain" id="arrays">(.*?)</script>', re.S)


def check_page_path(path: Any) -> Path:
    """`path` as a Path that ends in .html and can be written; call it before any work."""
    target = check_out_path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"A report is an HTML page, but {target.name} does not end in .html. Write -o report.html.")
    if target.is_dir():
        raise InputError(f"{target} is a folder. Give the name of a file, for example {target / 'report.html'}.")
    return target


def write_page(target: Path, facts: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Path:
    """Write the page whole or not at all; `facts` is plain JSON, `arrays` little-endian number arrays."""
    parts, blob, at = {}, bytearray(), 0
    for name, array in arrays.items():
        raw = np.ascontiguousarray(array).tobytes()
        parts[name] = {"type": array.dtype.name, "at": at, "length": int(array.size)}
        blob += raw + bytes(-len(raw) % 8)  # each part starts where a typed array may
        at = len(blob)
    text = json.dumps(facts | {"arrays": parts}, allow_nan=False, ensure_ascii=True, default=str)
    packed = base64.b64encode(gzip.compress(bytes(blob), compresslevel=6, mtime=0)).decode()
    fill = {
        "TITLE": _as_html(facts["title"]),
        "STYLE": _static("page.css"),
        "FACTS": text.replace("<", "\\u003c"),
        "ARRAYS": packed,
        "SCATTERPLOT": _static("scatterplot.min.js").replace("</script", "<\\/script"),
        "SCRIPT": "\n".join(_static(name) for name in ("data.js", "map.js", "panels.js")),
    }
    page = re.sub(r"\{\{(\w+)\}\}", lambda found: fill[found[1]], _static("page.html"))
    with new_file(target) as partial:
        partial.write_text(page, encoding="utf-8")
    return target


def read_page(path: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The facts and arrays of a report that `write_page` wrote."""
    source = Path(path)
    if not source.is_file():
        raise InputError(f"There is no file {source}. Check the path.")
    try:
        page = source.read_text(encoding="utf-8")
        found, packed = _FACTS.search(page), _ARRAYS.search(page)
        if found is None or packed is None:
            raise ValueError("it has no data of tuplet in it")
        facts = json.loads(found[1])
        blob = gzip.decompress(base64.b64decode(packed[1]))
        arrays = {
            name: np.frombuffer(blob, np.dtype(part["type"]), part["length"], part["at"])
            for name, part in facts["arrays"].items()
        }
    except DAMAGE as error:
        raise InputError(f"{source} is not a report of tuplet ({error}). Give the page of an earlier run.") from None
    return facts, arrays


def _static(name: str) -> str:
    return (_STATIC / name).read_text(encoding="utf-8")


def _as_html(text: str) -> str:
    from html import escape

    return escape(text)
