"""Sends over HTTP and the memory account: what they hold counts, and when it is full they wait."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request

from partibus.domain.errors import MessageTooLarge
from partibus.gateway.memory.account import MemoryAccount, Share
from partibus.rest import body as body_module
from partibus.rest.body import NO_ROOM, Body
from partibus.rest.error_mapping import MemoryShort
from partibus.rest.plane import DataPlane
from partibus.rest.routes import data_routes
from partibus.testing.bus import BusBench
from support.sas import sas_token

LIMIT = 1_000_000


@pytest.fixture
def memory() -> MemoryAccount:
    return MemoryAccount(LIMIT)


def request(pieces: Iterable[bytes], seen: list[int], memory: MemoryAccount) -> Request:
    """A request whose body comes in pieces; notes what is held as each is asked for."""
    left = iter([*pieces, b""])

    async def receive() -> dict[str, Any]:
        seen.append(memory.held_bytes)
        piece = next(left)
        return {"type": "http.request", "body": piece, "more_body": bool(piece)}

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


def others(memory: MemoryAccount, unstored: int = 0, unfinished: int = 0) -> Share:
    share = Share(memory)
    share.update(unstored, unfinished, 0)
    return share


async def test_a_body_counts_from_its_first_piece_until_it_is_stored(memory: MemoryAccount) -> None:
    seen: list[int] = []
    async with Body(memory) as body:
        raw = await body.read(
            request([b"a" * 300, b"b" * 200], seen, memory), 1000, MessageTooLarge
        )
        assert raw == b"a" * 300 + b"b" * 200
        assert seen == [0, 300, 500]
        assert (memory.unstored_bytes, memory.unfinished_bytes) == (500, 0)
    assert memory.held_bytes == 0


async def test_a_body_that_is_refused_is_held_no_more(memory: MemoryAccount) -> None:
    with pytest.raises(MessageTooLarge):
        async with Body(memory) as body:
            await body.read(request([b"a" * 300] * 4, [], memory), 1000, MessageTooLarge)
    assert memory.held_bytes == 0


async def test_there_is_no_room_for_more_than_half_in_bodies_that_are_not_whole(
    memory: MemoryAccount,
) -> None:
    others(memory, unfinished=LIMIT // 2)
    with pytest.raises(MemoryShort):
        async with Body(memory) as body:
            await body.read(request([b"a"], [], memory), 1000, MessageTooLarge)
    assert memory.unfinished_bytes == LIMIT // 2


async def test_a_send_waits_until_there_is_room(memory: MemoryAccount) -> None:
    full = others(memory, unstored=LIMIT)
    seen: list[int] = []

    async def send() -> bytes:
        async with Body(memory) as body:
            return await body.read(request([b"a"], seen, memory), 1000, MessageTooLarge)

    sending = asyncio.ensure_future(send())
    await asyncio.sleep(0)
    assert not seen  # nothing of it is read meanwhile
    full.update(0, 0, 0)
    assert await sending == b"a"
    assert memory.held_bytes == 0


async def test_a_send_without_room_is_answered_503_and_when_to_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(body_module, "ROOM_S_MAX", 0)
    bus = BusBench()
    bus.queue("q")
    full = others(bus.gateway.memory, unstored=bus.gateway.memory.limit_bytes)
    application = Starlette(routes=data_routes(DataPlane(bus.gateway)))
    headers = [(b"host", b"bus"), (b"authorization", sas_token("sb://bus/").encode())]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/q/messages",
        "headers": headers,
        "query_string": b"",
    }
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        raise AssertionError("no byte of the body is read")

    async def send(message: Any) -> None:
        sent.append(message)

    await application(scope, receive, send)
    assert sent[0]["status"] == 503
    assert (b"retry-after", b"2") in sent[0]["headers"]
    assert NO_ROOM.encode() in sent[1]["body"]
    held = bus.gateway.memory.held_bytes
    full.update(0, 0, 0)
    assert held == bus.gateway.memory.limit_bytes
