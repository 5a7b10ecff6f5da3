"""Three real mixed tables with edges, from what this machine's package managers know. Debian and pip are needed.

    python scripts/make_tables.py FOLDER [debian] [installed] [pypi]

debian     packages of the archive (apt-cache dumpavail): class = Section, edges = Depends and Recommends
installed  packages on this machine (dpkg status and changelogs): class = Section, edges = Depends and Recommends
pypi       Python projects that well-known ones need, from pip's index: class = first topic, edges = Requires-Dist

Each becomes NAME.nodes.parquet (id first, then the columns as they came, gaps and all, `label` last) and
NAME.edges.parquet. They hold metadata only: names, sizes, dates, one-line descriptions, tags.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from email.parser import HeaderParser
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pyarrow as pa
from pyarrow import parquet as pq

Row = dict[str, Any]
SECTIONS = ("games", "math", "electronics", "sound", "mail", "editors", "graphics", "science")

# Projects to start from, besides those that Debian packages.
STARTS = (
    "sphinx", "pytest", "django", "flask", "pandas", "jupyter", "ipython", "scikit-learn", "matplotlib",
    "sqlalchemy", "celery", "tornado", "twisted", "boto3", "ansible", "black", "mypy", "nltk", "pillow",
    "rich", "requests", "aiohttp", "scrapy", "dask", "xarray", "sympy", "statsmodels", "networkx", "bokeh",
    "plotly", "astropy", "biopython", "geopandas", "airflow", "mkdocs", "pelican", "salt", "buildbot",
    "pyramid", "zope", "plone", "gunicorn", "paramiko", "cryptography", "poetry", "hatch", "tox", "nox",
    "pylint", "flake8", "pygame", "moviepy", "librosa", "music21", "opencv-python", "spacy", "gensim",
    "transformers", "fastapi", "starlette", "sanic", "bottle", "kivy", "pyqtgraph", "obspy", "sunpy", "yt",
    "nibabel", "dipy", "mne", "pysam", "qutip", "pymatgen", "ase", "openpyxl", "reportlab", "weasyprint",
    "docutils", "nikola", "lektor", "trac", "mercurial", "duplicity", "borgbackup", "certbot", "mitmproxy",
    "scapy",
)  # fmt: skip


def stanzas(text: str) -> list[dict[str, str]]:
    """Debian control paragraphs as dicts."""
    out = []
    for block in text.split("\n\n"):
        fields: dict[str, str] = {}
        last = ""
        for line in block.split("\n"):
            if line[:1] in (" ", "\t") and fields:
                fields[last] += "\n" + line[1:]
            elif ":" in line:
                last, value = line.split(":", 1)
                fields[last] = value.strip()
        if "Package" in fields:
            out.append(fields)
    return out


def depends(fields: dict[str, str]) -> set[str]:
    """Names in Depends and Recommends, first alternatives only."""
    text = ",".join(fields.get(key, "") for key in ("Depends", "Pre-Depends", "Recommends"))
    return {re.split(r"[ (|:]", part.strip(), maxsplit=1)[0] for part in text.split(",") if part.strip()}


def whole(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def date_in(version: str) -> date | None:
    """A date inside a version such as 1.2+git20210131-1."""
    found = re.search(r"(?<!\d)(19[89]\d|20[0-2]\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?!\d)", version)
    try:
        return date(*map(int, found.groups())) if found else None
    except ValueError:
        return None


def debian_row(p: dict[str, str]) -> Row:
    tags = p.get("Tag", "").replace("\n", " ")
    return {
        "id": p["Package"],
        "summary": p.get("Description", "").split("\n")[0],
        "tags": [tag.strip() for tag in tags.split(",") if tag.strip()] or None,
        "installed_size": whole(p.get("Installed-Size")),
        "size": whole(p.get("Size")),
        "priority": p.get("Priority"),
        "architecture": p.get("Architecture"),
        "multi_arch": p.get("Multi-Arch"),
        "maintainer": re.sub(r"\s*<.*", "", p.get("Maintainer", "")),
        "homepage_host": host(p.get("Homepage")),
        "version_date": date_in(p.get("Version", "")),
        "label": p.get("Section"),
    }


def host(url: str | None) -> str | None:
    found = re.match(r"https?://([^/]+)", url or "")
    return found.group(1).lower() if found else None


def debian() -> tuple[list[Row], list[tuple[str, str]]]:
    """Packages of eight sections that a name in the table depends on or that depend on one."""
    packages = stanzas(subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout)
    packages = [p for p in {p["Package"]: p for p in packages}.values() if p.get("Section") in SECTIONS]
    return [debian_row(p) for p in packages], [(p["Package"], d) for p in packages for d in sorted(depends(p))]


def changelog(package: str) -> tuple[datetime | None, datetime | None, int | None]:
    """First and last date, and number of entries, of an installed package's Debian changelog."""
    for name in ("changelog.Debian.gz", "changelog.gz"):
        path = Path("/usr/share/doc", package, name)
        if path.is_file():
            lines = gzip.decompress(path.read_bytes()).decode("utf-8", "replace").splitlines()
            found = [day for day in (signed(line) for line in lines if line.startswith(" -- ")) if day]
            if found:
                return min(found), max(found), len(found)
    return None, None, None


def signed(line: str) -> datetime | None:
    try:
        return parsedate_to_datetime(line.split("  ")[-1].strip()).replace(tzinfo=None)
    except (ValueError, TypeError):
        return None


def installed() -> tuple[list[Row], list[tuple[str, str]]]:
    """Packages on this machine, with the dates of their changelogs."""
    packages = stanzas(Path("/var/lib/dpkg/status").read_text("utf-8", "replace"))
    rows = []
    for p in packages:
        row = debian_row(p)
        label, text = row.pop("label"), p.get("Description", "")
        first, last, entries = changelog(p["Package"])
        row |= {
            "description": text.replace("\n", " "),
            "first_change": first,
            "last_change": last and str(last.date()),
        }
        row |= {"changes": entries, "conffiles": p.get("Conffiles", "").count("\n"), "essential": "Essential" in p}
        for empty in ("tags", "summary", "size"):
            row.pop(empty)
        rows.append(row | {"label": label})
    return rows, [(p["Package"], d) for p in packages for d in sorted(depends(p))]


class Index:
    """Pages of the index that pip is set up with."""

    def __init__(self) -> None:
        from pip._internal.commands import create_command

        command: Any = create_command("download")
        options, _ = command.parse_args(["x"])
        self.session, self.base = command._build_session(options), options.index_url.rstrip("/")

    def project(self, name: str) -> Row | None:
        """What the index knows of a project and its newest wheel, or None."""
        address = f"{self.base}/{name}/"
        page = self.session.get(address, headers={"Accept": "application/vnd.pypi.simple.v1+json"})
        links = re.findall(r"<a ([^>]*)>([^<]*)</a>", page.text) if page.ok else []
        times = sorted(re.findall(r'data-upload-time="([^"]*)"', page.text))
        for attributes, _ in sorted((link for link in links if link[1].endswith(".whl")), key=newest)[:12]:
            target = re.search(r'href="([^"#]*)', attributes)
            meta = self.session.get(urljoin(address, target.group(1)) + ".metadata") if target else None
            if meta is not None and meta.ok:  # some files have none
                return {"links": len(links), "times": times, "text": meta.text}
        return None


def newest(link: tuple[str, str]) -> tuple[bool, str]:
    """Sorts wheels for any machine first, then by falling upload time."""
    found = re.search(r'data-upload-time="([^"]*)"', link[0])
    digits = (found.group(1) if found else "")[:19].translate(str.maketrans("0123456789", "9876543210"))
    return not link[1].endswith("none-any.whl"), digits


def pypi_row(name: str, found: Row) -> tuple[Row, set[str]]:
    meta = HeaderParser().parsestr(found["text"])
    labels = [c.split(" :: ") for c in meta.get_all("Classifier", [])]
    of = lambda kind: [c[1] for c in labels if c[0] == kind and len(c) > 1]  # noqa: E731
    licence = meta.get("License-Expression") or next((c[-1] for c in labels if c[0] == "License"), None)
    times, body = found["times"], meta.get_payload() or ""
    needs = [re.match(r"[\w.-]+", need) for need in meta.get_all("Requires-Dist", [])]
    row = {
        "id": name,
        "summary": meta.get("Summary"),
        "keywords": [w.strip().lower() for w in re.split(r"[,\s]+", meta.get("Keywords") or "") if w.strip()] or None,
        "files": found["links"],
        "readme_length": len(str(body)) or None,
        "licence": licence or None,
        "status": next(iter(of("Development Status")), None),
        "audience": ", ".join(sorted(set(of("Intended Audience")))) or None,
        "requires_python": meta.get("Requires-Python"),
        "author": meta.get("Author") or meta.get("Author-email"),
        "typed": any(c[0] == "Typing" for c in labels),
        "first_upload": datetime.fromisoformat(times[0]).replace(tzinfo=None) if times else None,
        "last_upload": times[-1][:10] if times else None,
        "label": next(iter(of("Topic")), None),
    }
    return row, {normal(need.group()) for need in needs if need}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pypi(most: int = 7000) -> tuple[list[Row], list[tuple[str, str]]]:
    """Projects in STARTS and those named like Debian's python3-* packages, then what they need; extras count."""
    names = subprocess.run(["apt-cache", "pkgnames", "python3-"], capture_output=True, text=True, check=True).stdout
    known = {normal(name.removeprefix("python3-")) for name in names.split() if not name.endswith(("-doc", "-dbg"))}
    index, wave = Index(), sorted({*STARTS, *known})
    rows: dict[str, tuple[Row, set[str]]] = {}
    asked = set(wave)
    while wave:
        with ThreadPoolExecutor(8) as pool:
            found = dict(zip(wave, pool.map(index.project, wave)))
        rows |= {name: pypi_row(name, page) for name, page in found.items() if page}
        wave = sorted({need for _, needs in rows.values() for need in needs} - asked)[: max(0, most - len(asked))]
        asked.update(wave)
        print(f"{len(rows)} of {len(asked)} projects have metadata", flush=True)
    edges = [(name, need) for name, (_, needs) in rows.items() for need in sorted(needs)]
    return [row for row, _ in rows.values()], edges


def write(folder: Path, name: str, rows: list[Row], edges: list[tuple[str, str]], least: int) -> None:
    """Keep classes of `least` rows and more, and the nodes with an edge among those; both tables to `folder`."""
    while True:
        sizes = Counter(row["label"] for row in rows if row["label"])
        kept = {row["id"] for row in rows if sizes.get(row["label"], 0) >= least}
        edges = [(u, v) for u, v in edges if u in kept and v in kept and u != v]
        ends = {end for edge in edges for end in edge}
        if len(ends) == len(rows):
            break
        rows = [row for row in rows if row["id"] in ends]
    rows = sorted(rows, key=lambda row: hashlib.sha256(row["id"].encode()).digest())
    nodes, pairs = (
        pa.Table.from_pylist(rows),
        pa.table({"source": [u for u, _ in edges], "target": [v for _, v in edges]}),
    )
    for kind, table in (("nodes", nodes), ("edges", pairs)):
        pq.write_table(table, folder / f"{name}.{kind}.parquet", compression="zstd", compression_level=19)
    print(f"{name}: {len(rows)} nodes, {len(edges)} edges, classes {dict(Counter(row['label'] for row in rows))}")


def main() -> None:
    folder, *names = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, make, least in (("debian", debian, 60), ("installed", installed, 15), ("pypi", pypi, 30)):
        if not names or name in names:
            write(Path(folder), name, *make(), least)


if __name__ == "__main__":
    main()
