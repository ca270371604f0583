"""Binding ports and taking connections off them, also when descriptors run out."""

import asyncio
import errno
import select
import socket

import pytest

from partibus.domain.errors import ConfigError
from partibus.listener.accept import ACCEPTS_PER_WAKE, AcceptLoop, bind, reserve
from unit.listener.front import HOST


class ScriptedSocket:
    """A listening socket whose accept does what it is told."""

    def __init__(self, *script: OSError | None) -> None:
        self._script = list(script)
        self._real = socket.create_server((HOST, 0))
        self.accepts = 0

    def accept(self) -> tuple[socket.socket, object]:
        self.accepts += 1
        step = self._script.pop(0) if self._script else BlockingIOError()
        if step is not None:
            raise step
        return socket.socket(), None

    def fileno(self) -> int:
        return self._real.fileno()

    def close(self) -> None:
        self._real.close()


def test_a_busy_port_is_named_with_its_flag() -> None:
    (taken,) = bind(HOST, 0, "--port")
    with taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"port {port} on {HOST} is in use.*--tls-port"):
            bind(HOST, port, "--tls-port")


def test_an_unknown_host_is_named() -> None:
    with pytest.raises(ConfigError, match=r"--host nowhere\.invalid cannot be resolved"):
        bind("nowhere.invalid", 0, "--port")


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"port 0 on 192\.0\.2\.1 \(--port\) cannot be opened"):
        bind("192.0.2.1", 0, "--port")


def test_localhost_has_one_port_on_every_address() -> None:
    sockets = bind("localhost", 0, "--port")
    try:
        assert len({sock.getsockname()[1] for sock in sockets}) == 1
        assert all(not sock.getblocking() for sock in sockets)
    finally:
        for sock in sockets:
            sock.close()


def test_every_interface_is_that_of_both_families() -> None:
    sockets = bind("*", 0, "--port")
    names = [sock.getsockname() for sock in sockets]
    for sock in sockets:
        sock.close()
    assert names[0][0] == "0.0.0.0"
    assert [name[0] for name in names[1:]] == (["::"] if socket.has_dualstack_ipv6() else [])
    assert len({name[1] for name in names}) == 1


def test_a_failure_on_one_address_leaves_no_socket_open(monkeypatch: pytest.MonkeyPatch) -> None:
    (taken,) = bind(HOST, 0, "--port")
    addresses = [(socket.AF_INET, "127.0.0.2"), (socket.AF_INET, HOST)]
    monkeypatch.setattr("partibus.listener.accept._addresses", lambda *_: addresses)
    with taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match="in use"):
            bind("both", port, "--port")
        # An unclosed socket would be a warning, which is an error; and this would fail.
        socket.create_server(("127.0.0.2", port)).close()


def test_a_family_that_the_machine_lacks_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = [(socket.AF_INET, "192.0.2.1"), (socket.AF_INET, HOST)]
    monkeypatch.setattr("partibus.listener.accept._addresses", lambda *_: addresses)
    (sock,) = bind("both", 0, "--port")
    with sock:
        assert sock.getsockname()[0] == HOST


async def test_running_out_of_descriptors_pauses_and_resumes() -> None:
    accepted: list[socket.socket] = []
    listening = ScriptedSocket(OSError(errno.EMFILE, "Too many open files"), None)
    loop = AcceptLoop(asyncio.get_running_loop(), listening, accepted.append)
    loop._on_acceptable()
    assert loop._pause is not None
    assert listening.accepts == 1
    assert not asyncio.get_running_loop().remove_reader(listening.fileno())
    loop._pause.cancel()
    loop._resume()
    assert loop._pause is None
    loop._on_acceptable()
    assert len(accepted) == 1
    accepted[0].close()
    loop.close()


async def test_a_visitor_who_left_before_we_looked_is_skipped() -> None:
    accepted: list[socket.socket] = []
    listening = ScriptedSocket(ConnectionAbortedError(), None)
    loop = AcceptLoop(asyncio.get_running_loop(), listening, accepted.append)
    loop._on_acceptable()
    assert len(accepted) == 1
    accepted[0].close()
    loop.close()


async def test_a_flood_is_taken_in_portions() -> None:
    accepted: list[socket.socket] = []
    listening = ScriptedSocket(*[None] * (ACCEPTS_PER_WAKE + 1))
    loop = AcceptLoop(asyncio.get_running_loop(), listening, accepted.append)
    loop._on_acceptable()
    assert len(accepted) == ACCEPTS_PER_WAKE
    for sock in accepted:
        sock.close()
    loop.close()


async def test_closing_while_paused_leaves_no_timer() -> None:
    listening = ScriptedSocket(OSError(errno.ENFILE, "Too many open files in system"))
    loop = AcceptLoop(asyncio.get_running_loop(), listening, socket.socket.close)
    loop._on_acceptable()
    assert loop._pause is not None
    loop.close()
    assert loop._pause.cancelled()


def test_a_reserved_port_is_shared_by_those_who_listen_on_it() -> None:
    (held,) = reserve(HOST, 0, "--port")
    port = held.getsockname()[1]
    with held:
        (one,) = bind(HOST, port, "--port", shared=True)
        (two,) = bind(HOST, port, "--port", shared=True)
        with one, two:
            accepted = 0
            for _ in range(20):
                with socket.create_connection((HOST, port)):
                    accepted += _accept_of(one, two)
            assert accepted == 20, "the one that holds the port takes nobody away"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, port))


def _accept_of(*listening: socket.socket) -> int:
    """Take the one connection that waits at any of the sockets."""
    ready, _, _ = select.select(listening, [], [], 10)
    for sock in ready:
        sock.accept()[0].close()
    return len(ready)


def test_a_port_that_another_server_shares_is_not_reserved() -> None:
    (held,) = reserve(HOST, 0, "--port")
    port = held.getsockname()[1]
    (listening,) = bind(HOST, port, "--port", shared=True)
    with held, listening, pytest.raises(ConfigError, match=f"port {port} on {HOST} is in use"):
        reserve(HOST, port, "--port")


def test_a_reserved_port_is_nobody_else_s() -> None:
    (held,) = reserve(HOST, 0, "--port")
    port = held.getsockname()[1]
    (listening,) = bind(HOST, port, "--port", shared=True)
    with held, listening, pytest.raises(ConfigError, match="is in use"):
        bind(HOST, port, "--port")
