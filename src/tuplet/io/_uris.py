"""URIs of tables in databases and names in SQL: taken apart, quoted, and shown without passwords."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from tuplet._check import InputError

POSTGRES = ("postgresql://", "postgres://")
_DUCKDB = re.compile(r"\.(duckdb|ddb)(\?|$)")


@dataclass(frozen=True)
class Question:
    """What a URI asks of the database at `place`: a query, a table, or neither."""

    uri: str
    place: str
    query: str
    table: str

    def only_table(self, known: list[str]) -> str:
        """The table that is meant: the one named, or the only one there is."""
        if not self.table and len(known) == 1:
            return known[0]
        if not self.table:
            raise InputError(f"{shown(self.uri)} does not say which table. Add ?table=NAME or ?query=SELECT; "
                             f"the tables are: {', '.join(known) or 'none'}.")  # fmt: skip
        check_table(self.table, known, shown(self.place))
        return self.table


def check_table(table: str, known: list[str], place: str) -> None:
    """Raise where the database at `place` has no such table."""
    if table not in known:
        raise InputError(f"{place} has no table {table!r}." + nearest_name(table, known, "tables"))


def is_source(given: Any) -> bool:
    """Whether `given` is the URI of a table in a database.

    >>> is_source("duckdb:graph.db?table=edges"), is_source("edges.csv")
    (True, False)
    """
    if not isinstance(given, str):
        return False
    return given.startswith(("duckdb:", *POSTGRES)) or bool(_DUCKDB.search(given) and "://" not in given)


def split_uri(uri: str) -> tuple[str, dict[str, str]]:
    """The place (a file or a libpq URI) and what is asked of it: `query` or `table`; other parameters stay.

    >>> split_uri("duckdb:graph.db?table=edges")
    ('graph.db', {'table': 'edges'})
    """
    if not uri.startswith(POSTGRES):
        path, _, text = uri.removeprefix("duckdb:").partition("?")
        asked = _parameters(text)
        unknown = set(asked) - {"query", "table"}
        if unknown:
            raise InputError(f"{uri} says {sorted(unknown)[0]}=. Known are table= and query=.")
        return path, asked
    parts = urlsplit(uri)
    asked = _parameters(parts.query)
    rest = {name: value for name, value in asked.items() if name not in ("query", "table")}
    place = urlunsplit(parts._replace(query=urlencode(rest, safe="/:")))
    return place, {name: asked[name] for name in ("query", "table") if name in asked}


def _parameters(text: str) -> dict[str, str]:
    """name=value pairs. A query is the rest of the text where it is not percent-encoded: it may hold = and &."""
    head, mark, query = text.partition("query=")
    pairs = dict(parse_qsl(head.rstrip("&")))
    if mark:
        encoded = "%20" in query or ("+" in query and " " not in query)
        pairs |= {"query": query} if not encoded else dict(parse_qsl(mark + query))
    return pairs


def shown(uri: str) -> str:
    """`uri` without its password, for messages.

    >>> shown("postgresql://ann:secret@db/base?table=t")
    'postgresql://ann:***@db/base?table=t'
    """
    return re.sub(r"(://[^:/@?]*):[^@/]*@", r"\1:***@", uri)


def quoted(name: str) -> str:
    """A table name for SQL: schema.table or table, each part in quotes."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def quoted_column(name: str) -> str:
    """A column name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def nearest_name(wanted: str, known: list[str], what: str) -> str:
    """The end of a message about an absent name: the nearest, and those that there are."""
    near = difflib.get_close_matches(wanted, known, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"{hint} Its {what} are: {', '.join(known) or 'none'}."


def first_line(error: BaseException) -> str:
    """What an error says, on one line and without passwords."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    hints = [line for line in lines[1:] if line.startswith(("HINT", "Candidate", "Did you mean"))]
    return shown(unquote(" ".join([text, *hints[:1]])))
