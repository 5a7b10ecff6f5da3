"""Files appear whole or not at all, whatever kills the writer; locks keep two writers apart."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tuplet import InputError, _files
from tuplet._files import file_sum, locked, new_file, new_folder, open_array, read_header, save_array

DEAD = 2**22 + 1  # above the largest process number of Linux


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_is_seen_only_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    with new_file(target) as partial:
        partial.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new" and names(tmp_path) == ["a.txt"]


def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(RuntimeError), new_file(target) as partial:
        partial.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old" and names(tmp_path) == ["a.txt"]


def test_a_full_disk_is_an_input_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.txt cannot be written .*No space left"), new_file(tmp_path / "a.txt"):
        raise OSError(28, "No space left on device")
    assert names(tmp_path) == []


@pytest.mark.parametrize("exchange", [True, False])
def test_a_new_folder_takes_the_place_of_the_old_one(
    tmp_path: Path, exchange: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchange:
        monkeypatch.setattr(_files, "_exchanged", lambda one, two: False)
    target = tmp_path / "graph"
    for text in ("old", "new"):
        with new_folder(target) as partial:
            (partial / "a.txt").write_text(text)
    assert (target / "a.txt").read_text() == "new" and names(tmp_path) == ["graph"]


def test_a_folder_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "graph"
    with new_folder(target) as partial:
        (partial / "a.txt").write_text("old")
    with pytest.raises(RuntimeError), new_folder(target) as partial:
        (partial / "a.txt").write_text("half")
        raise RuntimeError
    assert (target / "a.txt").read_text() == "old" and names(tmp_path) == ["graph"]


def test_what_a_dead_writer_left_is_removed_and_a_living_ones_is_kept(tmp_path: Path) -> None:
    (tmp_path / f".a.txt.part-{DEAD}").write_text("half")
    (tmp_path / f".a.txt.old-{DEAD}").mkdir()
    (tmp_path / f".a.txt.part-{os.getppid()}").write_text("at work")
    (tmp_path / f".b.txt.part-{DEAD}").write_text("of another target")
    with new_file(tmp_path / "a.txt") as partial:
        partial.write_text("new")
    assert names(tmp_path) == [f".a.txt.part-{os.getppid()}", f".b.txt.part-{DEAD}", "a.txt"]


HOLD = """
import sys, time
from pathlib import Path
from tuplet._files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_told_who_holds_the_lock_and_a_dead_holder_lets_go(tmp_path: Path) -> None:
    target = tmp_path / "graph"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(target)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    with pytest.raises(InputError, match=rf"graph is being written by process {holder.pid}\."), locked(target):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    with locked(target, wait=5):
        pass
    assert names(tmp_path) == []


def test_a_checksum_reads_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_files, "BLOCK", 16)
    data = bytearray(range(100))
    (tmp_path / "a").write_bytes(data)
    seen = {file_sum(tmp_path / "a")}
    for place in range(100):
        data[place] ^= 1
        (tmp_path / "a").write_bytes(data)
        seen.add(file_sum(tmp_path / "a"))
        data[place] ^= 1
    assert len(seen) == 101


@pytest.mark.parametrize("shape", [(0,), (7,), (3, 4), (0, 4)])
def test_arrays_come_back_as_memory_maps(
    tmp_path: Path, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_files, "BLOCK", 20)
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    save_array(tmp_path / "a.npy", array)
    back = open_array(tmp_path / "a.npy")
    assert back.dtype == array.dtype and np.array_equal(back, array)
    assert isinstance(back, np.memmap) == bool(array.size)
    with (tmp_path / "a.npy").open("rb") as file:
        assert read_header(file) == (shape, False, np.dtype(np.float32))
