"""`ray://host:port`: a real head with its client server, in a process of its own. Skips without Ray or its client."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tuplet.graph.synth import rmat
from tuplet.io.folder import save_graph
from tuplet.io.vectors import read_vectors


@pytest.fixture(scope="module")
def head(bucket: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a head of one node; started after the bucket, whose credentials its workers have."""
    for name in ("ray", "grpc"):
        pytest.importorskip(name, reason="Ray's client is not installed: pip install 'tuplet[cluster]'")
    ports = [free_port(), free_port()]
    words = ["ray.scripts.scripts", "start", "--head", "--block", "--num-cpus=2", "--include-dashboard=false"]
    words += [f"--port={ports[0]}", f"--ray-client-server-port={ports[1]}", "--disable-usage-stats"]
    words += ["--min-worker-port=0", "--max-worker-port=0"]  # any: the usual range may hold the ports above
    own = {"RAY_AUTH_MODE": "disabled", "RAY_worker_niceness": "0"}
    log = tmp_path_factory.mktemp("head") / "log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", *words], env={**os.environ, **own}, stdout=file, stderr=file
        )
    try:
        for _ in range(300):
            assert process.poll() is None, log.read_text()
            with closing(socket.socket()) as probe:
                if probe.connect_ex(("127.0.0.1", ports[1])) == 0:
                    break
            time.sleep(0.2)
        yield f"ray://127.0.0.1:{ports[1]}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    x = np.random.default_rng(0).standard_normal((600, 40)).astype(np.float32)
    return save_graph(rmat(600, 8, seed=1).with_(x=x), tmp_path_factory.mktemp("store with space") / "graph")


def embed(store: Path, out: str, *more: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "tuplet.cli", "embed", str(store), "--method", "DMAT-i", "--device", "cpu", "-q"]
    environment = {**os.environ, "RAY_AUTH_MODE": "disabled"}
    words += ["--set", "max_steps=3", "-o", out, *more]
    return subprocess.run(words, capture_output=True, text=True, env=environment, timeout=150)


@pytest.mark.slow  # a head and its client server take most of a minute to start
def test_a_head_elsewhere_gives_the_bits_of_one_process(head: str, bucket: str, store: Path, tmp_path: Path) -> None:
    for out, more in (
        (f"{tmp_path}/local/", []),
        (f"{tmp_path}/folder/", ["--engine", head]),
        (f"{bucket}/v/", ["--engine", head, "--cache", str(tmp_path / "cache")]),
    ):
        done = embed(store, out, *more)
        assert done.returncode == 0 and done.stderr == "", done.stderr
    want = read_vectors(tmp_path / "local")
    for place in (tmp_path / "folder", f"{bucket}/v/"):
        assert np.array_equal(read_vectors(place).z, want.z)


@pytest.mark.slow  # a head and its client server take most of a minute to start
def test_a_bucket_that_is_not_there_is_told_before_the_work(head: str, store: Path) -> None:
    done = embed(store, "s3://nobody-has-this/v/", "--engine", head)
    assert done.returncode == 1 and done.stderr.startswith("error: s3://nobody-has-this")
    assert done.stderr.count("\n") == 1


def test_a_head_that_is_not_there_is_one_line(store: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    done = embed(store, f"{tmp_path}/v/", "--engine", "ray://127.0.0.1:9")
    assert done.returncode == 1 and "cannot be reached" in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "v").exists()
