"""Vectors in real databases: written whole or not at all, found again, refused where they do not fit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests import servers
from tuplet import InputError
from tuplet.cli import app
from tuplet.io import _store_postgres
from tuplet.io.vector_stores import open_store, store_neighbors
from tuplet.io.vectors import read_vectors, write_vectors
from tuplet.rows.neighbors import nearest

STORES = ("lance", "duckdb", "postgresql")
NEEDS = {"lance": "lance", "duckdb": "duckdb", "postgresql": "adbc_driver_postgresql"}


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with servers.postgres() as uri:
        yield uri


@pytest.fixture(params=STORES)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for vectors that is empty yet."""
    pytest.importorskip(NEEDS[request.param], reason="extra [stores] is not installed")
    if request.param == "lance":
        return f"lance:{tmp_path}/my db/papers"
    if request.param == "duckdb":
        return f"{tmp_path}/my vectors.duckdb"
    uri: str = request.getfixturevalue("base")
    return uri.replace("/postgres?", f"/postgres/t{time.time_ns()}?")


def rows(n: int = 200, d: int = 8, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


@pytest.mark.parametrize("kind", ["numbers", "texts"])
def test_vectors_come_back(target: str, kind: str) -> None:
    z, ids = rows(), np.arange(200) * 3
    names = ids if kind == "numbers" else np.array([f"n'{i:03d}" for i in range(200)])
    write_vectors(target, z, names, cluster=np.arange(200) % 4, metadata={"model": "it's"})
    back = read_vectors(target)
    np.testing.assert_array_equal(back.z, z)
    np.testing.assert_array_equal(back.ids, names)
    assert back.cluster is not None and back.cluster.tolist() == (np.arange(200) % 4).tolist()
    assert back.metadata["model"] == "it's"


@pytest.mark.parametrize("method", ["auto", "exact"])
def test_neighbours_are_those_of_the_plain_search(target: str, method: str) -> None:
    z = rows()
    write_vectors(target, z, [f"n{i}" for i in range(200)])
    index, cosines = nearest(z, z[[3, 50]], 6)
    found = store_neighbors(target, ["n3", "n50"], 5, method=method)
    for name, near, similar in zip(("n3", "n50"), index, cosines):
        assert [i for i, _ in found[name]] == [f"n{j}" for j in near[1:]]
        np.testing.assert_allclose([c for _, c in found[name]], similar[1:], atol=1e-5)


def test_other_widths_twice_the_same_id_and_unknown_ids_are_refused(target: str) -> None:
    write_vectors(target, rows(), np.arange(200))
    with pytest.raises(InputError, match="holds vectors of 8 numbers, these have 5"):
        write_vectors(target, rows(d=5), np.arange(200))
    with pytest.raises(InputError, match="1 ids come twice"):
        write_vectors(target, rows(2), [7, 7])
    with pytest.raises(InputError, match=r"'nobody' is not in the table. Its ids look like: 0, 1, 2"):
        store_neighbors(target, ["nobody"])
    with pytest.raises(InputError, match="float32"):
        write_vectors(target, rows(), np.arange(200), dtype="float16")
    np.testing.assert_array_equal(read_vectors(target).z, rows())


def test_a_second_load(target: str, caplog: pytest.LogCaptureFixture) -> None:
    """PostgreSQL merges by id and says what else is there; the others replace the table, as files are replaced."""
    write_vectors(target, rows(), np.arange(200))
    write_vectors(target, rows(10, seed=1), np.arange(195, 205))
    back = read_vectors(target)
    if target.startswith("postgresql"):
        assert back.ids.tolist() == list(range(205))
        np.testing.assert_array_equal(back.z[:195], rows()[:195])
        np.testing.assert_array_equal(back.z[195:], rows(10, seed=1))
        assert "holds 195 rows of other ids too" in caplog.text
    else:
        np.testing.assert_array_equal(back.z, rows(10, seed=1))


LOAD = """
import sys, numpy as np
from tuplet.io import vector_stores
target, n = sys.argv[1], 400000
z = np.random.default_rng(1).normal(size=(n, 8)).astype(np.float32)
plain = vector_stores._reader

def slow(*given):
    import time, pyarrow as pa
    reader = plain(*given)
    def batches():
        for i, batch in enumerate(reader):
            yield batch
            print("batch", i, flush=True)
            time.sleep(30)
    return pa.RecordBatchReader.from_batches(reader.schema, batches())

vector_stores._reader = slow
vector_stores.BLOCK = 2**20
vector_stores.write_store(target, z, np.arange(n))
"""


def test_a_killed_load_leaves_the_old_table(target: str) -> None:
    write_vectors(target, rows(), np.arange(200))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", LOAD, target], stdout=subprocess.PIPE, text=True, env=env)
    assert process.stdout is not None and process.stdout.readline().startswith("batch 0")
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    back = read_vectors(target)
    np.testing.assert_array_equal(back.z, rows())
    write_vectors(target, rows(seed=2), np.arange(200))
    np.testing.assert_array_equal(read_vectors(target).z, rows(seed=2))


def test_a_place_that_holds_something_else(target: str, base: str, tmp_path: Path) -> None:
    if target.startswith("lance"):
        (tmp_path / "my db").mkdir()
        (tmp_path / "my db" / "papers.lance").mkdir()
        message = "not a readable Lance table"
    elif target.startswith("postgresql"):
        from tests.test_sources import execute

        table = open_store(target).table  # type: ignore[attr-defined]
        execute(base, f"create table {table} (id bigint, name text)")
        message = "has the columns id, name, not `id`"
    else:
        import duckdb

        with duckdb.connect(target) as db:
            db.execute("create table vectors (id bigint, name text)")
        message = "has the columns id, name, not `id`"
    with pytest.raises(InputError, match=message):
        write_vectors(target, rows(), np.arange(200))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("lance:", "names no table"),
        ("lance:/no/such/folder/table", "does not exist"),
        ("postgresql://host/base", "names no table"),
        ("duckdb:?query=select 1", "not a place for vectors"),
        ("/no/such/folder/x.duckdb", "does not exist"),
    ],
)
def test_targets_that_cannot_be_used_are_told_before_the_work(bad: str, message: str) -> None:
    run = CliRunner().invoke(app, ["embed", "cora", "-o", bad, "-q"])
    assert run.exit_code == 1
    with pytest.raises(InputError, match=message):
        write_vectors(bad, rows(), np.arange(200))


def test_absent_tables_suggest_the_nearest(target: str) -> None:
    write_vectors(target, rows(), np.arange(200))
    wrong = target.replace("papers", "paper") if "papers" in target else f"duckdb:{target}?table=vector"
    if target.startswith("postgresql"):
        table = open_store(target).table  # type: ignore[attr-defined]
        wrong = target.replace(table, table + "x")
    with pytest.raises(InputError, match="Did you mean"):
        read_vectors(wrong)


def test_pgvector_has_an_index_and_uses_it(base: str) -> None:
    target = base.replace("/postgres?", "/postgres/indexed?")
    z = rows(3000, 16)
    write_vectors(target, z, np.arange(3000))
    index, _ = nearest(z, z[:50], 11)
    found = store_neighbors(target, [str(i) for i in range(50)], 10, method="hnsw")
    recall = np.mean([len({i for i, _ in found[str(i)]} & set(index[i, 1:])) / 10 for i in range(50)])
    assert recall >= 0.95
    import adbc_driver_postgresql.dbapi as driver

    with driver.connect(base) as connection, connection.cursor() as cursor:
        cursor.execute("select indexdef from pg_indexes where tablename = 'indexed' and indexdef like '%hnsw%'")
        assert "vector_cosine_ops" in cursor.fetchone()[0]


def test_a_large_lance_table_has_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lance", reason="extra [stores] is not installed")
    from tuplet.io import _store_lance

    z, target = rows(3000, 16), f"lance:{tmp_path}/papers"
    write_vectors(target, z, np.arange(3000))
    with pytest.raises(InputError, match="has no index"):
        store_neighbors(target, ["0"], method="hnsw")
    monkeypatch.setattr(_store_lance, "INDEXED_FROM", 1000)
    write_vectors(target, z, np.arange(3000))
    index, _ = nearest(z, z[:50], 11)
    found = store_neighbors(target, [str(i) for i in range(50)], 10, method="hnsw")
    recall = np.mean([len({i for i, _ in found[str(i)]} & set(index[i, 1:])) / 10 for i in range(50)])
    assert recall >= 0.9


def test_vectors_wider_than_the_index_are_kept_without_one(
    base: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_store_postgres, "WIDEST_INDEX", 7)
    target = base.replace("/postgres?", "/postgres/wide?")
    write_vectors(target, rows(), np.arange(200))
    assert "no index" in caplog.text and len(store_neighbors(target, ["0"])["0"]) == 10


def test_wrong_credentials_stop_a_load(base: str) -> None:
    target = base.replace("/postgres?", "/postgres/t?").replace("postgres:@", "nobody:secret@")
    with pytest.raises(InputError, match='role "nobody" does not exist') as caught:
        write_vectors(target, rows(), np.arange(200))
    assert "secret" not in str(caught.value)


def test_the_command_line_writes_and_asks(target: str) -> None:
    made = CliRunner().invoke(app, ["embed", "cora", "--method", "FilterSVD", "-o", target, "-q"])
    assert made.exit_code == 0, made.output
    back = read_vectors(target)
    asked = CliRunner().invoke(app, ["neighbors", target, "--id", str(back.ids[3]), "-k", "4", "--json"])
    assert asked.exit_code == 0, asked.output
    index, _ = nearest(back.z, back.z[3:4], 5)
    assert [row["id"] for row in json.loads(asked.output)[str(back.ids[3])]] == back.ids[index[0, 1:]].tolist()
    graph = CliRunner().invoke(app, ["cluster", target, "--graph", "cora", "-k", "7", "--json", "-q"])
    assert graph.exit_code == 0, graph.output
