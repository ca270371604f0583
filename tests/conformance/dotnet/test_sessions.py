"""Sessions by the frames of the .NET client, those that may be taken over included."""

import uuid

import pytest

from conformance.dotnet.client import DotNetClient, Management, lock_token, send_batch, text
from partibus.amqp.codec.types import UUID16, Array, Int, Timestamp
from partibus.client.errors import RemoteError
from partibus.client.message import OutgoingMessage
from support.server import ServerProcess


def message(body: str, session_id: str) -> OutgoingMessage:
    return OutgoingMessage(body=body.encode(), message_id=body, session_id=session_id)


async def settle(management: Management, status: str, session_id: str, token: uuid.UUID) -> int:
    """Settlement as every non-exclusive session receiver does it."""
    fields = {
        "lock-tokens": Array(UUID16, [token]),
        "disposition-status": status,
        "session-id": session_id,
    }
    return (await management.ask("update-disposition", fields))[0]


@pytest.mark.rule("SES-3", "SES-4", "SES-7", "SES-16")
async def test_an_exclusive_session(server: ServerProcess, sessions: str) -> None:
    async with DotNetClient.connect(server) as client:
        sender = await client.sender(sessions)
        await send_batch(sender, message("one", "a"), message("two", "a"))
        session = await client.session_receiver(sessions)
        assert session.session_id == "a"
        found = await session.receiver.collect(5)
        assert [text(one) for one in found] == [b"one", b"two"]
        await session.receiver.settle(found)
        management, link = await client.management(sessions), session.receiver
        named = {"session-id": "a"}
        status, body, _ = await management.ask("renew-session-lock", named, link=link)
        assert status == 200 and "expiration" in body
        state = named | {"session-state": b"state"}
        assert (await management.ask("set-session-state", state, link=link))[0] == 200
        status, body, _ = await management.ask("get-session-state", named, link=link)
        assert (status, body) == (200, {"session-state": b"state"})
        asked = {
            "last-updated-time": Timestamp(253_402_300_799_000),
            "skip": Int(0),
            "top": Int(100),
        }
        status, body, _ = await management.ask("get-message-sessions", asked)
        assert status == 200 and list(body["sessions-ids"].items) == ["a"]
        with pytest.raises(RemoteError) as refused:
            await client.session_receiver(sessions, "a")
        assert refused.value.condition == "com.microsoft:session-cannot-be-locked"
        with pytest.raises(RemoteError) as waited:
            await client.session_receiver(sessions, None, timeout_ms=50)
        assert waited.value.condition == "com.microsoft:timeout"


@pytest.mark.rule("SES-26", "SES-27")
@pytest.mark.parametrize("named", [True, False])
async def test_a_session_is_taken_over(server: ServerProcess, sessions: str, named: bool) -> None:
    async with DotNetClient.connect(server) as first, DotNetClient.connect(server) as second:
        sender = await first.sender(sessions)
        await send_batch(sender, *[message(body, "a") for body in ("1", "2", "3", "4")])
        held = await first.session_receiver(sessions, "a" if named else None, is_exclusive=False)
        assert held.session_id == "a" and held.lock_token is not None
        one, two, three = await held.receiver.collect(3)
        management = await first.management(sessions)
        assert await settle(management, "completed", "a", lock_token(one)) == 200
        taken = await second.session_receiver(
            sessions, "a", is_exclusive=False, lock_token=held.lock_token
        )
        assert taken.lock_token not in (None, held.lock_token)
        with pytest.raises(RemoteError) as lost:
            await held.receiver.receive()
        assert lost.value.condition == "com.microsoft:session-lock-lost"
        # What the previous holder received is settled by the new one, by lock tokens.
        management = await second.management(sessions)
        assert await settle(management, "completed", "a", lock_token(two)) == 200
        assert await settle(management, "abandoned", "a", lock_token(three)) == 200
        rest = await taken.receiver.collect(5)
        assert [text(one) for one in rest] == [b"3", b"4"]
        for left in rest:
            assert await settle(management, "completed", "a", lock_token(left)) == 200
        assert await taken.receiver.collect(1) == []


@pytest.mark.rule("SES-27")
async def test_a_token_that_is_worth_nothing(server: ServerProcess, sessions: str) -> None:
    async with DotNetClient.connect(server) as client:
        held = await client.session_receiver(sessions, "a", is_exclusive=False)
        with pytest.raises(RemoteError) as refused:
            await client.session_receiver(sessions, "a", is_exclusive=False)
        assert refused.value.condition == "com.microsoft:session-cannot-be-locked"
        for token in (uuid.uuid4(), held.lock_token):
            if token == held.lock_token:
                await held.receiver.close()
            with pytest.raises(RemoteError) as lost:
                await client.session_receiver(sessions, "a", is_exclusive=False, lock_token=token)
            assert lost.value.condition == "com.microsoft:session-lock-lost"
