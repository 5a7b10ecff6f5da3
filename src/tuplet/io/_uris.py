"""URIs of tables in databases and names in SQL: taken apart, quoted, and shown without passwords."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, unquote_plus

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

    def only_table(self, known: dict[str, str]) -> str:
        """The table that is meant, quoted: the one named, or the only one there is."""
        if not self.table and len(known) == 1:
            return next(iter(known.values()))
        if not self.table:
            raise InputError(f"{shown(self.uri)} does not say which table. Add ?table=NAME or ?query=SELECT; "
                             f"the tables are: {', '.join(known) or 'none'}.")  # fmt: skip
        check_table(self.table, known, shown(self.place))
        return known[self.table]


def named_tables(found: list[tuple[str, str]], default: str) -> dict[str, str]:
    """Tables given as (schema, name): how the user names them (without the default schema) -> quoted for SQL.

    >>> named_tables([("main", "edges"), ("shop", "May.2026")], "main")
    {'edges': '"main"."edges"', 'shop.May.2026': '"shop"."May.2026"'}
    """
    return {
        table if schema == default else f"{schema}.{table}": f"{quoted_name(schema)}.{quoted_name(table)}"
        for schema, table in found
    }


def check_table(table: str, known: dict[str, str], place: str) -> None:
    """Raise where the database at `place` has no such table."""
    if table not in known:
        raise InputError(f"{place} has no table {table!r}." + nearest_name(table, list(known), "tables"))


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

    A query with blanks is the rest of the text, as it is typed; without, it is percent-encoded.

    >>> split_uri("duckdb:graph.db?table=edges")
    ('graph.db', {'table': 'edges'})
    """
    place, _, text = uri.removeprefix("duckdb:").partition("?")
    asked: dict[str, str] = {}
    typed = re.search(r"(?:^|&)query=(.*\s.*)", text, re.DOTALL)
    if typed:
        text, asked["query"] = text[: typed.start()], typed[1]
    rest = []
    for pair in filter(None, text.split("&")):
        name, _, value = pair.partition("=")
        if name in ("query", "table"):
            asked[name] = unquote_plus(value)
        else:
            rest.append(pair)
    if rest and not uri.startswith(POSTGRES):
        raise InputError(f"{uri} says {rest[0].partition('=')[0]}=. Known are table= and query=.")
    return f"{place}?{'&'.join(rest)}" if rest else place, asked


def shown(uri: str) -> str:
    """`uri` without its password, for messages; also one that should have been percent-encoded.

    >>> shown("postgresql://ann:secret@db/base?table=t")
    'postgresql://ann:***@db/base?table=t'
    """
    hidden = re.sub(r"(://[^:/@?]*):[^?\s]*@", r"\1:***@", uri)
    return re.sub(r"([?&](?:ssl)?password=)[^&\s]*", r"\1***", hidden)


def quoted(name: str) -> str:
    """A table name for SQL: schema.table or table, each part in quotes."""
    return ".".join(map(quoted_name, name.split(".")))


def quoted_name(name: str) -> str:
    """One name for SQL, of a column, a table or a schema."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text for SQL."""
    return "'" + text.replace("'", "''") + "'"


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
