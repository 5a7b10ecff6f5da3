"""How launchers of several machines meet: addresses by which others reach them, and bad heads in one line."""

from __future__ import annotations

import socket
import sys
import threading
import time

import pytest

from tuplet._check import InputError
from tuplet.engines import meeting as module
from tuplet.engines.meeting import meeting

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="interfaces are read from Linux")


def place(monkeypatch: pytest.MonkeyPatch, known: dict[str, str], own: dict[str, str], way: str) -> None:
    """This machine has the addresses `own`, and reaches others by the interface `way`."""

    def resolved(host: str, head: str) -> str:
        return known[host]

    monkeypatch.setattr(module, "_resolved", resolved)
    monkeypatch.setattr(module, "_interfaces", lambda: own)
    monkeypatch.setattr(module, "_towards", lambda address, own: (way, own[way]))
    monkeypatch.setattr(module, "_wait_for", lambda *_: None)


@pytest.mark.parametrize("name", ["127.0.1.1", "10.0.0.1"])
def test_the_head_keeps_the_meeting_under_an_address_that_others_reach(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian's installer binds the machine's own name to 127.0.1.1."""
    place(monkeypatch, {"head": name}, {"eth0": "10.0.0.1", "eth1": "192.168.0.1"}, "eth0")
    found = meeting("head:29400")
    assert {"--rdzv-endpoint=head:29400", "--rdzv-conf=is_host=1", "--local-addr=10.0.0.1"} <= set(found.words)
    assert found.environment == {"GLOO_SOCKET_IFNAME": "eth0"}


def test_another_machine_is_known_by_the_interface_towards_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    place(monkeypatch, {"head": "192.168.0.1"}, {"eth0": "10.0.0.2", "eth1": "192.168.0.2"}, "eth1")
    found = meeting("head")
    assert {"--rdzv-endpoint=head:29400", "--rdzv-conf=is_host=0", "--local-addr=192.168.0.2"} <= set(found.words)
    assert found.environment == {"GLOO_SOCKET_IFNAME": "eth1"}


def test_launchers_of_one_machine_meet_at_home() -> None:
    found = meeting("localhost:29401")
    assert "--local-addr=127.0.0.1" in found.words and not found.environment


@LINUX
def test_interfaces_are_those_of_this_machine() -> None:
    own = module._interfaces()
    assert not any(address.startswith("127.") for address in own.values())
    for name, address in own.items():
        assert name in dict(map(reversed, socket.if_nameindex()))  # type: ignore[arg-type]
        with socket.socket() as bound:
            bound.bind((address, 0))  # only an own address can be
    assert module._towards("192.0.2.1", own) in [*own.items(), None]


def test_a_head_that_is_started_later_is_waited_for() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        timer = threading.Timer(0.5, server.listen)
        timer.start()
        start = time.monotonic()
        module._wait_for("127.0.0.1", server.getsockname()[1], "head:1", 30)
        assert 0.3 < time.monotonic() - start < 20
        timer.join()


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("no such host.:29400", "is not known here"),
        (":29400", "is no machine. Write host:port"),
        ("head:port", "is no machine. Write host:port"),
        ("head:70000", "is no machine. Write host:port"),
    ],
)
def test_heads_that_are_none_are_told_in_one_line(head: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as told:
        meeting(head)
    assert "\n" not in str(told.value)


def test_an_absent_head_is_told_in_one_line() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(
        InputError, match=rf"head:{port} cannot be reached within 0 s \(.*refused.*Run the same command"
    ):
        module._wait_for("127.0.0.1", port, f"head:{port}", 0.3)
