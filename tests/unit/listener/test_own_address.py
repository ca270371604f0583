"""What a server that listens on every address tells others to connect to."""

import socket

import pytest

from partibus.listener import own_address as module
from partibus.listener.own_address import is_every_address, own_address


def without_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_default_route_address", lambda family: None)


def answering(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    row = (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *given, **named: [row])


@pytest.mark.parametrize(
    ("host", "is_every"),
    [
        ("*", True),
        ("0.0.0.0", True),
        ("::", True),
        ("127.0.0.1", False),
        ("bus.example", False),
        ("", False),
    ],
)
def test_every_address(host: str, is_every: bool) -> None:
    assert is_every_address(host) is is_every


@pytest.mark.parametrize("host", ["*", "0.0.0.0", "::"])
def test_it_is_never_an_address_that_nobody_can_connect_to(host: str) -> None:
    assert not is_every_address(own_address(host))


def test_the_address_on_the_default_route_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {socket.AF_INET: "10.0.0.7", socket.AF_INET6: "2001:db8::7"}
    monkeypatch.setattr(module, "_default_route_address", found.get)
    assert (own_address("0.0.0.0"), own_address("::")) == ("10.0.0.7", "2001:db8::7")
    del found[socket.AF_INET6]
    assert own_address("::") == "10.0.0.7"


def test_the_name_of_the_machine_where_it_leads_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    without_routes(monkeypatch)
    monkeypatch.setattr(socket, "gethostname", lambda: "machine")
    answering(monkeypatch, "10.0.0.7")
    assert own_address("0.0.0.0") == "machine"
    answering(monkeypatch, "127.0.1.1")
    assert own_address("0.0.0.0") == "localhost"


def test_a_name_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    without_routes(monkeypatch)

    def unknown(*given: object, **named: object) -> None:
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert own_address("0.0.0.0") == "localhost"
