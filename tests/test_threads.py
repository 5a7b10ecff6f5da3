"""How many threads, one pool of them, and the libraries' pools held meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import tuplet
import tuplet._threads as threads
from tuplet.graph.synth import block_model


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
    threads._quota_at.cache_clear()
    (tmp_path / "cpu").mkdir()
    quota = text.split()[0].replace("max", "-1")
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota)
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000")
    assert threads.cores() == cores


@pytest.mark.parametrize("version", [1, 2])
def test_the_narrowest_of_nested_cgroups_counts(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)
    root = tmp_path / "groups"
    monkeypatch.setattr(threads, "_GROUPS", root)
    monkeypatch.setattr(threads, "_OWN_GROUP", tmp_path / "own")
    (tmp_path / "own").write_text("0::/job/step\n" if version == 2 else "7:memory:/x\n4:cpu,cpuacct:/job/step\n")
    for path, quota in (("job/step", 900_000), ("job", 300_000), ("", -1)):
        folder = (root if version == 2 else root / "cpu") / path
        folder.mkdir(parents=True, exist_ok=True)
        if version == 2:
            (folder / "cpu.max").write_text(f"{'max' if quota < 0 else quota} 100000\n")
        else:
            (folder / "cpu.cfs_quota_us").write_text(str(quota))
            (folder / "cpu.cfs_period_us").write_text("100000")
    assert threads.cores() == 3


def test_pieces_run_on_other_threads_and_come_back_in_order() -> None:
    barrier = threading.Barrier(3, timeout=20)
    names = threads.over(lambda piece: (barrier.wait(), piece, threading.current_thread().name), range(3), threads=3)
    assert [piece for _, piece, _ in names] == [0, 1, 2] and len({name for *_, name in names}) == 3


def test_one_piece_of_work_asks_nothing_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "cores", lambda: pytest.fail("asked"))
    assert threads.over(lambda number: -number, [3]) == [-3]


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


def test_of_several_errors_the_first_piece_s_is_raised_and_no_more_is_begun() -> None:
    begun, barrier = [], threading.Barrier(2, timeout=20)

    def work(piece: int) -> None:
        begun.append(piece)
        if piece < 2:
            barrier.wait()
            raise ValueError(piece)

    with pytest.raises(ValueError, match=r"^0$"):
        threads.over(work, range(1000), threads=2)
    assert len(begun) < 10


def test_an_interrupt_ends_the_work() -> None:
    caller, begun = threading.current_thread(), []

    def work(piece: int) -> None:
        begun.append(piece)
        if threading.current_thread() is caller:
            raise KeyboardInterrupt
        time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        threads.over(work, range(1000), threads=2)
    time.sleep(0.05)
    assert len(begun) < 10
    assert threads.over(abs, [-1, -2], threads=2) == [1, 2]


def test_the_libraries_pools_rest_meanwhile() -> None:
    from threadpoolctl import threadpool_info

    with threads.one_pool(), threads.one_pool():
        assert all(pool["num_threads"] == 1 for pool in threadpool_info())


PRODUCTS = """
import torch
from tuplet._threads import one_pool, over
x, w = torch.rand(7, 24), torch.rand(24, 16)
with one_pool():
    here = (x @ w).numpy().tobytes()
    found = set(over(lambda _: (x @ w).numpy().tobytes(), range(8), threads=2))
raise SystemExit(0 if found == {here} else 1)
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_a_product_has_the_same_bits_in_every_thread() -> None:
    """MKL counts its threads for each caller: seven rows by two of its threads are other bits than by one."""
    env = {**os.environ, "OMP_NUM_THREADS": "2"}
    assert subprocess.run([sys.executable, "-c", PRODUCTS], timeout=60, check=False, env=env).returncode == 0


LATE = """
import sys
from tuplet._threads import one_pool, over
assert "torch" not in sys.modules
with one_pool():
    import torch
    before = torch.get_num_threads()
    over(abs, range(8), threads=2)
raise SystemExit(0 if torch.get_num_threads() == before > 1 else 1)
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_the_caller_keeps_its_threads_of_a_torch_that_was_loaded_meanwhile() -> None:
    env = {**os.environ, "OMP_NUM_THREADS": "2"}
    assert subprocess.run([sys.executable, "-c", LATE], timeout=60, check=False, env=env).returncode == 0


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


@pytest.mark.parametrize(("given", "seen"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_openmp_waits_passively_unless_told_otherwise(given: str | None, seen: str) -> None:
    env = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    env |= {"OMP_DISPLAY_ENV": "true"} | ({} if given is None else {"OMP_WAIT_POLICY": given})
    code = "import tuplet; tuplet.TrainConfig; import torch"
    shown = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stderr
    assert f"OMP_WAIT_POLICY = '{seen}'" in shown


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
@pytest.mark.parametrize("make", [lambda: tuplet.SelfDMAT(3, max_steps=30), tuplet.baselines.FilterSVD])
def test_vectors_do_not_depend_on_the_number_of_threads(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import numba
    import torch

    graph = block_model([400, 300, 200], seed=0)
    found = []
    for count in (1, 2):
        monkeypatch.setenv("TUPLET_NUM_THREADS", str(count))
        before = torch.get_num_threads(), numba.get_num_threads()
        torch.set_num_threads(count)
        numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))
        try:
            with threadpool_limits(count):
                found.append(make().fit(graph).embedding_)
        finally:
            torch.set_num_threads(before[0])
            numba.set_num_threads(before[1])
    assert np.abs(found[0] - found[1]).max() < 1e-5
