"""URIs of object stores -> filesystems: s3://, gs://, abfs:// by pyarrow, az:// and any other by fsspec."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from tuplet._check import InputError
from tuplet.io._uris import shown

CHECK = "Check bucket, region, network and credentials."
PATIENCE = 30  # seconds that Google's client may try again
_SCHEME = re.compile(r"^([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_DATABASES = ("postgresql", "postgres", "duckdb")


def is_remote(given: Any) -> bool:
    """Whether `given` is a URI of an object store.

    >>> is_remote("s3://bucket/edges.parquet"), is_remote("edges.parquet"), is_remote("postgresql://host/base")
    (True, False, False)
    """
    scheme = _SCHEME.match(given) if isinstance(given, str) else None
    return scheme is not None and scheme[1].lower() not in _DATABASES


def filesystem(uri: str) -> tuple[Any, str]:
    """The pyarrow filesystem of `uri`, and the path in it."""
    import pyarrow as pa
    from pyarrow import fs

    uri = _SCHEME.sub(lambda match: match[0].lower(), uri)
    try:
        found: tuple[Any, str] = fs.FileSystem.from_uri(quote(_patient(uri), safe="/:?=&%@+*,;~!$'()"))
        return found
    except pa.ArrowInvalid as error:
        if "Unrecognized filesystem" not in str(error):
            raise InputError(f"{shown(uri)} is not a usable URI ({error}).") from None
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{shown(uri)} cannot be opened ({said(error)}). {CHECK}") from None
    try:
        import fsspec

        other, path = fsspec.core.url_to_fs(uri)
    except (ImportError, ValueError, OSError) as error:
        raise InputError(
            f"{shown(uri)} cannot be opened ({error}). s3://, gs:// and abfs:// need nothing more; others need "
            "their fsspec package, such as adlfs for az://."
        ) from None
    return fs.PyFileSystem(fs.FSSpecHandler(other)), path


def _patient(uri: str) -> str:
    """`uri` with a limit to how long Google's client tries again; its own is a quarter of an hour without a word."""
    if not uri.startswith(("gs://", "gcs://")) or "retry_limit_seconds=" in uri:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}retry_limit_seconds={PATIENCE}"


def said(error: Exception) -> str:
    """What a store said, cut where it goes on for long."""
    text = " ".join(str(error).split())
    return text if len(text) <= 300 else f"{text[:300]} .."


def failures() -> tuple[type[Exception], ...]:
    """What pyarrow's filesystems raise where a store cannot be used."""
    import pyarrow as pa

    return OSError, pa.ArrowException
