"""Launchers of workers: what is left of them when one is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.processes import below, processes
from tuplet.graph.synth import rmat
from tuplet.io.folder import save_graph

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent is gone")


def wait_until(told: Any, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not told() and time.monotonic() < end:
        time.sleep(0.05)
    return bool(told())


@LINUX
@pytest.mark.parametrize("verb", ["train", pytest.param("filter", marks=pytest.mark.slow)])
def test_a_killed_launcher_leaves_no_worker_behind(verb: str, tmp_path: Path) -> None:
    """SIGKILL while the workers work; some seconds later nothing is left that would go on with the same files."""
    x = np.random.default_rng(0).standard_normal((20_000, 256)).astype(np.float32)
    if verb == "train":
        np.save(tmp_path / "rows.npy", x)
        words = ["train", str(tmp_path / "rows.npy"), "--workers", "2", "--set", "max_steps=100000", "--every", "5"]
        sign = "m.training/checkpoint.safetensors"
    else:
        save_graph(rmat(20_000, 20, seed=0).with_(x=np.tile(x, (1, 8))), tmp_path / "graph")
        words, sign = ["filter", str(tmp_path / "graph"), "--groups", "2"], "m.npy.parts/rows-0.npy.parts/done-*.npy"
    out = tmp_path / ("m" if verb == "train" else "m.npy")
    process = subprocess.Popen([sys.executable, "-m", "tuplet.cli", *words, "-q", "-o", str(out)])
    left: set[int] = set()
    try:
        assert wait_until(lambda: list(tmp_path.glob(sign)) or process.poll() is not None, 120)
        left = below(process.pid)
        assert len(left) >= 3  # the one that starts workers, and they
        process.kill()
        process.wait()
        assert wait_until(lambda: not left & set(processes()), 10), "processes are left"
    finally:
        for pid in left & set(processes()):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        ("RendezvousConnectionError", 1, "error: The machine of --head is gone"),
        ("RendezvousTimeoutError", 1, "error: Not all machines have come"),
        ("SignalException", 128 + signal.SIGTERM, ""),
        ("", 0, ""),
    ],
)
def test_what_the_meeting_says_is_one_line(
    error: str, code: int, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import logging

    from torch.distributed import run as torchrun
    from torch.distributed.elastic import multiprocessing, rendezvous

    from tuplet.engines import launch

    def ended() -> None:
        if error:
            kind = getattr(rendezvous, error, None) or multiprocessing.SignalException
            raise kind("The store has failed.\nSee inner", *([signal.SIGTERM] if error == "SignalException" else []))

    monkeypatch.setattr(torchrun, "main", ended)
    monkeypatch.setattr(logging, "disable", lambda _: None)
    assert launch._run() == code
    told = capsys.readouterr().err
    assert told.startswith(words) and told.count("\n") == bool(words)
