"""How many threads, one pool of them, and the libraries' pools held meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import tuplet._threads as threads


@pytest.fixture(autouse=True)
def _untold(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in threads._LIMITS:
        monkeypatch.delenv(name, raising=False)


def test_the_cores_are_those_of_the_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3, 5}, raising=False)
    monkeypatch.setattr(threads, "_GROUPS", Path("/nowhere"))
    assert threads.cores() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "2,1")
    assert threads.cores() == 2
    monkeypatch.setenv("TUPLET_NUM_THREADS", "nonsense")
    assert threads.cores() == 2


@pytest.mark.parametrize(("text", "cores"), [("250000 100000\n", 3), ("max 100000\n", 8), ("50000 100000\n", 1)])
def test_a_cgroups_quota_is_honoured(text: str, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(threads, "_GROUPS", tmp_path)
    (tmp_path / "cpu.max").write_text(text)
    assert threads.cores() == cores
    (tmp_path / "cpu.max").unlink()
    (tmp_path / "cpu").mkdir()
    quota = text.split()[0].replace("max", "-1")
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota)
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000")
    assert threads.cores() == cores


def test_pieces_run_on_other_threads_and_come_back_in_order() -> None:
    barrier = threading.Barrier(3, timeout=20)
    names = threads.over(lambda piece: (barrier.wait(), piece, threading.current_thread().name), range(3), threads=3)
    assert [piece for _, piece, _ in names] == [0, 1, 2] and len({name for *_, name in names}) == 3


def test_work_inside_of_work_does_not_wait_for_itself() -> None:
    found = threads.over(lambda i: threads.over(lambda j: i * j, range(4), threads=4), range(8), threads=2)
    assert found == [[i * j for j in range(4)] for i in range(8)]


def test_an_error_reaches_the_caller_and_the_pools_are_given_back() -> None:
    from threadpoolctl import threadpool_info

    def sizes() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info()]

    before = sizes()
    with pytest.raises(ZeroDivisionError):
        threads.over(lambda number: 1 // number, [1, 0], threads=2)
    assert sizes() == before and not threads._held


def test_the_libraries_pools_rest_meanwhile() -> None:
    from threadpoolctl import threadpool_info

    with threads.one_pool(), threads.one_pool():
        assert all(pool["num_threads"] == 1 for pool in threadpool_info())


FORK = """
import os
import subprocess
import sys
from tuplet import _threads as threads
threads.over(abs, [1, 2, 3], threads=2)
child = os.fork()
if child == 0:
    os._exit(0 if threads.over(abs, [-1, -2], threads=2) == [1, 2] else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_has_a_pool_of_its_own() -> None:
    assert subprocess.run([sys.executable, "-c", FORK], timeout=60, check=False).returncode == 0
