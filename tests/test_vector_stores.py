"""Vectors in real databases: written whole or not at all, found again, refused where they do not fit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tests import servers
from tuplet import InputError
from tuplet.cli import app
from tuplet.io import _postgres, _store_postgres, vector_stores
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


@pytest.fixture
def ended_loads(base: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let the server end the connection of the next so many loads, after their first batch."""
    from tests import test_sources

    plain, left = _store_postgres._encoded, [0]
    end = (
        "select pg_terminate_backend(pid) from pg_stat_activity where query like 'COPY%' and pid <> pg_backend_pid()"
    )

    def encoded(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
        rows = plain(reader)

        def batches() -> Iterator[pa.RecordBatch]:
            for i, batch in enumerate(rows):
                yield batch
                if i == 0 and left[0]:
                    left[0] -= 1
                    test_sources.execute(base, end)
                    time.sleep(0.2)

        return pa.RecordBatchReader.from_batches(rows.schema, batches())

    monkeypatch.setattr(_store_postgres, "_encoded", encoded)
    monkeypatch.setattr(_postgres, "PAUSE", 0.01)
    monkeypatch.setattr(vector_stores, "BLOCK", 2**12)
    return lambda times: left.__setitem__(0, times)


@pytest.mark.parametrize("fresh", [True, False])
def test_a_connection_lost_during_a_load_is_made_again(
    base: str, ended_loads: Callable[[int], None], fresh: bool, caplog: pytest.LogCaptureFixture
) -> None:
    target = base.replace("/postgres?", f"/postgres/lost{time.time_ns()}?")
    if not fresh:
        write_vectors(target, rows(2000), np.arange(2000))
    ended_loads(1)
    write_vectors(target, rows(2000, seed=1), np.arange(2000))
    np.testing.assert_array_equal(read_vectors(target).z, rows(2000, seed=1))
    assert caplog.text.count("trying again") == 1


def test_a_server_that_crashes_during_a_load_is_waited_for(
    base: str, ended_loads: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends all connections and recovers; meanwhile it lets nobody in."""
    from tests import test_sources

    target = base.replace("/postgres?", f"/postgres/crash{time.time_ns()}?")
    write_vectors(target, rows(2000), np.arange(2000))
    find = "select pid from pg_stat_activity where query like 'COPY%' and pid <> pg_backend_pid() limit 1"
    monkeypatch.setattr(test_sources, "execute", lambda *_: os.kill(int(fetched(base, find)), signal.SIGKILL))
    ended_loads(1)
    write_vectors(target, rows(2000, seed=1), np.arange(2000))
    np.testing.assert_array_equal(read_vectors(target).z, rows(2000, seed=1))


def test_a_load_that_is_lost_each_time_leaves_the_old_table(base: str, ended_loads: Callable[[int], None]) -> None:
    target = base.replace("/postgres?", "/postgres/lost?")
    ended_loads(3)
    with pytest.raises(InputError, match=r"lost 3 times.*Nothing was written"):
        write_vectors(target, rows(2000), np.arange(2000))
    with pytest.raises(InputError, match="has no table 'lost'"):
        read_vectors(target)
    write_vectors(target, rows(2000), np.arange(2000))
    ended_loads(3)
    with pytest.raises(InputError, match="lost 3 times"):
        write_vectors(target, rows(2000, seed=1), np.arange(2000))
    np.testing.assert_array_equal(read_vectors(target).z, rows(2000))


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


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("postgresql://ann@h:5/base/t", "postgresql://ann@h:5/base"),
        ("postgresql:///base/t?host=/tmp/a", "postgresql:///base?host=/tmp/a"),
        ("postgresql:///base?host=/tmp/a&table=t", "postgresql:///base?host=/tmp/a"),
        ("postgresql://h/my%20base/t?options=-c%20a%3Db", "postgresql://h/my%20base?options=-c%20a%3Db"),
        ("postgresql://?dbname=base&host=h&table=t", "postgresql://?dbname=base&host=h"),
    ],
)
def test_a_table_in_postgresql_is_named_in_several_ways(uri: str, place: str) -> None:
    assert _store_postgres.PostgresStore.at(uri) == _store_postgres.PostgresStore(place, "t")


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


@pytest.fixture(scope="module")
def roles(base: str) -> Iterator[str]:
    """The URI, with ROLE to fill in, of a server that knows `limited` (may read) and `locked` (must say `secret`)."""
    from tests.test_sources import execute

    write_vectors(base.replace("/postgres?", "/postgres/owned?"), rows(), np.arange(200))
    execute(
        base,
        "create schema own",
        "create role limited login",
        "create role locked login password 'secret'",
        "create table loose (id bigint, vector vector(8), cluster bigint)",
        "create table shared (id bigint primary key, vector vector(8), cluster bigint)",
        "create view seen as select * from owned",
        "grant all on loose, shared to limited",
        "grant create on schema public to locked",
        "revoke create on schema public from public",
    )
    hba = Path(fetched(base, "select current_setting('hba_file')"))
    before = hba.read_text()
    hba.write_text("local all locked scram-sha-256\n" + before)
    fetched(base, "select pg_reload_conf()")
    yield base.replace("postgres:@", "ROLE@")
    hba.write_text(before)
    fetched(base, "select pg_reload_conf()")


def fetched(uri: str, query: str) -> str:
    import adbc_driver_postgresql.dbapi as driver

    with driver.connect(uri) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return str(cursor.fetchone()[0])


@pytest.mark.parametrize(
    ("role", "table", "message"),
    [
        ("locked:wrong", "new", "password authentication failed.*Check user and password"),
        ("limited", "new", "permission denied for schema public.*Ask the owner"),
        ("limited", "own.new", "permission denied for schema own"),
        ("limited", "owned", "permission denied for table owned"),
        ("limited", "loose", "no unique.*Make `id` the primary key"),
        ("limited", "shared", "must be owner of table shared.*only its owner may"),
        ("postgres", "absent.new", 'schema "absent" does not exist.*Make the schema first'),
        ("postgres", "seen", '"seen" is not a table'),
    ],
)
def test_what_the_server_refuses_is_told_before_the_work(
    roles: str, role: str, table: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = roles.replace("ROLE", role).replace("/postgres?", f"/postgres/{table}?")
    with pytest.raises(InputError, match=message) as caught:
        write_vectors(target, rows(), np.arange(200))
    assert "wrong" not in str(caught.value) and "\n" not in str(caught.value)
    monkeypatch.setattr("tuplet.cli.embed.load_graph", lambda *_, **__: pytest.fail("the graph was read"))
    run = CliRunner().invoke(app, ["embed", "cora", "--method", "FilterSVD", "-o", target, "-q"])
    assert run.exit_code == 1 and run.output == f"error: {caught.value}\n"


def test_the_right_password_writes_and_reads(roles: str) -> None:
    target = roles.replace("ROLE", "locked:secret").replace("/postgres?", "/postgres/mine?")
    write_vectors(target, rows(), np.arange(200))
    np.testing.assert_array_equal(read_vectors(target).z, rows())


def test_reading_without_the_right_is_refused_in_one_line(roles: str) -> None:
    target = roles.replace("ROLE", "limited").replace("/postgres?", "/postgres/owned?")
    with pytest.raises(InputError, match="permission denied for table owned"):
        read_vectors(target)
    with pytest.raises(InputError, match="permission denied for table owned"):
        store_neighbors(target, ["1"])


@pytest.fixture
def duck(tmp_path: Path) -> Path:
    """A DuckDB file with the schema `own`, a view `seen` and vectors under an odd name."""
    duckdb = pytest.importorskip("duckdb", reason="extra [stores] is not installed")
    path = tmp_path / "v.duckdb"
    write_vectors(f'duckdb:{path}?table=o\'neil "x"', rows(), np.arange(200), metadata={"model": "it's"})
    with duckdb.connect(str(path)) as db:
        db.execute("create schema own; create view seen as select 1 as id, [1.0, 2.0]::float[2] as vector")
    return path


def test_odd_names_in_duckdb(duck: Path) -> None:
    for table in ('o\'neil "x"', "own.vectors"):
        target = f"duckdb:{duck}?table={table}"
        write_vectors(target, rows(seed=1), np.arange(200), metadata={"model": table})
        np.testing.assert_array_equal(read_vectors(target).z, rows(seed=1))
        assert read_vectors(target).metadata["model"] == table
        assert len(store_neighbors(target, ["3"], 4)["3"]) == 4


@pytest.mark.parametrize(
    ("table", "message"),
    [("absent.new", 'Schema with name "?absent"? does not exist'), ("seen", "is of type View")],
)
def test_what_duckdb_refuses_is_told_before_the_work(duck: Path, table: str, message: str) -> None:
    before = duck.read_bytes()
    with pytest.raises(InputError, match=message):
        vector_stores.check_store(f"duckdb:{duck}?table={table}", 2, np.arange(2))
    assert duck.read_bytes() == before and not list(duck.parent.glob("*.wal"))
    with pytest.raises(InputError, match="Schema"):
        vector_stores.check_store(f"duckdb:{duck.parent}/none.duckdb?table=absent.new", 2, np.arange(2))
    assert not (duck.parent / "none.duckdb").exists()


def test_a_duckdb_file_that_another_process_reads_is_told_before_the_work(duck: Path) -> None:
    code = f"import duckdb; db = duckdb.connect({str(duck)!r}, read_only=True); print('open', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"open\n"
        with pytest.raises(InputError, match="Another process has it open; wait"):
            vector_stores.check_store(str(duck), 8, np.arange(2))
        other.kill()


def test_vectors_that_others_put_into_postgresql_are_searched(base: str) -> None:
    """No column `cluster`, ids of another whole type, no stated width."""
    from tests.test_sources import execute

    execute(base, "create extension if not exists vector", "create table foreign_rows (id integer, vector vector)",
            "insert into foreign_rows values (1, '[1,0]'), (2, '[0,1]'), (3, '[1,0.1]')")  # fmt: skip
    target = base.replace("/postgres?", "/postgres/foreign_rows?")
    assert [i for i, _ in store_neighbors(target, ["1"], 2)["1"]] == [3, 2]
    assert read_vectors(target).ids.tolist() == [1, 2, 3]
    with pytest.raises(InputError, match="The id 'x' is not in the table"):
        store_neighbors(target, ["x"])
    with pytest.raises(InputError, match="`cluster`"):
        write_vectors(target, rows(3, 2), np.arange(3))


def test_a_rehearsal_leaves_nothing_and_waits_for_nobody(base: str, caplog: pytest.LogCaptureFixture) -> None:
    import adbc_driver_postgresql.dbapi as driver

    target = base.replace("/postgres?", "/postgres/rehearsed?")
    vector_stores.check_store(target, 8, np.arange(3))
    with pytest.raises(InputError, match="has no table 'rehearsed'"):
        read_vectors(target)
    write_vectors(target, rows(), np.arange(200), metadata={"model": "kept"})
    vector_stores.check_store(target, 8, np.arange(3))
    assert read_vectors(target).metadata["model"] == "kept"
    with driver.connect(base) as connection, connection.cursor() as cursor:
        cursor.execute("lock table rehearsed in exclusive mode")
        start = time.monotonic()
        vector_stores.check_store(target, 8, np.arange(3))
        assert time.monotonic() - start < 20 and "by somebody else" in caplog.text


def test_another_width_or_kind_of_ids_is_told_before_training(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuplet.cli._method.fit", lambda *_, **__: pytest.fail("training began"))
    write_vectors(target, rows(), np.arange(200))
    run = CliRunner().invoke(app, ["embed", "cora", "--method", "FilterSVD", "--dim", "7", "-o", target, "-q"])
    assert "holds vectors of 8 numbers, these have 7" in f"{run.output}{run.exception}"


def test_vectors_that_a_database_does_not_take_are_kept(
    base: str, ended_loads: Callable[[int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended_loads(9)
    target = base.replace("/postgres?", "/postgres/gone?")
    run = CliRunner().invoke(app, ["embed", "cora", "--method", "FilterSVD", "-o", target, "-q"])
    told = f"{run.output}{run.exception}"
    (kept,) = tmp_path.glob("tuplet-vectors-*/vectors.parquet")
    assert run.exit_code != 0 and "lost 3 times" in told and str(kept) in told.replace("\n", "")
    assert len(read_vectors(kept).ids) == 2708


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
