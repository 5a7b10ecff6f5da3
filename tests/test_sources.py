"""Tables behind a URI, against real servers: DuckDB files, PostgreSQL, and an object store."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tests import servers
from tuplet import InputError, load_dataset, read_graph
from tuplet.cli import app
from tuplet.graph import Graph
from tuplet.io import _duckdb, _filesystems, _postgres, remote, vectors
from tuplet.io.convert import convert
from tuplet.io.folder import open_graph, save_graph
from tuplet.io.sources import open_source, shown, split_uri
from tuplet.io.vectors import read_vectors, write_vectors

EDGES = [("ann", "bob"), ("bob", "cy"), ("cy", "dan"), ("dan", "ann"), ("ann", "cy")]
NODES = {"id": ["ann", "bob", "cy", "dan"], "age": [31.0, 17.0, 42.0, 5.0], "kind": ["a", "b", "a", "b"]}


def expected() -> Graph:
    return read_graph(EDGES, NODES, label="kind")


def same(one: Graph, two: Graph) -> bool:
    return one.fingerprint() == two.fingerprint() and one.node_ids.tolist() == two.node_ids.tolist()


def test_uris_are_taken_apart() -> None:
    assert split_uri("duckdb:a b.db?query=select 1 as x where 1=1 & 1") == (
        "a b.db",
        {"query": "select 1 as x where 1=1 & 1"},
    )
    place, asked = split_uri("postgresql://ann:pw@h:5/base?sslmode=disable&query=select%20a%2Bb")
    assert place == "postgresql://ann:pw@h:5/base?sslmode=disable" and asked == {"query": "select a+b"}
    assert split_uri("postgresql:///base?host=/tmp/a&table=t") == ("postgresql:///base?host=/tmp/a", {"table": "t"})
    assert split_uri("postgresql://h/b?options=-c%20a%3Db+c&table=t")[0] == "postgresql://h/b?options=-c%20a%3Db+c"
    assert split_uri("duckdb:?query=from+'a'&table=t") == ("", {"query": "from 'a'", "table": "t"})
    assert split_uri("duckdb:a.db?table=Odd%20Name") == ("a.db", {"table": "Odd Name"})


@pytest.mark.parametrize("place", ["duckdb:a.db", "postgresql://h/base"])
def test_a_query_with_blanks_is_taken_as_it_is_typed(place: str) -> None:
    """Also one with #, line breaks, a percent sign and digits, or a plus: no part of it is decoded or cut."""
    for query in ("select a from t where b = '#1'", "select a,\n  b\nfrom t", "select 1 where a like 'x%20%'",
                  "select a+b from t", "select 'query=' as a & table=t"):  # fmt: skip
        assert split_uri(f"{place}?query={query}")[1] == {"query": query}


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://ann:SECRET@h:5/base",
        "postgresql://ann:SEC/RET@h/base",
        "postgresql://ann:SEC@RET@h/base?table=t",
        "postgresql://h/base?user=ann&password=SECRET&table=t",
        "postgresql://h/base?sslpassword=SECRET",
        "s3://key:SEC/RET@bucket/a.csv",
    ],
)
def test_passwords_are_not_shown(uri: str) -> None:
    assert "SEC" not in shown(uri) and "RET" not in shown(uri) and shown(uri).startswith(uri[:7])


# ---- DuckDB ----------------------------------------------------------------------------------------------------


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A DuckDB file with the tables edges and people, in a folder with a blank in its name."""
    duckdb = pytest.importorskip("duckdb", reason="extra [stores] is not installed")
    folder = tmp_path / "my data"
    folder.mkdir()
    path = folder / "graph.duckdb"
    with duckdb.connect(str(path)) as db:
        db.execute("create table edges (source varchar, target varchar)")
        db.executemany("insert into edges values (?, ?)", EDGES)
        db.execute("create table people (id varchar, age double, kind varchar)")
        db.executemany("insert into people values (?, ?, ?)", list(zip(*NODES.values())))
    return path


def test_a_graph_from_duckdb(database: Path, tmp_path: Path) -> None:
    edges, people = f"duckdb:{database}?table=edges", f"{database}?table=people"
    assert same(read_graph(edges, people, label="kind"), expected())
    asked = f"duckdb:{database}?query=select target as source, source as target from edges where source <> 'nobody'"
    assert same(read_graph(asked, people, label="kind"), expected())
    assert same(convert(edges, tmp_path / "g", features=people, label="kind"), expected())


def test_a_relation_and_parquet_files_by_query(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="extra [stores] is not installed")
    for i, pair in enumerate(EDGES):
        duckdb.sql(f"copy (select '{pair[0]}' as source, '{pair[1]}' as target) to '{tmp_path}/p{i}.parquet'")
    assert same(read_graph(f"duckdb:?query=from '{tmp_path}/*.parquet'", NODES, label="kind"), expected())
    relation = duckdb.sql(f"from '{tmp_path}/*.parquet'")
    assert same(read_graph(relation, NODES, label="kind"), expected())


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("?table=edge", "Did you mean 'edges'"),
        ("", "does not say which table.*edges, people"),
        ("?query=select sorce from edges", 'sorce" not found.*source'),
        ("?query=drop table edges", "read-only|cannot answer"),
        ("?tabel=edges", "tabel=. Known are table= and query="),
        ("?table=edges&query=select 1", "Give one of them"),
    ],
)
def test_bad_questions_to_duckdb(database: Path, asked: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_graph(f"duckdb:{database}{asked}")
    with pytest.raises(InputError, match=message):
        pa_rows(open_source(f"duckdb:{database}{asked}"))


def pa_rows(source: Any) -> int:
    import pyarrow as pa

    return int(pa.table(source).num_rows)


def test_a_file_that_is_absent_or_something_else(tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="extra [stores] is not installed")
    with pytest.raises(InputError, match="There is no file"):
        open_source(f"duckdb:{tmp_path}/none.duckdb?table=x")
    (tmp_path / "text.duckdb").write_text("this is no database " * 1000)
    with pytest.raises(InputError, match="cannot be opened"):
        open_source(f"duckdb:{tmp_path}/text.duckdb?table=x")


def test_duckdb_is_streamed_in_batches() -> None:
    pytest.importorskip("duckdb", reason="extra [stores] is not installed")
    import pyarrow as pa

    source = open_source("duckdb:?query=select range as source, range + 1 as target from range(1000000)")
    for _ in range(2):
        sizes = [batch.num_rows for batch in pa.RecordBatchReader.from_stream(source)]
        assert sum(sizes) == 10**6 and max(sizes) <= _duckdb.ROWS


def test_vectors_written_in_sql_are_features() -> None:
    """DuckDB takes [1.5, 2.0] for decimals."""
    pytest.importorskip("duckdb", reason="extra [stores] is not installed")
    people = "duckdb:?query=select unnest(['ann', 'bob', 'cy', 'dan']) as id, [1.5, 2.0] as place"
    g = read_graph(EDGES, people, scale=False)
    assert g.n_features == 2 and np.asarray(g.x)[0].tolist() == [1.5, 2.0]


@pytest.mark.parametrize("query", ["from range(2000) t(i) where random() < 0.5", "from range(2000) t(i)"])
def test_rows_that_change_between_the_passes_are_refused(query: str, tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="extra [stores] is not installed")
    pairs = "i as source, i + 1 as target" if "random" in query else "(random() * 1e9)::bigint as source, i as target"
    with pytest.raises(InputError, match="changed between the two passes"):
        convert(f"duckdb:?query=select {pairs} {query}", tmp_path / "g")
    assert list(tmp_path.iterdir()) == []


def test_duckdb_spills_to_the_temporary_folder(
    database: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A query that sorts more than DuckDB may hold is answered, and nothing is left beside the user's file."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    asked = "select i as source, i + 1 as target, repeat('x', 40) as pad from range(6000000) t(i) order by hash(i)"
    source = open_source(f"duckdb:{database}?query={asked}")
    assert pa_rows(source) == 6 * 10**6
    assert [path.name for path in database.parent.iterdir()] == ["graph.duckdb"]
    assert list((tmp_path / "tmp").iterdir()) == []


def test_the_command_line_reads_duckdb(database: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke(
        app, ["convert", f"duckdb:{database}?table=edges", str(tmp_path / "g"), "--features",
              f"duckdb:{database}?query=select id, age from people", "-q"]
    )  # fmt: skip
    assert run.exit_code == 0, run.output
    assert open_graph(tmp_path / "g").n_edges == 5


# ---- PostgreSQL ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """A server with the tables edges and people."""
    with servers.postgres() as uri:
        execute(
            uri,
            "create table edges (source text, target text, weight numeric)",
            "insert into edges values " + ", ".join(f"('{u}', '{v}', 1)" for u, v in EDGES),
            "create table people (id text, age real, kind text)",
            "insert into people values " + ", ".join(f"('{i}', {a}, '{k}')" for i, a, k in zip(*NODES.values())),
            "create table long as select i as source, i + 1 as target from generate_series(0, 299999) as i",
        )
        yield uri


def execute(uri: str, *statements: str) -> None:
    import adbc_driver_postgresql.dbapi as driver

    with driver.connect(uri) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        connection.commit()


def test_a_graph_from_postgresql(base: str, tmp_path: Path) -> None:
    edges, people = f"{base}&table=edges", f"{base}&query=select * from people order by id"
    assert same(read_graph(edges, people, label="kind"), expected())
    assert same(convert(edges, tmp_path / "g", features=people, label="kind"), expected())


def test_a_query_of_several_lines_with_comments(base: str) -> None:
    query = "select source, -- one end\n  target from edges\nwhere source <> '#1' and target not like 'x%20%' -- all"
    assert read_graph(f"{base}&query={query}").n_edges == len(EDGES)


def test_a_table_with_dots_in_its_name(base: str) -> None:
    execute(base, 'create table "edges.2026.05" as select * from edges', 'create schema "a.b"',
            'create table "a.b".edges as select * from edges limit 1')  # fmt: skip
    assert read_graph(f"{base}&table=edges.2026.05").n_edges == len(EDGES)
    assert read_graph(f"{base}&table=a.b.edges").n_edges == 1


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("&table=edge", "Did you mean 'edges'"),
        ("&query=select sorce from edges", 'column "sorce" does not exist.*source'),
        ("&query=selec 1", "syntax error"),
        ("&sslmod=x&table=edges", 'refused .invalid URI query parameter: "sslmod"'),
        ("&dbname=nobase&table=edges", 'database "nobase" does not exist.*Check the database'),
    ],
)
def test_bad_questions_to_postgresql(base: str, asked: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_graph(base + asked)


def test_wrong_credentials_are_refused_at_once_without_the_password(base: str) -> None:
    start = time.monotonic()
    with pytest.raises(InputError, match='role "nobody" does not exist') as caught:
        read_graph(base.replace("postgres:@", "nobody:secret@") + "&table=edges")
    assert "secret" not in str(caught.value) and time.monotonic() - start < 30


def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("adbc_driver_postgresql", reason="extra [stores] is not installed")
    monkeypatch.setattr(_postgres, "PAUSE", 0.01)
    with pytest.raises(InputError, match=r"cannot be reached, or the connection was lost 3 times"):
        read_graph("postgresql://a:secret@127.0.0.1:1/x?table=edges")
    assert caplog.text.count("trying again") == 2 and "secret" not in caplog.text


@pytest.mark.parametrize(
    ("uri", "message", "tries"),
    [
        ("postgresql://nohost.invalid/x?table=t", "cannot be reached", 3),
        ("postgresql://me:se/cret@h/x?table=t", "refused .invalid integer value", 1),
    ],
)
def test_only_what_may_pass_is_tried_again(
    uri: str, message: str, tries: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("adbc_driver_postgresql", reason="extra [stores] is not installed")
    monkeypatch.setattr(_postgres, "PAUSE", 0.01)
    with pytest.raises(InputError, match=message):
        read_graph(uri)
    assert caplog.text.count("trying again") == tries - 1


def test_a_lost_connection_is_made_again(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another session ends ours in the middle of the query, once; the second attempt gives all rows."""
    monkeypatch.setattr(_postgres, "PAUSE", 0.01)
    asked = "select source, target, case when source = 1000 then pg_sleep(1)::text end as nap from long"
    killer = threading.Timer(0.5, lambda: _end_others(base))
    killer.start()
    source = open_source(f"{base}&query={asked}")
    killer.join()
    assert pa_rows(source) == 300000 and pa_rows(source) == 300000


def test_a_connection_that_is_lost_each_time_leaves_nothing(
    base: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_postgres, "PAUSE", 0.01)
    over = threading.Event()

    def keep_ending() -> None:
        while not over.wait(0.2):
            _end_others(base)

    killer = threading.Thread(target=keep_ending)
    killer.start()
    try:
        with pytest.raises(InputError, match=r"lost 3 times.*Nothing was written"):
            convert(f"{base}&query=select source, target, pg_sleep(0.001)::text as nap from long", tmp_path / "g")
    finally:
        over.set()
        killer.join()
    assert list(tmp_path.iterdir()) == []


def _end_others(uri: str) -> None:
    import adbc_driver_postgresql.dbapi as driver

    with driver.connect(uri) as connection, connection.cursor() as cursor:
        cursor.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where state = 'active' "
            "and query like '%nap%' and pid <> pg_backend_pid()"
        )
        cursor.fetchall()


# ---- object stores ---------------------------------------------------------------------------------------------


@pytest.fixture
def bucket(s3_address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The URI of an empty bucket; the cache is empty too."""
    monkeypatch.setenv("TUPLET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(remote, "PAUSE", 0.01)
    return servers.new_bucket(s3_address, monkeypatch)


def put(uri: str, text: str) -> None:
    with remote.uploaded(uri) as path:
        path.write_text(text)


def test_files_folders_and_patterns_in_a_bucket(bucket: str) -> None:
    for i, (u, v) in enumerate(EDGES):
        put(f"{bucket}/edges/part {i}.csv", f"source,target\n{u},{v}\n")
    people = "".join(f"{i},{a},{k}\n" for i, a, k in zip(*NODES.values()))
    put(f"{bucket}/people.csv", "id,age,kind\n" + people)
    for edges in (f"{bucket}/edges", f"{bucket}/edges/", f"S3{bucket[2:]}/edges", f"{bucket}/edges/*.csv",
                  [f"{bucket}/edges/part {i}.csv" for i in range(5)]):  # fmt: skip
        assert same(read_graph(edges, f"{bucket}/people.csv", label="kind"), expected())


def test_a_changed_object_is_read_again(bucket: str) -> None:
    put(f"{bucket}/e.csv", "source,target\na,b\n")
    assert read_graph(f"{bucket}/e.csv").node_ids.tolist() == ["a", "b"]
    put(f"{bucket}/e.csv", "source,target\na,c\n")
    assert read_graph(f"{bucket}/e.csv").node_ids.tolist() == ["a", "c"]


def test_a_graph_folder_is_copied_with_checksums(bucket: str, tmp_path: Path) -> None:
    g = load_dataset("cora")
    remote.upload(save_graph(g, tmp_path / "cora.graph"), f"{bucket}/cora.graph")
    assert open_graph(f"{bucket}/cora.graph").fingerprint() == g.fingerprint()
    assert read_graph(f"{bucket}/cora.graph").fingerprint() == g.fingerprint()
    labels = (tmp_path / "cora.graph" / "y.npy").read_bytes()
    with remote.uploaded(f"{bucket}/cora.graph/y.npy") as path:
        path.write_bytes(labels[:-1] + b"\1")
    with pytest.raises(InputError, match=r"y.npy is absent or has another checksum"):
        open_graph(f"{bucket}/cora.graph")
    assert len(list((tmp_path / "cache" / "remote").iterdir())) == 1  # the good copy alone


def test_vectors_and_models_in_a_bucket(bucket: str) -> None:
    from tuplet import DMATi
    from tuplet.models.dmat import load

    z = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    write_vectors(f"{bucket}/v.parquet", z, list("abcde"))
    np.testing.assert_array_equal(read_vectors(f"{bucket}/v.parquet").z, z)
    g = load_dataset("cora")
    model = DMATi(layers=(16, 8), max_steps=2, seed=0).fit(g)
    model.save(f"{bucket}/models/one")
    np.testing.assert_array_equal(load(f"{bucket}/models/one").transform(g), model.transform(g))


def test_what_is_not_there_is_told(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=f"There is nothing at {bucket}/none.csv"):
        read_graph(f"{bucket}/none.csv")
    with pytest.raises(InputError, match="There is nothing at s3://nobucket123"):
        read_graph("s3://nobucket123/none.csv")
    with pytest.raises(InputError, match="Protocol not known: foo"):
        read_graph("foo://x/e.csv")


def test_a_target_that_cannot_be_written_is_told_before_the_work(bucket: str) -> None:
    run = CliRunner().invoke(app, ["embed", "cora", "--method", "FilterSVD", "-o", "s3://nobucket123/v.parquet"])
    assert run.exit_code == 1
    with pytest.raises(InputError, match="there is no bucket 'nobucket123'"):
        write_vectors("s3://nobucket123/v.parquet", np.eye(2, dtype=np.float32))


def test_what_cannot_be_uploaded_is_kept_here(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server goes away between the check and the upload."""
    for module in (remote, vectors):
        monkeypatch.setattr(module, "check_target", lambda uri: None)
    with pytest.raises(InputError, match=r"cannot be written .* What was made lies in") as caught:
        write_vectors("s3://nobucket123/v.parquet", np.eye(2, dtype=np.float32))
    kept = Path(str(caught.value).split("lies in ")[1].rstrip("."))
    np.testing.assert_array_equal(read_vectors(kept).z, np.eye(2))
    shutil.rmtree(kept.parent)


@pytest.mark.parametrize("uri", ["gs://bucket/e.csv", "abfs://container@account/e.csv", "az://container/e.csv"])
def test_other_stores_without_credentials_end_in_one_line(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They cannot be reached from here; what is told then is tried."""
    monkeypatch.setattr(_filesystems, "PATIENCE", 1)
    with pytest.raises(InputError, match=f"{uri} cannot be") as caught:
        read_graph(uri)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600


def test_a_block_that_fails_is_read_again(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put(f"{bucket}/e.csv", "source,target\na,b\n" + "b,c\n" * 1000)
    monkeypatch.setattr(remote, "BLOCK", 1000)
    store, path = remote.filesystem(f"{bucket}/e.csv")
    fails = iter([True, False, True, True, False, False, False])

    class Flaky:
        def open_input_file(self, name: str) -> Any:
            if next(fails, False):
                raise OSError("connection reset")
            return store.open_input_file(name)

    monkeypatch.setattr(remote, "filesystem", lambda uri: (store, path))
    size = store.get_file_info(path).size
    assert b"".join(remote._block(Flaky(), path, at, min(1000, size - at), "s3://x") for at in range(0, size, 1000))

    class Gone:
        def open_input_file(self, name: str) -> Any:
            raise OSError("connection reset")

    with pytest.raises(InputError, match=r"was lost while .* 4 times. Nothing was kept"):
        remote._block(Gone(), path, 0, 10, "s3://x")
    monkeypatch.setattr(remote, "PATIENCE", 0)
    with pytest.raises(InputError, match=r"was lost while .* 1 times. Nothing was kept"):
        remote._block(Gone(), path, 0, 10, "s3://x")


def test_a_connection_that_is_cut_in_the_middle_of_an_object(
    bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = np.random.default_rng(0).bytes(3_000_000)
    (tmp_path / "big.bin").write_bytes(data)
    remote.upload(tmp_path / "big.bin", f"{bucket}/big.bin")
    with servers.cutting(os.environ["AWS_ENDPOINT_URL"], after=1_000_000, times=2) as (address, cuts):
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        assert remote.fetch(f"{bucket}/big.bin").read_bytes() == data
    assert len(cuts) == 2


def test_any_fsspec_filesystem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    monkeypatch.setenv("TUPLET_CACHE", str(tmp_path / "cache"))
    put("memory://tuplet/e.csv", "source,target\na,b\n")
    assert read_graph("memory://tuplet/e.csv").n_edges == 1


def test_import_is_not_slower_for_the_doors() -> None:
    doors = "('duckdb', 'lance', 'adbc_driver_manager')"
    probe = f"import tuplet, sys; print([m for m in {doors} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
