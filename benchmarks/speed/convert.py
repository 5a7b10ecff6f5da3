"""Convert random edges to CSR files, ours and DuckDB or Polars: seconds and peak memory, each in its own process.

    python benchmarks/speed/convert.py                     10^8 edges, 10^7 nodes, --memory 2GB; needs 12 GB of disk
    python benchmarks/speed/convert.py --quick             10^6 edges
    python benchmarks/speed/convert.py --engine tuplet     one of tuplet, ray, duckdb, polars; may be repeated
    python benchmarks/speed/convert.py --engine ray --text ours on a cluster of this machine, with text ids
    python benchmarks/speed/convert.py --kind duckdb --memory 500MB      ours from a table of a DuckDB file

Writes the edges to Parquet (default), CSV or a table of a DuckDB file first, so that the writing does not count. All
engines do the same work: node ids in order, both directions of every edge, no loops, no repeats, sorted; indptr.npy,
indices.npy. "ray" is ours by the tasks of an engine, a cluster of one node; its peak is that of the driver, and apart
from it that of the largest task. The checksum of indices.npy shows that they agree. DuckDB has `memory_limit` and a
folder to spill into; Polars has no limit and is left out unless asked for. The peak is that of the whole process:
what the libraries hold is in it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from pyarrow import parquet as pq

PART = 5_000_000


def write_edges(folder: Path, edges: int, nodes: int, kind: str, seed: int, text: bool = False) -> None:
    """Uniform random pairs in parts of five million; `text`: ids such as node-123."""
    rng = np.random.default_rng(seed)
    for i, start in enumerate(range(0, edges, PART)):
        pairs = rng.integers(nodes, size=(2, min(PART, edges - start)))
        ends = (
            []
            if not text
            else [pc.binary_join_element_wise("node-", pa.array(end).cast(pa.string()), "") for end in pairs]
        )
        table = pa.table(dict(zip(("source", "target"), ends or pairs)))
        path = folder / f"part-{i:04d}.{kind}"
        csv.write_csv(table, path) if kind == "csv" else pq.write_table(table, path)


def into_duckdb(parts: Path, file: Path) -> None:
    """The Parquet parts as the table `edges` of a DuckDB file; the parts are removed."""
    import duckdb

    with duckdb.connect(str(file)) as connection:
        connection.execute("set memory_limit = '1GB'; set preserve_insertion_order = false")
        connection.execute(f"create table edges as from '{parts}/*.parquet'")
    for part in parts.iterdir():
        part.unlink()


def by_tuplet(edges: str, out: str, memory: str, tell: Any) -> None:
    """What `tuplet convert` does."""
    from tuplet.io.convert import convert

    convert(edges, out, memory=memory, progress=lambda phase, _: tell(phase))


def by_ray(edges: str, out: str, memory: str, tell: Any) -> None:
    """What `tuplet convert --engine ray` does."""
    import os

    from tuplet.io.convert import convert

    os.environ["RAY_ADDRESS"] = "local"
    convert(edges, out, memory=memory, progress=lambda phase, _: tell(phase), engine="ray")


class Children(threading.Thread):
    """Looks at the processes below this one: the most memory of one of them, and their CPU seconds."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most, self.seconds = 0, {}

    def run(self) -> None:
        import psutil

        while True:
            for one in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    times = one.cpu_times()
                    self.seconds[one.pid] = times.user + times.system
                    self.most = max(self.most, one.memory_info().rss - one.memory_info().shared)
            time.sleep(0.2)


def by_duckdb(edges: str, out: str, memory: str, tell: Any) -> None:
    """Ids and sort by DuckDB within its memory limit; sorted pairs are read in batches without their repeats."""
    import duckdb

    Path(out).mkdir()
    con = duckdb.connect(f"{out}/work.duckdb")
    con.execute(f"SET memory_limit = '{memory}'; SET temp_directory = '{out}/spill'")
    con.execute("SET preserve_insertion_order = false; SET threads = 2")
    files = f"read_{'csv' if next(Path(edges).iterdir()).suffix == '.csv' else 'parquet'}('{edges}/*')"
    ends = f"SELECT source AS id FROM {files} UNION SELECT target FROM {files}"
    con.execute(f"CREATE TABLE nodes AS SELECT id, row_number() OVER (ORDER BY id) - 1 AS place FROM ({ends})")
    ((n, first, last),) = con.sql("SELECT count(*), min(id), max(id) FROM nodes").fetchall()
    tell("ids")
    pairs = f"SELECT source AS s, target AS t FROM {files}"
    if (first, last) != (0, n - 1):  # as ours: ids that are 0, 1, .. need no map
        joins = "JOIN nodes a ON e.s = a.id JOIN nodes b ON e.t = b.id"
        pairs = f"SELECT a.place AS s, b.place AS t FROM ({pairs}) e {joins}"
    keys = (
        "SELECT (s << 32) | t AS key FROM pairs WHERE s <> t UNION ALL SELECT (t << 32) | s FROM pairs WHERE s <> t"
    )
    reader = con.sql(f"WITH pairs AS ({pairs}) {keys} ORDER BY key").to_arrow_reader(2**20)
    tell("sorted")
    write_rows((batch.column(0).to_numpy() for batch in reader), n, Path(out))
    con.close()


def by_polars(edges: str, out: str, memory: str, tell: Any) -> None:
    """The same by Polars' streaming engine, which knows no limit of memory."""
    import polars as pl

    Path(out).mkdir()
    frame = pl.scan_csv(f"{edges}/*.csv") if next(Path(edges).iterdir()).suffix == ".csv" else pl.scan_parquet(edges)
    ends = pl.concat([frame.select(id="source"), frame.select(id="target")]).unique().sort("id")
    ids = ends.collect(engine="streaming")["id"].to_numpy()
    tell("ids")
    assert np.array_equal(ids, np.arange(len(ids)))  # ids that are 0, 1, .. need no map
    pairs = frame.select(s="source", t="target").filter(pl.col("s") != pl.col("t"))
    key = [pairs.select(key=pl.col(a) * 2**32 + pl.col(b)) for a, b in (("s", "t"), ("t", "s"))]
    pl.concat(key).sort("key").sink_parquet(f"{out}/keys.parquet", engine="streaming")
    tell("sorted")
    batches = pq.ParquetFile(f"{out}/keys.parquet").iter_batches(2**20)
    write_rows((batch.column(0).to_numpy() for batch in batches), len(ids), Path(out))


def write_rows(batches: Any, n: int, out: Path) -> None:
    """Sorted keys row << 32 | column, with repeats, -> indptr.npy and indices.npy."""
    degrees, last, count = np.zeros(n + 1, np.int64), -1, 0
    with (out / "indices.npy").open("wb") as file:
        file.write(b"\0" * 128)
        for keys in batches:
            steps = np.diff(keys, prepend=last)
            assert not (steps < 0).any(), "the engine's rows are not sorted"
            keys = keys[steps != 0]
            if len(keys):
                last, count = keys[-1], count + len(keys)
                rows = keys >> 32
                degrees[rows[0] + 1 : rows[-1] + 2] += np.bincount(rows - rows[0])
                (keys & 0xFFFFFFFF).astype(np.int32).tofile(file)
        text = f"{{'descr': '<i4', 'fortran_order': False, 'shape': ({count},), }}".ljust(117) + "\n"
        file.seek(0)
        file.write(b"\x93NUMPY\x01\x00\x76\x00" + text.encode("latin1"))
    np.save(out / "indptr.npy", np.cumsum(degrees))


ENGINES = {"tuplet": by_tuplet, "ray": by_ray, "duckdb": by_duckdb, "polars": by_polars}


def child(engine: str, edges: str, out: str, memory: str) -> None:
    """Convert by one engine, then print seconds, CPU seconds and peak RSS as JSON."""
    from tuplet._memory import peak_bytes  # VmHWM: ru_maxrss would count what the parent had at the fork

    phases: dict[str, tuple[float, float]] = {}
    start = time.perf_counter()

    def tell(phase: str) -> None:
        phases[phase] = (round(time.perf_counter() - start, 1), round(peak_bytes() / 1e9, 3))

    below = Children()
    if engine == "ray":
        below.start()
    ENGINES[engine](edges, out, memory, tell)
    cpu = time.process_time() + sum(below.seconds.values())
    facts = {"seconds": round(time.perf_counter() - start, 1), "cpu_seconds": round(cpu, 1)}
    if engine == "ray":
        facts["peak_task_GB"] = round(below.most / 1e9, 3)
    print(json.dumps(facts | {"peak_GB": round(peak_bytes() / 1e9, 3), "phase_ends_s_GB": phases}))


def checksum(folder: Path) -> str:
    """Of both arrays, in hexadecimal; and how many entries there are."""
    from tuplet._files import file_sum

    indices = np.load(folder / "indices.npy", mmap_mode="r")
    indptr = np.load(folder / "indptr.npy")
    assert indptr[-1] == len(indices)
    return f"{len(indptr) - 1} nodes, {len(indices)} entries, {file_sum(folder / 'indices.npy')[:12]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=100_000_000)
    parser.add_argument("--nodes", type=int, default=10_000_000)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--kind", choices=["parquet", "csv", "duckdb"], default="parquet")
    parser.add_argument("--engine", choices=list(ENGINES), action="append", help="default: tuplet and duckdb")
    parser.add_argument("--folder", default=None, help="where to work; default: the system's temporary folder")
    parser.add_argument("--text", action="store_true", help="text ids; tuplet and ray only")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
        return
    edges, nodes = (1_000_000, 100_000) if options.quick else (options.edges, options.nodes)
    with tempfile.TemporaryDirectory(dir=options.folder) as tmp:
        parts = Path(tmp) / "parts"
        parts.mkdir()
        table = str(parts)
        write_edges(parts, edges, nodes, "csv" if options.kind == "csv" else "parquet", 0, options.text)
        if options.kind == "duckdb":
            into_duckdb(parts, Path(tmp) / "edges.duckdb")
            table = f"{tmp}/edges.duckdb?table=edges"
        for engine in options.engine or (["tuplet"] if options.kind == "duckdb" else ["tuplet", "duckdb"]):
            out = Path(tmp) / engine
            command = [sys.executable, __file__, "--child", engine, table, str(out), options.memory]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            row = {"engine": engine, "edges": edges, "kind": options.kind, "memory": options.memory}
            row |= {"text": True} if options.text else {}
            print(json.dumps(row | json.loads(done.stdout) | {"graph": checksum(out)}), flush=True)


if __name__ == "__main__":
    main()
