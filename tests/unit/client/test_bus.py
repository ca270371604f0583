"""Tokens of an open bus: one for each path, and new ones before the old expire."""

import asyncio
import time
from urllib.parse import parse_qs

import pytest

from partibus.amqp.errors import AmqpError
from partibus.client import bus as module
from partibus.client.bus import Bus
from partibus.client.connection_string import ConnectionString
from partibus.client.errors import RemoteError

PLACE = ConnectionString(host="b", port=5672, policy="P", key="k", is_emulator=True)


class Claims:
    """Stands for the links to `$cbs`: remembers what is put, and may refuse."""

    def __init__(self) -> None:
        self.put: list[tuple[str, str]] = []
        self.refuses = False
        self.moved = asyncio.Event()

    async def ask(self, _links: object, audience: str, token: str) -> None:
        self.put.append((audience, token))
        self.moved.set()
        if self.refuses:
            raise RemoteError(AmqpError("amqp:unauthorized-access", "no"), "put-token")


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> Claims:
    made = Claims()
    monkeypatch.setattr(module, "put_token", made.ask)
    return made


def open_bus(place: ConnectionString) -> Bus:
    return Bus(None, place, None)  # type: ignore[arg-type]  # neither is touched here


async def test_a_path_is_authorized_once(claims: Claims) -> None:
    bus = open_bus(PLACE)
    for path in ("q", "q", "other"):
        await bus.authorize(path)
    assert [audience for audience, _ in claims.put] == ["sb://b:5672/q", "sb://b:5672/other"]
    token = parse_qs(claims.put[0][1].removeprefix("SharedAccessSignature "))
    assert token["skn"] == ["P"]
    assert int(token["se"][0]) > time.time() + 3000
    await bus._end()


async def test_tokens_are_renewed(claims: Claims, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RENEW_SECONDS", 0.001)
    bus = open_bus(PLACE)
    await bus.authorize("q")
    claims.moved.clear()
    await claims.moved.wait()
    assert claims.put[-1][0] == "sb://b:5672/q"
    assert len(claims.put) >= 2
    await bus._end()


async def test_a_renewal_that_is_refused_does_not_spoil_the_end(
    claims: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RENEW_SECONDS", 0.001)
    bus = open_bus(PLACE)
    await bus.authorize("q")
    claims.refuses = True
    claims.moved.clear()
    await claims.moved.wait()
    await bus._end()


async def test_a_ready_made_token_is_used_as_it_is(claims: Claims) -> None:
    bus = open_bus(ConnectionString(host="b", token="SharedAccessSignature x"))
    await bus.authorize("q")
    assert claims.put == [("sb://b/q", "SharedAccessSignature x")]
    await bus._end()
