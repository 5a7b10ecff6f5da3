"""Where a table lies: the one place that turns what the user gave (path, URI, object) into what the readers take."""

from __future__ import annotations

from typing import Any

from tuplet.io.remote import is_remote, local_path
from tuplet.io.sources import is_source, open_source


def located(given: Any, **limits: int) -> Any:
    """A database's table as an Arrow stream, an object store's file as its local copy, all else as it is.

    `limits` are those of `open_source`.

    >>> located("edges.csv"), located(None)
    ('edges.csv', None)
    """
    if is_source(given):
        return open_source(given, **limits)
    if isinstance(given, list | tuple) and any(is_remote(item) for item in given):
        return [local_path(item) for item in given]
    return local_path(given)
