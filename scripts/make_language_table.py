"""A real mixed table with edges: Debian packages and the language that they are written in. apt is needed.

    python scripts/make_language_table.py FOLDER

Packages of the archive (apt-cache dumpavail) outside the sections of the table `debian`, with one tag
implemented-in::.., which is the class; of classes with over MOST packages, those of the lowest hash. Tags that name
the language are taken out, and so is the section, which does as well. Edges: Depends and Recommends, and pairs that
need the same package, where 2 to SHARED of the table do. Files as in scripts/make_tables.py.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections import defaultdict
from itertools import combinations
from pathlib import Path

from make_tables import SECTIONS, Row, debian_row, depends, stanzas, write

LANGUAGE = "implemented-in::"
TELLING = (LANGUAGE, "devel::lang:", "devel::interpreter", "made-of::")  # beginnings of tags that name the class
MOST = 500
SHARED = 12


def packages() -> list[dict[str, str]]:
    found = stanzas(subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout)
    return [p for p in {p["Package"]: p for p in found}.values() if p.get("Section") not in SECTIONS]


def language(row: Row) -> str | None:
    """The one language of the tags, or None."""
    named = [tag.removeprefix(LANGUAGE) for tag in row["tags"] or () if tag.startswith(LANGUAGE)]
    return named[0] if len(named) == 1 and named[0] != "TODO" else None


def language_row(package: dict[str, str]) -> Row:
    row = debian_row(package)
    tags = [tag for tag in row["tags"] or () if not tag.startswith(TELLING)]
    return row | {"tags": tags or None, "label": language(row)}


def largest(rows: list[Row]) -> list[Row]:
    """At most MOST rows a class."""
    classes: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: hashlib.sha256(row["id"].encode()).digest()):
        classes[row["label"]].append(row)
    return [row for name in sorted(classes) for row in classes[name][:MOST]]


def edges(needs: dict[str, set[str]]) -> list[tuple[str, str]]:
    users = defaultdict(list)
    for name in sorted(needs):
        for need in needs[name]:
            users[need].append(name)
    shared = {pair for names in users.values() if len(names) <= SHARED for pair in combinations(names, 2)}
    return sorted(shared | {(name, need) for name, wanted in needs.items() for need in wanted})


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    found = packages()
    rows = largest([row for row in map(language_row, found) if row["label"]])
    kept = {row["id"] for row in rows}
    write(folder, "languages", rows, edges({p["Package"]: depends(p) for p in found if p["Package"] in kept}), 60)


if __name__ == "__main__":
    main()
