"""The stream of the live picture: one text for all, until the right or the reader is gone."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from partibus.domain.errors import Unauthorized
from partibus.ops.admin import event_stream
from partibus.ops.admin.event_stream import EventStream
from partibus.ops.admin.live import SharedText, _chunks


class Node:
    """Frames as they are put in, and an entity that is counted how often it is asked for."""

    def __init__(self, count: int) -> None:
        self.live_feed = self
        self.asked = 0
        self.authorized = 0
        self.authorized_max = 100
        self._frames = [{"number": number} for number in range(count)]

    async def frames(self) -> AsyncGenerator[dict[str, Any], None]:
        for frame in self._frames:
            yield frame

    def authorize(self, token: str | None, path: str) -> str:
        self.authorized += 1
        if self.authorized > self.authorized_max:
            raise Unauthorized("The token has expired; make a new one.")
        return "Operator"

    async def entity(self, name: str) -> dict[str, Any]:
        self.asked += 1
        return {"name": name, "asked": self.asked}


class Reader:
    """The far end of a request: what arrives, and after how many messages it leaves."""

    def __init__(self, messages_max: int = 100) -> None:
        self._messages_max = messages_max
        self._left = asyncio.Event()
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)
        if len(self.sent) == self._messages_max:
            self._left.set()


def chunks(node: Node, shared: SharedText, name: str | None = None) -> AsyncGenerator[bytes, None]:
    return _chunks(node, shared, "token", "/$partibus/live", name, False)  # type: ignore[arg-type]


def events(chunk: bytes) -> list[tuple[str, Any]]:
    pairs = [event.split("\n") for event in chunk.decode().split("\n\n") if event]
    return [(kind.removeprefix("event: "), json.loads(data[6:])) for kind, data in pairs]


async def test_a_frame_and_an_entity_are_written_once_for_all_readers() -> None:
    node, shared = Node(2), SharedText()
    first, second = chunks(node, shared, "orders"), chunks(node, shared, "orders")
    one, other = await anext(first), await anext(second)
    assert one == other
    assert events(one) == [("frame", {"number": 0}), ("entity", {"name": "orders", "asked": 1})]
    assert events(await anext(first))[1] == ("entity", {"name": "orders", "asked": 2})


async def test_the_token_of_each_reader_is_checked_before_each_frame() -> None:
    node, shared = Node(3), SharedText()
    node.authorized_max = 2
    found = [event for chunk in [c async for c in chunks(node, shared)] for event in events(chunk)]
    assert [kind for kind, _ in found] == ["frame", "frame", "refused"]


async def endless() -> AsyncGenerator[bytes, None]:
    while True:
        yield b"data\n"
        await asyncio.sleep(0)


async def test_a_stream_ends_when_its_source_does() -> None:
    reader = Reader()
    await EventStream(chunks(Node(1), SharedText()))({}, reader.receive, reader.send)
    assert [message.get("more_body") for message in reader.sent] == [None, True, False]
    names = [name for name, _ in reader.sent[0]["headers"]]
    assert b"content-length" not in names


async def test_a_stream_ends_when_its_reader_leaves() -> None:
    reader, source = Reader(messages_max=3), endless()
    await EventStream(source)({}, reader.receive, reader.send)
    assert await anext(source, None) is None


async def test_a_reader_that_reads_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "STALL_S_MAX", 0.0)
    reader, source = Reader(), endless()

    async def stalled(message: Any) -> None:
        await reader.send(message)
        if message.get("more_body"):
            await asyncio.Event().wait()

    await EventStream(source)({}, reader.receive, stalled)
    assert [message.get("body") for message in reader.sent] == [None, b"data\n", b""]
    assert await anext(source, None) is None
