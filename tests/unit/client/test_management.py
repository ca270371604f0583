"""The management node: what each operation asks, and how answers and refusals are read."""

from typing import Any
from uuid import UUID

import pytest

from partibus.amqp.codec import types
from partibus.amqp.codec.types import Array, Int, Symbol, Timestamp, UInt
from partibus.client.errors import RemoteError
from partibus.client.management import Management
from partibus.client.message import OutgoingMessage
from partibus.client.requests import Response

TOKEN = UUID(int=7)
PARTED = 1 << 48


class Links:
    """Answers each request with the next of what the test put here, and remembers it."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[dict[str, Any], Any]] = []

    async def ask(self, properties: dict[str, Any], body: object) -> Response:
        self.asked.append((properties, body))
        answer = self.answers.pop(0)
        if isinstance(answer, Response):
            return answer
        return Response({"statusCode": Int(200)}, answer)

    @property
    def bodies(self) -> list[Any]:
        return [body for _, body in self.asked]


def refusal(status: int, condition: str | None = None) -> Response:
    told: dict[str, object] = {"statusCode": Int(status), "statusDescription": "So it is."}
    return Response(told | ({"errorCondition": Symbol(condition)} if condition else {}), None)


def management(*answers: object) -> tuple[Management, Links]:
    links = Links(*answers)
    return Management(links, "orders", "link-1"), links  # type: ignore[arg-type]


async def test_a_request_says_what_it_is() -> None:
    node, links = management({"a": 1})
    assert await node.request("peek-message", {"x": 1}) == {"a": 1}
    assert links.asked[0][0] == {
        "operation": "com.microsoft:peek-message",
        "type": "entity-mgmt",
        "com.microsoft:server-timeout": UInt(60_000),
        "associated-link-name": "link-1",
    }


async def test_nothing_found_is_nothing() -> None:
    gone = refusal(404, "com.microsoft:message-not-found")
    node, _ = management(refusal(204), gone, gone, refusal(204))
    assert await node.peek(1, 5) == []
    assert await node.receive_deferred([1]) == []
    assert await node.sessions() == []
    assert await node.delete_batch(5, 0) == 0


async def test_a_refusal_carries_the_words_of_the_bus() -> None:
    node, _ = management(
        refusal(410, "com.microsoft:message-lock-lost"), refusal(404, "amqp:not-found")
    )
    with pytest.raises(RemoteError) as lost:
        await node.renew_locks([TOKEN])
    assert (lost.value.condition, lost.value.description) == (
        "com.microsoft:message-lock-lost",
        "So it is.",
    )
    with pytest.raises(RemoteError):
        await node.peek(1, 1)


async def test_messages_come_with_their_locks() -> None:
    payload = OutgoingMessage(body=b"x").encode()
    node, links = management(
        {"messages": [{"message": payload}]},
        {"messages": [{"message": payload, "lock-token": TOKEN}]},
    )
    (peeked,) = await node.peek(5, 2, "s")
    assert (peeked.body(), peeked.lock_token) == (("data", b"x"), None)
    (deferred,) = await node.receive_deferred([9], delete=True, session_id="s")
    assert deferred.lock_token == TOKEN
    assert links.bodies == [
        {"from-sequence-number": 5, "message-count": Int(2), "session-id": "s"},
        {
            "sequence-numbers": Array(types.LONG, [9]),
            "receiver-settle-mode": UInt(0),
            "session-id": "s",
        },
    ]


async def test_numbers_of_several_partitions_are_asked_for_apart() -> None:
    node, links = management({}, {}, {}, {})
    await node.receive_deferred([1, PARTED, 2])
    await node.cancel([1, PARTED])
    assert [body["sequence-numbers"].items for body in links.bodies] == [
        [1, 2],
        [PARTED],
        [1],
        [PARTED],
    ]


async def test_settlement_by_token() -> None:
    node, links = management({}, {})
    await node.settle([TOKEN], "completed")
    await node.settle([TOKEN], "suspended", reason="r", description="d", session_id="s")
    tokens = Array(types.UUID16, [TOKEN])
    assert links.bodies == [
        {"disposition-status": "completed", "lock-tokens": tokens},
        {
            "disposition-status": "suspended",
            "lock-tokens": tokens,
            "deadletter-reason": "r",
            "deadletter-description": "d",
            "session-id": "s",
        },
    ]


async def test_renewals_and_deletions() -> None:
    node, links = management(
        {"expirations": Array(types.TIMESTAMP, [Timestamp(5)])},
        {"expiration": Timestamp(6)},
        {"message-count": Int(3)},
    )
    assert await node.renew_locks([TOKEN]) == [5]
    assert await node.renew_session_lock("s") == 6
    assert await node.delete_batch(10, 99) == 3
    assert links.bodies[2] == {"message-count": Int(10), "enqueued-time-utc": Timestamp(99)}


async def test_schedules() -> None:
    node, links = management({"sequence-numbers": Array(types.LONG, [4, 5])}, refusal(204))
    messages = [
        OutgoingMessage(message_id="m", session_id="s", scheduled_ms=5),
        OutgoingMessage(partition_key="k", scheduled_ms=5),
    ]
    assert await node.schedule(messages) == [4, 5]
    first, second = links.bodies[0]["messages"]
    assert (first["message-id"], first["session-id"]) == ("m", "s")
    assert second["partition-key"] == "k"
    with pytest.raises(RemoteError, match="no scheduled message has the number 9"):
        await node.cancel([9])


async def test_sessions_page_by_page() -> None:
    full = [f"s{n}" for n in range(100)]
    node, links = management(
        {"sessions-ids": Array(types.STRING32, list(full))},
        {"sessions-ids": Array(types.STRING32, ["last"])},
    )
    assert await node.sessions() == [*full, "last"]
    assert [body["skip"] for body in links.bodies] == [0, 100]


async def test_session_state() -> None:
    node, links = management({"session-state": b"x"}, {"session-state": None}, {})
    assert await node.session_state("s") == b"x"
    assert await node.session_state("s") is None
    await node.set_session_state("s", None)
    assert links.bodies[2] == {"session-id": "s", "session-state": None}


async def test_deferred_messages_are_deleted_by_number() -> None:
    node, links = management({}, refusal(404, "com.microsoft:message-not-found"))
    assert await node.delete_deferred([PARTED + 1, PARTED + 2])
    assert links.bodies[0]["sequence-numbers"].items == [PARTED + 1, PARTED + 2]
    assert links.bodies[0]["receiver-settle-mode"] == UInt(0)
    assert not await node.delete_deferred([5])


async def test_a_settlement_may_change_properties() -> None:
    node, links = management({})
    await node.settle([TOKEN], "defered", properties={"x": 1})
    assert links.bodies[0]["properties-to-modify"] == {"x": 1}
