"""The report as one HTML file: arrays as compressed binary in base64, the rest as JSON; written and read back.

Nothing from the data becomes HTML here: names stand in JSON (with < as \\u003c) and the page writes them as text.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError, check_out_path
from tuplet._files import DAMAGE, new_file

_STATIC = files("tuplet.pages") / "static"
_FACTS = r'<script type="application/json" id="facts">(.*?)</script>'
_PART = r'<script type="text/plain" id="{}">(.*?)</script>'
_FIRST = ("xy", "cluster")  # what the map is drawn from; the browser reads all else while it draws
_LISTS = ("ids", "features", "feature_names")  # facts with an entry a node or a column: packed as the arrays are


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
    lists = _json({name: facts[name] for name in _LISTS}).encode()
    arrays = arrays | {"lists": np.frombuffer(lists, np.uint8)}
    first, where_first = _packed({name: arrays[name] for name in _FIRST})
    rest, where_rest = _packed({name: array for name, array in arrays.items() if name not in _FIRST})
    head = {name: fact for name, fact in facts.items() if name not in _LISTS}
    text = _json(head | {"arrays": {"first": where_first, "rest": where_rest}})
    fill = {
        "TITLE": escape(facts["title"]),
        "STYLE": _static("page.css"),
        "FACTS": text.replace("<", "\\u003c"),
        "FIRST": first,
        "REST": rest,
        "SCATTERPLOT": _static("scatterplot.min.js").replace("</script", "<\\/script"),
        "SCRIPT": "\n".join(_static(name) for name in ("data.js", "map.js", "panels.js")),
    }
    page = re.sub(r"\{\{(\w+)\}\}", lambda found: fill[found[1]], _static("page.html"))
    with new_file(target) as partial:
        partial.write_text(page, encoding="utf-8")
    return target


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=True, default=str)


def _packed(arrays: dict[str, NDArray[Any]]) -> tuple[str, dict[str, Any]]:
    """`arrays` as one text, and where each of them stands in its bytes."""
    parts, blob = {}, bytearray()
    for name, array in arrays.items():
        parts[name] = {"type": array.dtype.name, "at": len(blob), "length": int(array.size)}
        raw = np.ascontiguousarray(array).tobytes()
        blob += raw + bytes(-len(raw) % 8)  # each part starts where a typed array may
    return base64.b64encode(gzip.compress(bytes(blob), compresslevel=6, mtime=0)).decode(), parts


def read_page(path: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The facts and arrays of a report that `write_page` wrote."""
    source = Path(path)
    if not source.is_file():
        raise InputError(f"There is no file {source}. Check the path.")
    try:
        page = source.read_text(encoding="utf-8")
        facts = json.loads(_found(_FACTS, page))
        arrays = {}
        for part in ("first", "rest"):
            blob = gzip.decompress(base64.b64decode(_found(_PART.format(part), page)))
            for name, place in facts["arrays"][part].items():
                arrays[name] = np.frombuffer(blob, np.dtype(place["type"]), place["length"], place["at"])
        return facts | json.loads(arrays["lists"].tobytes()), arrays
    except DAMAGE as error:
        raise InputError(f"{source} is not a report of tuplet ({error}). Give the page of an earlier run.") from None


def _found(pattern: str, page: str) -> str:
    found = re.search(pattern, page, re.S)
    if found is None:
        raise ValueError("it has no data of tuplet in it")
    return found[1]


def _static(name: str) -> str:
    return (_STATIC / name).read_text(encoding="utf-8")
