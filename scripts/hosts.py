"""Hosts that are network namespaces of this machine: own address, name, processes, /tmp and /dev/shm; shared files.

Linux, root, iproute2, util-linux. `with Hosts(("head", "node1"), folder) as hosts:` joins them by a bridge in a
namespace of its own; nothing of the machine's own network is touched, and all of it ends with the block.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_NET = "10.77.0."
_BEGIN = """
hostname {name}
ip link set lo up
mount --bind {own} /tmp
mount -t tmpfs -o size=2g tmpfs /dev/shm
exec sleep infinity
"""


class Hosts:
    """Hosts by these names; `folder` is what they share, at the same path, which must not lie in /tmp."""

    def __init__(self, names: Sequence[str], folder: Path, *, loopback_names: bool = False) -> None:
        self.names, self.folder, self.loopback_names = list(names), folder, loopback_names
        self.mark = f"tp{os.getpid()}"
        self.inits: dict[str, subprocess.Popen[bytes]] = {}
        self.running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            _run("ip", "netns", "add", self._space("switch"))
            _run("ip", "-n", self._space("switch"), "link", "add", "br0", "type", "bridge")
            _run("ip", "-n", self._space("switch"), "link", "set", "br0", "up")
            for name in self.names:
                self._wire(name)
                self.start(name)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self.inits):
            self.kill(name)
        for process in self.running:
            process.wait()
        for name in ("switch", *self.names):
            subprocess.run(["ip", "netns", "del", self._space(name)], stderr=subprocess.DEVNULL)
            shutil.rmtree(Path("/etc/netns") / self._space(name), ignore_errors=True)
            shutil.rmtree(self._own(name), ignore_errors=True)

    def address(self, name: str) -> str:
        return f"{_NET}{self.names.index(name) + 1}"

    def start(self, name: str) -> None:
        """Start that host, which nothing runs on then."""
        shutil.rmtree(self._own(name), ignore_errors=True)
        self._own(name).mkdir(parents=True)
        self._own(name).chmod(0o1777)
        words = ["unshare", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        begin = _BEGIN.format(name=name, own=self._own(name))
        self.inits[name] = subprocess.Popen(
            ["ip", "netns", "exec", self._space(name), *words, "sh", "-ec", begin], start_new_session=True,
            stderr=subprocess.DEVNULL,  # unshare grumbles when its child is killed
        )  # fmt: skip
        for _ in range(100):
            time.sleep(0.05)
            told = subprocess.run(self._inside(name, ["hostname"]), capture_output=True, text=True)
            shm = subprocess.run(self._inside(name, ["grep", "/dev/shm", "/proc/mounts"]), capture_output=True)
            if told.stdout.strip() == name and b"size=2097152k" in shm.stdout:
                return
        raise RuntimeError(f"{name} did not start: {told.stderr}")

    def kill(self, name: str) -> None:
        """End all processes of that host at once, as a loss of power does."""
        process = self.inits.pop(name)
        pid = _child(process.pid)
        if pid:
            os.kill(pid, signal.SIGKILL)
        process.wait()

    def link(self, name: str, state: str) -> None:
        """Pull the host's cable ("down") or plug it in ("up")."""
        _run("ip", "-n", self._space("switch"), "link", "set", f"v-{name}"[:15], state)

    def blind(self, name: str) -> None:
        """An empty file system over the shared folder, on that host alone."""
        subprocess.run(self._inside(name, ["mount", "-t", "tmpfs", "tmpfs", str(self.folder)]), check=True)

    def begin(self, name: str, words: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> Any:
        """A process on that host."""
        with log.open("wb") as file:
            process = subprocess.Popen(
                self._inside(name, words), stdout=file, stderr=subprocess.STDOUT, cwd="/",
                env={**os.environ, **(env or {})}, start_new_session=True,
            )  # fmt: skip
        self.running.append(process)
        return process

    def run(self, name: str, words: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> int:
        """The exit code of a command on that host."""
        return int(self.begin(name, words, log, env).wait())

    def _inside(self, name: str, words: Sequence[str]) -> list[str]:
        pid = _child(self.inits[name].pid)
        return ["nsenter", "-t", str(pid), "-n", "-u", "-i", "-m", "-p", "--", *words]

    def _wire(self, name: str) -> None:
        space, outer = self._space(name), f"v-{name}"[:15]
        _run("ip", "netns", "add", space)
        _run("ip", "-n", self._space("switch"), "link", "add", outer, "type", "veth", "peer", "name", "eth0",
             "netns", space)  # fmt: skip
        _run("ip", "-n", self._space("switch"), "link", "set", outer, "master", "br0", "up")
        _run("ip", "-n", space, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
        _run("ip", "-n", space, "link", "set", "eth0", "up")
        _run("ip", "-n", space, "link", "set", "lo", "up")
        _run("ip", "-n", space, "route", "add", "default", "via", f"{_NET}254")  # nobody, but most machines have one
        place = Path("/etc/netns") / space  # `ip netns exec` lays these files over /etc
        place.mkdir(parents=True, exist_ok=True)
        known = {other: "127.0.1.1" if self.loopback_names and other == name else self.address(other)
                 for other in self.names}  # fmt: skip
        lines = ["127.0.0.1 localhost", *(f"{at} {other}" for other, at in known.items())]
        (place / "hosts").write_text("\n".join(lines) + "\n")
        (place / "resolv.conf").write_text("")

    def _space(self, name: str) -> str:
        return f"{self.mark}-{name}"

    def _own(self, name: str) -> Path:
        return Path("/var/tmp") / f"{self.mark}-{name}"


def _child(pid: int) -> int:
    """The first process below `ip netns exec .. unshare --fork`, which it has become itself."""
    words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(words[0]) if words else 0


def _run(*words: str) -> None:
    subprocess.run(words, check=True)
