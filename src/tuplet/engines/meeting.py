"""How the launchers of several machines find one another: who keeps the meeting, and by which address each is known.

torch.distributed takes a machine's address from its own name, which Debian's installer binds to 127.0.1.1: others
would then look for it at home. Here it is the address from which this machine reaches the head.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from dataclasses import dataclass

from tuplet._check import InputError

PORT = 29400
WAIT_S = 60.0  # for the head's launcher, which may be started after this one
_OUTSIDE = "192.0.2.1"  # an address that nobody has
_SIOCGIFADDR = 0x8915  # the address of an interface, Linux


@dataclass(frozen=True)
class Meeting:
    """Words for torch.distributed.run, and what gloo is told by its environment."""

    words: list[str]
    environment: dict[str, str]


def meeting(head: str, wait_s: float = WAIT_S) -> Meeting:
    """How this machine meets the others at `head` (host:port); an error where it cannot be reached."""
    host, port = _parts(head)
    address = _resolved(host, head)
    own = _interfaces()
    here = address.startswith("127.") or address in own.values()
    if not here:
        _wait_for(address, port, head, wait_s)
    words = ["--rdzv-backend=c10d", f"--rdzv-endpoint={host}:{port}", "--rdzv-id=tuplet"]
    if host == "localhost" or host.startswith("127."):  # all launchers are here, and one of them will keep it
        return Meeting([*words, "--local-addr=127.0.0.1"], {})
    words.append(f"--rdzv-conf=is_host={int(here)}")
    local = _towards(_OUTSIDE if address.startswith("127.") else address, own)
    if local is None:
        return Meeting(words, {})
    name, known = local
    return Meeting([*words, f"--local-addr={known}"], {"GLOO_SOCKET_IFNAME": name})


def _parts(head: str) -> tuple[str, int]:
    host, _, port = head.partition(":")
    if not host or (port and not (port.isdigit() and 0 < int(port) < 65536)):
        raise InputError(f"head {head!r} is no machine. Write host:port, as head:{PORT}.")
    return host, int(port or PORT)


def _resolved(host: str, head: str) -> str:
    try:
        return str(socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
    except (OSError, UnicodeError):
        raise InputError(f"The machine of head {head} is not known here. Give its name or address.") from None


def _interfaces() -> dict[str, str]:
    """The IPv4 address of each interface but the loopback; empty where the system is not Linux."""
    if not sys.platform.startswith("linux"):
        return {}
    import fcntl

    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            try:
                told = fcntl.ioctl(asked.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue
            address = socket.inet_ntoa(told[20:24])
            if not address.startswith("127."):
                found[name] = address
    return found


def _towards(address: str, own: dict[str, str]) -> tuple[str, str] | None:
    """(interface, own address) on the way to `address`; where there is no way, the first there is."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect((address, 9))  # sends nothing
            source = asked.getsockname()[0]
        except OSError:
            source = ""
    return next(((name, at) for name, at in own.items() if at == source), next(iter(own.items()), None))


def _wait_for(address: str, port: int, head: str, wait_s: float) -> None:
    end = time.monotonic() + wait_s
    while True:
        try:
            socket.create_connection((address, port), timeout=2.0).close()
            return
        except OSError as error:
            if time.monotonic() > end:
                raise InputError(
                    f"{head} cannot be reached within {wait_s:.0f} s ({error.strerror or error}). Run the same "
                    "command there too, and let its port through."
                ) from None
        time.sleep(0.2)
