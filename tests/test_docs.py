"""Every code block of README and the docs runs as printed, or says on the page that it does not.

Blocks of a page run one after the other, in one namespace and one folder, which holds `edges.csv`, `nodes.csv` and
the like. A block that cannot run here is a {code-block} whose caption begins with "Not run". `text`, `toml`, `json`
and the like are output and files, not code.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from tests.conftest import Run

ROOT = Path(__file__).parents[1]
SHOWN = {"text", "toml", "json", "output", "bibtex", "sql", ""}
ELSEWHERE = {"first-graph": "tests/test_cli_docs.py"}  # pages whose blocks another test runs
SLOW = {"evaluation", "scikit-learn", "report", "baselines", "README", "index", "links", "few-labels", "theory"}
FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=fence)\s*$", re.M | re.S)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GENERATED = {"commands", "results"}


def blocks_of(page: Path) -> list[tuple[str, str]]:
    """(language, text) of each fenced block that is code; "Not run" ones and directives are left out."""
    found, page_text = [], page.read_text()
    for match in FENCE.finditer(page_text):
        language, body = match["info"].strip(), match["body"]
        if re.search(r"<!-- runs: \w+ -->\n$", page_text[: match.start()]):  # tests/test_sources.py and the like
            continue
        if language.startswith("{"):
            if not language.startswith("{code-block}") or body.startswith(":caption: Not run in our tests"):
                continue
            language = language.split()[-1]
        found.append((language, body))
    return found


def commands_of(body: str) -> list[str]:
    """The lines of a console block that are typed, without the prompt and without comments."""
    joined = body.replace("\\\n", " ")
    return [line[2:].split("  #")[0].strip() for line in joined.splitlines() if line.startswith("$ ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_every_block_is_code_that_runs_or_is_marked(page: Path) -> None:
    for language, body in blocks_of(page):
        assert language in {"python", "console", *SHOWN}, f"{page.name}: a block of {language!r} that nobody runs"
        if language == "console":
            assert commands_of(body), f"{page.name}: a console block without a command:\n{body}"


RUN = [
    p
    for p in PAGES
    if p.stem not in GENERATED | ELSEWHERE.keys() and {"python", "console"} & dict(blocks_of(p)).keys()
]


@pytest.mark.parametrize(
    "page", [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] if p.stem in SLOW else []) for p in RUN]
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*liblinear.*", "ignore::FutureWarning")
def test_the_blocks_of_the_page_run(page: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {"__name__": "__main__"}
    for language, body in blocks_of(page):
        if language == "python":
            exec(compile(body, f"{page.name}: {body.splitlines()[0]}", "exec"), space)
        elif language == "console":
            for command in commands_of(body):
                check_command(command, run)


def check_command(command: str, run: Run) -> None:
    """`tuplet ..` runs; of `make`, `pip` and `python` what they name must exist."""
    words = shlex.split(command)
    if words[0] == "tuplet" and words[1:2] != ["demo"]:  # tests/test_cli.py runs the demo
        code, out, err = run(*words[1:])
        assert code == 0, (command, out, err)
    elif words[0] == "make":
        assert all(re.search(rf"^{word}:", (ROOT / "Makefile").read_text(), re.M) for word in words[1:]), command
    elif words[0] == "pip":
        extras = re.findall(r"\[(.*?)\]", command)
        known = (ROOT / "pyproject.toml").read_text()
        assert all(f"\n{e} = [" in known for group in extras for e in group.split(",")), command
    elif words[0] == "python":
        assert (ROOT / words[1]).is_file(), command
    else:
        assert words[0] in {"tuplet", "git", "cd"}, f"nobody runs this command: {command}"


def write_files(folder: Path) -> None:
    """The small files that the pages speak of: 60 nodes in three groups, named, with a topic for every second one."""
    rng = np.random.default_rng(0)
    group = np.arange(60) % 3
    ids = [f"n{i:02d}" for i in range(60)]
    words = ["tent boots stove", "oven flour butter", "paint canvas frame"]
    nodes = pa.table(
        {
            "id": ids,
            "size": rng.normal(group, 0.3),
            "year": (1990 + rng.integers(30, size=60)).tolist(),
            "note": [" ".join(rng.permutation(words[g].split())) for g in group],
            "topic": [["hike", "bake", "paint"][g] if i % 2 == 0 else None for i, g in enumerate(group)],
        }
    )
    ends = [(i, int(j)) for i in range(60) for j in rng.choice(np.flatnonzero(group == group[i]), 4, replace=False)]
    edges = pa.table({"source": [ids[i] for i, _ in ends], "target": [ids[j] for _, j in ends]})
    for name, table in (("nodes", nodes), ("edges", edges)):
        pyarrow.csv.write_csv(table, folder / f"{name}.csv")
        pyarrow.parquet.write_table(table, folder / f"{name}.parquet")
    (folder / "edges").mkdir()
    for part in range(2):
        pyarrow.parquet.write_table(edges.slice(part * 120, 120), folder / "edges" / f"{part}.parquet")
    (folder / "graph.toml").write_text('edges = "edges.csv"\nfeatures = "nodes.csv"\nlabel = "topic"\n')


def test_readme_is_short_and_its_links_exist() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 120
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (ROOT / link).exists(), link


def test_every_page_stands_in_the_contents() -> None:
    listed = set(re.findall(r"^([\w/.-]+)$", (ROOT / "docs" / "index.md").read_text(), re.M))
    pages = {p.stem for p in (ROOT / "docs").glob("*.md")} - {"index"}
    assert pages <= listed, sorted(pages - listed)


LESSONS = {"tutorials": "tutorials", "gallery": "examples"}  # made of scripts when the site is built
MADE = {"commands"} | {
    f"{pages}/{name}"
    for pages, scripts in LESSONS.items()
    for name in ("index", *(p.stem for p in (ROOT / scripts).glob("*.py")))
}
OPTIONS = re.compile(r"^:{3,}\{[^}]*\}[^\n]*\n((?::[\w-]+:[^\n]*\n)*)", re.M)


def broken_links(text: str, pages: set[str]) -> list[str]:
    """Links of cards and relative links of the text that lead to no page; Sphinx does not tell of cards."""
    broken = []
    for block in OPTIONS.findall(text):
        given = dict(re.findall(r"^:([\w-]+):[ ]*(.*)$", block, re.M))
        link, kind = given.get("link"), given.get("link-type", "url")
        if link and (link not in pages if kind == "doc" else not link.startswith("https://")):
            broken.append(f"{link} ({kind})")
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)\s#]+)", FENCE.sub("", text))
    links += [name.removesuffix(".html") + ".md" for name in re.findall(r"^:target: (.*)$", text, re.M)]
    return broken + [link for link in links if link.removesuffix(".md") not in pages and not _is_file(link)]


def _is_file(link: str) -> bool:
    return (ROOT / "docs" / link).exists()


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda p: p.stem)
def test_links_of_cards_and_pages_lead_somewhere(page: Path) -> None:
    pages = {p.stem for p in (ROOT / "docs").glob("*.*")} | MADE
    assert broken_links(page.read_text(), pages) == []


@pytest.mark.parametrize(
    ("card", "told"),
    [
        (":link: method\n:link-type: doc\n", []),
        (":link: method\n", ["method (url)"]),
        (":link: mehtod\n:link-type: doc\n", ["mehtod (doc)"]),
        (":link: https://example.org\n", []),
    ],
)
def test_a_card_without_its_kind_of_link_is_noticed(card: str, told: list[str]) -> None:
    assert broken_links(f":::{{grid-item-card}} Title\n{card}Text.\n:::\n", {"method"}) == told


def test_every_public_name_is_in_the_reference() -> None:
    listed = (ROOT / "docs" / "api.rst").read_text()
    names = (ROOT / "tests" / "public_api.txt").read_text().split()
    assert [n for n in names if not re.search(rf"^   (tuplet\.)?([\w.]+\.)?{n}$", listed, re.M)] == []


def test_one_version_everywhere() -> None:
    import tomllib

    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"version: {version}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()
