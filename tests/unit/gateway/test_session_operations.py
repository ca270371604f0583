"""Sessions through the management node of an in-memory bus: lock, state, list, peek, deferral."""

import uuid

import pytest

from partibus.amqp.codec.sections import parse_sections
from partibus.amqp.codec.types import LONG, UUID16, Array, Int, Timestamp, UInt
from partibus.amqp.delivery import MODIFIED_UNDELIVERABLE
from partibus.domain.entity import QueueSpec
from partibus.domain.limits import SELFHOST
from partibus.domain.partition_key import fragment_index
from partibus.gateway.operations.sessions import TIME_MAX_MS
from partibus.testing.bus import BusBench, ClientBench
from support.gateway.messages import plain
from support.gateway.session_clients import (
    Management,
    accept,
    bodies,
    detach_condition,
    given,
    receive,
    send,
)

LOCK_MS = 30_000
SPEC = QueueSpec(requires_session=True, lock_duration_ms=LOCK_MS)
PARTITIONED = QueueSpec(
    requires_session=True, lock_duration_ms=LOCK_MS, enable_partitioning=True, fragments=4
)


@pytest.fixture
def bus() -> BusBench:
    bus = BusBench()
    bus.queue("q", SPEC)
    bus.queue("p", PARTITIONED)
    bus.queue("plain")
    return bus


@pytest.fixture
def client(bus: BusBench) -> ClientBench:
    return bus.client()


@pytest.mark.rule("SES-7")
@pytest.mark.parametrize("queue", ["q", "p"])
def test_renewal_tells_the_new_time(bus: BusBench, client: ClientBench, queue: str) -> None:
    accept(client, queue, "a")
    management = Management(client, queue)
    bus.scheduler.advance_ms(LOCK_MS - 1)
    status, body, _ = management.ask("renew-session-lock", session_id="a")
    assert (status, body) == (200, {"expiration": Timestamp(bus.clock.now_ms() + LOCK_MS)})
    bus.scheduler.advance_ms(LOCK_MS - 1)
    client.run()
    assert detach_condition(client) is None


@pytest.mark.rule("SES-15", "SES-16", "SES-17")
@pytest.mark.parametrize("queue", ["q", "p"])
def test_state_is_stored_within_the_size_of_a_message(
    bus: BusBench, client: ClientBench, queue: str
) -> None:
    accept(client, queue, "a")
    management = Management(client, queue)
    assert management.ask("get-session-state", session_id="a")[1] == {"session-state": None}
    too_much = bytes(SELFHOST.message_bytes_default + 1)
    status, _, condition = management.ask(
        "set-session-state", session_id="a", session_state=too_much
    )
    assert (status, condition) == (413, "amqp:link:message-size-exceeded")
    for state in (b"one", b"", b"two", None):
        status, _, _ = management.ask("set-session-state", session_id="a", session_state=state)
        assert status == 200
        assert management.ask("get-session-state", session_id="a")[1] == {"session-state": state}
    status, _, condition = management.ask("set-session-state", session_id="a", session_state="no")
    assert (status, condition) == (400, "com.microsoft:argument-error")


@pytest.mark.rule("SES-18", "SES-20")
@pytest.mark.parametrize("queue", ["q", "p"])
def test_sessions_are_listed_over_all_fragments(
    bus: BusBench, client: ClientBench, queue: str
) -> None:
    management = Management(client, queue)
    ask = "get-message-sessions"
    every = Timestamp(TIME_MAX_MS + 1000)
    first = {"last_updated_time": every, "skip": Int(0), "top": Int(100)}
    assert management.ask(ask, **first)[0] == 204
    names = [f"s{number}" for number in range(9)]
    send(client, queue, *enumerate(names))
    pages: list[object] = []
    for skip in (0, 4, 8, 12):
        page = {"last_updated_time": every, "skip": Int(skip), "top": Int(4)}
        status, body, _ = management.ask(ask, **page)
        assert status == (200 if skip < 9 else 204)
        ids = body.get("sessions-ids")
        if isinstance(ids, Array):
            assert body["skip"] == skip + len(ids.items)
            pages += ids.items
    assert sorted(map(str, pages)) == names
    began_ms = bus.clock.now_ms()
    accept(client, queue, "s3")
    bus.scheduler.advance_ms(10)
    management.ask("set-session-state", session_id="s3", session_state=b"x")
    recent = {"last_updated_time": Timestamp(began_ms), "skip": Int(0), "top": Int(100)}
    _, body, _ = management.ask(ask, **recent)
    ids = body["sessions-ids"]
    assert isinstance(ids, Array) and ids.items == ["s3"]


@pytest.mark.rule("PEK-3", "PEK-10")
@pytest.mark.parametrize("queue", ["q", "p"])
def test_peek_in_a_session_and_over_all(client: ClientBench, queue: str) -> None:
    send(client, queue, (1, "a"), (2, "b"), (3, "a"), (4, "c"))
    management = Management(client, queue)

    def peek(**fields: object) -> list[int]:
        _, body, _ = management.ask("peek-message", message_count=Int(10), **fields)
        shown = body.get("messages", [])
        assert isinstance(shown, list)
        return [int(item["message"][-2:]) for item in shown]

    assert peek(from_sequence_number=1, session_id="a") == [1, 3]
    assert sorted(peek(from_sequence_number=1)) == [1, 2, 3, 4]
    assert peek(from_sequence_number=1, session_id="nobody") == []


@pytest.mark.rule("PEK-11")
@pytest.mark.parametrize("queue", ["q", "p"])
def test_peek_without_bodies(client: ClientBench, queue: str) -> None:
    send(client, queue, (1, "a"), (2, "b"))
    management = Management(client, queue)
    for omits, expected in ((True, {False}), (False, {True}), (None, {True})):
        fields = {} if omits is None else {"omit_message_body": omits}
        asked = {"message_count": Int(10), "from_sequence_number": 1, **fields}
        _, body, _ = management.ask("peek-message", **asked)
        shown = body["messages"]
        assert isinstance(shown, list) and len(shown) == 2
        found = [parse_sections(item["message"]) for item in shown]
        assert {sections.body_offset >= 0 for sections in found} == expected
        assert all(sections.group_id_offset >= 0 for sections in found)


@pytest.mark.rule("DEF-7")
@pytest.mark.parametrize("queue", ["q", "p"])
def test_deferral_in_a_session(client: ClientBench, queue: str) -> None:
    send(client, queue, (1, "a"), (2, "a"))
    link = accept(client, queue, "a")
    (event,) = receive(client, link, 1)
    link.propose(event.delivery_id, MODIFIED_UNDELIVERABLE)
    client.run()
    number = fragment_index("a", 4) << 48 | 1 if queue == "p" else 1
    management = Management(client, queue)
    status, body, _ = management.ask(
        "receive-by-sequence-number",
        sequence_numbers=Array(LONG, [number]),
        receiver_settle_mode=UInt(1),
        session_id="a",
    )
    assert status == 200
    (item,) = body["messages"]  # type: ignore[misc]
    status, _, _ = management.ask(
        "update-disposition",
        disposition_status="completed",
        lock_tokens=Array(UUID16, [item["lock-token"]]),
        session_id="a",
    )
    assert status == 200
    assert bodies(receive(client, link, 5)) == [2]


@pytest.mark.rule("DEF-7")
@pytest.mark.parametrize("queue", ["q", "p"])
def test_a_link_stands_for_the_session_that_it_holds(client: ClientBench, queue: str) -> None:
    """Go's client names its link and no session."""
    send(client, queue, (1, "a"))
    accept(client, queue, "b")
    link = accept(client, queue, "a")
    (event,) = receive(client, link, 1)
    link.propose(event.delivery_id, MODIFIED_UNDELIVERABLE)
    client.run()
    number = fragment_index("a", 4) << 48 | 1 if queue == "p" else 1
    management = Management(client, queue)
    numbers = Array(LONG, [number])
    management.link_name = "no-such-link"
    status, _, condition = management.ask("receive-by-sequence-number", sequence_numbers=numbers)
    assert (status, condition) == (400, "com.microsoft:argument-error")
    management.link_name = link.name
    status, body, _ = management.ask("receive-by-sequence-number", sequence_numbers=numbers)
    assert (status, len(body["messages"])) == (200, 1)  # type: ignore[arg-type]


@pytest.mark.rule("DEF-7", "SES-8")
def test_what_needs_a_session_says_so(client: ClientBench) -> None:
    send(client, "q", (1, "a"))
    link = accept(client, "q", "a")
    (event,) = receive(client, link, 1)
    management = Management(client, "q")
    numbers = Array(LONG, [1])
    status, _, condition = management.ask("receive-by-sequence-number", sequence_numbers=numbers)
    assert (status, condition) == (400, "com.microsoft:argument-error")
    tokens = Array(UUID16, [uuid.UUID(bytes_le=event.tag)])
    status, _, condition = management.ask("renew-lock", lock_tokens=tokens)
    assert (status, condition) == (400, "amqp:not-allowed")
    plainly = Management(client, "plain")
    for operation in ("renew-session-lock", "get-session-state", "set-session-state"):
        assert plainly.ask(operation, session_id="a")[2] == "amqp:not-allowed"
    times = {"last_updated_time": Timestamp(0), "skip": Int(0), "top": Int(1)}
    assert plainly.ask("get-message-sessions", **times)[0] == 204, "there are none to list"


def test_batch_delete_in_a_session(bus: BusBench, client: ClientBench) -> None:
    send(client, "q", (1, "a"), (2, "b"))
    bus.scheduler.advance_ms(10)
    status, body, _ = Management(client, "q").ask(
        "batch-delete-messages",
        message_count=Int(10),
        enqueued_time_utc=Timestamp(bus.clock.now_ms()),
        session_id="a",
    )
    assert (status, body) == (200, {"message-count": 1})
    assert given(accept(client, "q")) == "b"


@pytest.mark.rule("SES-1")
def test_a_message_without_a_session_cannot_be_scheduled(client: ClientBench) -> None:
    status, _, condition = Management(client, "q").ask(
        "schedule-message", messages=[{"message": plain(1)}]
    )
    assert (status, condition) == (400, "amqp:not-allowed")
