"""The commands in the pages on stores, run as they stand, against the real servers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from tests import servers
from tests.test_sources import EDGES, NODES, execute

DOCS = Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"<!-- runs: (\w+) -->\n```console\n(.*?)```", re.DOTALL)
CASES = [
    pytest.param(page.stem, kind, text, id=f"{page.stem}-{kind}")
    for page in sorted(DOCS.glob("*.md"))
    for kind, text in BLOCK.findall(page.read_text())
]


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """A server with edges and people, under a URI without parameters."""
    with servers.postgres() as uri:
        execute(
            uri,
            "create table edges (source text, target text)",
            "insert into edges values " + ", ".join(f"('{u}', '{v}')" for u, v in EDGES),
            "create table people (id text, age real)",
            "insert into people values " + ", ".join(f"('{i}', {a})" for i, a in zip(NODES["id"], NODES["age"])),
        )
        folder = urlsplit(uri).query.removeprefix("host=")
        yield f"postgresql://postgres@{quote(folder, safe='')}/postgres"


def prepare_duckdb(folder: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="extra [stores] is not installed")
    with duckdb.connect(str(folder / "graph.duckdb")) as db:
        db.execute("create table edges (source varchar, target varchar)")
        db.executemany("insert into edges values (?, ?)", EDGES)
        db.execute("create table people (id varchar, age double, size double)")
        db.executemany(
            "insert into people values (?, ?, ?)", [(i, a, a % 7) for i, a in zip(NODES["id"], NODES["age"])]
        )
        (folder / "parts").mkdir()
        db.execute(f"copy edges to '{folder}/parts/one.parquet'")


def prepare_s3(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    from tuplet.io import remote

    settings = {**servers.AWS, "AWS_ENDPOINT_URL": address, "TUPLET_CACHE": str(tmp_path / "cache")}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    bucket = f"b{time.time_ns()}"
    remote.filesystem(f"s3://{bucket}?allow_bucket_creation=true")[0].create_dir(bucket)
    with remote.uploaded(f"s3://{bucket}/edges/a.csv") as path:
        path.write_text("source,target\n" + "".join(f"{u},{v}\n" for u, v in EDGES))
    with remote.uploaded(f"s3://{bucket}/people.csv") as path:
        path.write_text("id,age,size\n" + "".join(f"{i},{a},{a % 7}\n" for i, a in zip(NODES["id"], NODES["age"])))
    return {**settings, "BUCKET": f"s3://{bucket}"}


@pytest.mark.slow
@pytest.mark.parametrize(("page", "kind", "text"), CASES)
def test_the_commands_of_a_page_run(
    page: str, kind: str, text: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra: dict[str, str] = {}
    if kind == "duckdb":
        prepare_duckdb(tmp_path)
    elif kind == "lance":
        pytest.importorskip("lance", reason="extra [stores] is not installed")
    elif kind == "postgresql":
        extra = {"BASE": request.getfixturevalue("base")}
    else:
        extra = prepare_s3(request.getfixturevalue("s3_address"), tmp_path, monkeypatch)
    env = {**os.environ, **extra, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "ignore"}
    for line in text.splitlines():
        command = line.removeprefix("$ ").replace("tuplet ", f"{sys.executable} -m tuplet.cli ", 1)
        run = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert run.returncode == 0, f"{line}\n{run.stdout}{run.stderr}"
