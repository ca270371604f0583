"""Bodies are read within limits: what is announced, what arrives, and how long it takes."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from starlette.requests import Request

from partibus.domain.errors import BusError, MessageTooLarge, OperationTimeout
from partibus.http.body import read_within


class Client:
    """Sends a body in pieces, and stalls after the last one if it never ends."""

    def __init__(self, *pieces: bytes, announced: str = "", ends: bool = True) -> None:
        self._pieces, self._ends = list(pieces), ends
        self.asked = 0
        headers = [(b"content-length", announced.encode())] if announced else []
        self._scope = {"type": "http", "headers": headers}

    async def _receive(self) -> dict[str, Any]:
        self.asked += 1
        if not self._pieces:
            await asyncio.Event().wait()
        piece = self._pieces.pop(0)
        return {
            "type": "http.request",
            "body": piece,
            "more_body": bool(self._pieces or not self._ends),
        }

    async def read(self, held: list[int] | None = None) -> bytes:
        request = Request(self._scope, self._receive)
        return await read_within(
            request,
            bytes_max=10,
            seconds_max=0.01,
            too_long=lambda: MessageTooLarge("long"),
            too_slow=lambda: OperationTimeout("slow"),
            hold=(held if held is not None else []).append,
        )


@pytest.mark.parametrize("pieces", [(b"",), (b"0123456789",), (b"01234", b"", b"56789")])
async def test_a_body_up_to_the_limit(pieces: Iterable[bytes]) -> None:
    held: list[int] = []
    assert await Client(*pieces).read(held) == b"".join(pieces)
    assert held == sorted(held)


@pytest.mark.parametrize("announced", ["11", "9" * 400, "-1", "five"])
async def test_what_is_announced_as_too_long_is_not_read(announced: str) -> None:
    client = Client(b"0", announced=announced)
    with pytest.raises(MessageTooLarge):
        await client.read()
    assert client.asked == 0


@pytest.mark.parametrize("announced", ["", "5"])
async def test_what_turns_out_to_be_too_long_is_given_up_there(announced: str) -> None:
    client = Client(b"01234", b"567890", b"more", announced=announced)
    held: list[int] = []
    with pytest.raises(MessageTooLarge):
        await client.read(held)
    assert (client.asked, held) == (2, [5]), "what is too much is not even kept"


async def test_a_body_that_stalls() -> None:
    with pytest.raises(OperationTimeout):
        await Client(b"0123", ends=False).read()


async def test_what_there_is_no_room_for_is_not_kept() -> None:
    class Full(list[int]):
        def append(self, size: int) -> None:
            raise BusError("no room")

    with pytest.raises(BusError, match="no room"):
        await Client(b"0").read(Full())
